//! Time as breakers and holds count it: never backwards, and never stuck because the clock went back.
//!
//! [`Readings`] calls the clock, outside every lock; [`Steady`] turns the readings into a time, under
//! one.

use std::time::Instant;

use super::clock::{Clock, read, saturating_ns};
use crate::contain::Contained;
use crate::sync::system_now;

/// Where zero lies: far enough from both ends of a word that a clock which goes back behind the time
/// of building still has a number.
const ZERO_NS: u64 = 1 << 62;

/// How far a reading may lie behind another one without being taken for a jump of the clock.
/// Threads read the clock before they take the lock, so readings come in slightly out of order.
pub(crate) const TOLERANCE_NS: u64 = 1_000_000_000;

/// The clock's readings as numbers. Unlike the pool's timeline it also counts what lies before its
/// zero: nobody must wait until a clock that was set back has caught up again.
pub(crate) struct Readings {
    clock: Option<Contained<Box<dyn Clock>>>,
    zero: Instant,
}

impl Readings {
    pub(crate) fn new(clock: Option<Box<dyn Clock>>) -> Self {
        let zero = clock.as_deref().map_or_else(system_now, read);
        Self { clock: clock.map(Contained::new), zero }
    }

    /// User code: never to be called under a lock. A clock that panics counts as the system's.
    pub(crate) fn now_ns(&self) -> u64 {
        let now = self.clock.as_ref().map_or_else(system_now, |clock| read(&***clock));
        match now.checked_duration_since(self.zero) {
            Some(after) => ZERO_NS.saturating_add(saturating_ns(after)),
            None => ZERO_NS.saturating_sub(saturating_ns(self.zero.saturating_duration_since(now))),
        }
    }
}

/// Turns readings into a time that only goes forward.
///
/// A jump ahead counts as time gone by: it can't be told from an idle hour. A jump back of more
/// than [`TOLERANCE_NS`] costs nothing: time goes on from where it was, at the clock's new pace. A
/// reading that lies less behind is one that another thread has overtaken, and changes nothing.
#[derive(Debug)]
pub(crate) struct Steady {
    reading_ns: u64,
    now_ns: u64,
}

impl Steady {
    pub(crate) fn starting_at(reading_ns: u64) -> Self {
        Self { reading_ns, now_ns: 0 }
    }

    /// Takes a reading in; returns the time.
    pub(crate) fn advance(&mut self, reading_ns: u64) -> u64 {
        if let Some(step_ns) = reading_ns.checked_sub(self.reading_ns) {
            self.now_ns = self.now_ns.saturating_add(step_ns);
            self.reading_ns = reading_ns;
        } else if self.reading_ns - reading_ns > TOLERANCE_NS {
            self.reading_ns = reading_ns;
        }
        self.now_ns
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The last reading that counted.
    pub(crate) fn reading_ns(&self) -> u64 {
        self.reading_ns
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn time_goes_forward_with_the_clock_and_never_back() {
        let start_ns = 500 * SECOND_NS;
        // Readings in seconds from the start, and the time that they should make.
        let cases: [(&str, &[(i64, u64)]); 5] = [
            ("a plain clock", &[(1, 1), (3, 3), (3, 3), (10, 10)]),
            ("a jump ahead is time gone by", &[(1, 1), (400, 400), (401, 401)]),
            ("a jump back costs nothing", &[(10, 10), (-400, 10), (-399, 11), (-390, 20)]),
            ("a jump back and ahead again", &[(10, 10), (-90, 10), (10, 110), (11, 111)]),
            ("an overtaken reading changes nothing", &[(10, 10), (9, 10), (11, 11)]),
        ];
        for (case, readings) in cases {
            let mut time = Steady::starting_at(start_ns);
            for &(reading, expected) in readings {
                let reading_ns = start_ns.checked_add_signed(reading * SECOND_NS as i64).unwrap();
                assert_eq!(time.advance(reading_ns), expected * SECOND_NS, "{case}: {reading} s");
            }
        }
    }

    #[test]
    fn the_ends_of_the_word_are_no_trouble() {
        let mut time = Steady::starting_at(0);
        assert_eq!(time.advance(u64::MAX), u64::MAX);
        assert_eq!(time.advance(0), u64::MAX);
        assert_eq!(time.advance(u64::MAX), u64::MAX);
        assert_eq!(saturating_ns(Duration::MAX), u64::MAX);
    }
}
