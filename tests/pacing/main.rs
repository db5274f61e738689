//! Twenty clients, a server at 2.5 times its capacity, and what becomes of them: in virtual time, with
//! and without a `Pacer`.
//!
//! Unless a test says otherwise the server does 1000 requests a second with ten workers and holds 60,
//! and answers in about 2 ms of network each way.

mod sim;

use std::time::Duration;

use sim::{Change, Clients, Outcome, World, jain};

const SEEDS: [u64; 3] = [1, 2, 3];

/// After so many seconds things must have settled.
const SETTLED: usize = 8;

/// What must hold in the settled world: little more is offered than the server can do, it has enough to
/// do, little of it is refused, and retries are few.
#[track_caller]
fn check_settled(outcome: &Outcome, from: usize, to: usize, capacity: f64, what: &str) {
    let offered = outcome.mean(from, to, |second| second.offered);
    let served = outcome.mean(from, to, |second| second.served);
    let refused = outcome.refused_share(from, to);
    let amplification = outcome.amplification(from, to);
    assert!(offered <= 1.1 * capacity, "{what}: {offered} offered of {capacity}");
    assert!(served >= 0.9 * capacity, "{what}: {served} served of {capacity}");
    assert!(refused < 0.1, "{what}: {refused} refused");
    assert!(amplification <= 1.2, "{what}: {amplification} times sent");
}

#[track_caller]
fn check_fair(outcome: &Outcome, from: usize, to: usize, least: f64, what: &str) {
    let fairness = jain(&outcome.served_by_client(from, to));
    assert!(fairness >= least, "{what}: {fairness}");
}

/// Runs a world of each number of clients, each seed, with load reports and without.
fn each_world(counts: &[usize], seeds: &[u64], mut check: impl FnMut(World, &str)) {
    for &clients in counts {
        for &seed in seeds {
            for reports in [true, false] {
                let world = World { seed, reports, ..World::new(clients) };
                check(world, &format!("{clients} clients, seed {seed}, reports {reports}"));
            }
        }
    }
}

#[test]
fn clients_settle_at_what_the_server_can_do_and_share_it() {
    each_world(&[2, 20, 200], &SEEDS, |world, what| {
        let (capacity, clients) = (world.capacity(), world.demand_per_s.len());
        let outcome = world.run();
        check_settled(&outcome, SETTLED, 30, capacity, what);
        check_fair(&outcome, SETTLED, 30, 0.9, what);
        // Not only on the average: no later second is far off.
        for second in SETTLED..30 {
            let offered = outcome.mean(second, second + 1, |second| second.offered);
            assert!(offered <= 1.25 * capacity, "{what}: {offered} in second {second}");
        }
        let amplification = outcome.amplification(0, 30);
        assert!(amplification <= 1.2, "{what}, from the first second: {amplification}");
        assert_eq!(outcome.served_by_client[29].len(), clients);
    });
}

#[test]
fn without_pacers_the_overload_stays_and_retries_make_it_worse() {
    for seed in SEEDS {
        let world = World { seed, clients: Clients::Naive, ..World::new(20) };
        let capacity = world.capacity();
        let outcome = world.run();
        assert!(outcome.mean(10, 30, |second| second.offered) > 4.0 * capacity);
        assert!(outcome.refused_share(10, 30) > 0.7);
        assert!(outcome.amplification(10, 30) > 1.8);
    }
}

#[test]
fn ten_times_the_capacity_is_no_other_story() {
    each_world(&[20], &SEEDS[..1], |mut world, what| {
        let capacity = world.capacity();
        world.demand(10.0 * capacity);
        let outcome = world.run();
        check_settled(&outcome, 10, 30, capacity, what);
        check_fair(&outcome, 10, 30, 0.9, what);
    });
}

#[test]
fn below_its_capacity_nobody_is_held_back() {
    each_world(&[2, 20, 200], &SEEDS[..1], |mut world, what| {
        let capacity = world.capacity();
        world.demand(0.7 * capacity);
        let outcome = world.run();
        let wanted = outcome.sum(0, 30, |second| second.wanted);
        let begun = outcome.sum(0, 30, |second| second.begun);
        assert!(begun >= 0.995 * wanted, "{what}: {begun} sent of {wanted}");
    });
}

