//! The largest value of the last ten seconds.

const BUCKETS: usize = 10;
const BUCKET_NS: u64 = 1_000_000_000;

/// One maximum per second; ten of them are kept.
#[derive(Debug, Default)]
pub(super) struct Peak {
    buckets: [f64; BUCKETS],
    newest: u64,
}

impl Peak {
    /// Adds a value that isn't negative and returns the largest of the last ten seconds. A clock
    /// that goes backwards forgets all others.
    pub(super) fn add(&mut self, now_ns: u64, value: f64) -> f64 {
        let second = now_ns / BUCKET_NS;
        if second < self.newest || second - self.newest >= BUCKETS as u64 {
            self.buckets = [0.0; BUCKETS];
        } else {
            for passed in self.newest + 1..=second {
                self.buckets[index(passed)] = 0.0;
            }
        }
        self.newest = second;
        let bucket = &mut self.buckets[index(second)];
        *bucket = bucket.max(value);
        self.buckets.iter().copied().fold(0.0, f64::max)
    }
}

fn index(second: u64) -> usize {
    (second % BUCKETS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = BUCKET_NS;

    #[test]
    fn it_remembers_ten_seconds() {
        let mut peak = Peak::default();
        assert_eq!(peak.add(S, 5.0), 5.0);
        assert_eq!(peak.add(S + 1, 3.0), 5.0);
        assert_eq!(peak.add(10 * S, 2.0), 5.0);
        assert_eq!(peak.add(11 * S, 1.0), 2.0, "ten seconds later");
        assert_eq!(peak.add(3_600 * S, 0.5), 0.5, "an hour later");
        assert_eq!(peak.add(7 * S, 0.25), 0.25, "a clock that goes backwards");
        assert_eq!(peak.add(u64::MAX, 0.125), 0.125);
    }
}
