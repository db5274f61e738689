//! Random histories against a model that keeps every call and adds nothing up.

use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use weirpool::breaker::{Builder, CircuitBreaker, State};

use super::common::clocks::JumpyClock;
use super::script::{Begun, End, FACES, begin, blaming};

const MS: u64 = 1_000_000;

#[derive(Clone, Debug)]
struct Config {
    bucket_ns: u64,
    buckets: u64,
    min_volume: u64,
    failure_rate: f64,
    slow: Option<(u64, f64)>,
    cool_down_ns: u64,
    longest_ns: u64,
    probes: usize,
    lease_ns: u64,
}

impl Config {
    fn builder(&self) -> Builder {
        let builder = CircuitBreaker::builder()
            .window(Duration::from_nanos(self.bucket_ns * self.buckets))
            .buckets(self.buckets as usize)
            .min_volume(self.min_volume)
            .failure_rate(self.failure_rate)
            .cool_down(Duration::from_nanos(self.cool_down_ns))
            .cool_down_growth(2.0, Duration::from_nanos(self.longest_ns))
            .probes(self.probes)
            .probe_lease(Duration::from_nanos(self.lease_ns));
        match self.slow {
            Some((threshold_ns, rate)) => {
                builder.slow_calls(Duration::from_nanos(threshold_ns), rate)
            }
            None => builder,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Wait(u64),
    SetBack(u64),
    Begin,
    /// Which of those under way.
    End(usize, End),
    ForceOpen,
    ForceClosed,
    Automatic,
}

/// A call under way.
#[derive(Clone, Copy)]
struct Call {
    era: u64,
    begun_ns: u64,
    lease_end_ns: Option<u64>,
}

/// A call that was recorded.
struct Record {
    at_ns: u64,
    failed: bool,
    slow: bool,
}

/// What a breaker should do, in the plainest way.
struct Model {
    config: Config,
    now_ns: u64,
    state: State,
    era: u64,
    records: Vec<Record>,
    calls: Vec<Call>,
    succeeded: usize,
    open_until_ns: u64,
    cool_down_ns: u64,
    next_cool_down_ns: u64,
    refused: u64,
    late: u64,
}

impl Model {
    fn new(config: Config) -> Self {
        let cool_down_ns = config.cool_down_ns;
        Self {
            config,
            now_ns: 0,
            state: State::Closed,
            era: 0,
            records: Vec::new(),
            calls: Vec::new(),
            succeeded: 0,
            open_until_ns: 0,
            cool_down_ns,
            next_cool_down_ns: cool_down_ns,
            refused: 0,
            late: 0,
        }
    }

    fn enter(&mut self, state: State) {
        (self.state, self.succeeded) = (state, 0);
        self.era += 1;
        match state {
            State::Open => {
                self.cool_down_ns = self.next_cool_down_ns;
                self.open_until_ns = self.now_ns + self.cool_down_ns;
                self.next_cool_down_ns = (2 * self.cool_down_ns).min(self.config.longest_ns);
            }
            State::HalfOpen => {}
            State::Closed => {
                self.records.clear();
                self.next_cool_down_ns = self.config.cool_down_ns;
            }
            _ => self.records.clear(),
        }
    }

    fn is_inside(&self, call: &Call) -> bool {
        call.era == self.era && call.lease_end_ns.is_some_and(|end_ns| end_ns > self.now_ns)
    }

    fn inside(&self) -> usize {
        self.calls.iter().filter(|call| self.is_inside(call)).count()
    }

    /// Whether a call is let in.
    fn begin(&mut self) -> bool {
        if self.state == State::Open && self.now_ns >= self.open_until_ns {
            self.enter(State::HalfOpen);
        }
        let lease_end_ns = match self.state {
            State::Closed | State::ForcedClosed => None,
            State::HalfOpen if self.inside() + self.succeeded < self.config.probes => {
                Some(self.now_ns + self.config.lease_ns)
            }
            _ => {
                self.refused += 1;
                return false;
            }
        };
        self.calls.push(Call { era: self.era, begun_ns: self.now_ns, lease_end_ns });
        true
    }

    fn end(&mut self, which: usize, end: End) {
        let call = self.calls[which];
        let in_time =
            call.era == self.era && (call.lease_end_ns.is_none() || self.is_inside(&call));
        self.calls.remove(which);
        if !in_time {
            self.late += 1;
            return;
        }
        let took_ns = self.now_ns - call.begun_ns;
        let slow = self.config.slow.is_some_and(|(threshold_ns, _)| took_ns >= threshold_ns);
        let failed = matches!(end, End::Fails | End::Panics);
        if end == End::IsIgnored || (end == End::IsGivenUp && !slow) {
            return;
        }
        if self.state == State::HalfOpen {
            if failed || slow {
                self.enter(State::Open);
            } else {
                self.succeeded += 1;
                if self.succeeded == self.config.probes {
                    self.enter(State::Closed);
                }
            }
            return;
        }
        self.records.push(Record { at_ns: self.now_ns, failed, slow });
        let (calls, failures, slow) = self.counts();
        let slow_rate = self.config.slow.map_or(f64::INFINITY, |(_, rate)| rate);
        let reached = failures as f64 / calls as f64 >= self.config.failure_rate
            || slow as f64 / calls as f64 >= slow_rate;
        if self.state == State::Closed && calls >= self.config.min_volume && reached {
            self.enter(State::Open);
        }
    }

    fn counts(&self) -> (u64, u64, u64) {
        let bucket = |ns: u64| ns / self.config.bucket_ns;
        let recent =
            |record: &&Record| bucket(self.now_ns) - bucket(record.at_ns) < self.config.buckets;
        let recent: Vec<_> = self.records.iter().filter(recent).collect();
        let count =
            |what: fn(&Record) -> bool| recent.iter().filter(|record| what(record)).count() as u64;
        (recent.len() as u64, count(|record| record.failed), count(|record| record.slow))
    }

    fn next_probe_ns(&self) -> Option<u64> {
        match self.state {
            State::Open => Some(self.open_until_ns.saturating_sub(self.now_ns)),
            State::HalfOpen if self.inside() + self.succeeded < self.config.probes => Some(0),
            State::HalfOpen => {
                let inside = self.calls.iter().filter(|call| self.is_inside(call));
                inside.filter_map(|call| call.lease_end_ns).min().map(|end| end - self.now_ns)
            }
            _ => None,
        }
    }
}

fn config() -> impl Strategy<Value = Config> {
    let window = (1..5_u64, 1..100_u64);
    let rate = prop_oneof![Just(0.25), Just(0.5), Just(1.0)];
    let slow = prop::option::of((1..80_u64, prop_oneof![Just(0.5), Just(1.0)]));
    let times = (1..100_u64, 1..4_u64, 1..100_u64);
    (window, 1..6_u64, rate, slow, times, 1..4_usize).prop_map(
        |((buckets, bucket_ms), min_volume, failure_rate, slow, times, probes)| Config {
            bucket_ns: bucket_ms * MS,
            buckets,
            min_volume,
            failure_rate,
            slow: slow.map(|(threshold_ms, rate)| (threshold_ms * MS, rate)),
            cool_down_ns: times.0 * MS,
            longest_ns: times.0 * times.1 * MS,
            probes,
            lease_ns: times.2 * MS,
        },
    )
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        4 => Just(End::Succeeds),
        4 => Just(End::Fails),
        1 => Just(End::Panics),
        1 => Just(End::IsIgnored),
        2 => Just(End::IsGivenUp),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..60_u64).prop_map(|ms| Step::Wait(ms * MS)),
        1 => (0..400_u64).prop_map(|ms| Step::Wait(ms * MS)),
        // Far enough to be a jump, whatever has gone by since the clock was last looked at.
        1 => (1_000..90_000_000_u64).prop_map(|ms| Step::SetBack(ms * MS)),
        10 => Just(Step::Begin),
        9 => (any::<prop::sample::Index>(), end()).prop_map(|(at, end)| Step::End(at.index(64), end)),
        1 => prop_oneof![
            Just(Step::ForceOpen),
            Just(Step::ForceClosed),
            Just(Step::Automatic),
            Just(Step::Automatic),
        ],
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_breaker_does_what_the_model_does(config in config(), steps in vec(step(), 1..200)) {
        let clock = JumpyClock::new();
        let breaker = blaming(config.builder().clock(clock.clone()));
        let slow_is_judged = config.slow.is_some();
        let mut model = Model::new(config);
        let mut begun: Vec<Begun> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Wait(by_ns) => {
                    clock.advance(Duration::from_nanos(by_ns));
                    model.now_ns += by_ns;
                }
                // A call that is under way meanwhile counts as shorter: left to the other tests.
                Step::SetBack(_) if slow_is_judged => continue,
                Step::SetBack(by_ns) => clock.jump_back(Duration::from_nanos(by_ns + 1)),
                Step::Begin => {
                    let expected = model.begin();
                    match begin(&breaker, FACES[number % FACES.len()]) {
                        Ok(call) => {
                            prop_assert!(expected, "let in at step {}", number);
                            begun.push(call);
                        }
                        Err(open) => {
                            prop_assert!(!expected, "refused at step {}", number);
                            let hint = model.next_probe_ns().map(Duration::from_nanos);
                            prop_assert_eq!((open.state(), open.retry_after()), (model.state, hint));
                        }
                    }
                }
                Step::End(..) if begun.is_empty() => continue,
                Step::End(which, end) => {
                    let which = which % begun.len();
                    model.end(which, end);
                    begun.remove(which).end(end);
                }
                Step::ForceOpen => {
                    breaker.force_open();
                    if model.state != State::ForcedOpen {
                        model.enter(State::ForcedOpen);
                    }
                }
                Step::ForceClosed => {
                    breaker.force_closed();
                    if model.state != State::ForcedClosed {
                        model.enter(State::ForcedClosed);
                    }
                }
                Step::Automatic => {
                    breaker.automatic();
                    if model.state.is_forced() {
                        model.enter(State::Closed);
                    }
                }
            }
            let now = breaker.snapshot();
            let context = format!("after step {number}, {step:?}: {now:?}");
            prop_assert_eq!((now.state, breaker.state()), (model.state, model.state), "{}", context);
            let counts = (now.counts.calls, now.counts.failures, now.counts.slow);
            prop_assert_eq!(counts, model.counts(), "{}", context);
            prop_assert_eq!((now.probes_inside, now.probes_succeeded), (model.inside(), model.succeeded), "{}", context);
            prop_assert_eq!((now.refused, now.late, now.generation), (model.refused, model.late, model.era), "{}", context);
            prop_assert_eq!(now.next_probe_in, model.next_probe_ns().map(Duration::from_nanos), "{}", context);
            let cool_down_ns = if now.state == State::Open { model.cool_down_ns } else { model.next_cool_down_ns };
            prop_assert_eq!(now.cool_down, Duration::from_nanos(cool_down_ns), "{}", context);
        }
    }
}
