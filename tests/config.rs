//! A pool's settings as data, and its figures.

mod common;

use std::time::Duration;

use serde_json::{Value, json};
use weirpool::config::{Config, GateConfig, GateRule, GateSource, Profile};
use weirpool::{ActiveWorkers, Arm, Class, Limit, Partition, Pool, Priority, QueueDelay, Reason};

use common::{eventually, occupy, resolve};

fn config(value: Value) -> Config {
    serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{value}: {error}"))
}

#[test]
fn every_setting_arrives_at_the_builder() {
    let all = json!({
        "profile": "batch",
        "name": "thumbs",
        "workers": 3,
        "capacity": 100,
        "critical_reserve": 4,
        "max_bytes": 1000,
        "queue_delay": { "codel": { "target": "20ms", "interval": "1.5s" } },
        "cpu_gate": {
            "rule": { "steps": { "halve": 0.7, "drop_low": 0.8, "refuse": 0.85 } },
            "arm": "always",
            "time_constant": "2s",
            "sample_every": "250ms",
            "source": "workers",
        },
        "active_workers": "fixed",
        "limit": { "algorithm": "vegas", "min": 5, "initial": 10 },
        "partitions": { "a": { "reserved": 16, "max": 50 }, "b": {} },
        "stack_size": 1 << 20,
        "ageing_bound": "2m",
        "seed": 7,
    });
    let config = config(all.clone());
    let by_hand = Pool::builder()
        .batch()
        .name("thumbs")
        .workers(3)
        .capacity(100)
        .critical_reserve(4)
        .max_bytes(1000)
        .queue_delay(QueueDelay::codel(Duration::from_millis(20), Duration::from_millis(1500)))
        .cpu_gate(
            weirpool::CpuGate::steps(0.7, 0.8, 0.85)
                .armed(Arm::Always)
                .time_constant(Duration::from_secs(2))
                .sample_every(Duration::from_millis(250)),
        )
        .active_workers(ActiveWorkers::Fixed)
        .limit(Limit::vegas().min(5).initial(10))
        .partition("a", Partition::new().reserved(16).max(50))
        .partition("b", Partition::new())
        .stack_size(1 << 20)
        .ageing_bound(Duration::from_secs(120))
        .seed(7);
    // The builder shows all of them but the source.
    assert_eq!(format!("{:?}", config.builder()), format!("{by_hand:?}"));
    assert_eq!(config.cpu_gate.as_ref().unwrap().source, GateSource::Workers);

    let pool = config.build().unwrap();
    assert_eq!((pool.workers(), pool.capacity()), (3, 100));
    assert_eq!(pool.snapshot().limit, 10);
    assert!(pool.partition("a").is_some() && pool.partition("b").is_some());

    // And it is written as it was read, times in another unit.
    let written = serde_json::to_value(&config).unwrap();
    assert_eq!(serde_json::from_value::<Config>(written.clone()).unwrap(), config);
    assert_eq!(written["ageing_bound"], "120s");
    assert_eq!(written["queue_delay"]["codel"]["interval"], "1500ms");
    assert_eq!(
        written["partitions"],
        json!({ "a": { "reserved": 16, "max": 50 }, "b": { "reserved": 0 } })
    );
    assert_eq!(written["cpu_gate"], all["cpu_gate"]);
    assert_eq!(written["limit"], all["limit"]);
}

#[test]
fn what_is_not_set_is_as_the_builder_has_it() {
    let empty = config(json!({}));
    assert_eq!(empty, Config::default());
    assert_eq!(format!("{:?}", empty.builder()), format!("{:?}", Pool::builder()));
    assert_eq!(serde_json::to_value(&empty).unwrap(), json!({ "profile": "service" }));
    let batch = config(json!({ "profile": "batch" }));
    assert_eq!(format!("{:?}", batch.builder()), format!("{:?}", Pool::builder().batch()));
    assert_eq!(batch.profile, Profile::Batch);
    // A null is as good as nothing.
    let nulls = config(json!({ "workers": null, "ageing_bound": null, "cpu_gate": null }));
    assert_eq!(nulls, Config::default());
}

