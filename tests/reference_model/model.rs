//! The bounds of a pool, as plain arithmetic on what is held of it.

use proptest::collection::vec;
use proptest::prelude::*;
use weirpool::{JobSpec, Partition, PartitionId, Pool, Priority, Reason};

use crate::common::assert_at_rest;

/// How a pool is built.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) workers: usize,
    /// Slots that are nobody's; all others are reserved.
    pub(crate) common: usize,
    pub(crate) critical_reserve: usize,
    pub(crate) partitions: Vec<Share>,
    pub(crate) max_bytes: Option<u64>,
}

/// What a partition has and may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    pub(crate) reserved: usize,
    pub(crate) max: usize,
}

/// What one job asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    pub(crate) priority: Priority,
    pub(crate) partition: Option<usize>,
    pub(crate) bytes: u64,
}

pub(crate) fn shape(
    workers: std::ops::Range<usize>,
    common: std::ops::Range<usize>,
) -> impl Strategy<Value = Shape> {
    let share = (0_usize..3, 0_usize..4)
        .prop_map(|(reserved, above)| Share { reserved, max: (reserved + above).max(1) });
    let critical_reserve = prop_oneof![2 => Just(0), 1 => 1_usize..3];
    let max_bytes = prop_oneof![2 => Just(None), 2 => (1_u64..6).prop_map(Some), 1 => (6_u64..12).prop_map(Some)];
    (workers, common, critical_reserve, vec(share, 0..3), max_bytes).prop_map(
        |(workers, common, critical_reserve, partitions, max_bytes)| Shape {
            workers,
            common,
            critical_reserve,
            partitions,
            max_bytes,
        },
    )
}

pub(crate) fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![
        2 => Just(Priority::Low),
        4 => Just(Priority::Normal),
        2 => Just(Priority::High),
        3 => Just(Priority::Critical),
    ]
}

pub(crate) fn want() -> impl Strategy<Value = Want> {
    let partition = proptest::option::of(0_usize..2);
    let bytes = prop_oneof![4 => Just(0), 4 => 1_u64..5, 1 => 5_u64..14];
    (priority(), partition, bytes).prop_map(|(priority, partition, bytes)| Want {
        priority,
        partition,
        bytes,
    })
}

impl Shape {
    pub(crate) fn capacity(&self) -> usize {
        let reserved: usize = self.partitions.iter().map(|share| share.reserved).sum();
        self.common + self.critical_reserve + reserved
    }

    pub(crate) fn build(self) -> Subject {
        let builder = Pool::builder().batch().workers(self.workers).capacity(self.capacity());
        let builder = builder.critical_reserve(self.critical_reserve).panic_handler(|_| ());
        let builder =
            self.max_bytes.into_iter().fold(builder, |builder, max| builder.max_bytes(max));
        let shares = self.partitions.iter().enumerate();
        let builder = shares.fold(builder, |builder, (which, share)| {
            let partition = Partition::new().reserved(share.reserved).max(share.max);
            builder.partition(which.to_string(), partition)
        });
        let pool = builder.build().unwrap();
        let partitions = (0..self.partitions.len())
            .map(|which| pool.partition(&which.to_string()).expect("just built"))
            .collect();
        Subject { shape: self, pool, partitions }
    }
}

/// A pool, and how it was built.
#[derive(Clone)]
pub(crate) struct Subject {
    pub(crate) shape: Shape,
    pub(crate) pool: Pool,
    partitions: Vec<PartitionId>,
}

impl Subject {
    /// The same in one of the partitions that there are, if there are any.
    pub(crate) fn fit(&self, want: Want) -> Want {
        let within = |which: usize| which.checked_rem(self.partitions.len());
        Want { partition: want.partition.and_then(within), ..want }
    }

