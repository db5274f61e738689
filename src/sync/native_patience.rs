//! Whether a thread that must wait had better look a little longer before it blocks.
//!
//! To block and to be woken costs the thread that waits a switch of contexts, and the thread that
//! wakes it a system call: some microseconds each. Worse, in these microseconds what the *other* one
//! waits for doesn't come, so that two threads that hand tiny jobs to each other may keep each other
//! blocking for ever. To look instead costs CPU time, and is for nothing if the wait is long. What
//! the next wait will be nobody knows; the last few are a good guess.

use super::stat::{AtomicU64, AtomicUsize, Relaxed};
use super::{system_ns, thread};

/// One looks for no longer than this, about what it costs both sides to block and to wake.
/// `benches/README.md` has the measurements.
const LOOK_NS: u64 = 10_000;
/// One who would miss what comes, since nobody can wake him for it, looks longer.
const LONG_LOOK_NS: u64 = 5 * LOOK_NS;
/// After so much of it one blocks once: whoever always finds what he looks for never sleeps, so that the
/// system never comes to think of giving him, or the thread that he shares his core with, another one.
const LOOKS_NS: u64 = 10 * LOOK_NS;
/// For as many rounds at most, should the clock stand still.
const ROUNDS: u32 = 1_000;

/// Whoever blocked, and was awake again after this time, could have had it by looking: half of the
/// time was the waking.
const SHORT_NS: u64 = 2 * LOOK_NS;

/// What a short wait adds to the outlook, from which a long one takes one away: one looks if more
/// than one wait in three is short...
const SHORT_ADDS: usize = 2;
/// ...and gives up after so many long ones in a row.
const BEST_OUTLOOK: usize = 4;

/// So many threads of the process look at once at most, however many fall asleep together. More than
/// that hand jobs to each other at the same instant only where there are jobs enough to find.
const MOST_AT_ONCE: usize = 8;

/// How many are looking. A forked child may begin with some that it doesn't have: then fewer look.
static LOOKING: AtomicUsize = AtomicUsize::new(0);

/// What one thread has learned from its last waits; only this thread uses it.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// From zero, where nothing but long waits is to be expected.
    outlook: AtomicUsize,
    /// For how long it has looked since it last blocked.
    looked_ns: AtomicU64,
}

impl Patience {
    /// Calls `block`, which returns when what is waited for has come, but looks before that whether
    /// it comes soon.
    #[inline]
    pub(crate) fn wait<R>(&self, has_come: impl Fn() -> bool, block: impl FnOnce() -> R) -> R {
        self.wait_by(system_ns, MOST_AT_ONCE, has_come, block)
    }

    fn wait_by<R>(
        &self,
        now_ns: impl Fn() -> u64,
        most_at_once: usize,
        has_come: impl Fn() -> bool,
        block: impl FnOnce() -> R,
    ) -> R {
        if has_come() {
            return block();
        }
        let began_ns = now_ns();
        let waited_ns = || now_ns().saturating_sub(began_ns);
        let outlook = self.outlook.load(Relaxed);
        let before_ns = self.looked_ns.load(Relaxed);
        let may_look = outlook > 0 && before_ns < LOOKS_NS;
        let looked = may_look && look(most_at_once, &has_come, || waited_ns() < LOOK_NS);
        let in_vain = looked && !has_come();
        let blocks = !looked || in_vain;
        let looked_ns = if blocks { 0 } else { before_ns.saturating_add(waited_ns()) };
        self.looked_ns.store(looked_ns, Relaxed);
        let result = block();
        // One that came in time, but while another thread kept the core, wasn't short.
        let outlook = if !in_vain && waited_ns() < SHORT_NS {
            (outlook + SHORT_ADDS).min(BEST_OUTLOOK)
        } else {
            outlook.saturating_sub(1)
        };
        self.outlook.store(outlook, Relaxed);
        result
    }
}

/// Looks for as long as it takes to run some short jobs; true once `ready` is. For who can't be woken
/// for what he waits for.
pub(crate) fn look_until(ready: impl Fn() -> bool) -> bool {
    let began_ns = system_ns();
    let may_look = || system_ns().saturating_sub(began_ns) < LONG_LOOK_NS;
    look(MOST_AT_ONCE, &ready, may_look) && ready()
}

