//! What one worker has measured and not yet handed over.

use crate::priority::Class;

/// Measurements are handed over in batches of this many jobs, or this often.
const BATCH: u64 = 32;
const EVERY_NS: u64 = 10_000_000;

/// A job so long that measuring its CPU time is nothing beside it.
const LONG_NS: u64 = 1_000_000;

/// Jobs of one class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sum {
    pub(crate) jobs: u64,
    pub(crate) service_ns: u64,
    /// Of those whose CPU time was measured.
    pub(crate) cpu_jobs: u64,
    pub(crate) cpu_ns: u64,
}

/// What one job has cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) class: Class,
    /// Whether the body returned.
    pub(crate) returned: bool,
    pub(crate) service_ns: u64,
    /// If it was measured.
    pub(crate) cpu_ns: Option<u64>,
    /// How many jobs were in flight at its end, itself included; asked only for an adaptive limit.
    pub(crate) in_flight: usize,
}

/// What ended jobs have cost, by class. Those that panicked stand apart: they have taken their time,
/// which others wait for, but say nothing of what their kind costs.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// One per class; off the stack, of which a worker's bodies want most.
    sums: Box<[Sum]>,
    /// Which of them are not empty, as bits.
    touched: u64,
    /// The classes whose last job was long, as bits.
    long: u64,
    panicked: Sum,
    jobs: u64,
    most_in_flight: usize,
    handed_over_ns: u64,
}

impl Gathered {
    pub(crate) fn new() -> Self {
        Self {
            sums: vec![Sum::default(); Class::COUNT].into(),
            touched: 0,
            long: 0,
            panicked: Sum::default(),
            jobs: 0,
            most_in_flight: 0,
            handed_over_ns: 0,
        }
    }

    /// One more job.
    #[inline]
    pub(crate) fn add(&mut self, cost: Cost) {
        let Cost { class, returned, service_ns, cpu_ns, in_flight } = cost;
        self.jobs += 1;
        let sum = if returned {
            let class = class.index();
            let bit = 1 << class;
            self.touched |= bit;
            self.long = if service_ns >= LONG_NS { self.long | bit } else { self.long & !bit };
            self.most_in_flight = self.most_in_flight.max(in_flight);
            &mut self.sums[class]
        } else {
            &mut self.panicked
        };
        sum.jobs += 1;
        sum.service_ns = sum.service_ns.saturating_add(service_ns);
        if let Some(cpu_ns) = cpu_ns {
            sum.cpu_jobs += 1;
            sum.cpu_ns = sum.cpu_ns.saturating_add(cpu_ns);
        }
    }

    /// Whether the last job of this class was a long one.
    #[inline]
    pub(crate) fn is_long(&self, class: Class) -> bool {
        self.long & (1 << class.index()) != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs == 0
    }

    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.jobs >= BATCH || now_ns.saturating_sub(self.handed_over_ns) >= EVERY_NS
    }

    pub(crate) fn most_in_flight(&self) -> usize {
        self.most_in_flight
    }

    /// Takes out what the jobs that panicked have cost.
    pub(crate) fn take_panicked(&mut self) -> Sum {
        std::mem::take(&mut self.panicked)
    }

    /// Takes out what was gathered, class by class.
    pub(crate) fn drain(&mut self, now_ns: u64) -> impl Iterator<Item = (Class, Sum)> {
        let mut touched = std::mem::take(&mut self.touched);
        (self.jobs, self.most_in_flight, self.handed_over_ns) = (0, 0, now_ns);
        std::iter::from_fn(move || {
            let class = touched.trailing_zeros() as u8;
            (touched != 0).then(|| {
                touched &= touched - 1;
                (Class(class), std::mem::take(&mut self.sums[usize::from(class)]))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(class: Class) -> Cost {
        Cost { class, returned: true, service_ns: 10, cpu_ns: None, in_flight: 3 }
    }

    #[test]
    fn what_is_drained_is_what_was_added() {
        let mut gathered = Gathered::new();
        for class in [Class(0), Class(63), Class(7), Class(255), Class(0)] {
            gathered.add(cost(class));
        }
        gathered.add(Cost { returned: false, ..cost(Class(1)) });
        assert_eq!(gathered.most_in_flight(), 3);
        let drained: Vec<_> = gathered.drain(1).map(|(class, sum)| (class.0, sum.jobs)).collect();
        assert_eq!(drained, [(0, 2), (7, 1), (63, 2)]);
        assert!(gathered.is_empty() && gathered.drain(2).next().is_none());
        assert_eq!((gathered.take_panicked().jobs, gathered.take_panicked().jobs), (1, 0));
    }

    #[test]
    fn a_batch_or_ten_milliseconds() {
        let mut gathered = Gathered::new();
        gathered.add(cost(Class(0)));
        assert!(!gathered.is_due(EVERY_NS - 1) && gathered.is_due(EVERY_NS));
        (1..BATCH).for_each(|_| gathered.add(cost(Class(0))));
        assert!(gathered.is_due(0));
    }
}
