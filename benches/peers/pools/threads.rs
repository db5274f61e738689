//! Pools of closures.

use rayon::ThreadPool as RayonPool;
use rusty_pool::ThreadPool as RustyThreadPool;
use threadpool::ThreadPool as PlainThreadPool;

use crate::peer::Peer;
use crate::tree::{Node, Tree};

/// The closure with a channel for its result, the quickest of its kind, for pools that return none by
/// themselves.
fn with_result(
    job: impl FnOnce() -> u64 + Send + 'static,
) -> (impl FnOnce() + Send + 'static, oneshot::Receiver<u64>) {
    let (sender, receiver) = oneshot::channel();
    let job = move || {
        let _ = sender.send(job());
    };
    (job, receiver)
}

// ── rayon ───────────────────────────────────────────────────────────────────────────────────────

/// `spawn` for what returns nothing; `spawn` and a one-shot channel for a result, since `install`
/// waits for each job before the next can be given; `scope` and `spawn` for fork-join.
#[derive(Clone, Copy)]
pub(crate) struct Rayon(pub(crate) &'static RayonPool);

impl Rayon {
    pub(crate) fn new(workers: usize) -> Self {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build();
        Self(Box::leak(Box::new(pool.expect("rayon starts"))))
    }
}

impl Peer for Rayon {
    type Handle = oneshot::Receiver<u64>;
    const FORKS: bool = true;

    fn spawn(self, job: impl FnOnce() + Send + 'static) {
        self.0.spawn(job);
    }

    fn submit(self, job: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle {
        let (job, receiver) = with_result(job);
        self.0.spawn(job);
        receiver
    }

    fn join(handle: Self::Handle) -> Option<u64> {
        Some(handle.recv().expect("the job sends"))
    }

    fn fork_join(self, tree: Tree) -> Option<u64> {
        fn node(tree: Tree) -> u64 {
            let (forked, own) = match tree.visit() {
                Node::Leaf(leaves) => return leaves,
                Node::Fork(forked, own) => (forked, own),
            };
            let (mut of_forked, mut of_own) = (0, 0);
            rayon::scope(|scope| {
                scope.spawn(|_| of_forked = node(forked));
                of_own = node(own);
            });
            of_forked + of_own
        }
        Some(self.0.install(|| node(tree)))
    }
}

/// `install`, which keeps the job on the caller's stack: its way to have one job done and wait.
#[derive(Clone, Copy)]
pub(crate) struct RayonInstall(pub(crate) Rayon);

impl Peer for RayonInstall {
    type Handle = oneshot::Receiver<u64>;

    fn spawn(self, job: impl FnOnce() + Send + 'static) {
        self.0.spawn(job);
    }

    fn submit(self, job: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle {
        self.0.submit(job)
    }

    fn join(handle: Self::Handle) -> Option<u64> {
        Rayon::join(handle)
    }

    fn round_trip(self, job: impl FnOnce() -> u64 + Send + 'static) -> Option<u64> {
        Some(self.0.0.install(job))
    }
}

/// `join`, which allocates nothing, queues a pointer to the stack and knows both halves: what no pool of
/// jobs with handles can reach. Shown beside them as the bound, not as a peer.
pub(crate) fn rayon_join(pool: Rayon, tree: Tree) -> u64 {
    fn node(tree: Tree) -> u64 {
        match tree.visit() {
            Node::Leaf(leaves) => leaves,
            Node::Fork(forked, own) => {
                let (own, forked) = rayon::join(|| node(own), || node(forked));
                own + forked
            }
        }
    }
    pool.0.install(|| node(tree))
}

// ── rusty_pool ──────────────────────────────────────────────────────────────────────────────────

/// `execute`; `evaluate` for a result. As many core threads as threads, so that it never grows.
#[derive(Clone, Copy)]
pub(crate) struct RustyPool(&'static RustyThreadPool);

impl RustyPool {
    pub(crate) fn new(workers: usize) -> Self {
        let pool = rusty_pool::Builder::new().core_size(workers).max_size(workers).build();
        pool.start_core_threads();
        Self(Box::leak(Box::new(pool)))
    }
}

impl Peer for RustyPool {
    type Handle = rusty_pool::JoinHandle<u64>;

    fn spawn(self, job: impl FnOnce() + Send + 'static) {
        self.0.execute(job);
    }

    fn submit(self, job: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle {
        self.0.evaluate(job)
    }

    fn join(handle: Self::Handle) -> Option<u64> {
        Some(handle.await_complete())
    }
}

// ── threadpool ──────────────────────────────────────────────────────────────────────────────────

/// `execute`, and a one-shot channel for a result.
#[derive(Clone, Copy)]
pub(crate) struct Threadpool(&'static PlainThreadPool);

impl Threadpool {
    pub(crate) fn new(workers: usize) -> Self {
        Self(Box::leak(Box::new(PlainThreadPool::new(workers))))
    }
}

impl Peer for Threadpool {
    type Handle = oneshot::Receiver<u64>;

    fn spawn(self, job: impl FnOnce() + Send + 'static) {
        self.0.execute(job);
    }

    fn submit(self, job: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle {
        let (job, receiver) = with_result(job);
        self.0.execute(job);
        receiver
    }

    fn join(handle: Self::Handle) -> Option<u64> {
        Some(handle.recv().expect("the job sends"))
    }
}