#[test]
fn each_choice_has_its_name() {
    for (value, delay) in [
        (json!("off"), QueueDelay::off()),
        (json!({ "graded": {} }), QueueDelay::default()),
        (json!({ "graded": { "target": "1ms" } }), QueueDelay::graded(Duration::from_millis(1))),
        (
            json!({ "codel": {} }),
            QueueDelay::codel(QueueDelay::DEFAULT_TARGET, QueueDelay::DEFAULT_INTERVAL),
        ),
        (
            json!({ "rfc8289": { "interval": "1s" } }),
            QueueDelay::rfc8289(QueueDelay::DEFAULT_TARGET, Duration::from_secs(1)),
        ),
        (json!({ "cutoff": { "max": "1h" } }), QueueDelay::cutoff(Duration::from_secs(3600))),
    ] {
        let read: QueueDelay = serde_json::from_value(value).unwrap();
        assert_eq!(read, delay);
        let written = serde_json::to_value(delay).unwrap();
        assert_eq!(serde_json::from_value::<QueueDelay>(written).unwrap(), delay);
    }
    for (name, limit) in [
        ("fixed", Limit::fixed()),
        ("aimd", Limit::aimd()),
        ("vegas", Limit::vegas()),
        ("gradient", Limit::gradient()),
        ("bdp", Limit::bdp()),
    ] {
        let value = json!({ "algorithm": name });
        assert_eq!(serde_json::from_value::<Limit>(value.clone()).unwrap(), limit);
        assert_eq!(serde_json::to_value(&limit).unwrap(), value);
    }
    let gate = |value| serde_json::from_value::<GateConfig>(value).unwrap();
    assert_eq!(gate(json!({})), GateConfig::default());
    assert_eq!(gate(json!({ "rule": "off" })).rule, GateRule::Off);
    assert_eq!(GateConfig::default().rule, GateRule::Between { lo: 0.8, hi: 0.95 });
    for source in ["process", "workers", "cgroup", "host"] {
        let config = config(json!({ "workers": 1, "cpu_gate": { "source": source } }));
        config.build().unwrap();
    }
    let off = config(json!({ "cpu_gate": { "rule": "off" } }));
    assert_eq!(format!("{:?}", off.builder()), format!("{:?}", Pool::builder().no_cpu_gate()));
    assert_eq!(serde_json::to_value(Priority::Critical).unwrap(), "critical");
    assert_eq!(serde_json::from_value::<Priority>(json!("low")).unwrap(), Priority::Low);
    assert_eq!(serde_json::from_value::<Arm>(json!("backlogged")).unwrap(), Arm::Backlogged);
}

