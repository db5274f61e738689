//! The figures as text for Prometheus.

mod common;

use std::collections::HashMap;
use std::time::Duration;

use weirpool::test::{ManualClock, ManualCpu};
use weirpool::{Arm, Class, CpuGate, Limit, Partition, Pool, Priority, Reason, exposition};

use common::{assert_at_rest, eventually, occupy, resolve};

/// The samples of a text, by series, after checks of its form.
#[track_caller]
fn samples(text: &str) -> HashMap<String, f64> {
    let mut samples = HashMap::new();
    let mut metric = "";
    let mut described = Vec::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            metric = help.split(' ').next().unwrap();
            assert!(!described.contains(&metric), "described twice: {metric}");
            described.push(metric);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let kind = kind.strip_prefix(metric).unwrap().trim();
            assert_eq!(kind == "counter", metric.ends_with("_total"), "{line}");
            assert!(kind == "counter" || kind == "gauge", "{line}");
        } else {
            let (series, value) = line.rsplit_once(' ').expect("a series and its value");
            assert!(series.starts_with(&format!("{metric}{{pool=\"")), "{line} under {metric}");
            assert!(series.ends_with("\"}"), "{line}");
            let value: f64 = value.parse().unwrap();
            assert!(value.is_finite() && value >= 0.0, "{line}");
            assert!(samples.insert(series.to_owned(), value).is_none(), "twice: {series}");
        }
    }
    assert!(text.ends_with('\n') && !text.contains("NaN"));
    samples
}

fn scrape(pool: &Pool) -> HashMap<String, f64> {
    samples(&pool.snapshot().to_prometheus("a"))
}

#[test]
fn each_series_shows_what_the_snapshot_says() {
    let pool = Pool::new(1, 4).unwrap();
    for _ in 0..3 {
        pool.job().class(Class(7)).try_submit(|| ()).unwrap().join().unwrap();
    }
    eventually("the class is measured", || pool.snapshot().class(Class(7)).jobs == 3);
    let busy = occupy(&pool);
    let permit = pool.try_reserve().unwrap();
    let queued = pool.try_submit(|| ()).unwrap();
    let now = scrape(&pool);
    for (series, value) in [
        ("weirpool_accepted_total{pool=\"a\"}", 5.0),
        ("weirpool_completed_total{pool=\"a\"}", 3.0),
        ("weirpool_panicked_total{pool=\"a\"}", 0.0),
        ("weirpool_shed_total{pool=\"a\",reason=\"displaced\"}", 0.0),
        ("weirpool_class_jobs_total{pool=\"a\",class=\"7\"}", 3.0),
        ("weirpool_in_flight_slots{pool=\"a\"}", 3.0),
        ("weirpool_reserved_slots{pool=\"a\"}", 1.0),
        ("weirpool_queued_jobs{pool=\"a\"}", 1.0),
        ("weirpool_running_jobs{pool=\"a\"}", 1.0),
        ("weirpool_capacity_slots{pool=\"a\"}", 4.0),
        ("weirpool_limit_slots{pool=\"a\"}", 4.0),
        ("weirpool_workers{pool=\"a\"}", 1.0),
        ("weirpool_queue_refusing{pool=\"a\"}", 0.0),
    ] {
        assert_eq!(now.get(series), Some(&value), "{series} in {now:#?}");
    }
    // Neither a CPU gate nor a target: no line, rather than a number that is none.
    for absent in ["weirpool_cpu_ratio", "weirpool_queue_target_seconds", "weirpool_queue_bound"] {
        assert!(!now.keys().any(|series| series.starts_with(absent)), "{absent}");
    }
    drop(permit);
    busy.free();
    resolve(queued).unwrap();
    assert_at_rest(&pool);
}

#[test]
fn a_fresh_pool_has_no_series_that_is_not_a_number() {
    let now = scrape(&Pool::builder().workers(2).build().unwrap());
    assert!(now.len() > 30);
    assert!(!now.contains_key("weirpool_service_time_mean_seconds{pool=\"a\"}"));
    assert_eq!(now["weirpool_queue_target_seconds{pool=\"a\"}"], 0.005);
}

