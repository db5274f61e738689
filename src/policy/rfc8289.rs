//! The drop law of CoDel as RFC 8289 gives it: while waits have stood above the target for an
//! interval, drop one, and the next after `interval / sqrt(count)`.
//!
//! Made for senders that slow down when a packet is lost. Callers who don't, overrun it; it is
//! here for those who know that theirs do. Where the RFC looks whether the queue is empty, the pool
//! looks whether its workers have gone to sleep: a queue of one job at a time that each time has
//! waited too long is never seen non-empty by its worker, and is overloaded all the same.

/// How long after a time of dropping the next one goes on at its pace; section 5.5 of the RFC.
const RECENT_INTERVALS: u64 = 16;

#[derive(Clone, Debug)]
pub(crate) struct Rfc8289 {
    interval_ns: u64,
    /// When waits will have stood above the target for an interval; none while they don't.
    above_until_ns: Option<u64>,
    dropping: bool,
    drop_next_ns: u64,
    count: u64,
    last_count: u64,
}

impl Rfc8289 {
    pub(crate) fn new(interval_ns: u64) -> Self {
        Self {
            interval_ns,
            above_until_ns: None,
            dropping: false,
            drop_next_ns: 0,
            count: 0,
            last_count: 0,
        }
    }

    pub(crate) fn is_dropping(&self) -> bool {
        self.dropping
    }

    pub(crate) fn forget(&mut self) {
        *self = Self::new(self.interval_ns);
    }

    /// A job is taken, whose wait is above the target or not: whether it is to be dropped. Where it
    /// may not be, its drop falls to the next.
    pub(crate) fn takes(&mut self, above: bool, now_ns: u64, may_drop: bool) -> bool {
        let stands = self.stands(above, now_ns);
        if !stands {
            self.dropping = false;
            return false;
        }
        let due = !self.dropping || now_ns >= self.drop_next_ns;
        if !due || !may_drop {
            return false;
        }
        if self.dropping {
            self.count = self.count.saturating_add(1);
            self.drop_next_ns = self.after(self.drop_next_ns);
        } else {
            self.begin(now_ns);
        }
        true
    }

    /// Whether waits have stood above the target for an interval.
    fn stands(&mut self, above: bool, now_ns: u64) -> bool {
        if !above {
            self.above_until_ns = None;
            return false;
        }
        let until_ns =
            *self.above_until_ns.get_or_insert_with(|| now_ns.saturating_add(self.interval_ns));
        now_ns >= until_ns
    }

    /// Begins to drop: where the last time has left off, if that is not long ago.
    fn begin(&mut self, now_ns: u64) {
        self.dropping = true;
        let more = self.count.saturating_sub(self.last_count);
        let recent_ns = self.interval_ns.saturating_mul(RECENT_INTERVALS);
        let recent = now_ns.saturating_sub(self.drop_next_ns) < recent_ns;
        self.count = if more > 1 && recent { more } else { 1 };
        self.last_count = self.count;
        self.drop_next_ns = self.after(now_ns);
    }

    /// The control law.
    fn after(&self, from_ns: u64) -> u64 {
        from_ns.saturating_add((self.interval_ns as f64 / (self.count as f64).sqrt()) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The milliseconds at which jobs are dropped of those taken one per millisecond.
    fn drops(law: &mut Rfc8289, from_ms: u64, to_ms: u64) -> Vec<u64> {
        (from_ms..to_ms).filter(|&now_ms| law.takes(true, now_ms * MS, true)).collect()
    }

    #[test]
    fn drops_come_at_the_times_of_the_rfc() {
        let mut law = Rfc8289::new(100 * MS);
        // After the first interval, and then 100 / sqrt(n) ms apart, rounded up to the next job:
        // 100 + 100/√1, + 100/√2, + 100/√3 …
        let expected = [100, 200, 271, 329, 379, 424, 464, 502, 538];
        assert_eq!(drops(&mut law, 0, 540), expected);
    }

    #[test]
    fn one_wait_below_the_target_ends_the_dropping() {
        let mut law = Rfc8289::new(100 * MS);
        assert_eq!(drops(&mut law, 0, 250), [100, 200]);
        assert!(!law.takes(false, 250 * MS, true) && !law.is_dropping());
        assert_eq!(drops(&mut law, 251, 360), [351], "a whole interval again");
    }

    #[test]
    fn dropping_soon_after_goes_on_at_its_pace() {
        let mut law = Rfc8289::new(100 * MS);
        let before = drops(&mut law, 0, 1_000);
        assert!(before.len() > 10);
        assert!(!law.takes(false, 1_000 * MS, true));
        let after = drops(&mut law, 1_001, 1_160);
        assert_eq!(after[0], 1_101);
        assert!(after[1] - after[0] < 35, "{after:?}");

        let mut law = Rfc8289::new(100 * MS);
        drops(&mut law, 0, 1_000);
        assert!(!law.takes(false, 1_000 * MS, true));
        assert_eq!(drops(&mut law, 5_000, 5_201), [5_100, 5_200], "but not long after");
    }

    #[test]
    fn a_job_that_may_not_be_dropped_leaves_it_to_the_next() {
        let mut law = Rfc8289::new(100 * MS);
        drops(&mut law, 0, 100);
        assert!(!law.takes(true, 100 * MS, false));
        assert!(law.takes(true, 101 * MS, true));
    }

    #[test]
    fn nothing_overflows() {
        let mut law = Rfc8289::new(u64::MAX);
        for now_ns in [0, u64::MAX, 1, u64::MAX] {
            law.takes(true, now_ns, true);
        }
    }
}
