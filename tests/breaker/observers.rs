//! Who is told of changes: in order, one at a time, outside every lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use weirpool::breaker::{Builder, CircuitBreaker, State, Transition};

use super::common::clocks::JumpyClock;
use super::common::{Gate, Log, Peak, block_on, elsewhere, quiet_panic, recv, rounds_in};
use super::script::{End, Face, blaming, call};

const COOL_DOWN: Duration = Duration::from_secs(10);

fn one_trial() -> Builder {
    CircuitBreaker::builder().min_volume(1).probes(1)
}

fn logged(builder: Builder, log: &Log<Transition>) -> Builder {
    let log = log.clone();
    builder.on_transition(move |change| log.push(*change))
}

#[test]
fn every_change_is_told_once_and_in_order() {
    use State::{Closed, ForcedClosed, ForcedOpen, HalfOpen, Open};
    let (log, clock) = (Log::new(), JumpyClock::new());
    let growing = one_trial().cool_down_growth(2.0, Duration::from_secs(60));
    let breaker = blaming(logged(growing.clock(clock.clone()), &log));
    call(&breaker, Face::Plain, End::Fails).unwrap();
    clock.advance(COOL_DOWN);
    call(&breaker, Face::Future, End::Panics).unwrap();
    clock.advance(2 * COOL_DOWN);
    call(&breaker, Face::Permit, End::Succeeds).unwrap();
    breaker.force_open();
    breaker.force_open();
    breaker.force_closed();
    breaker.automatic();
    breaker.automatic();
    let told: Vec<_> =
        log.entries().iter().map(|told| (told.generation, told.from, told.to)).collect();
    let expected = [
        (1, Closed, Open),
        (2, Open, HalfOpen),
        (3, HalfOpen, Open),
        (4, Open, HalfOpen),
        (5, HalfOpen, Closed),
        (6, Closed, ForcedOpen),
        (7, ForcedOpen, ForcedClosed),
        (8, ForcedClosed, Closed),
    ];
    assert_eq!(told, expected);
    let first = log.entries()[0];
    assert_eq!((first.counts.calls, first.counts.failure_rate()), (1, Some(1.0)));
    let second = log.entries()[1];
    assert_eq!(second.counts.calls, 0, "the window is that of the moment, ten seconds later");
    let cool_downs: Vec<_> = log.entries().iter().filter_map(|told| told.cool_down).collect();
    assert_eq!(cool_downs, [COOL_DOWN, 2 * COOL_DOWN]);
    assert_eq!(breaker.snapshot().generation, 8);
}

#[test]
fn an_observer_may_use_its_breaker() {
    let handle: Arc<OnceLock<CircuitBreaker>> = Arc::default();
    let log = Log::new();
    let breaker = one_trial()
        .on_transition({
            let (handle, log) = (Arc::clone(&handle), log.clone());
            move |change| {
                log.push(format!("{} begins", change.to));
                let breaker = handle.get().expect("set below");
                assert!(format!("{breaker:?}").contains("state"));
                let _ = breaker.call(|| Ok::<_, ()>(()));
                if change.to == State::Open {
                    breaker.force_closed();
                    breaker.automatic();
                    assert_eq!(breaker.state(), State::Closed);
                }
                log.push(format!("{} ends", change.to));
            }
        })
        .build()
        .unwrap();
    handle.set(breaker.clone()).unwrap();
    let _ = breaker.call(|| Err::<(), _>(()));
    // What it changes is told after it has returned, and before the call that began it all returns.
    let expected = [
        "open begins",
        "open ends",
        "forced closed begins",
        "forced closed ends",
        "closed begins",
        "closed ends",
    ];
    assert_eq!(log.entries(), expected);
}

#[test]
fn a_panic_of_the_observer_is_contained() {
    let (log, clock) = (Log::new(), JumpyClock::new());
    let breaker = blaming(one_trial().clock(clock.clone()).on_transition({
        let log = log.clone();
        move |change| {
            log.push(change.to);
            quiet_panic()
        }
    }));
    assert_eq!(call(&breaker, Face::Plain, End::Fails), Ok(()));
    clock.advance(COOL_DOWN);
    assert_eq!(call(&breaker, Face::Future, End::Succeeds), Ok(()));
    assert_eq!(log.entries(), [State::Open, State::HalfOpen, State::Closed]);
    // Also while another panic is on its way through the call.
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _ = breaker.call(|| quiet_panic());
    }));
    assert!(unwound.is_err());
    assert_eq!((breaker.state(), breaker.snapshot().contained_panics), (State::Open, 4));
}

#[test]
fn a_bad_destructor_of_an_observer_reaches_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            quiet_panic();
        }
    }
    let bomb = Bomb;
    let breaker = one_trial()
        .on_transition(move |_| {
            let _bomb = &bomb;
        })
        .build()
        .unwrap();
    let permit = breaker.try_acquire().unwrap();
    drop(breaker);
    permit.success();
}

/// Two threads change the state as fast as they can: the observer sees a chain without a gap, never two at once.
#[test]
fn changes_from_several_threads_are_one_chain() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let peak = Arc::new(Peak::default());
    let breaker = CircuitBreaker::builder()
        .on_transition({
            let (told, peak) = (Arc::clone(&told), Arc::clone(&peak));
            move |change| peak.visit(|| told.lock().unwrap().push(*change))
        })
        .build()
        .unwrap();
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                for _ in 0..rounds_in(2_000, 50_000) {
                    breaker.force_open();
                    breaker.force_closed();
                    breaker.automatic();
                }
            });
        }
    });
    let (told, now) = (told.lock().unwrap(), breaker.snapshot());
    assert_eq!(peak.highest(), 1);
    assert_eq!(told.len() as u64 + now.missed_transitions, now.generation);
    assert_eq!(
        told.last().map(|last| (last.generation, last.to)),
        Some((now.generation, now.state))
    );
    for pair in told.windows(2) {
        assert!(pair[0].generation < pair[1].generation);
        if pair[0].generation + 1 == pair[1].generation {
            assert_eq!(pair[0].to, pair[1].from);
        }
    }
}

/// An observer that hangs holds nobody up but who tells it, and what waits for it is bounded.
#[test]
fn an_observer_that_hangs_holds_up_one_thread_and_no_memory() {
    let (gate, log) = (Gate::new(), Log::new());
    let (entered, enters) = mpsc::channel();
    let breaker = CircuitBreaker::builder()
        .on_transition({
            let (gate, log) = (gate.clone(), log.clone());
            move |change| {
                let _ = entered.send(());
                gate.wait();
                log.push(change.generation);
            }
        })
        .build()
        .unwrap();
    let stuck = elsewhere({
        let breaker = breaker.clone();
        move || breaker.force_open()
    });
    recv(&enters);
    for _ in 0..500 {
        breaker.force_closed();
        breaker.force_open();
    }
    assert!(breaker.try_acquire().is_err());
    breaker.automatic();
    assert_eq!(block_on(breaker.call_async(async { Ok::<_, ()>(7) })), Ok(7));
    assert!(stuck.is_busy());
    gate.open();
    stuck.wait();
    let told = log.entries();
    assert_eq!(told.len(), 1 + 64, "the one it hung in, and the newest 64");
    assert_eq!(told.last(), Some(&breaker.snapshot().generation));
    assert_eq!(breaker.snapshot().missed_transitions, 1_002 - 65);
}
