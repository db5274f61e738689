//! `RejectionHold`: refused things are held for a time, within bounds, by one thread at most.

mod common;

use std::any::Any;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use common::{
    Drops, Gate, Log, STEP, elsewhere, eventually, on_drop, quiet_panic, race, recv, rounds_in,
    watchdog,
};
use weirpool::hold::{AcceptBackoff, AcceptNext, HoldBuilder, HoldSnapshot, RejectionHold};
use weirpool::test::ManualClock;
use weirpool::{BuildError, Clock};

const SECOND: Duration = Duration::from_secs(1);
/// More than there is address space for, so that no thread can be created.
const IMPOSSIBLE_STACK: usize = isize::MAX as usize / 2;

/// A hold of 10 s on a manual clock, driven by `release_due` alone.
fn by_hand<T: Send + 'static>() -> (HoldBuilder<T>, ManualClock) {
    let clock = ManualClock::new();
    let builder = RejectionHold::builder().hold_time(10 * SECOND).clock(clock.clone());
    (builder.without_thread(), clock)
}

/// A hold whose items go only by the bound or at the end, with a thread.
fn for_ever<T: Send + 'static>() -> HoldBuilder<T> {
    RejectionHold::builder().hold_time(Duration::MAX)
}

/// Fails unless all that was given to the hold is accounted for.
#[track_caller]
fn check_adds_up(now: &HoldSnapshot) {
    let released = now.released_by_time
        + now.released_by_bound
        + now.released_by_shutdown
        + now.released_without_thread;
    assert_eq!(now.accepted, now.held as u64 + released, "{now:?}");
}

/// How many threads of this process have this name; the name is at most 15 bytes.
#[cfg(target_os = "linux")]
fn threads_named(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let comms = tasks.flatten().filter_map(|task| {
        let comm = std::fs::read_to_string(task.path().join("comm")).ok()?;
        Some(comm.trim() == name)
    });
    comms.filter(|matches| *matches).count()
}

#[test]
fn an_item_is_held_for_its_time_and_not_longer() {
    let (builder, clock) = by_hand();
    let hold = builder.build().unwrap();
    let drops = Drops::new();
    hold.hold(drops.tracked());
    clock.advance(4 * SECOND);
    hold.hold(drops.tracked());
    clock.advance(6 * SECOND - Duration::from_nanos(1));
    assert_eq!((hold.release_due(), drops.count()), (0, 0));
    clock.advance(Duration::from_nanos(1));
    assert_eq!((hold.release_due(), drops.count()), (1, 1));
    clock.advance(4 * SECOND);
    assert_eq!((hold.release_due(), drops.count()), (1, 2));
    let now = hold.snapshot();
    assert_eq!((now.held, now.bytes, now.released_by_time, now.accepted), (0, 0, 2, 2));
}

#[test]
fn items_are_released_in_the_order_in_which_they_came() {
    let (builder, clock) = by_hand();
    let hold = builder.build().unwrap();
    let log = Log::new();
    for number in 0..200 {
        let log = log.clone();
        hold.hold(on_drop(move || log.push(number)));
    }
    clock.advance(10 * SECOND);
    assert_eq!(hold.release_due(), 200);
    assert_eq!(log.entries(), (0..200).collect::<Vec<_>>());
}

#[test]
fn a_full_hold_releases_the_oldest_at_once() {
    let (builder, _clock) = by_hand();
    let hold = builder.max_items(3).build().unwrap();
    let log = Log::new();
    for number in 0..5 {
        let log = log.clone();
        hold.hold(on_drop(move || log.push(number)));
        assert!(hold.snapshot().held <= 3);
    }
    assert_eq!(log.entries(), [0, 1]);
    assert_eq!((hold.snapshot().held, hold.snapshot().released_by_bound), (3, 2));
    check_adds_up(&hold.snapshot());
}

#[test]
fn a_hold_full_of_bytes_releases_as_many_of_the_oldest_as_it_takes() {
    let (builder, _clock) = by_hand();
    let hold = builder.max_bytes(100).build().unwrap();
    let drops = Drops::new();
    for _ in 0..10 {
        hold.hold_sized(drops.tracked(), 10);
    }
    hold.hold_sized(drops.tracked(), 35);
    assert_eq!((drops.count(), hold.snapshot().held, hold.snapshot().bytes), (4, 7, 95));
    hold.hold_sized(drops.tracked(), 101);
    assert_eq!((drops.count(), hold.snapshot().held), (5, 7), "what never fits drives nothing out");
    hold.hold_sized(drops.tracked(), u64::MAX);
    assert_eq!((drops.count(), hold.snapshot().released_by_bound), (6, 6));
    hold.hold_sized(drops.tracked(), 100);
    assert_eq!((drops.count(), hold.snapshot().held, hold.snapshot().bytes), (13, 1, 100));
}

