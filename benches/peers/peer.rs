//! What the shapes ask of a pool.

use super::tree::Tree;

/// A pool in the shapes. All of them are leaked references, as in a `static`: a clone of a handle per
/// job would cost counts on shared lines that no careful user pays.
pub(crate) trait Peer: Copy + Send + Sync + 'static {
    /// How one asks for a result.
    type Handle;

    /// Runs a job and returns nothing.
    fn spawn(self, job: impl FnOnce() + Send + 'static);

    /// Runs a job whose result is asked for.
    fn submit(self, job: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle;

    /// Waits for the result, outside the pool. None if the pool has accepted the job, and then not
    /// run it.
    fn join(handle: Self::Handle) -> Option<u64>;

    /// One job, there and back.
    fn round_trip(self, job: impl FnOnce() -> u64 + Send + 'static) -> Option<u64> {
        Self::join(self.submit(job))
    }

    /// Works the tree off, each inner node forking one branch and joining it. None where a join inside
    /// the pool holds a worker until it can go on: that deadlocks as soon as all workers wait.
    fn fork_join(self, tree: Tree) -> Option<u64> {
        let _ = tree;
        None
    }

    /// Whether [`fork_join`](Self::fork_join) works.
    const FORKS: bool = false;

    /// Jobs that were accepted and then not run, so far.
    fn shed(self) -> u64 {
        0
    }
}
