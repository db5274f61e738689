//! Pools of futures, and pools beside a runtime whose results are futures.
//!
//! Results are waited for with `futures_lite`'s `block_on`, which looks at the future first and keeps
//! its parker from call to call; outside a runtime's own `block_on` nothing is made to yield either.

use std::future::Future;
use std::pin::Pin;
use std::thread;
use std::time::Duration;

use async_executor::{Executor, StaticExecutor};
use futures::executor::ThreadPool as FuturesThreadPool;
use futures::future::RemoteHandle;
use futures::task::SpawnExt as _;
use futures_lite::future::block_on;
use tokio::runtime;

use crate::peer::Peer;
use crate::tree::{Node, Tree};

/// Far longer than a run: a thread that dies in a pause would be charged to the next round.
const FOR_EVER: Duration = Duration::from_secs(86_400);

/// A node of a tree whose forked branch is another task: the async form of fork-join, which holds no
/// worker while it waits. Boxed, since it contains itself.
fn node<H: Future<Output = u64> + Send>(
    tree: Tree,
    fork: impl Fn(Branch) -> H + Copy + Send + Sync + 'static,
) -> Branch {
    Box::pin(async move {
        match tree.visit() {
            Node::Leaf(leaves) => leaves,
            Node::Fork(forked, own) => {
                let forked = fork(node(forked, fork));
                let own = node(own, fork).await;
                forked.await + own
            }
        }
    })
}

type Branch = Pin<Box<dyn Future<Output = u64> + Send>>;

// ── tokio ───────────────────────────────────────────────────────────────────────────────────────

/// `spawn_blocking`, with as many blocking threads as the others have workers.
#[derive(Clone, Copy)]
pub(crate) struct TokioBlocking(&'static runtime::Runtime);

impl TokioBlocking {
    pub(crate) fn new(workers: usize) -> Self {
        let runtime = runtime::Builder::new_current_thread()
            .max_blocking_threads(workers)
            .thread_keep_alive(FOR_EVER)
            .build();
        Self(Box::leak(Box::new(runtime.expect("tokio starts"))))
    }
}

impl Peer for TokioBlocking {
    type Handle = tokio::task::JoinHandle<u64>;

    fn spawn(self, job: impl FnOnce() + Send + 'static) {
        drop(self.0.spawn_blocking(job));
    }

    fn submit(self, job: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle {
        self.0.spawn_blocking(job)
    }

    fn join(handle: Self::Handle) -> Option<u64> {
        Some(block_on(handle).expect("no job panics"))
    }
}

/// `spawn` on the multi-thread runtime. Not what it is for (bodies must not take long), but what people
/// do.
#[derive(Clone, Copy)]
pub(crate) struct TokioSpawn(&'static runtime::Runtime);

impl TokioSpawn {
    pub(crate) fn new(workers: usize) -> Self {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(workers).build();
        Self(Box::leak(Box::new(runtime.expect("tokio starts"))))
    }
}

impl Peer for TokioSpawn {
    type Handle = tokio::task::JoinHandle<u64>;
    const FORKS: bool = true;

    fn spawn(self, job: impl FnOnce() + Send + 'static) {
        drop(self.0.spawn(async move { job() }));
    }

    fn submit(self, job: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle {
        self.0.spawn(async move { job() })
    }

    fn join(handle: Self::Handle) -> Option<u64> {
        Some(block_on(handle).expect("no job panics"))
    }

    fn fork_join(self, tree: Tree) -> Option<u64> {
        let fork = move |branch| {
            let task = self.0.spawn(branch);
            async { task.await.expect("no job panics") }
        };
        Self::join(self.0.spawn(node(tree, fork)))
    }
}

// ── smol's ──────────────────────────────────────────────────────────────────────────────────────

/// async-executor on as many threads: the leaked kind, which keeps no list of its tasks.
#[derive(Clone, Copy)]
pub(crate) struct AsyncExecutor(&'static StaticExecutor);

impl AsyncExecutor {
    pub(crate) fn new(workers: usize) -> Self {
        let executor = Executor::new().leak();
        for _ in 0..workers {
            thread::spawn(|| block_on(executor.run(std::future::pending::<()>())));
        }
        Self(executor)
    }
}

impl Peer for AsyncExecutor {
    type Handle = async_executor::Task<u64>;
    const FORKS: bool = true;

    fn spawn(self, job: impl FnOnce() + Send + 'static) {
        self.0.spawn(async move { job() }).detach();
    }

    fn submit(self, job: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle {
        self.0.spawn(async move { job() })
    }

    fn join(handle: Self::Handle) -> Option<u64> {
        Some(block_on(handle))
    }

    fn fork_join(self, tree: Tree) -> Option<u64> {
        Some(block_on(self.0.spawn(node(tree, move |branch| self.0.spawn(branch)))))
    }
}

/// `blocking::unblock`: one pool for the whole process, its bound from the environment
/// (`BLOCKING_MAX_THREADS`, which this bench sets for its own child). Its threads leave after half a
/// second without work, so a round may begin with starting them: that is how it is used.
#[derive(Clone, Copy)]
pub(crate) struct Blocking;

impl Peer for Blocking {
    type Handle = blocking::Task<u64>;

    fn spawn(self, job: impl FnOnce() + Send + 'static) {
        blocking::unblock(job).detach();
    }

    fn submit(self, job: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle {
        blocking::unblock(job)
    }

    fn join(handle: Self::Handle) -> Option<u64> {
        Some(block_on(handle))
    }
}

// ── futures ─────────────────────────────────────────────────────────────────────────────────────

/// The executor of the futures crate: `spawn_ok`; `spawn_with_handle` for a result.
#[derive(Clone, Copy)]
pub(crate) struct Futures(&'static FuturesThreadPool);

impl Futures {
    pub(crate) fn new(workers: usize) -> Self {
        let pool = FuturesThreadPool::builder().pool_size(workers).create();
        Self(Box::leak(Box::new(pool.expect("the pool starts"))))
    }

    fn task(self, task: impl Future<Output = u64> + Send + 'static) -> RemoteHandle<u64> {
        self.0.spawn_with_handle(task).expect("the pool is open")
    }
}

impl Peer for Futures {
    type Handle = RemoteHandle<u64>;
    const FORKS: bool = true;

    fn spawn(self, job: impl FnOnce() + Send + 'static) {
        self.0.spawn_ok(async move { job() });
    }

    fn submit(self, job: impl FnOnce() -> u64 + Send + 'static) -> Self::Handle {
        self.task(async move { job() })
    }

    fn join(handle: Self::Handle) -> Option<u64> {
        Some(block_on(handle))
    }

    fn fork_join(self, tree: Tree) -> Option<u64> {
        Some(block_on(self.task(node(tree, move |branch| self.task(branch)))))
    }
}