#[test]
fn queue_bound_not_really_a_bound() {
    let _watchdog = watchdog();
    // Destructors that wait hold up whoever runs them: the bound must hold all the same.
    let hold = for_ever().max_items(4).build().unwrap();
    let alive = Arc::new(Mutex::new((0_usize, 0_usize)));
    let callers = 4;
    thread::scope(|scope| {
        for _ in 0..callers {
            scope.spawn(|| {
                for _ in 0..rounds_in(200, 2_000) {
                    {
                        let mut now = alive.lock().unwrap();
                        now.0 += 1;
                        now.1 = now.1.max(now.0);
                    }
                    let alive = Arc::clone(&alive);
                    hold.hold(on_drop(move || {
                        thread::yield_now();
                        alive.lock().unwrap().0 -= 1;
                    }));
                    assert!(hold.snapshot().held <= 4);
                }
            });
        }
    });
    // Held, and one in the hands of each caller: that which it brings, or that which it drops.
    let (left, most) = *alive.lock().unwrap();
    assert_eq!(left, 4);
    assert!(most <= 4 + callers, "{most} were alive");
}

#[test]
fn zero_read_as_unlimited() {
    type Build = fn(HoldBuilder<()>) -> HoldBuilder<()>;
    let cases: [(&str, Build); 8] = [
        ("hold_time = 0ns: must be above zero", |b| b.hold_time(Duration::ZERO)),
        ("max_items = 0: must be from 1 to 16777216", |b| b.max_items(0)),
        ("max_items = 16777217: must be", |b| b.max_items((1 << 24) + 1)),
        ("max_items = 18446744073709551615: must be", |b| b.max_items(usize::MAX)),
        ("max_bytes = 0: must be from 1", |b| b.max_bytes(0)),
        ("stack_size = 0: must be from 65536", |b| b.stack_size(0)),
        ("stack_size = 18446744073709551615: must be", |b| b.stack_size(usize::MAX)),
        ("name = \"a\\0b\": must be free of NUL bytes", |b| b.name("a\0b")),
    ];
    for (expected, set) in cases {
        let error = set(RejectionHold::builder()).build().unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error} instead of {expected}");
        assert!(matches!(error, BuildError::Invalid { .. }));
    }
}

#[test]
fn clocks_that_jump_neither_keep_items_nor_break_anything() {
    /// Seconds after a start, set at will.
    struct Jumping(Instant, Arc<AtomicU64>);
    impl Clock for Jumping {
        fn now(&self) -> Instant {
            self.0 + Duration::from_secs(self.1.load(SeqCst))
        }
    }

    let seconds = Arc::new(AtomicU64::new(10_000));
    let clock = Jumping(Instant::now(), Arc::clone(&seconds));
    let hold = RejectionHold::builder().hold_time(10 * SECOND).clock(clock).without_thread();
    let hold = hold.build().unwrap();
    let to = |second| seconds.store(second, SeqCst);
    hold.hold(1);
    to(10_006);
    assert_eq!(hold.release_due(), 0);
    to(0); // Back, even to before the hold was made: the six seconds still count.
    hold.hold(2);
    to(4);
    assert_eq!(hold.release_due(), 1);
    to(1_000_000);
    assert_eq!(hold.release_due(), 1);
    hold.hold(3);
    to(0);
    assert_eq!((hold.release_due(), hold.snapshot().held), (0, 1));
}