#[test]
fn names_that_are_not_known_are_refused() {
    for (text, named) in [
        (r#"{"worker": 8}"#, "worker"),
        (r#"{"queue_delay": {"graded": {"targt": "5ms"}}}"#, "targt"),
        (r#"{"queue_delay": {"gradde": {}}}"#, "gradde"),
        (r#"{"queue_delay": {"cutoff": {}}}"#, "max"),
        (r#"{"cpu_gate": {"low": 0.5}}"#, "low"),
        (r#"{"cpu_gate": {"rule": {"between": {"lo": 0.5}}}}"#, "hi"),
        (r#"{"cpu_gate": {"rule": {"between": {"lo": 0.5, "hi": 0.9, "mid": 0.7}}}}"#, "mid"),
        (r#"{"cpu_gate": {"arm": "never"}}"#, "never"),
        (r#"{"limit": {"min": 5}}"#, "algorithm"),
        (r#"{"limit": {"algorithm": "vegas", "max": 5}}"#, "max"),
        (r#"{"partitions": {"a": {"reserve": 5}}}"#, "reserve"),
        (r#"{"partitions": {"a": {}, "a": {}}}"#, "\"a\" is there twice"),
        (r#"{"workers": 8, "workers": 9}"#, "duplicate field"),
        (r#"{"workers": -1}"#, "-1"),
        (r#"{"workers": 1.5}"#, "1.5"),
        (r#"{"ageing_bound": 5}"#, "a time with its unit"),
        (r#"{"ageing_bound": "5"}"#, "a time with its unit"),
        (r#"{"queue_delay": {"graded": {"target": "-5ms"}}}"#, "a time with its unit"),
    ] {
        let error = serde_json::from_str::<Config>(text).expect_err(text).to_string();
        assert!(error.contains(named), "{text}: {error}");
    }
}

#[test]
fn values_are_judged_as_if_set_by_hand() {
    for (value, setting) in [
        (json!({ "workers": 0 }), "workers = 0"),
        (json!({ "workers": 1, "capacity": 0 }), "capacity = 0"),
        (json!({ "workers": 1, "capacity": 4, "critical_reserve": 4 }), "critical_reserve = 4"),
        (json!({ "workers": 1, "max_bytes": 0 }), "max_bytes = 0"),
        (json!({ "workers": 1, "ageing_bound": "0s" }), "ageing_bound = 0ns"),
        (
            json!({ "workers": 1, "queue_delay": { "graded": { "target": "0ms" } } }),
            "queue_delay.target",
        ),
        (
            json!({ "workers": 1, "cpu_gate": { "rule": { "between": { "lo": 0.9, "hi": 0.7 } } } }),
            "cpu_gate.hi = 0.7",
        ),
        (json!({ "workers": 1, "cpu_gate": { "sample_every": "0s" } }), "cpu_gate.sample_every"),
        (
            json!({ "workers": 1, "capacity": 4, "limit": { "algorithm": "bdp", "min": 5 } }),
            "limit.min = 5",
        ),
        (
            json!({ "workers": 1, "capacity": 4, "partitions": { "a": { "reserved": 5 } } }),
            "partition",
        ),
        (json!({ "workers": 1, "name": "a\0b" }), "name"),
    ] {
        let error = config(value.clone()).build().expect_err("it can't be used").to_string();
        assert!(error.starts_with(setting), "{value}: {error}");
    }
    // No format but code can bring this one in.
    let nan =
        GateConfig { rule: GateRule::Between { lo: f64::NAN, hi: 0.9 }, ..GateConfig::default() };
    let config = Config { workers: Some(1), cpu_gate: Some(nan), ..Config::default() };
    assert!(config.build().unwrap_err().to_string().starts_with("cpu_gate.lo = NaN"));
}

#[test]
fn figures_are_written_with_their_units() {
    let pool = Pool::new(1, 4).unwrap();
    let fresh = serde_json::to_value(pool.snapshot()).unwrap();
    assert_eq!(fresh["mean_service_time_seconds"], Value::Null);
    assert_eq!(fresh["queue_delay"]["target_seconds"], Value::Null);
    assert_eq!(fresh["classes"], json!({}));

    resolve(pool.job().class(Class(9)).try_submit(|| ()).unwrap()).unwrap();
    eventually("the class is measured", || pool.snapshot().class(Class(9)).jobs == 1);
    let busy = occupy(&pool);
    let permits = pool.try_reserve_many(3).unwrap();
    assert_eq!(pool.try_reserve().unwrap_err().reason(), Reason::Full);
    let now = pool.snapshot();
    let written = serde_json::to_value(&now).unwrap();
    assert_eq!(written["accepted"], 2);
    assert_eq!(written["completed"], 1);
    assert_eq!(written["reserved"], 3);
    assert_eq!(written["in_flight"], 4);
    assert_eq!(written["rejected"]["full"], 1);
    assert_eq!(written["rejected"].as_object().unwrap().len(), 9);
    assert_eq!(written["shed"], json!({ "queue_delay": 0, "deadline": 0, "displaced": 0 }));
    assert_eq!(written["classes"]["9"]["jobs"], 1);
    assert_eq!(written["cpu"], Value::Null);
    assert_eq!(written["contention"]["neighbours"], 0.0);
    assert_eq!(written["uptime_seconds"], now.uptime.as_secs_f64());
    assert_eq!(
        serde_json::to_value(pool.load()).unwrap(),
        json!({ "score": 1.0, "in_flight": 4, "capacity": 4, "cpu": null })
    );
    drop(permits);
    busy.free();
}
