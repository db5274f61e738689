//! The pool under load, and what it was built with.

use weirpool::{Builder, JobSpec, Partition, PartitionId, Pool};

use crate::options::Options;

/// What a pool is bounded by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) capacity: usize,
    pub(crate) shares: Vec<Share>,
    /// Zero if there is no budget.
    pub(crate) max_bytes: u64,
}

/// One partition's slots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) reserved: usize,
    pub(crate) max: usize,
}

/// What a job holds while it is in the pool.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holding {
    pub(crate) partition: Option<usize>,
    pub(crate) bytes: u64,
}

impl Bounds {
    pub(crate) fn new(options: &Options) -> Self {
        let capacity = options.capacity;
        if options.only_basics {
            return Self { capacity, shares: Vec::new(), max_bytes: 0 };
        }
        let share = |reserved, max: usize| Share { reserved, max: max.max(1) };
        Self {
            capacity,
            shares: vec![share(capacity / 8, capacity / 4), share(capacity / 16, capacity / 2)],
            max_bytes: 1 << 20,
        }
    }

    /// Slots that are kept for no partition.
    pub(crate) fn common(&self) -> usize {
        self.capacity - self.shares.iter().map(|share| share.reserved).sum::<usize>()
    }

    fn apply(&self, mut builder: Builder) -> Builder {
        builder = builder.capacity(self.capacity);
        for (which, Share { reserved, max }) in self.shares.iter().enumerate() {
            let partition = Partition::new().reserved(*reserved).max(*max);
            builder = builder.partition(which.to_string(), partition);
        }
        if self.max_bytes > 0 { builder.max_bytes(self.max_bytes) } else { builder }
    }
}

#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) pool: Pool,
    pub(crate) bounds: Bounds,
    partitions: Vec<PartitionId>,
}

impl Ground {
    pub(crate) fn new(
        options: &Options,
        on_thread_stop: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let bounds = Bounds::new(options);
        let builder = Pool::builder().batch().name("stress").workers(options.workers);
        let builder = builder.seed(options.seed).panic_handler(|_| ());
        let builder = bounds.apply(builder).on_thread_stop(on_thread_stop);
        let pool = builder.build().expect("the options are right");
        let partitions = (0..bounds.shares.len())
            .map(|which| pool.partition(&which.to_string()).expect("just built"))
            .collect();
        Self { pool, bounds, partitions }
    }

    pub(crate) fn spec(&self, holding: Holding) -> JobSpec<'_> {
        let spec = self.pool.job().bytes(holding.bytes);
        match holding.partition {
            Some(which) => spec.partition(self.partitions[which]),
            None => spec,
        }
    }
}