#[test]
fn extreme_settings_neither_overflow_nor_panic() {
    let (builder, clock) = by_hand();
    let hold = builder.hold_time(Duration::MAX).max_bytes(u64::MAX).build().unwrap();
    hold.hold_sized("a", u64::MAX);
    hold.hold_sized("b", u64::MAX);
    clock.advance(Duration::MAX);
    assert_eq!((hold.release_due(), hold.snapshot().held), (0, 1));
    assert_eq!(hold.shutdown(Some(Duration::MAX)).released, 1);

    let (builder, clock) = by_hand();
    let hold =
        builder.hold_time(Duration::from_nanos(1)).max_items(1).max_bytes(1).build().unwrap();
    hold.hold_sized("a", 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(hold.release_due(), 1);
}

#[test]
fn a_clock_that_panics_costs_nothing() {
    struct Broken;
    impl Clock for Broken {
        fn now(&self) -> Instant {
            quiet_panic()
        }
    }
    let hold = RejectionHold::builder().clock(Broken).without_thread().build().unwrap();
    hold.hold("a");
    assert_eq!((hold.release_due(), hold.snapshot().held), (0, 1));
    assert_eq!(hold.shutdown(None).released, 1);
}

#[test]
fn body_panics_before_the_release_is_armed() {
    // Whatever path an item goes by, its destructor's panic costs no other item.
    let (builder, clock) = by_hand::<Box<dyn Any + Send>>();
    let hold = builder.max_items(4).build().unwrap();
    let bomb = || -> Box<dyn Any + Send> { Box::new(on_drop(|| quiet_panic())) };
    let drops = Drops::new();
    for _ in 0..3 {
        hold.hold(bomb());
        hold.hold(Box::new(drops.tracked()));
    }
    assert_eq!((hold.snapshot().contained_panics, drops.count()), (1, 1), "by the bound");
    clock.advance(10 * SECOND);
    assert_eq!(hold.release_due(), 4);
    assert_eq!((hold.snapshot().contained_panics, drops.count()), (3, 3), "by time");
    hold.hold(bomb());
    hold.hold(Box::new(drops.tracked()));
    assert_eq!(hold.shutdown(None).released, 2);
    hold.hold(bomb());
    assert_eq!((hold.snapshot().contained_panics, drops.count()), (5, 4), "at the end");
    let now = hold.snapshot();
    assert_eq!((now.held, now.releasing, now.released_by_shutdown), (0, 0, 3));
    check_adds_up(&now);
}

#[test]
fn one_pool_variant_helper_thread_or_callback_left_without_a_panic_guard() {
    let _watchdog = watchdog();
    // On the hold's own thread, with a payload whose destructor panics too.
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            quiet_panic()
        }
    }
    let hold = RejectionHold::<Box<dyn Any + Send>>::builder()
        .hold_time(Duration::from_millis(1))
        .build()
        .unwrap();
    let drops = Drops::new();
    for _ in 0..50 {
        hold.hold(Box::new(Bomb));
        hold.hold(Box::new(on_drop(|| std::panic::resume_unwind(Box::new(Bomb)))));
        hold.hold(Box::new(drops.tracked()));
    }
    eventually("all are gone", || drops.count() == 50 && hold.snapshot().releasing == 0);
    let now = hold.snapshot();
    assert_eq!((now.contained_panics, now.released_by_time, now.held), (100, 150, 0));

    // When the last handle goes, nothing reaches who drops it.
    let hold = for_ever::<Box<dyn Any + Send>>().build().unwrap();
    hold.hold(Box::new(Bomb));
    hold.hold(Box::new(drops.tracked()));
    catch_unwind(AssertUnwindSafe(|| drop(hold))).unwrap();
    assert_eq!(drops.count(), 51);
}

#[test]
fn a_destructor_may_use_the_hold() {
    let _watchdog = watchdog();
    type Item = Box<dyn Any + Send>;
    for threaded in [false, true] {
        let builder = RejectionHold::<Item>::builder().hold_time(Duration::from_millis(1));
        let builder = if threaded { builder } else { builder.without_thread() };
        let hold = builder.build().unwrap();
        let (done, answers) = mpsc::channel();
        let inner = hold.clone();
        hold.hold(Box::new(on_drop(move || {
            inner.hold(Box::new("from within"));
            inner.release_due();
            let report = inner.shutdown(None);
            done.send((report.released, report.remaining, inner.snapshot().held)).unwrap();
        })));
        eventually("released", || threaded || hold.release_due() > 0);
        // The one that asks is being dropped itself, so it can't be waited for.
        let (released, remaining, held) = recv(&answers);
        assert_eq!((released + remaining, remaining >= 1), (2, true));
        assert!(held <= 1);
        let report = hold.shutdown(None);
        assert_eq!((report.released, report.remaining), (2, 0), "threaded: {threaded}");
    }
}

