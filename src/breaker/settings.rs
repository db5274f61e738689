//! The settings of a breaker, checked.

use std::fmt;
use std::time::Duration;

use super::CircuitBreaker;
use super::classify::ErrIsFailure;
use super::core::Observer;
use super::types::Transition;
use crate::Clock;
use crate::error::BuildError;
use crate::sense::clock::saturating_ns;

/// A bucket or a probe takes a few words, allocated when the breaker is built.
const MOST: usize = 1_000;

/// When a call is slow, and how many may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slow {
    pub(super) threshold_ns: u64,
    pub(super) rate: f64,
}

/// Settings that make sense.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) window: Duration,
    pub(super) buckets: usize,
    pub(super) min_volume: u64,
    pub(super) failure_rate: f64,
    pub(super) slow: Option<Slow>,
    pub(super) cool_down_ns: u64,
    growth: f64,
    max_cool_down_ns: u64,
    pub(super) probes: usize,
    pub(super) probe_lease_ns: u64,
}

impl Settings {
    pub(super) const DEFAULT: Self = Self {
        window: Duration::from_secs(10),
        buckets: 10,
        min_volume: 20,
        failure_rate: 0.5,
        slow: None,
        cool_down_ns: 10_000_000_000,
        growth: 1.0,
        max_cool_down_ns: u64::MAX,
        probes: 3,
        probe_lease_ns: 10_000_000_000,
    };

    /// The cool-down that follows one of `cool_down_ns` when the probes have failed.
    pub(super) fn longer(&self, cool_down_ns: u64) -> u64 {
        if self.growth == 1.0 {
            // As it is: a float would round it.
            return cool_down_ns;
        }
        // A float beyond the word becomes the end of the word.
        ((cool_down_ns as f64 * self.growth) as u64).min(self.max_cool_down_ns)
    }
}

/// Settings of a [`CircuitBreaker`], from [`CircuitBreaker::builder`].
///
/// ```
/// use std::time::Duration;
/// use weirpool::breaker::CircuitBreaker;
///
/// let breaker = CircuitBreaker::builder()
///     .window(Duration::from_secs(30))
///     .min_volume(50)
///     .failure_rate(0.25)
///     .slow_calls(Duration::from_secs(1), 0.5)
///     .cool_down(Duration::from_secs(5))
///     .cool_down_growth(2.0, Duration::from_secs(60))
///     .probes(5)
///     .build()?;
/// # let _ = breaker;
///
/// let error = CircuitBreaker::builder().failure_rate(f64::NAN).build().unwrap_err();
/// assert_eq!(error.to_string(), "failure_rate = NaN: must be above 0 and at most 1");
/// # Ok::<(), weirpool::BuildError>(())
/// ```
#[must_use = "settings alone do nothing: call `build`"]
pub struct Builder<C = ErrIsFailure> {
    settings: Settings,
    /// As they were given, for the error.
    cool_down: Duration,
    growth: Option<(f64, Duration)>,
    slow: Option<(Duration, f64)>,
    probe_lease: Duration,
    classifier: C,
    observer: Option<Observer>,
    clock: Option<Box<dyn Clock>>,
}

impl Builder {
    pub(super) fn new() -> Self {
        Self {
            settings: Settings::DEFAULT,
            cool_down: Duration::from_nanos(Settings::DEFAULT.cool_down_ns),
            growth: None,
            slow: None,
            probe_lease: Duration::from_nanos(Settings::DEFAULT.probe_lease_ns),
            classifier: ErrIsFailure,
            observer: None,
            clock: None,
        }
    }
}

