use proptest::prelude::*;

use super::counter::{counts_evenly, is_trusted};
use super::measure::{LONGEST_NS, Measure, STRETCH_NS, Verdict};
use super::now_ns;
use super::rate::{FIRST_NS, Pair, Rate, SPAN_TICKS, WIDEST_TICKS};
use crate::sense::clock::Timeline;
use crate::sense::fixture::Tree;
use crate::sync::stat::{Arc, AtomicU64, Relaxed};
use crate::sync::{system_now, system_ns, thread};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

fn pair(ticks: u64, ns: u64) -> Pair {
    Pair { ticks, ns }
}

/// Of a counter with so many ticks per microsecond.
fn rate(mhz: u64) -> Rate {
    Rate::between(pair(0, 0), pair(mhz * 1_000, MS)).unwrap()
}

#[test]
fn a_time_lies_within_a_span_of_the_last_answer_and_after_the_last_reading() {
    let at = |ticks, last_ns| pair(10_000, 1_000).ns_at(ticks, rate(2_000), last_ns);
    for (ticks, last_ns, expected) in [
        (10_002, 1_000, Some(1_001)),
        (12_000, 1_000, Some(2_000)),
        (10_000 + SPAN_TICKS - 1, 0, Some(1_000 + SPAN_TICKS / 2 - 1)),
        // Beyond the span, before the answer, the ends of the word.
        (10_000 + SPAN_TICKS, 0, None),
        (9_999, 0, None),
        (0, 0, None),
        (u64::MAX, 0, None),
        // The counter stands still, or stood at the last reading.
        (10_000, 1_000, None),
        (12_000, 2_000, None),
        (12_000, u64::MAX, None),
    ] {
        assert_eq!(at(ticks, last_ns), expected, "{ticks} ticks after {last_ns} ns");
    }
}

#[test]
fn a_counter_and_a_clock_may_go_over_the_end_of_their_words() {
    let late = pair(u64::MAX - 1_000, u64::MAX - 1_000);
    assert_eq!(late.ns_at(99, rate(2_000), 0), Some(u64::MAX - 450));
    assert_eq!(late.ns_at(2_999, rate(2_000), 0), Some(u64::MAX));
}

#[test]
fn a_thread_without_an_answer_has_no_time() {
    for mhz in [200, 3_000, 20_000] {
        for ticks in [0, 1, SPAN_TICKS - 1, SPAN_TICKS, 1 << 63, u64::MAX] {
            assert_eq!(Pair::NONE.ns_at(ticks, rate(mhz), FIRST_NS), None, "{mhz} {ticks}");
        }
    }
}

#[test]
fn an_answer_that_took_long_belongs_to_no_moment() {
    for (before, after, narrow) in [
        (100, 100, true),
        (100, 100 + WIDEST_TICKS, true),
        (100, 101 + WIDEST_TICKS, false),
        (100, 99, false),
        (u64::MAX, 9, true),
        (0, u64::MAX, false),
    ] {
        let expected = narrow.then_some(pair(before, 7));
        assert_eq!(Pair::between(before, 7, after), expected, "{before} {after}");
    }
}

#[test]
fn a_rate_is_that_of_a_counter_that_can_be() {
    let from = pair(1_000, 5_000);
    for (to, possible) in [
        (pair(1_200, 6_000), true),
        (pair(21_000, 6_000), true),
        (pair(1_199, 6_000), false),
        (pair(21_001, 6_000), false),
        (pair(1_000, 6_000), false),
        (pair(2_000, 5_000), false),
        (pair(999, 6_000), false),
        (pair(2_000, 4_999), false),
        (pair(u64::MAX, 6_000), false),
        (pair(1_001, u64::MAX), false),
        (pair(u64::MAX, u64::MAX), true),
        (pair(0, 0), false),
    ] {
        assert_eq!(Rate::between(from, to).is_some(), possible, "{to:?}");
    }
}

