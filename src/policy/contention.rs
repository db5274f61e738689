//! What keeps the pool from the CPU, and how many workers make sense meanwhile.
//!
//! All cores busy with the pool's own jobs is health: what is too much then waits in the queue, and
//! the door knows the queue. What the queue doesn't show is that the CPU itself is taken away:
//!
//! - **throttled**: a quota is used up, and the kernel stops every thread of the group until the
//!   next period. Too many workers for the quota do that to themselves. Fewer workers then do as much
//!   work in the same time, without standing still in the middle of jobs.
//! - **other threads** of this process, and **neighbours** (other processes, or the hypervisor): they
//!   run while the pool's threads wait for a core. Fewer workers would get less of it.
//!
//! More workers than cores wait for each other, which is neither; so waiting counts only as far as
//! the pool got less than it could have used.

use super::ema::Ema;

mod active;
pub(crate) use active::{ActiveWorkers, active_at};

/// How long the shares are averaged for [`ContentionMeter::is_contended`].
pub(crate) const SMOOTHING_NS: u64 = 1_000_000_000;

/// Less throttling than this is no reason to do anything: 1 ms of 100.
const THROTTLED: f64 = 0.01;
/// Other threads always take a little; only more than this is contention.
const TAKEN: f64 = 0.05;

/// What happened between two looks at the counters. None: it can't be known here.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Sample {
    /// Time between the two looks.
    pub(crate) dt_ns: u64,
    /// Workers that could take jobs, which may be a fraction.
    pub(crate) workers: f64,
    /// Cores this process may use, by affinity and quota.
    pub(crate) cores: Option<f64>,
    /// Time that CPUs had work of this group and were stopped because of its quota, over all CPUs.
    pub(crate) throttled_ns: Option<u64>,
    /// CPU time of the workers.
    pub(crate) pool_cpu_ns: Option<u64>,
    /// CPU time of all threads of this process.
    pub(crate) process_cpu_ns: Option<u64>,
    /// CPU time of all processes on this host, over all its CPUs, `stolen_ns` not included.
    pub(crate) host_busy_ns: Option<u64>,
    /// CPU time that a hypervisor gave to others while this host had work, over all CPUs.
    pub(crate) stolen_ns: Option<u64>,
    /// Time that workers were ready to run and waited for a core.
    pub(crate) run_delay_ns: Option<u64>,
}

/// Shares, each from 0 to 1, of what the pool could have used. Each names another thief.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Contention {
    /// Of the workers' time, stopped because a quota was used up.
    pub(crate) throttled: f64,
    /// Of the CPU, taken by other threads of this process.
    pub(crate) other_threads: f64,
    /// Of the CPU, taken by other processes or other machines on the same hardware.
    pub(crate) neighbours: f64,
}

impl Contention {
    /// Whether the pool stood still because of a quota for longer than is worth noticing.
    pub(crate) fn is_throttled(&self) -> bool {
        self.throttled > THROTTLED
    }

    /// Whether others took more of the pool's CPU than is worth noticing.
    pub(crate) fn is_taken(&self) -> bool {
        self.other_threads + self.neighbours > TAKEN
    }

    /// Either of the two.
    pub(crate) fn is_contended(&self) -> bool {
        self.is_throttled() || self.is_taken()
    }

    /// With each share from 0 to 1; what is no number counts as 0.
    pub(crate) fn clamped(self) -> Self {
        let clamp = |share: f64| if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        Self {
            throttled: clamp(self.throttled),
            other_threads: clamp(self.other_threads),
            neighbours: clamp(self.neighbours),
        }
    }
}

