//! weirpool, with all protections and with the bound alone.

use std::thread;

use weirpool::{JobHandle, Pool};

use crate::peer::Peer;
use crate::tree::{Node, Tree};

#[derive(Clone, Copy)]
pub(crate) struct Weirpool(pub(crate) &'static Pool);

impl Weirpool {
    /// The default builder. Only the capacity is set: so many jobs are in flight in these shapes.
    ///
    /// Its door, its CPU gate and its law at dequeue stay as a service has them. The shapes' windows are
    /// so small that a machine that does nothing else never makes it refuse. Where the machine stalls it
    /// may: what is refused is offered again after a yield, and that time is part of the figure; what is
    /// shed is counted, and the round divided by the jobs that ran.
    pub(crate) fn with_defaults(workers: usize, capacity: usize) -> Self {
        Self::leak(Pool::builder().workers(workers).capacity(capacity))
    }

    /// What [`Pool::new`] gives.
    pub(crate) fn bare(workers: usize, capacity: usize) -> Self {
        Self::leak(Pool::builder().workers(workers).capacity(capacity).batch())
    }

    fn leak(builder: weirpool::Builder) -> Self {
        let pool = builder.build().expect("the settings make sense");
        Self(Box::leak(Box::new(pool)))
    }
}

impl Peer for Weirpool {
    type Handle = JobHandle<u64>;
    const FORKS: bool = true;

    fn spawn(self, mut job: impl FnOnce() + Send + 'static) {
        while let Err(rejected) = self.0.try_spawn(job) {
            job = rejected.into_job();
            thread::yield_now();
        }
    }

    fn submit(self, mut job: impl FnOnce() -> u64 + Send + 'static) -> JobHandle<u64> {
        loop {
            match self.0.try_submit(job) {
                Ok(handle) => return handle,
                Err(rejected) => job = rejected.into_job(),
            }
            thread::yield_now();
        }
    }

    fn join(handle: JobHandle<u64>) -> Option<u64> {
        handle.join().ok()
    }

    fn fork_join(self, tree: Tree) -> Option<u64> {
        // The root comes from outside, and may be shed in a stall of the machine.
        std::iter::repeat_with(|| Self::join(self.submit(move || self.node(tree))))
            .find_map(|leaves| leaves)
    }

    fn shed(self) -> u64 {
        self.0.snapshot().shed.total()
    }
}

impl Weirpool {
    fn node(self, tree: Tree) -> u64 {
        match tree.visit() {
            Node::Leaf(leaves) => leaves,
            Node::Fork(forked, own) => {
                let forked = self.submit(move || self.node(forked));
                let own = self.node(own);
                forked.join().expect("jobs inside a body are never shed") + own
            }
        }
    }
}