#[test]
fn a_word_is_a_rate_or_none() {
    assert_eq!(Rate::from_word(Rate::word(None)), None);
    assert_eq!(Rate::from_word(Rate::word(Some(rate(2_600)))), Some(rate(2_600)));
}

/// A machine: a counter, and the kernel's clock.
struct Machine {
    measure: Measure,
    now: Pair,
    ticks_per_us: u64,
}

impl Machine {
    fn new() -> Self {
        Self { measure: Measure::new(), now: pair(77, 13 * S), ticks_per_us: 2_600 }
    }

    fn pass(&mut self, ns: u64) {
        self.now.ns += ns;
        self.now.ticks += ns * self.ticks_per_us / 1_000;
    }

    fn measures_after(&mut self, ns: u64) -> Verdict {
        self.pass(ns);
        self.measure.note(self.now.ns, Some(self.now))
    }

    fn confirmed() -> Self {
        let mut machine = Self::new();
        for confirmed in [false, false, true] {
            assert_eq!(machine.measures_after(STRETCH_NS).rate.is_some(), confirmed);
        }
        machine
    }

    /// How long it takes until the rate is believed (again), if all threads ask as soon as it is due.
    fn believed_after(&mut self, mut verdict: Verdict) -> u64 {
        let from_ns = self.now.ns;
        while verdict.rate.is_none() {
            verdict = self.measures_after(verdict.due_ns - self.now.ns);
        }
        self.now.ns - from_ns
    }
}

#[test]
fn a_rate_is_believed_once_it_was_the_same_twice() {
    let mut machine = Machine::new();
    let first = machine.measures_after(0);
    assert_eq!(first, Verdict { rate: None, due_ns: 13 * S + STRETCH_NS });
    assert_eq!(machine.measures_after(STRETCH_NS).rate, None);
    let third = machine.measures_after(STRETCH_NS);
    assert_eq!(third, Verdict { rate: Some(rate(2_600)), due_ns: 13 * S + 3 * STRETCH_NS });
}

#[test]
fn the_rate_follows_a_daemon_that_keeps_the_time() {
    let mut machine = Machine::confirmed();
    for ticks_per_us in [2_601, 2_602, 2_600, 2_598] {
        machine.ticks_per_us = ticks_per_us;
        assert_eq!(machine.measures_after(STRETCH_NS).rate, Some(rate(ticks_per_us)));
    }
}

#[test]
fn a_stretch_that_is_too_short_says_nothing() {
    let mut machine = Machine::confirmed();
    let due_ns = machine.now.ns + STRETCH_NS;
    machine.ticks_per_us = 9;
    assert_eq!(machine.measures_after(1), Verdict { rate: Some(rate(2_600)), due_ns });
}

#[test]
fn an_answer_that_took_long_is_asked_for_again_until_the_rate_is_too_old() {
    let mut machine = Machine::confirmed();
    for (ns, believed) in [(STRETCH_NS, true), (LONGEST_NS - STRETCH_NS, true), (1, false)] {
        machine.pass(ns);
        let verdict = machine.measure.note(machine.now.ns, None);
        assert_eq!(verdict.rate.is_some(), believed, "{ns}");
        assert_eq!(verdict.due_ns, machine.now.ns + STRETCH_NS);
    }
}

#[test]
fn after_a_pause_or_a_sleep_it_is_measured_anew() {
    let mut machine = Machine::confirmed();
    let verdict = machine.measures_after(LONGEST_NS + 1);
    assert_eq!(verdict.rate, None);
    assert_eq!(machine.believed_after(verdict), 2 * STRETCH_NS);
    // The counter went on while the clock stood, or the other way round.
    for ticks in [1 << 40, 1] {
        let mut machine = Machine::confirmed();
        machine.now.ticks += ticks;
        machine.now.ns += 2 * LONGEST_NS;
        let verdict = machine.measures_after(0);
        assert_eq!(machine.believed_after(verdict), 2 * STRETCH_NS, "{ticks}");
    }
}