#[test]
fn an_item_may_hold_the_last_handle() {
    let _watchdog = watchdog();
    let drops = Drops::new();
    let hold = RejectionHold::<Box<dyn Any + Send>>::builder()
        .hold_time(Duration::from_millis(1))
        .build()
        .unwrap();
    hold.hold(Box::new((hold.clone(), drops.tracked())));
    hold.hold(Box::new(drops.tracked()));
    drop(hold);
    eventually("all are dropped", || drops.count() == 2);
}

#[test]
fn the_last_handle_releases_what_is_held() {
    let _watchdog = watchdog();
    for builder in [for_ever(), for_ever().without_thread()] {
        let hold = builder.build().unwrap();
        let other = hold.clone();
        let drops = Drops::new();
        for _ in 0..100 {
            hold.hold(drops.tracked());
        }
        drop(hold);
        assert_eq!(drops.count(), 0);
        drop(other);
        assert_eq!(drops.count(), 100, "on the thread that dropped the last handle");
    }
}

#[test]
fn shutdown_releases_all_and_holds_nothing_more() {
    let _watchdog = watchdog();
    for builder in [for_ever(), for_ever().without_thread()] {
        let hold = builder.build().unwrap();
        let drops = Drops::new();
        for _ in 0..100 {
            hold.hold(drops.tracked());
        }
        let report = hold.shutdown(Some(STEP));
        assert_eq!((report.released, report.remaining, drops.count()), (100, 0, 100));
        hold.hold(drops.tracked());
        assert_eq!((drops.count(), hold.snapshot().held), (101, 0));
        assert_eq!(hold.snapshot().released_by_shutdown, 101);
        let again = hold.shutdown(None);
        assert_eq!((again.released, again.remaining), (100, 0));
        check_adds_up(&hold.snapshot());
    }
}

#[test]
fn shutdown_comes_back_in_time_although_a_destructor_blocks() {
    let _watchdog = watchdog();
    let hold = for_ever::<Box<dyn Any + Send>>().build().unwrap();
    let gate = Gate::new();
    let drops = Drops::new();
    let entered = Gate::new();
    let (held, seen) = (gate.clone(), entered.clone());
    hold.hold(Box::new(on_drop(move || {
        seen.open();
        held.wait();
    })));
    for _ in 0..9 {
        hold.hold(Box::new(drops.tracked()));
    }
    // Zero is not "without end".
    let report = hold.shutdown(Some(Duration::ZERO));
    assert_eq!(report.released + report.remaining, 10);
    entered.wait();
    let report = hold.shutdown(Some(Duration::from_millis(1)));
    assert_eq!((report.released, report.remaining), (0, 10));
    gate.open();
    let report = hold.shutdown(None);
    assert_eq!((report.released, report.remaining, drops.count()), (10, 0, 9));
}

#[test]
fn two_shutdowns_at_once_both_see_the_end() {
    let _watchdog = watchdog();
    for _ in 0..rounds_in(50, 500) {
        let hold = for_ever().build().unwrap();
        let drops = Drops::new();
        for _ in 0..10 {
            hold.hold(drops.tracked());
        }
        let end = || {
            let report = hold.shutdown(None);
            (report.released, report.remaining, drops.count())
        };
        assert_eq!(race(end, end), ((10, 0, 10), (10, 0, 10)));
    }
}

#[test]
fn nothing_is_lost_between_the_threads_exit_and_the_next_item() {
    let _watchdog = watchdog();
    // So short a time that the thread is about to leave whenever the next item comes.
    let hold = RejectionHold::builder().hold_time(Duration::from_nanos(1)).build().unwrap();
    let drops = Drops::new();
    let rounds = rounds_in(300, 3_000);
    for round in 1..=rounds {
        hold.hold(drops.tracked());
        if round % 3 == 0 {
            eventually("released by the thread alone", || drops.count() == round);
        }
    }
    eventually("released by the thread alone", || drops.count() == rounds);
    assert_eq!(hold.snapshot().released_by_time, rounds as u64);
}

#[test]
fn many_threads_hold_while_it_is_shut_down() {
    let _watchdog = watchdog();
    for _ in 0..rounds_in(30, 300) {
        let hold = RejectionHold::builder()
            .hold_time(Duration::from_nanos(1))
            .max_items(3)
            .build()
            .unwrap();
        let drops = Drops::new();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        hold.hold(drops.tracked());
                    }
                });
            }
            assert_eq!(hold.shutdown(None).remaining, 0);
        });
        assert_eq!((drops.count(), hold.snapshot().held), (150, 0));
        assert_eq!(hold.snapshot().accepted, 150);
        check_adds_up(&hold.snapshot());
    }
}