#[test]
fn a_doubled_capacity_is_used_within_ten_seconds() {
    each_world(&[2, 20, 200], &SEEDS[..1], |mut world, what| {
        world.demand(5000.0);
        world.changes = vec![(20.0, Change::Workers(20))];
        world.seconds = 40;
        let reports = world.reports;
        let clients = world.demand_per_s.len();
        let outcome = world.run();
        check_settled(&outcome, 12, 20, 1000.0, what);
        let served = outcome.mean(30, 40, |second| second.served);
        assert!(served >= 0.9 * 2000.0, "{what}: {served}");
        if reports {
            // A score that falls is seen at once.
            let served = outcome.mean(23, 24, |second| second.served);
            assert!(served >= 0.9 * 2000.0, "{what}: {served} after three seconds");
        }
        // Five requests a second say little: without reports the slowest clients find out at different
        // times, and it takes them a minute or two to be equal again.
        let fair = if clients == 200 && !reports { 0.7 } else { 0.85 };
        check_fair(&outcome, 30, 40, fair, what);
        check_settled(&outcome, 31, 40, 2000.0 * 1.02, what);
    });
}

#[test]
fn a_halved_capacity_is_heeded_within_ten_seconds() {
    each_world(&[2, 20], &SEEDS[..1], |mut world, what| {
        world.changes = vec![(15.0, Change::Workers(5))];
        let outcome = world.run();
        check_settled(&outcome, 24, 30, 500.0, what);
    });
}

#[track_caller]
fn check_return(stall: Change, lasts: usize, mut world: World, what: &str) {
    let what = format!("{what}, {stall:?} for {lasts} s");
    let back = 15 + lasts;
    world.changes = vec![(15.0, stall), (back as f64, Change::Works)];
    world.seconds = back + 18;
    // Five requests a second, and no report: that tells a client little.
    let is_blind = world.demand_per_s.len() == 200 && !world.reports;
    let outcome = world.run();
    let served = outcome.mean(back + 10, back + 11, |second| second.served);
    let least = if is_blind { 800.0 } else { 900.0 };
    assert!(served >= least, "{what}: {served}");
    check_settled(&outcome, back + 12, back + 18, 1000.0, &what);
    check_fair(&outcome, back + 8, back + 18, 0.85, &what);
    if lasts >= 40 {
        let end = outcome.mean(back - 5, back, |second| second.offered);
        assert!(end <= 200.0, "{what}: {end} a second to a server that is gone");
    }
}

#[test]
fn after_a_stall_the_server_is_used_again_within_ten_seconds() {
    each_world(&[2, 20, 200], &SEEDS[..1], |world, what| {
        check_return(Change::Stalls, 8, world, what)
    });
    each_world(&[2, 20], &SEEDS[..1], |world, what| check_return(Change::Stalls, 2, world, what));
}

#[test]
fn after_an_outage_the_server_is_used_again_within_ten_seconds() {
    each_world(&[2, 20, 200], &SEEDS[..1], |world, what| {
        check_return(Change::Refuses, 8, world, what)
    });
    each_world(&[20], &SEEDS[..1], |world, what| check_return(Change::Refuses, 40, world, what));
}

#[test]
fn a_whole_second_of_retry_after_does_not_empty_the_server() {
    each_world(&[2, 20, 200], &SEEDS[..1], |mut world, what| {
        let capacity = world.capacity();
        world.retry_after = Some(Duration::from_secs(1));
        let outcome = world.run();
        check_settled(&outcome, SETTLED, 30, capacity, what);
        check_fair(&outcome, SETTLED, 30, 0.9, what);
    });
}

