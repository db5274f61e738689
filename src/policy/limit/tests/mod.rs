//! The limiter as a whole, in virtual time: field stories, and plants that push back.

mod baseline;
mod noise;
mod plant;
mod settling;
mod stories;

use super::{Algorithm, Batch, Limiter};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
const CAPACITY: usize = 100_000;
const ALL: [Algorithm; 4] =
    [Algorithm::Aimd, Algorithm::Vegas, Algorithm::Gradient, Algorithm::Bdp];

/// One job at a time, at times of the test's choice, into a limiter of a pool with many workers.
struct Feed {
    limiter: Limiter,
    now_ns: u64,
    class: u8,
    ceiling: usize,
    may_raise: bool,
}

impl Feed {
    fn new(algorithm: Algorithm, floor: usize, initial: usize) -> Self {
        Self {
            limiter: Limiter::new(algorithm, CAPACITY, floor, initial),
            now_ns: 0,
            class: 0,
            ceiling: CAPACITY,
            may_raise: true,
        }
    }

    /// A job of `service_ms` that ends `gap_ms` after the one before, with `in_flight` jobs there.
    fn job(&mut self, gap_ms: u64, service_ms: u64, in_flight: usize) -> usize {
        self.now_ns += gap_ms * MS;
        let service_ns = service_ms * MS;
        let batch = Batch { class: self.class, jobs: 1, service_ns, in_flight };
        self.limiter.add(self.now_ns, batch, self.ceiling, self.may_raise)
    }

    /// Jobs 10 ms apart in a pool that is always full.
    fn jobs(&mut self, jobs: usize, service_ms: u64) -> usize {
        for _ in 0..jobs {
            self.job(10, service_ms, self.limit());
        }
        self.limit()
    }

    fn limit(&self) -> usize {
        self.limiter.limit(self.ceiling)
    }

    fn is_probing(&self) -> bool {
        self.limiter.refresh.probe_limit().is_some()
    }

    /// The limit outside of probes.
    fn found(&self) -> usize {
        self.limiter.limit.round() as usize
    }

    fn base_ms(&self) -> f64 {
        self.limiter.baselines.of(self.class).unwrap() / MS as f64
    }
}