#[test]
fn thread_creation_fails_permit_lost_or_queued_work_orphaned_or_silent() {
    let _watchdog = watchdog();
    let hold = for_ever().stack_size(IMPOSSIBLE_STACK).build().unwrap();
    let drops = Drops::new();
    for count in 1..=10 {
        hold.hold(drops.tracked());
        assert_eq!(drops.count(), count, "released at once, by who brought it");
    }
    let now = hold.snapshot();
    assert_eq!((now.held, now.released_without_thread, now.contained_panics), (0, 10, 0));
    assert_eq!(hold.shutdown(None).released, 0);

    // A destructor that panics, with many callers.
    let hold = for_ever().stack_size(IMPOSSIBLE_STACK).build().unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    hold.hold(on_drop(|| quiet_panic()));
                }
            });
        }
    });
    let now = hold.snapshot();
    assert_eq!((now.held, now.releasing, now.released_without_thread), (0, 0, 100));
    assert_eq!(now.contained_panics, 100);
}

#[cfg(target_os = "linux")]
#[test]
fn there_is_one_thread_at_most_and_none_while_nothing_is_held() {
    let _watchdog = watchdog();
    let clock = ManualClock::new();
    let hold = RejectionHold::builder().hold_time(10 * SECOND).clock(clock.clone());
    let hold = hold.name("one-hold-thread").build().unwrap();
    assert_eq!(threads_named("one-hold-thread"), 0);
    for _ in 0..1_000 {
        hold.hold("item");
    }
    eventually("the thread is there", || threads_named("one-hold-thread") == 1);
    clock.advance(10 * SECOND);
    hold.release_due();
    eventually("the thread is gone", || threads_named("one-hold-thread") == 0);
    hold.hold("item");
    eventually("the thread is there", || threads_named("one-hold-thread") == 1);
    drop(hold);
    eventually("the thread is gone", || threads_named("one-hold-thread") == 0);
}

#[test]
fn a_hold_without_a_thread_makes_none() {
    // A stack that can't be had would show.
    let (builder, clock) = by_hand();
    let hold = builder.stack_size(IMPOSSIBLE_STACK).build().unwrap();
    hold.hold("item");
    assert_eq!((hold.snapshot().held, hold.snapshot().released_without_thread), (1, 0));
    clock.advance(10 * SECOND);
    assert_eq!(hold.release_due(), 1);
}

