//! Who sleeps, who searches, and who is woken for a new job. The protocol and the reason why no
//! wake-up is lost stand in this folder's README.

use crossbeam_utils::CachePadded;

use crate::sync::stat::Arc;
use crate::sync::{AtomicUsize, Mutex, Ordering, Parker, fence};

/// One worker that looks for work and would find a job pushed now.
const SEARCHING: usize = 1;
/// One worker that sleeps.
const SLEEPING: usize = 1 << 16;
const COUNT: usize = SLEEPING - 1;

/// More threads than this are a mistake in any setting of a CPU pool, and far from overflowing the
/// counts.
pub(crate) const MAX_WORKERS: usize = 4096;
const _: () = assert!(MAX_WORKERS < COUNT);

pub(crate) struct Sleep {
    /// `[sleeping | searching]`. A worker that runs a job, or a hook, is in neither.
    counts: CachePadded<AtomicUsize>,
    /// The sleepers, in the order in which they fell asleep: the last one's caches are warmest.
    /// Together with `counts` it changes only under this lock, so `sleeping` is its length.
    sleepers: Mutex<Vec<usize>>,
    parkers: Box<[Arc<Parker>]>,
}

impl Sleep {
    /// A worker that has not begun yet, or is in its start hook, is in neither count: nobody relies
    /// on it, and it looks for work before it ever sleeps.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            counts: CachePadded::new(AtomicUsize::new(0)),
            sleepers: Mutex::new(Vec::with_capacity(workers)),
            parkers: (0..workers).map(|_| Arc::new(Parker::new())).collect(),
        }
    }

    pub(crate) fn parker(&self, worker: usize) -> &Arc<Parker> {
        &self.parkers[worker]
    }

    /// Wakes a sleeper for a job that was just pushed, if nobody is there to find it.
    ///
    /// The fence pairs with the one in [`fall_asleep`](Self::fall_asleep) and in
    /// [`stop_searching`](Self::stop_searching): either this load sees the worker counted as
    /// sleeping (or no longer as searching), or that worker's next look sees the push. Without it
    /// both may miss, and the job waits for ever.
    ///
    /// `queued` is asked only if somebody searches: a searcher may have been preempted, and must
    /// not hold back the wake-ups of a growing queue for a time slice.
    #[inline]
    pub(crate) fn notify(&self, queued: impl FnOnce() -> usize) {
        fence(Ordering::SeqCst);
        let counts = self.counts.load(Ordering::Relaxed);
        let (sleeping, searching) = (counts / SLEEPING, counts & COUNT);
        if sleeping > 0 && (searching == 0 || queued() > 2 * searching) {
            self.wake_one();
        }
    }

    /// Wakes the last one that fell asleep, counting it as searching on its behalf: until it runs,
    /// others needn't wake more.
    #[cold]
    fn wake_one(&self) {
        let woken = {
            let mut sleepers = self.sleepers.lock();
            let Some(woken) = sleepers.pop() else { return };
            self.counts.fetch_sub(SLEEPING - SEARCHING, Ordering::Relaxed);
            woken
        };
        self.parkers[woken].unpark();
    }

    /// Wakes everybody: the pool was closed.
    ///
    /// A worker that is about to sleep takes the lock before it looks whether the pool is closed,
    /// and this takes it after closing: one of the two sees the other.
    pub(crate) fn wake_all(&self) {
        let woken: Vec<usize> = {
            let mut sleepers = self.sleepers.lock();
            self.counts.fetch_sub(sleepers.len() * (SLEEPING - SEARCHING), Ordering::Relaxed);
            sleepers.drain(..).collect()
        };
        for worker in woken {
            self.parkers[worker].unpark();
        }
    }

    /// A worker that ran out of work begins to search.
    pub(crate) fn start_searching(&self) {
        self.counts.fetch_add(SEARCHING, Ordering::Relaxed);
    }

    /// A searching worker found a job; true if it was the last to search, and so must look whether
    /// there is more and wake another: what was pushed meanwhile relied on it.
    pub(crate) fn stop_searching(&self) -> bool {
        let last = self.counts.fetch_sub(SEARCHING, Ordering::Relaxed) & COUNT == 1;
        // Pairs with the fence in `notify`: the look that follows sees every push that saw us.
        fence(Ordering::SeqCst);
        last
    }

    /// A searching worker becomes a sleeper; true if now all sleep. It must look once more for work
    /// before it parks.
    pub(crate) fn fall_asleep(&self, worker: usize) -> bool {
        let all = {
            let mut sleepers = self.sleepers.lock();
            sleepers.push(worker);
            self.counts.fetch_add(SLEEPING - SEARCHING, Ordering::Relaxed);
            sleepers.len() == self.parkers.len()
        };
        // Pairs with the fence in `notify`.
        fence(Ordering::SeqCst);
        all
    }

    /// A sleeper searches again, whether it was woken (then it is counted as searching already) or
    /// got up by itself.
    pub(crate) fn get_up(&self, worker: usize) {
        let mut sleepers = self.sleepers.lock();
        if let Some(at) = sleepers.iter().position(|&sleeper| sleeper == worker) {
            sleepers.remove(at);
            self.counts.fetch_sub(SLEEPING - SEARCHING, Ordering::Relaxed);
        }
    }
}