/// Looks until it has come, as long as `may_look`; false if too many do already.
///
/// Between two looks it lets others have the core. One of them may be the very thread that is waited
/// for, and nobody has to wait for us; a pause instruction would keep the core from both.
fn look(most_at_once: usize, has_come: impl Fn() -> bool, may_look: impl Fn() -> bool) -> bool {
    let looks = LOOKING.fetch_add(1, Relaxed) < most_at_once;
    if looks {
        for _ in 0..ROUNDS {
            thread::yield_now();
            if has_come() || !may_look() {
                break;
            }
        }
    }
    LOOKING.fetch_sub(1, Relaxed);
    looks
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How often it asks whether it has come, without a look.
    const BLOCKS: u64 = 1;

    /// Waits for what comes after `ns`, on a clock of which each reading takes a microsecond;
    /// returns how often it asked whether it has come.
    fn wait(patience: &Patience, ns: u64, most_at_once: usize) -> u64 {
        let (now_ns, looks, blocked) = (Cell::new(0), Cell::new(0), Cell::new(false));
        let tick = || now_ns.replace(now_ns.get() + 1_000);
        let has_come = || {
            looks.set(looks.get() + 1);
            now_ns.get() >= ns
        };
        let block = || {
            now_ns.set(now_ns.get().max(ns));
            blocked.set(true);
        };
        patience.wait_by(tick, most_at_once, has_come, block);
        assert!(blocked.get(), "it has to take what has come");
        looks.get()
    }

    #[test]
    fn looks_only_if_the_last_waits_were_short() {
        let patience = Patience::default();
        let looks_until = |ns| wait(&patience, ns, usize::MAX) > BLOCKS;
        assert!(!looks_until(5_000), "it knows nothing yet");
        for round in 0..10 {
            assert!(looks_until(5_000), "round {round}");
        }
        for round in 0..BEST_OUTLOOK {
            assert!(looks_until(1_000_000), "after {round} long ones");
        }
        for round in 0..10 {
            assert!(!looks_until(1_000_000), "nothing but long waits, round {round}");
        }
        assert!(!looks_until(5_000));
        assert!(looks_until(5_000), "one short wait suffices");
    }

    #[test]
    fn a_look_ends_when_it_has_come_or_takes_too_long() {
        let patience = Patience::default();
        wait(&patience, 5_000, usize::MAX);
        let in_time = wait(&patience, 5_000, usize::MAX);
        let in_vain = wait(&patience, 1_000_000, usize::MAX);
        assert!(in_time > 2 && in_time < in_vain, "{in_time}, {in_vain}");
        assert!(in_vain <= 2 + LOOK_NS / 1_000, "{in_vain}");
    }

    #[test]
    fn a_look_in_vain_counts_as_a_long_wait() {
        let patience = Patience::default();
        let waits = (0..60).map(|_| wait(&patience, LOOK_NS + 2_000, usize::MAX));
        let looked = waits.filter(|&looks| looks > BLOCKS).count();
        assert!(looked <= 40, "{looked}");
    }

    #[test]
    fn blocks_now_and_then_although_looking_always_helps() {
        let patience = Patience::default();
        wait(&patience, 5_000, usize::MAX);
        for round in 0..10 {
            let looks = |_: &u64| wait(&patience, 5_000, usize::MAX) > BLOCKS;
            // Five to eight microseconds each.
            let until_it_blocks = (0..u64::MAX).take_while(looks).count();
            assert!((12..=20).contains(&until_it_blocks), "{until_it_blocks} in round {round}");
        }
    }

    #[test]
    fn what_has_come_already_teaches_nothing() {
        let patience = Patience::default();
        assert_eq!(wait(&patience, 0, usize::MAX), BLOCKS);
        assert_eq!(wait(&patience, 5_000, usize::MAX), BLOCKS);
    }

    #[test]
    fn does_not_look_if_too_many_do() {
        let patience = Patience::default();
        assert_eq!(wait(&patience, 5_000, 0), BLOCKS);
        assert_eq!(wait(&patience, 5_000, 0), BLOCKS);
        assert!(wait(&patience, 5_000, usize::MAX) > BLOCKS, "it has learned all the same");
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_backwards_ends_the_look() {
        for step in [0, 1_000] {
            let patience =
                Patience { outlook: AtomicUsize::new(BEST_OUTLOOK), ..Patience::default() };
            let (now_ns, looks) = (Cell::new(u64::MAX), Cell::new(0));
            let tick = || now_ns.replace(now_ns.get() - step);
            let has_come = || {
                looks.set(looks.get() + 1);
                false
            };
            patience.wait_by(tick, usize::MAX, has_come, || ());
            assert_eq!(looks.get(), ROUNDS + 2);
        }
    }
}