/// CPU time of this thread's process in nanoseconds.
#[cfg(unix)]
fn cpu_ns() -> u64 {
    // SAFETY: all zero is a valid `rusage`, and the place is ours.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &raw mut usage), 0);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

#[test]
fn idle_workers_spin() {
    // Counted in looks at the clock, not in CPU time: the thread looks each time it wakes up.
    #[derive(Clone)]
    struct Counting(ManualClock, Arc<AtomicU64>);
    impl Clock for Counting {
        fn now(&self) -> Instant {
            self.1.fetch_add(1, SeqCst);
            self.0.now()
        }
    }
    let _watchdog = watchdog();
    let clock = Counting(ManualClock::new(), Arc::default());
    // Held, and never due, although the clock stands a nanosecond before it.
    let hold_time = Duration::from_millis(80);
    let hold = RejectionHold::builder().hold_time(hold_time).clock(clock.clone()).build().unwrap();
    hold.hold("item");
    clock.0.advance(hold_time - Duration::from_nanos(1));
    hold.hold("second");
    hold.release_due();
    let begin = Instant::now();
    let before = clock.1.load(SeqCst);
    eventually("the thread has looked three times", || clock.1.load(SeqCst) >= before + 6);
    // Two looks for each wake-up, 10 ms apart at least: slower is always right.
    let looks = clock.1.load(SeqCst) - before;
    let wakes = begin.elapsed().as_millis() as u64 / 10 + 2;
    assert!(looks <= 2 * wakes, "{looks} looks in {:?}", begin.elapsed());
}

#[test]
fn background_task_pins_a_requests_context() {
    thread_local! {
        static CONTEXT: std::cell::RefCell<Option<Arc<()>>> = const { std::cell::RefCell::new(None) };
    }
    let _watchdog = watchdog();
    let hold = for_ever().build().unwrap();
    let request = Arc::new(());
    let (handle, context) = (hold.clone(), Arc::clone(&request));
    elsewhere(move || {
        CONTEXT.set(Some(Arc::clone(&context)));
        let _in_a_closure = context;
        handle.hold("refused");
    })
    .wait();
    // The hold's thread was started in there, and lives on.
    assert_eq!(hold.snapshot().held, 1);
    eventually("nothing has kept the context", || Arc::strong_count(&request) == 1);
}

#[test]
fn held_connections_hold_no_admission_slot() {
    let pool = weirpool::Pool::new(1, 1).unwrap();
    let hold = for_ever().build().unwrap();
    for _ in 0..50 {
        hold.hold(pool.try_reserve().map(drop));
    }
    assert_eq!((pool.in_flight(), hold.snapshot().held), (0, 50));
    assert!(pool.try_reserve().is_ok());
}

#[test]
fn handles_are_what_they_should_be() {
    fn check<T: Clone + Send + Sync + UnwindSafe + RefUnwindSafe + std::fmt::Debug>(_: &T) {}
    struct NotSync(#[allow(dead_code)] std::cell::Cell<u8>);
    let hold = RejectionHold::<NotSync>::new().unwrap();
    check(&hold);
    hold.hold(NotSync(std::cell::Cell::new(0)));
    assert!(format!("{hold:?}").contains("held: 1"));
    assert!(format!("{:?}", RejectionHold::<()>::builder()).contains("max_items: 1024"));
}

#[cfg(unix)]
#[test]
fn pool_used_after_fork() {
    let _watchdog = watchdog();
    let drops = Drops::new();
    let hold = for_ever().build().unwrap();
    hold.hold(drops.tracked());
    // SAFETY: the child only uses the hold and leaves by `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            // SAFETY: ends a child that hangs.
            unsafe { libc::alarm(20) };
            let in_child = drops.count();
            hold.hold(drops.tracked());
            let mut right = drops.count() == in_child + 1;
            right &= hold.release_due() == 0;
            right &= hold.shutdown(None).released == 0;
            right &= hold.snapshot() == HoldSnapshot::default();
            drop(hold);
            right &= drops.count() == in_child + 1;
            // SAFETY: ends the child without destructors.
            unsafe { libc::_exit(i32::from(!right)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: our child, and a valid place.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:x}");
        }
    }
    assert_eq!((hold.shutdown(None).released, drops.count()), (1, 1));
}

/// `accept` as a stub: what it returns by turns, against a clock that moves by the waits alone.
struct Accepts {
    backoff: AcceptBackoff,
    start: Instant,
    now: Instant,
    calls_at: Vec<Duration>,
}

impl Accepts {
    fn new() -> Self {
        let now = Instant::now();
        Self { backoff: AcceptBackoff::new(), start: now, now, calls_at: Vec::new() }
    }

    fn fail(&mut self, errno: i32) -> AcceptNext {
        self.calls_at.push(self.now - self.start);
        // Even a call that fails takes some time.
        self.now += Duration::from_micros(5);
        let error = std::io::Error::from_raw_os_error(errno);
        let next = self.backoff.failed(&error, self.now);
        if let AcceptNext::After(wait) = next {
            self.now += wait;
        }
        next
    }

    fn most_calls_in_a_second(&self) -> usize {
        // The calls are in order, so those of a second are neighbours.
        let calls = &self.calls_at;
        let within = |(first, from): (usize, &Duration)| {
            calls[first..].partition_point(|at| *at < *from + SECOND)
        };
        calls.iter().enumerate().map(within).max().unwrap_or(0)
    }
}

#[cfg(unix)]
#[test]
fn accept_loop_on_emfile_spins() {
    for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS, libc::EINVAL] {
        let mut accepts = Accepts::new();
        for _ in 0..10_000 {
            accepts.fail(errno);
        }
        assert!(accepts.most_calls_in_a_second() < 30, "{errno}");
        assert!(accepts.backoff.left(accepts.now).is_zero(), "the wait ends by itself");
        accepts.backoff.succeeded();
        let wait = Duration::from_millis(10);
        assert_eq!(accepts.fail(libc::EMFILE), AcceptNext::After(wait), "as after no failure");
    }
}

