//! Distances in time that no clock can break.

use std::time::{Duration, Instant};

/// Threads that share a limiter read the clock before they take its lock, so stamps arrive a little
/// out of order. A step back by more than this is a clock that was set.
const JUMP: Duration = Duration::from_secs(1);

/// From which instant to count what has passed until `now`.
///
/// That is `anchor`. After a small step back nothing has passed, and the anchor stays, since time
/// that is counted twice would be tokens given twice. After a jump back it is `now`: an anchor far
/// ahead would stop everything until the clock is there again.
pub(crate) fn anchor_for(anchor: Instant, now: Instant) -> Instant {
    match anchor.checked_duration_since(now) {
        Some(back) if back > JUMP => now,
        _ => anchor,
    }
}

/// How long ago `then` was; ages ago if it lies so far ahead that the clock must have been set.
pub(crate) fn age(then: Instant, now: Instant) -> Duration {
    if anchor_for(then, now) == then { now.saturating_duration_since(then) } else { Duration::MAX }
}

/// `instant` + `by`, or as far ahead as this platform's clock can count.
pub(crate) fn later(instant: Instant, by: Duration) -> Instant {
    let mut by = by;
    loop {
        match instant.checked_add(by) {
            Some(later) => return later,
            None => by /= 2,
        }
    }
}

/// A duration from seconds: 0 for what is negative or no number, the longest there is for what is too
/// long.
pub(crate) fn seconds(s: f64) -> Duration {
    if s.is_nan() || s <= 0.0 {
        Duration::ZERO
    } else {
        Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX)
    }
}

/// A random number as the limiters use it: from 0 to 1. What is no number counts as 1, which is the
/// longest wait and the call let through.
pub(crate) fn unit(random: f64) -> f64 {
    if random.is_nan() { 1.0 } else { random.clamp(0.0, 1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_step_back_keeps_the_anchor_and_a_jump_moves_it() {
        let begin = Instant::now() + Duration::from_secs(100);
        let ms = Duration::from_millis;
        assert_eq!(anchor_for(begin, begin + ms(5)), begin);
        assert_eq!(anchor_for(begin, begin - ms(5)), begin);
        assert_eq!(anchor_for(begin, begin - ms(5000)), begin - ms(5000));
        assert_eq!(age(begin, begin + ms(5)), ms(5));
        assert_eq!(age(begin, begin - ms(5)), Duration::ZERO);
        assert_eq!(age(begin, begin - ms(5000)), Duration::MAX);
    }

    #[test]
    fn nothing_is_too_far_ahead() {
        let now = Instant::now();
        assert!(later(now, Duration::MAX) > now);
        assert_eq!(later(now, Duration::ZERO), now);
        assert_eq!(seconds(f64::NAN), Duration::ZERO);
        assert_eq!(seconds(-1.0), Duration::ZERO);
        assert_eq!(seconds(f64::INFINITY), Duration::MAX);
        assert_eq!(seconds(1.5), Duration::from_millis(1500));
        assert_eq!(unit(f64::NAN), 1.0);
        assert_eq!(unit(-3.0), 0.0);
    }
}