#[test]
fn a_contradiction_is_followed_by_a_pause_that_grows() {
    type Change = fn(&mut Machine);
    let changes: [(&str, Change); 6] = [
        ("another frequency", |machine| machine.ticks_per_us += 300),
        ("a counter that stands still", |machine| machine.now.ticks -= 2_600 * 16_000),
        ("a counter that goes back", |machine| machine.now.ticks = 0),
        ("a counter that jumps ahead", |machine| machine.now.ticks += 1 << 50),
        ("a short sleep", |machine| machine.now.ticks += 1 << 20),
        ("a slewed clock", |machine| machine.now.ns += MS),
    ];
    for (name, change) in changes {
        let mut machine = Machine::confirmed();
        for pause in [4, 16, 64, 256] {
            change(&mut machine);
            machine.pass(STRETCH_NS);
            let verdict = machine.measures_after(0);
            let due_ns = machine.now.ns + pause * STRETCH_NS;
            assert_eq!(verdict, Verdict { rate: None, due_ns }, "{name}");
            assert!(machine.measure.is_at_beginning(), "{name}");
            assert_eq!(machine.believed_after(verdict), (pause + 2) * STRETCH_NS, "{name}");
        }
    }
}

#[test]
fn a_counter_that_always_contradicts_is_left_alone_for_good() {
    let mut machine = Machine::new();
    let mut verdict = machine.measures_after(0);
    for _ in 0..200 {
        assert_eq!(verdict.rate, None);
        machine.now.ns = verdict.due_ns;
        verdict = machine.measure.note(machine.now.ns, Some(machine.now));
    }
    assert_eq!(verdict.due_ns, u64::MAX);
}

#[test]
fn a_clock_that_goes_back_starts_it_all_anew() {
    let mut machine = Machine::confirmed();
    machine.now.ns = 0;
    assert_eq!(machine.measures_after(0), Verdict { rate: None, due_ns: STRETCH_NS });
}

proptest! {
    #[test]
    fn no_pair_and_no_time_is_too_odd(
        notes in proptest::collection::vec((any::<u64>(), any::<Option<u64>>(), any::<bool>()), 0..60)
    ) {
        let mut measure = Measure::new();
        let mut now_ns = 0_u64;
        for (ns, ticks, near) in notes {
            now_ns = if near { now_ns.saturating_add(ns % S) } else { ns };
            let verdict = measure.note(now_ns, ticks.map(|ticks| pair(ticks, now_ns)));
            prop_assert!(verdict.due_ns >= now_ns);
        }
    }

    /// Whatever the counter does, the time is never further from the kernel's last answer than a span
    /// takes at the rate in use, never goes backwards, and never stays where the kernel's went on.
    #[test]
    fn no_error_is_larger_than_a_span(
        mhz in 200_u64..20_000,
        steps in proptest::collection::vec((0..4 * SPAN_TICKS, 0..MS, any::<Option<u64>>()), 1..60),
    ) {
        let rate = rate(mhz);
        let span_ns = SPAN_TICKS * 1_000 / mhz + 1;
        let (mut real, mut anchor, mut last_ns) = (pair(9, S), Pair::NONE, FIRST_NS);
        for (ticks, ns, jump) in steps {
            real.ticks = jump.unwrap_or_else(|| real.ticks.wrapping_add(ticks));
            real.ns += ns;
            let before_ns = last_ns;
            last_ns = anchor.ns_at(real.ticks, rate, last_ns).unwrap_or_else(|| {
                anchor = real;
                real.ns.max(before_ns)
            });
            prop_assert!(last_ns >= before_ns);
            prop_assert!(last_ns <= real.ns + span_ns);
            prop_assert!(last_ns > before_ns || anchor == real);
        }
    }

    /// With pairs and readings as late as they may be, and a clock slewed as far as is believed.
    #[test]
    fn a_sound_counter_gives_the_time_to_within_a_microsecond(
        mhz in 2_000_u64..5_000,
        late in proptest::collection::vec(0..=WIDEST_TICKS, 4),
        since in 1..SPAN_TICKS,
        slewed_ppm in -450_i64..450,
    ) {
        let exact = |ticks: u64, ppm: i64| ticks as f64 * 1_000.0 / mhz as f64 * (1.0 + ppm as f64 * 1e-6);
        let at = |stretch: u64| stretch * 17 * mhz * 1_000;
        let real_ns = |ticks: u64| S + exact(ticks, 0) as u64;
        let answer = |ticks: u64, late: u64| pair(ticks, real_ns(ticks + late));
        let mut measure = Measure::new();
        let mut rate = None;
        for stretch in 0..3 {
            let pair = answer(at(stretch), late[stretch as usize]);
            rate = measure.note(pair.ns, Some(pair)).rate;
        }
        let anchor = answer(at(3), late[3]);
        let ns = anchor.ns_at(at(3) + since, rate.unwrap(), 0).unwrap();
        // The kernel's clock has another rate since the anchor.
        let kernels_ns = real_ns(at(3)) + exact(since, slewed_ppm) as u64;
        prop_assert!(ns.abs_diff(kernels_ns) < 1_000, "{} {}", ns, kernels_ns);
    }
}

const SOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";

#[test]
fn the_kernel_must_use_the_counter_itself() {
    assert!(!is_trusted(Tree::new(&[]).root()));
    assert_eq!(is_trusted(Tree::new(&[(SOURCE, "tsc\n")]).root()), counts_evenly());
    for other in ["kvm-clock\n", "hpet\n", "tsc-early\n", "hyperv_clocksource_tsc_page\n", ""] {
        assert!(!is_trusted(Tree::new(&[(SOURCE, other)]).root()), "{other}");
    }
}

/// Whether by the counter or not: three threads read, each through many spans and measures.
#[test]
fn the_time_is_the_kernels_and_never_goes_backwards() {
    let reads = || {
        let until_ns = system_ns() + 8 * STRETCH_NS;
        let mut last_ns = 0;
        loop {
            let (before_ns, now_ns, after_ns) = (system_ns(), now_ns(), system_ns());
            assert!(now_ns >= last_ns);
            // A span and no more, whatever the machine has been through.
            assert!(now_ns + FIRST_NS >= before_ns, "{now_ns} is before {before_ns}");
            assert!(now_ns <= after_ns + FIRST_NS, "{now_ns} is after {after_ns}");
            last_ns = now_ns;
            if after_ns >= until_ns {
                break;
            }
        }
    };
    let threads = [(); 3].map(|()| thread::spawn(reads));
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_deadline_that_has_passed_does_not_lie_ahead() {
    let time = Timeline::new(None);
    for _ in 0..1_000 {
        let passed = system_now();
        assert!(time.ns_at(passed) <= time.now_ns() + FIRST_NS);
        assert!(time.instant_at(time.now_ns() + FIRST_NS).unwrap() >= passed);
    }
}

#[test]
fn the_time_can_be_read_while_a_thread_ends() {
    struct Last(Arc<AtomicU64>);

    impl Drop for Last {
        fn drop(&mut self) {
            self.0.store(now_ns(), Relaxed);
        }
    }

    std::thread_local! {
        static LAST: std::cell::OnceCell<Last> = const { std::cell::OnceCell::new() };
    }

    let (began_ns, read_ns) = (now_ns(), Arc::new(AtomicU64::new(0)));
    let last = Last(Arc::clone(&read_ns));
    thread::spawn(move || {
        LAST.with(|cell| assert!(cell.set(last).is_ok()));
        now_ns();
    })
    .join()
    .unwrap();
    assert!(read_ns.load(Relaxed) + FIRST_NS >= began_ns);
}