impl<C: Send + Sync + 'static> Builder<C> {
    /// How far back calls count (default: 10 s). Above zero.
    pub fn window(mut self, length: Duration) -> Self {
        self.settings.window = length;
        self
    }

    /// In how many steps the window slides (default: 10). From 1 to 1000; the window holds at least
    /// a nanosecond for each.
    ///
    /// A bucket is three numbers, so a window costs the same however many calls are in it. Calls
    /// leave it a bucket at a time: with 10 buckets it reaches back by 90 to 100 % of its length.
    pub fn buckets(mut self, buckets: usize) -> Self {
        self.settings.buckets = buckets;
        self
    }

    /// With fewer calls than this in the window nothing is concluded (default: 20). At least 1.
    ///
    /// It has no say while the breaker is half-open: there a single probe counts.
    pub fn min_volume(mut self, calls: u64) -> Self {
        self.settings.min_volume = calls;
        self
    }

    /// From which share of failures on the breaker opens (default: 0.5). Above 0 and at most 1; the
    /// figure itself opens it.
    pub fn failure_rate(mut self, rate: f64) -> Self {
        self.settings.failure_rate = rate;
        self
    }

    /// A call of at least `threshold` is slow, and from this share of slow calls on the breaker
    /// opens (default: no call is slow). The threshold is above zero; the rate above 0 and at most
    /// 1, and the figure itself opens it.
    ///
    /// A call that is given up counts as slow if it had lasted so long by then: so a time-out
    /// around the call is seen. A slow probe counts as a failed one.
    pub fn slow_calls(mut self, threshold: Duration, rate: f64) -> Self {
        self.slow = Some((threshold, rate));
        self
    }

    /// How long an open breaker refuses calls before it lets probes through (default: 10 s). Above
    /// zero.
    pub fn cool_down(mut self, length: Duration) -> Self {
        self.cool_down = length;
        self
    }

    /// Each time that the probes fail the cool-down grows by `factor`, up to `longest` (default: it
    /// stays the same). The factor is a number from 1 on, `longest` not below the cool-down.
    ///
    /// Closing brings it back to its first length.
    pub fn cool_down_growth(mut self, factor: f64, longest: Duration) -> Self {
        self.growth = Some((factor, longest));
        self
    }

    /// How many probes must succeed to close the breaker, and how many may be inside at once
    /// (default: 3). From 1 to 1000.
    ///
    /// One failed probe opens it again. Together with those that have succeeded there are never
    /// more inside than this.
    pub fn probes(mut self, probes: usize) -> Self {
        self.settings.probes = probes;
        self
    }

    /// How long a probe keeps its place (default: 10 s). Above zero.
    ///
    /// After that the place is given to another call, and the end of the first one, should it ever
    /// come, changes nothing. Make it longer than the slowest call that is still good: a dependency
    /// whose every answer takes longer would never be found well.
    pub fn probe_lease(mut self, length: Duration) -> Self {
        self.probe_lease = length;
        self
    }

    /// What says whether a result is a failure (default: [`ErrIsFailure`]): a closure from
    /// `&Result<T, E>` to [`Verdict`](super::Verdict), or any [`Classify`](super::Classify).
    ///
    /// It is asked for every result, whatever the state. For several types of result see
    /// [`CircuitBreaker::with_classifier`].
    ///
    /// ```
    /// use std::io;
    /// use weirpool::breaker::{CircuitBreaker, Verdict};
    ///
    /// let breaker = CircuitBreaker::builder()
    ///     .classifier(|result: &Result<Vec<u8>, io::Error>| match result {
    ///         Ok(_) => Verdict::Success,
    ///         // The caller's mistake, which says nothing about the disk.
    ///         Err(error) if error.kind() == io::ErrorKind::NotFound => Verdict::Ignore,
    ///         Err(_) => Verdict::Failure,
    ///     })
    ///     .build()?;
    /// let _ = breaker.call(|| std::fs::read("/no/such/file"));
    /// assert_eq!(breaker.snapshot().counts.calls, 0);
    /// # Ok::<(), weirpool::BuildError>(())
    /// ```
    pub fn classifier<D: Send + Sync + 'static>(self, classifier: D) -> Builder<D> {
        let Self { settings, cool_down, growth, slow, probe_lease, classifier: _, .. } = self;
        let (observer, clock) = (self.observer, self.clock);
        Builder { settings, cool_down, growth, slow, probe_lease, classifier, observer, clock }
    }

    /// Called after each change of state, on the thread whose call made it or on another one that
    /// is just doing the same (default: nothing is called).
    ///
    /// One change at a time and in their order, never under a lock: the observer may call the
    /// breaker, and what it changes is told afterwards, when it has returned. So a call may return
    /// before its change was told, if another thread is in the observer. While an observer lags
    /// behind by more than 64 changes the oldest are left out
    /// ([`Snapshot::missed_transitions`](super::Snapshot::missed_transitions)). Its panics are
    /// contained and counted.
    ///
    /// An observer that keeps a handle of its own breaker keeps it alive for ever.
    pub fn on_transition(mut self, observer: impl Fn(&Transition) + Send + Sync + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// The clock that everything is judged by (default: the system's monotonic clock).
    ///
    /// It may jump. Ahead counts as time gone by. Back costs at most the time since the breaker last
    /// took the time in, so that a cool-down may start again but never waits for the clock to catch
    /// up; only a step back of less than a second is waited for.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Box::new(clock));
        self
    }

    /// The breaker, closed.
    ///
    /// # Errors
    ///
    /// [`BuildError::Invalid`] for the first setting that can't be used.
    pub fn build(self) -> Result<CircuitBreaker<C>, BuildError> {
        let settings = self.checked()?;
        Ok(CircuitBreaker::assemble(settings, self.classifier, self.observer, self.clock))
    }

    fn checked(&self) -> Result<Settings, BuildError> {
        let mut settings = self.settings;
        BuildError::check_range("buckets", settings.buckets, 1..=MOST)?;
        BuildError::check_ns("window", settings.window)?;
        if settings.window.as_nanos() < settings.buckets as u128 {
            return Err(BuildError::invalid(
                "window",
                settings.window,
                "at least 1 ns for each bucket",
            ));
        }
        if settings.min_volume == 0 {
            return Err(BuildError::invalid("min_volume", 0, "at least 1"));
        }
        check_rate("failure_rate", settings.failure_rate, settings.failure_rate)?;
        if let Some((threshold, rate)) = self.slow {
            let given = (threshold, rate);
            if threshold.is_zero() {
                let expected = "of a threshold above zero";
                return Err(BuildError::invalid("slow_calls", given, expected));
            }
            check_rate("slow_calls", rate, given)?;
            settings.slow = Some(Slow { threshold_ns: saturating_ns(threshold), rate });
        }
        settings.cool_down_ns = BuildError::check_ns("cool_down", self.cool_down)?;
        if let Some((factor, longest)) = self.growth {
            // Written so that NaN fails too.
            if !(factor >= 1.0 && factor.is_finite()) || longest < self.cool_down {
                let expected = "a factor from 1 on, and a longest not below the cool_down";
                return Err(BuildError::invalid("cool_down_growth", (factor, longest), expected));
            }
            (settings.growth, settings.max_cool_down_ns) = (factor, saturating_ns(longest));
        }
        BuildError::check_range("probes", settings.probes, 1..=MOST)?;
        settings.probe_lease_ns = BuildError::check_ns("probe_lease", self.probe_lease)?;
        Ok(settings)
    }
}

impl<C> fmt::Debug for Builder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("window", &self.settings.window)
            .field("buckets", &self.settings.buckets)
            .field("min_volume", &self.settings.min_volume)
            .field("failure_rate", &self.settings.failure_rate)
            .field("slow_calls", &self.slow)
            .field("cool_down", &self.cool_down)
            .field("cool_down_growth", &self.growth)
            .field("probes", &self.settings.probes)
            .field("probe_lease", &self.probe_lease)
            .finish_non_exhaustive()
    }
}

fn check_rate(setting: &'static str, rate: f64, given: impl fmt::Debug) -> Result<(), BuildError> {
    // Written so that NaN fails too.
    if rate > 0.0 && rate <= 1.0 {
        Ok(())
    } else {
        Err(BuildError::invalid(setting, given, "above 0 and at most 1"))
    }
}