#[test]
fn in_an_outage_retry_after_is_obeyed_by_all() {
    each_world(&[20], &SEEDS[..1], |mut world, what| {
        world.retry_after = Some(Duration::from_secs(4));
        world.changes = vec![(15.0, Change::Refuses), (30.0, Change::Works)];
        world.seconds = 50;
        let outcome = world.run();
        // Each client asks once in four seconds or less often, with what was on its way.
        let offered = outcome.mean(18, 30, |second| second.offered);
        assert!(offered <= 25.0, "{what}: {offered}");
        let served = outcome.mean(42, 50, |second| second.served);
        assert!(served >= 0.9 * 1000.0, "{what}: {served}");
    });
}

#[test]
fn those_who_ask_for_little_get_it_and_the_others_share_the_rest() {
    each_world(&[20], &SEEDS[..1], |mut world, what| {
        // Five ask for less than a twentieth of the capacity, fifteen for much more.
        for (client, demand) in world.demand_per_s.iter_mut().enumerate() {
            *demand = if client < 5 { 20.0 } else { 160.0 };
        }
        let capacity = world.capacity();
        world.seconds = 60;
        let reports = world.reports;
        let outcome = world.run();
        check_settled(&outcome, SETTLED, 60, capacity, what);
        // All begin with the same part of what they ask for. Reports make that right within seconds;
        // the few refusals of a settled server take most of a minute.
        let (from, least) = if reports { (15, 0.8) } else { (45, 0.5) };
        let served = outcome.served_by_client(from, 60);
        let asked = 20.0 * (60 - from) as f64;
        let modest = served[..5].iter().sum::<f64>() / 5.0;
        assert!(modest >= least * asked, "{what}: {modest} of {asked}");
        let fairness = jain(&served[5..]);
        assert!(fairness >= 0.9, "{what}: {fairness}");
    });
}

#[test]
fn with_reports_a_client_that_comes_late_soon_has_its_share_and_no_more() {
    for seed in SEEDS {
        let mut world = World { seed, seconds: 60, ..World::new(20) };
        // It comes with two and a half times what the others have.
        world.joins_late = Some((19, 15.0));
        let outcome = world.run();
        let served = outcome.served_by_client(45, 60);
        let others = served[..19].iter().sum::<f64>() / 19.0;
        let late = served[19] / others;
        assert!((0.6..1.6).contains(&late), "seed {seed}: {late} of a share");
    }
}

#[test]
fn a_server_that_refuses_at_a_low_score_is_heeded_too() {
    each_world(&[2, 20, 200], &SEEDS[..1], |mut world, what| {
        let capacity = world.capacity();
        world.score_when_full = 0.2;
        let outcome = world.run();
        check_settled(&outcome, SETTLED, 30, capacity, what);
        check_fair(&outcome, SETTLED, 30, 0.9, what);
    });
}

#[test]
fn a_slow_network_does_not_make_it_swing() {
    each_world(&[20], &SEEDS[..1], |mut world, what| {
        let capacity = world.capacity();
        world.network = Duration::from_millis(100);
        world.seconds = 40;
        let outcome = world.run();
        check_settled(&outcome, 12, 40, capacity, what);
        check_fair(&outcome, 12, 40, 0.9, what);
    });
}

#[test]
fn a_larger_queue_and_a_faster_server_are_no_other_story() {
    for (workers, service_ms, slots) in [(2, 1, 64), (20, 10, 400), (4, 20, 32)] {
        let world = World {
            workers,
            service: Duration::from_millis(service_ms),
            slots,
            seconds: 40,
            ..World::new(10)
        };
        for reports in [true, false] {
            let mut world = World { reports, ..world.clone() };
            let capacity = world.capacity();
            world.demand(2.5 * capacity);
            let what = format!("{workers} workers, {service_ms} ms, reports {reports}");
            let outcome = world.run();
            check_settled(&outcome, 14, 40, capacity, &what);
            check_fair(&outcome, 14, 40, 0.85, &what);
        }
    }
}

#[test]
fn the_same_seed_replays_the_same_run() {
    let run = || World::new(20).run();
    let (one, other) = (run(), run());
    assert_eq!(one.served_by_client, other.served_by_client);
    assert_eq!(one.seconds, other.seconds);
}