    pub(crate) fn spec(&self, want: Want) -> JobSpec<'_> {
        let spec = self.pool.job().priority(want.priority).bytes(want.bytes);
        match self.fit(want).partition {
            Some(which) => spec.partition(self.partitions[which]),
            None => spec,
        }
    }

    /// Whether a job holds more bytes than there are.
    pub(crate) fn is_oversized(&self, want: Want) -> bool {
        self.shape.max_bytes.is_some_and(|max| want.bytes > max)
    }

    /// Asserts that the pool, where nothing is held, can be filled to exactly its bounds again.
    #[track_caller]
    pub(crate) fn assert_fills_up(&self) {
        assert_at_rest(&self.pool);
        let fill = |priority, partition| -> Vec<_> {
            let spec = self.spec(Want { priority, partition, bytes: 0 });
            std::iter::from_fn(|| spec.try_reserve().ok()).collect()
        };
        let Shape { common, critical_reserve, ref partitions, .. } = self.shape;
        for (which, share) in partitions.iter().enumerate() {
            let alone = fill(Priority::Normal, Some(which)).len();
            assert_eq!(alone, share.max.min(share.reserved + common), "partition {which}");
        }
        let outside = fill(Priority::Normal, None);
        let critical = fill(Priority::Critical, None);
        assert_eq!((outside.len(), critical.len()), (common, critical_reserve));
        let shares: Vec<_> =
            (0..partitions.len()).map(|which| fill(Priority::Normal, Some(which))).collect();
        for (filled, share) in shares.iter().zip(partitions) {
            assert_eq!(filled.len(), share.reserved);
        }
        assert_eq!(self.pool.in_flight(), self.shape.capacity());
        drop((outside, critical, shares));
        if let Some(max) = self.shape.max_bytes {
            let all = self.pool.job().bytes(max).try_reserve().expect("all bytes are free");
            let more = self.pool.job().bytes(1).try_reserve().expect_err("there are no more");
            assert_eq!(more.reason(), Reason::Bytes);
            drop(all);
        }
        assert_at_rest(&self.pool);
    }
}

/// What is held of a pool at one moment.
pub(crate) struct Books<'a> {
    shape: &'a Shape,
    capacity: usize,
    outside: usize,
    used: Vec<usize>,
    bytes: u64,
}

impl<'a> Books<'a> {
    pub(crate) fn new(
        shape: &'a Shape,
        capacity: usize,
        held: impl IntoIterator<Item = Want>,
    ) -> Self {
        let used = vec![0; shape.partitions.len()];
        let mut books = Self { shape, capacity, outside: 0, used, bytes: 0 };
        for want in held {
            match want.partition {
                Some(which) => books.used[which] += 1,
                None => books.outside += 1,
            }
            books.bytes += want.bytes;
        }
        books
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.outside + self.used.iter().sum::<usize>()
    }

    pub(crate) fn bytes(&self) -> u64 {
        if self.shape.max_bytes.is_some() { self.bytes } else { 0 }
    }

    /// Slots that nobody else may have: those that are held, and those that are kept for partitions.
    fn committed(&self) -> usize {
        let shares = self.used.iter().zip(&self.shape.partitions);
        self.outside + shares.map(|(used, share)| *used.max(&share.reserved)).sum::<usize>()
    }

    /// More is in flight than a lowered capacity allows.
    pub(crate) fn is_draining(&self) -> bool {
        self.in_flight() > self.capacity
    }

    /// Whether a job of that partition may be displaced by any critical one: it holds a slot that
    /// is not kept for its partition.
    pub(crate) fn holds_common_slot(&self, partition: Option<usize>) -> bool {
        partition.is_none_or(|which| self.used[which] > self.shape.partitions[which].reserved)
    }

    /// Of what stands in the way of `count` slots the first in the documented order.
    pub(crate) fn refusal(&self, want: Want, count: usize) -> Option<Reason> {
        if count == 0 {
            return None;
        }
        let above_maximum =
            |which: usize| self.used[which] + count > self.shape.partitions[which].max;
        if want.partition.is_some_and(above_maximum) {
            return Some(Reason::Partition);
        }
        let sum = self.bytes + count as u64 * want.bytes;
        // A job without bytes needs none, whatever is left.
        if want.bytes > 0 && self.shape.max_bytes.is_some_and(|max| sum > max) {
            return Some(Reason::Bytes);
        }
        (!self.has_slots(want, count)).then_some(Reason::Full)
    }

    /// Slots come from the partition's share first, then from the common part.
    fn has_slots(&self, want: Want, count: usize) -> bool {
        let share_left = want.partition.map_or(0, |which| {
            self.shape.partitions[which].reserved.saturating_sub(self.used[which])
        });
        let of_share = count.min(share_left);
        let of_common = count - of_share;
        let bound = match want.priority {
            Priority::Critical => self.capacity,
            _ => self.capacity.saturating_sub(self.shape.critical_reserve),
        };
        (of_share == 0 || self.in_flight() + of_share <= self.capacity)
            && (of_common == 0 || self.committed() + of_common <= bound)
    }
}