#[cfg(unix)]
#[test]
fn an_aborted_connection_costs_no_wait_and_a_thousand_do() {
    for errno in [libc::ECONNABORTED, libc::EINTR, libc::EPROTO, libc::ENETDOWN, libc::EPERM] {
        let mut accepts = Accepts::new();
        for _ in 0..16 {
            assert_eq!(accepts.fail(errno), AcceptNext::Now, "{errno}");
        }
        for _ in 0..1_000 {
            accepts.fail(errno);
        }
        assert!(accepts.most_calls_in_a_second() < 30, "{errno}");
    }
    let mut accepts = Accepts::new();
    for _ in 0..100 {
        assert_eq!(accepts.fail(libc::EAGAIN), AcceptNext::WhenReady);
    }
}

#[cfg(unix)]
#[test]
fn who_does_not_wait_lengthens_nothing_and_no_clock_makes_it_stick() {
    let emfile = std::io::Error::from_raw_os_error(libc::EMFILE);
    let start = Instant::now() + 100 * SECOND;
    let ms = Duration::from_millis;
    let mut backoff = AcceptBackoff::between(ms(10), ms(40)).unwrap();
    assert_eq!(backoff.failed(&emfile, start), AcceptNext::After(ms(10)));
    for passed in 0..10 {
        let now = start + ms(passed);
        assert_eq!(backoff.failed(&emfile, now), AcceptNext::After(ms(10 - passed)));
        assert_eq!(backoff.left(now), ms(10 - passed));
    }
    assert_eq!(backoff.failed(&emfile, start + ms(10)), AcceptNext::After(ms(20)));
    // An hour back: nobody waits for it to catch up.
    let back = start - 50 * SECOND;
    assert_eq!(backoff.left(back), Duration::ZERO);
    assert_eq!(backoff.failed(&emfile, back), AcceptNext::After(ms(40)));
    // Far ahead.
    let ahead = start + 100_000 * SECOND;
    assert_eq!(backoff.left(ahead), Duration::ZERO);
    assert_eq!(backoff.failed(&emfile, ahead), AcceptNext::After(ms(40)));

    let mut for_ever = AcceptBackoff::between(Duration::MAX, Duration::MAX).unwrap();
    assert_eq!(for_ever.failed(&emfile, start), AcceptNext::After(Duration::MAX));
    assert_eq!(for_ever.failed(&emfile, back), AcceptNext::After(Duration::MAX));
    for (first, longest, setting) in [(ms(0), ms(1), "first"), (ms(2), ms(1), "longest")] {
        let error = AcceptBackoff::between(first, longest).unwrap_err().to_string();
        assert!(error.starts_with(setting), "{error}");
    }
}

/// Not a test: what holding costs. Run it in a release build:
/// `cargo test --release --test hold figures -- --ignored --nocapture`.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "prints figures, judges nothing"]
fn figures() {
    fn resident_kib() -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4
    }
    const ITEMS: usize = 100_000;
    let hold_time = 3 * SECOND;
    let hold = RejectionHold::builder().hold_time(hold_time).max_items(ITEMS).build().unwrap();
    let (memory, cpu, begin) = (resident_kib(), cpu_ns(), Instant::now());
    for item in 0..ITEMS {
        hold.hold(item as u64);
    }
    let (took, work) = (begin.elapsed(), cpu_ns() - cpu);
    let held = resident_kib() - memory;
    println!("{ITEMS} items in: {took:?}, {} ns of CPU each, {held} KiB", work / ITEMS as u64);
    let (cpu, begin) = (cpu_ns(), Instant::now());
    while hold.snapshot().held == ITEMS {
        thread::park_timeout(Duration::from_millis(20));
    }
    println!("held for {:?}: {} µs of CPU", begin.elapsed(), (cpu_ns() - cpu) / 1_000);
    let (cpu, begin) = (cpu_ns(), Instant::now());
    while hold.snapshot().held > 0 {
        thread::yield_now();
    }
    println!("released in {:?}", begin.elapsed());
    let cpu = (cpu_ns() - cpu) / ITEMS as u64;
    println!(
        "at most {cpu} ns of CPU each; left over {} KiB",
        resident_kib().saturating_sub(memory)
    );
    let (cpu, begin) = (cpu_ns(), Instant::now());
    for item in 0..10 * ITEMS {
        hold.hold(item as u64);
    }
    let each = (cpu_ns() - cpu) / (10 * ITEMS) as u64;
    println!("{} items at a full hold: {:?}, {each} ns of CPU each", 10 * ITEMS, begin.elapsed());
    let stopped = AtomicBool::new(hold.shutdown(None).remaining == 0);
    assert!(stopped.load(SeqCst));
}
