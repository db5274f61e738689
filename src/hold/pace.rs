//! Time as a hold judges it: it passes at the clock's pace, and never runs backwards.

use std::time::{Duration, Instant};

use crate::contain::{Contained, contain, drop_payload};
use crate::sense::clock::Clock;
use crate::sync::system_now;

/// A reading that is so little older than the latest is that of a thread which was late to the
/// lock.
const LATE: Duration = Duration::from_secs(1);

/// The injected clock, or the system's monotonic one.
pub(super) struct Time {
    clock: Option<Contained<Box<dyn Clock>>>,
}

impl Time {
    pub(super) fn new(clock: Option<Box<dyn Clock>>) -> Self {
        Self { clock: clock.map(Contained::new) }
    }

    /// The present. User code: never to be called under a lock.
    pub(super) fn now(&self) -> Instant {
        match &self.clock {
            None => system_now(),
            Some(clock) => contain(|| clock.now()).unwrap_or_else(|payload| {
                drop_payload(payload);
                system_now()
            }),
        }
    }
}

/// Adds up how much time has passed between readings of a clock that may jump.
///
/// After a jump back time goes on from where it was, so that nothing waits for the clock to catch
/// up; a jump forward counts in full. Threads read the clock before they take the lock, so readings
/// may come in the wrong order: those change nothing.
#[derive(Debug)]
pub(super) struct Pace {
    latest: Instant,
    elapsed_ns: u64,
}

impl Pace {
    pub(super) fn new(now: Instant) -> Self {
        Self { latest: now, elapsed_ns: 0 }
    }

    /// The time passed in nanoseconds; ever the same or more.
    pub(super) fn at(&mut self, now: Instant) -> u64 {
        if let Some(step) = now.checked_duration_since(self.latest) {
            self.elapsed_ns = self.elapsed_ns.saturating_add(whole_ns(step));
            self.latest = now;
        } else if self.latest.duration_since(now) > LATE {
            self.latest = now;
        }
        self.elapsed_ns
    }
}

/// In nanoseconds, at most what a word holds: more than 500 years are for ever.
pub(super) fn whole_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How late a wait may end: so many releases share one wake-up. An eighth of `time`, from 1 to 10
/// ms.
pub(super) fn grain(time: Duration) -> Duration {
    (time / 8).clamp(Duration::from_millis(1), Duration::from_millis(10))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds readings in milliseconds, expects elapsed milliseconds.
    fn check(readings: &[(u64, u64)]) {
        let start = Instant::now();
        let mut pace = Pace::new(start + Duration::from_secs(100));
        for &(at_ms, elapsed_ms) in readings {
            let elapsed_ns = pace.at(start + Duration::from_millis(at_ms));
            assert_eq!(elapsed_ns, elapsed_ms * 1_000_000, "at {at_ms} of {readings:?}");
        }
    }

    #[test]
    fn time_goes_on_after_a_jump_back() {
        check(&[(100_000, 0), (105_000, 5_000), (10_000, 5_000), (11_000, 6_000)]);
    }

    #[test]
    fn a_jump_forward_counts_in_full() {
        check(&[(100_001, 1), (3_700_001, 3_600_001)]);
    }

    #[test]
    fn late_readings_add_nothing() {
        check(&[(100_500, 500), (100_499, 500), (100_500, 500), (100_490, 500), (100_501, 501)]);
    }
}