#[test]
fn metric_missing_or_wrong_just_when_overloaded() {
    // All workers blocked, all refusals counted, the limit readable: in the middle of the storm.
    let clock = ManualClock::new();
    let cpu = ManualCpu::new();
    let gate = CpuGate::between(0.5, 0.6).armed(Arm::Always).source(cpu.clone());
    let pool = Pool::builder()
        .workers(1)
        .capacity(41)
        .limit(Limit::vegas().initial(20))
        .partition("tenant", Partition::new().max(1))
        .max_bytes(10)
        .clock(clock.clone())
        .batch()
        .limit(Limit::vegas().initial(20))
        .cpu_gate(gate)
        .build()
        .unwrap();
    let tenant = pool.partition("tenant").unwrap();
    let busy = occupy(&pool);
    let of_tenant = pool.job().partition(tenant).try_reserve().unwrap();
    for _ in 0..100 {
        assert!(pool.job().partition(tenant).try_reserve().is_err());
        assert!(pool.job().bytes(11).try_reserve().is_err());
        assert!(pool.job().timeout(Duration::ZERO).try_reserve().is_err());
    }
    let rest: Vec<_> = std::iter::from_fn(|| pool.try_reserve().ok()).collect();
    for _ in 0..99 {
        assert_eq!(pool.try_reserve().unwrap_err().reason(), Reason::Limit);
    }
    let critical: Vec<_> =
        std::iter::from_fn(|| pool.job().priority(Priority::Critical).try_reserve().ok()).collect();
    for _ in 0..99 {
        assert!(pool.job().priority(Priority::Critical).try_reserve().is_err());
    }
    drop((rest, critical));
    // An accepted job takes the sample; the first reading counts as it is.
    cpu.set(0.9);
    clock.advance(Duration::from_secs(1));
    let last = pool.try_submit(|| ()).unwrap();
    for _ in 0..100 {
        assert_eq!(pool.try_reserve().unwrap_err().reason(), Reason::Cpu);
    }
    let now = scrape(&pool);
    let rejected =
        |reason: &str| now[&format!("weirpool_rejected_total{{pool=\"a\",reason=\"{reason}\"}}")];
    assert_eq!(
        (rejected("partition"), rejected("bytes"), rejected("deadline")),
        (100.0, 100.0, 100.0)
    );
    assert_eq!((rejected("limit"), rejected("full")), (100.0, 100.0));
    assert_eq!(rejected("cpu"), 100.0);
    assert_eq!((rejected("closed"), rejected("forked")), (0.0, 0.0));
    assert_eq!(now["weirpool_limit_slots{pool=\"a\"}"], 20.0);
    assert_eq!(now["weirpool_running_jobs{pool=\"a\"}"], 1.0);
    assert_eq!(now["weirpool_cpu_ratio{pool=\"a\"}"], 0.9);
    assert_eq!(now["weirpool_cpu_refusal_ratio{pool=\"a\"}"], 1.0);
    drop(of_tenant);
    busy.free();
    resolve(last).unwrap();
    pool.close();
    assert!(pool.try_reserve().is_err());
    assert_eq!(scrape(&pool)["weirpool_rejected_total{pool=\"a\",reason=\"closed\"}"], 1.0);
}

#[test]
fn the_oldest_wait_is_read_while_all_workers_are_blocked() {
    let clock = ManualClock::new();
    let pool = Pool::builder().workers(1).clock(clock.clone()).batch().build().unwrap();
    let oldest = || scrape(&pool)["weirpool_queue_oldest_wait_seconds{pool=\"a\"}"];
    let busy = occupy(&pool);
    assert_eq!((oldest(), pool.snapshot().queue_delay.oldest_wait), (0.0, None));
    let low = pool.job().priority(Priority::Low).try_submit(|| ()).unwrap();
    clock.advance(Duration::from_secs(2));
    let normal = pool.try_submit(|| ()).unwrap();
    clock.advance(Duration::from_secs(1));
    assert_eq!(oldest(), 3.0);
    // A hole at the front is passed over.
    assert!(low.cancel());
    assert_eq!(oldest(), 1.0);
    assert!(normal.cancel());
    assert_eq!(oldest(), 0.0);
    busy.free();
}

#[test]
fn names_may_hold_anything_and_each_is_there_once() {
    let (one, two) = (Pool::new(1, 1).unwrap(), Pool::new(1, 2).unwrap());
    let (one, two) = (one.snapshot(), two.snapshot());
    let text =
        exposition::prometheus([("a\\\"b\nc", &one), ("ü{}", &two), ("ü{}", &one), ("", &one)]);
    let series = samples(&text);
    assert_eq!(series["weirpool_capacity_slots{pool=\"a\\\\\\\"b\\nc\"}"], 1.0);
    assert_eq!(series["weirpool_capacity_slots{pool=\"ü{}\"}"], 2.0);
    assert_eq!(series["weirpool_capacity_slots{pool=\"\"}"], 1.0);
    assert_eq!(exposition::prometheus([]), "");
    assert!(exposition::CONTENT_TYPE.starts_with("text/plain; version=0.0.4"));
}

#[test]
fn counters_only_grow_and_begin_again_with_the_pool() {
    let pool = Pool::new(1, 2).unwrap();
    let mut last = scrape(&pool);
    for round in 0..20 {
        match round % 3 {
            0 => drop(resolve(pool.try_submit(|| ()).unwrap())),
            1 => drop(pool.job().timeout(Duration::ZERO).try_submit(|| ())),
            _ => drop(resolve(pool.try_submit(common::fail_quietly).unwrap())),
        }
        let now = scrape(&pool);
        for (series, value) in &last {
            assert!(!series.contains("_total{") || now[series] >= *value, "{series} fell");
        }
        last = now;
    }
    assert_eq!(last["weirpool_completed_total{pool=\"a\"}"], 7.0);
    drop(pool);
    let pool = Pool::new(1, 2).unwrap();
    assert_eq!(scrape(&pool)["weirpool_completed_total{pool=\"a\"}"], 0.0);
}
