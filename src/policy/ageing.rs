//! When a waiting lower lane is served although a higher one has work.
//!
//! Strict priority starves whoever stands below a flood. So a lane that has work carries the time
//! at which it became non-empty or was last served, and once that is an ageing bound ago it is
//! *due*. A worker serves a due lane first, but not with more than one pick in [`PICKS_PER_TURN`],
//! so that ageing can't turn the priorities upside down.

use std::cell::Cell;

/// Of this many picks of one worker at most one goes to a lane because it is due.
pub(crate) const PICKS_PER_TURN: u32 = 8;

/// Time of a lane that has nothing to serve.
pub(crate) const NEVER: u64 = u64::MAX;

/// When the lane that has been waiting since `since_ns` becomes due.
pub(crate) fn due_at(since_ns: u64, bound_ns: u64) -> u64 {
    if since_ns == NEVER { NEVER } else { since_ns.saturating_add(bound_ns) }
}

/// One worker's right to serve a due lane.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    picks_until_next: Cell<u32>,
}

impl Turns {
    /// Whether this pick may go to a due lane.
    #[inline]
    pub(crate) fn may_serve_due(&self) -> bool {
        self.picks_until_next.get() == 0
    }

    /// Notes one pick and whether it went to a lane because that was due.
    #[inline]
    pub(crate) fn picked(&self, due: bool) {
        let before = self.picks_until_next.get();
        self.picks_until_next.set(if due { PICKS_PER_TURN - 1 } else { before.saturating_sub(1) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_pick_in_eight_is_due() {
        let turns = Turns::default();
        let mut due_picks = 0;
        for _ in 0..80 {
            let due = turns.may_serve_due();
            due_picks += u32::from(due);
            turns.picked(due);
        }
        assert_eq!(due_picks, 10);
    }

    #[test]
    fn an_empty_lane_is_never_due() {
        assert_eq!(due_at(NEVER, 0), NEVER);
        assert_eq!(due_at(5, 10), 15);
        assert_eq!(due_at(5, u64::MAX), NEVER);
    }
}
