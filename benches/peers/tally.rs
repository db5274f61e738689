//! Learns that jobs have ended without charging any pool for it.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;

/// More than there are workers at a time. If two threads share a stripe all the same, it still counts
/// right.
const STRIPES: usize = 64;

/// Long against a look at the stripes, short against a round. Whoever spins or yields instead takes a
/// core from the workers.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// A count with one cache line per thread: a single counter would cost each job a line that travels
/// between cores, which is as much as some of the pools themselves cost.
pub(crate) struct Tally {
    stripes: [CachePadded<AtomicU64>; STRIPES],
}

pub(crate) static ENDED: Tally =
    Tally { stripes: [const { CachePadded::new(AtomicU64::new(0)) }; STRIPES] };

thread_local! {
    static STRIPE: Cell<usize> = {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Cell::new(NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES)
    };
}

impl Tally {
    /// Counts when it is dropped, with the job's closure, whether or not that has run.
    pub(crate) fn ticket(&'static self) -> Ticket {
        Ticket(self)
    }

    pub(crate) fn count(&self) -> u64 {
        self.stripes.iter().map(|stripe| stripe.load(Ordering::Acquire)).sum()
    }

    /// Waits until so many have been counted since the beginning.
    pub(crate) fn wait_for(&self, count: u64) {
        while self.count() < count {
            thread::sleep(LOOK_EVERY);
        }
    }
}

pub(crate) struct Ticket(&'static Tally);

impl Drop for Ticket {
    fn drop(&mut self) {
        self.0.stripes[STRIPE.get()].fetch_add(1, Ordering::Release);
    }
}