impl Sample {
    /// Tells the thieves apart.
    ///
    /// What the pool missed is what it could have used, less what it got, and at most as long as its
    /// threads waited for a core. The quota explains of that what it stopped; other threads of the
    /// process, which compete for the same cores for certain, at most what they used of the rest;
    /// neighbours at most what they used of what is then left. What nobody used, nobody took.
    pub(crate) fn contention(&self) -> Contention {
        let workers = positive(self.workers).unwrap_or(0.0);
        let dt_ns = self.dt_ns as f64;
        let could_ns = self.cores.and_then(positive).map_or(workers, |c| c.min(workers)) * dt_ns;
        if could_ns <= 0.0 {
            return Contention::default();
        }
        let throttled_ns = self.throttled_ns.unwrap_or(0) as f64;
        let stolen_ns = self.stolen_from_pool_ns();
        let unexplained_ns = (self.missed_ns(could_ns, stolen_ns) - throttled_ns).max(0.0);

        let other_ns = self.others_cpu_ns().min(unexplained_ns);
        let neighbours_ns =
            (self.neighbours_cpu_ns() + stolen_ns).min((unexplained_ns - other_ns).max(0.0));
        Contention {
            throttled: throttled_ns / (workers * dt_ns),
            other_threads: other_ns / could_ns,
            neighbours: neighbours_ns / could_ns,
        }
        .clamped()
    }

    /// The CPU time that the pool wanted, could have used, and did not get.
    fn missed_ns(&self, could_ns: f64, stolen_ns: f64) -> f64 {
        let Some(pool_ns) = self.pool_cpu_ns else { return 0.0 };
        let pool_ns = pool_ns as f64;
        let unused_ns = (could_ns - pool_ns).max(0.0);
        match self.run_delay_ns {
            Some(waited_ns) => unused_ns.min(waited_ns as f64 + stolen_ns),
            // Whether it wanted more isn't known: yes if it was busy most of the time.
            None if pool_ns >= could_ns / 2.0 => unused_ns,
            None => 0.0,
        }
    }

    /// A thread whose CPU is stolen looks as if it ran, so this is no part of the run delay. Who of
    /// the host lost it isn't counted; shared out by what each used.
    fn stolen_from_pool_ns(&self) -> f64 {
        match (self.stolen_ns, self.pool_cpu_ns, self.host_busy_ns) {
            (Some(stolen_ns), Some(pool_ns), Some(host_ns)) if host_ns > 0 => {
                stolen_ns as f64 * (pool_ns as f64 / host_ns as f64).min(1.0)
            }
            _ => 0.0,
        }
    }

    fn others_cpu_ns(&self) -> f64 {
        difference(self.process_cpu_ns, self.pool_cpu_ns)
    }

    fn neighbours_cpu_ns(&self) -> f64 {
        difference(self.host_busy_ns, self.process_cpu_ns)
    }
}

fn difference(whole_ns: Option<u64>, part_ns: Option<u64>) -> f64 {
    match (whole_ns, part_ns) {
        (Some(whole_ns), Some(part_ns)) => whole_ns.saturating_sub(part_ns) as f64,
        _ => 0.0,
    }
}

fn positive(number: f64) -> Option<f64> {
    (number.is_finite() && number > 0.0).then_some(number)
}

/// The shares averaged over about a second, so that one odd sample arms nothing.
#[derive(Debug, Clone)]
pub(crate) struct ContentionMeter {
    throttled: Ema,
    other_threads: Ema,
    neighbours: Ema,
}

impl ContentionMeter {
    /// Begins with no contention at `now_ns`.
    pub(crate) fn new(now_ns: u64) -> Self {
        let mut calm = Ema::new(SMOOTHING_NS);
        calm.add(now_ns, 0.0);
        Self { throttled: calm.clone(), other_threads: calm.clone(), neighbours: calm }
    }

    /// Adds the shares of the time since the last call. After a long pause they are the shares of
    /// the whole pause, and count as such.
    pub(crate) fn add(&mut self, now_ns: u64, shares: Contention) {
        let shares = shares.clamped();
        self.throttled.add(now_ns, shares.throttled);
        self.other_threads.add(now_ns, shares.other_threads);
        self.neighbours.add(now_ns, shares.neighbours);
    }

    /// The averages.
    pub(crate) fn value(&self) -> Contention {
        Contention {
            throttled: self.throttled.value().unwrap_or(0.0),
            other_threads: self.other_threads.value().unwrap_or(0.0),
            neighbours: self.neighbours.value().unwrap_or(0.0),
        }
    }

    /// Whether CPU is taken from the pool, on average of about a second.
    pub(crate) fn is_contended(&self) -> bool {
        self.value().is_contended()
    }
}

#[cfg(test)]
mod tests;
