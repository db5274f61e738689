//! The public face of the adaptive limit; the arithmetic is `policy::limit`.

use crate::error::BuildError;
use crate::policy::limit::{Algorithm, Limiter};

/// No adaptive limit starts below this by default, as in Netflix's concurrency-limits.
const DEFAULT_INITIAL: usize = 20;
/// ... or below this many jobs per worker: one runs, one waits.
const DEFAULT_INITIAL_PER_WORKER: usize = 2;

/// How many jobs may be in flight, queued plus running, below the capacity: fixed, or found by
/// measuring.
///
/// The default is [`fixed`](Self::fixed): the capacity itself. The others look for the number of jobs
/// that keeps whatever stands *behind* the workers busy without queueing there. They watch the
/// *service time*, the time in the body, and nothing else: when jobs take longer than they would with
/// nothing in their way, fewer are let in; when they don't, and the limit is used, more are.
///
/// ```
/// use weirpool::Limit;
///
/// // Bodies that call a database: find out how many it bears, but never refuse the fifth.
/// let limit = Limit::vegas().min(5);
/// assert_ne!(limit, Limit::default());
/// assert_eq!(Limit::default(), Limit::fixed());
/// ```
///
/// # Which one
///
/// | | rule, once per window | settles at | from |
/// |---|---|---|---|
/// | [`fixed`](Self::fixed) | none | the capacity | |
/// | [`vegas`](Self::vegas) | queue = limit x (1 - 1/ratio), kept between 3 and 6 lg | a short queue | TCP Vegas; Netflix's `VegasLimit` |
/// | [`gradient`](Self::gradient) | moves towards limit x 1.5/ratio + 4, smoothed | 1.5 times the baseline, a little above | Netflix's `Gradient2Limit` |
/// | [`aimd`](Self::aimd) | + 1, or x 0.9 if the ratio is above 2 | a saw-tooth below twice the baseline | TCP Reno; Netflix's `AIMDLimit` |
/// | [`bdp`](Self::bdp) | 2 x throughput x baseline, if the ratio is above 1.5 | twice what runs without queueing | BBR; go-zero's and Kratos' shedders |
///
/// *ratio* is the service time of the window over its baseline, *lg* the decimal logarithm of the limit,
/// rounded down, at least 1.
///
/// - **Bodies that only compute**: `fixed`. As many of them run as there are workers, however many
///   wait, so their service time doesn't depend on the limit, and an adaptive one can only rise to the
///   capacity; or worse, it takes what cores share (caches, hyper-threads, clock frequency) for
///   congestion. What protects such a pool is the bound on the wait.
/// - **Bodies that wait for something that has a limit of its own** (a database, a disk, a lock, a
///   service), with more workers than that bears: `vegas`, or `gradient` if service times vary a lot.
///   Use `aimd` if you want the simplest rule, `bdp` if throughput counts for more than latency.
///
/// # What it counts with
///
/// - *Only jobs that returned* are measured. Refused, shed, cancelled and panicked ones never are: a
///   fast error would look like a fast server.
/// - *A window* ends after 10 jobs and 100 ms, and then the limit moves by one step; it stays while
///   less than half of it is in use, and doesn't rise while another gate refuses. What a second
///   without any job leaves of a window is dropped. A difference within one standard error of the
///   window's mean is not taken for congestion.
/// - *The baseline* is what a job takes while few run, for each [class](crate::JobSpec) of its own, so
///   that a shift from cheap to dear classes isn't taken for congestion. It is measured anew after
///   every 10 s of use (at first after 1, 2, 4 and 8 s). If a pool is never quiet enough by itself,
///   the limit is lowered for that, to half of what may run at once or less, though not below
///   [`min`](Self::min), until enough jobs have ended: a *probe*, as BBR's ProbeRTT. After the first
///   few, probes take less than 5 % of the time: after a long one the next is as much later.
/// - *In time*: a service time that has become twice as long for good is learnt within 50 s of use
///   (ten times: 95 s), one that has become shorter in about 3 s. An incident of 10 s raises the
///   baseline by no more than half, until about 3 s after its end. Where probes take more than 0.4 s
///   (jobs of about 50 ms and above, or a deep queue that has to drain first), learning longer times
///   is slower in proportion.
/// - A pool that is congested from its start finds its limit after one to two minutes, with hundreds
///   of workers after several: then a low [`initial`](Self::initial) helps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Limit {
    /// None: fixed.
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) min: usize,
    pub(crate) initial: Option<usize>,
}

impl Limit {
    /// The capacity is the limit: nothing is measured, nothing moves. The default, and what a pool
    /// whose bodies only compute should keep.
    ///
    /// [`min`](Self::min) and [`initial`](Self::initial) are checked and otherwise change nothing.
    pub const fn fixed() -> Self {
        Self { algorithm: None, min: 1, initial: None }
    }

    /// Additive increase, multiplicative decrease: one more per window, a tenth less when jobs take
    /// more than twice their baseline.
    ///
    /// As Netflix's `AIMDLimit`, where a time-out is the sign of overload and each completed job
    /// counts; here each window does. It doesn't see congestion that at most doubles the service time,
    /// as where the workers are no more than twice what the servers behind them bear.
    pub const fn aimd() -> Self {
        Self::adaptive(Algorithm::Aimd)
    }

    /// Keeps a short queue behind the workers: the part of the limit by which jobs are slower than
    /// their baseline, `limit x (1 - baseline / service time)`, rounded up.
    ///
    /// Up to 1 lg of it the limit rises by 6 lg, below 3 lg by 1 lg, above 6 lg it falls by 1 lg,
    /// where lg is the decimal logarithm of the limit, at least 1, rounded down. As Netflix's
    /// `VegasLimit`, with a baseline that is measured instead of the least time ever seen.
    pub const fn vegas() -> Self {
        Self::adaptive(Algorithm::Vegas)
    }

    /// Moves a fifth of the way to `limit x gradient + 4`, where the gradient is
    /// `1.5 x baseline / service time`, between 0.5 and 1.
    ///
    /// As Netflix's `Gradient2Limit`, with a baseline that is measured with few jobs running, in place
    /// of the mean of the last 600 samples: that mean becomes the congested time itself when the
    /// congestion lasts, and the limit then grows without end.
    pub const fn gradient() -> Self {
        Self::adaptive(Algorithm::Gradient)
    }

    /// Twice the bandwidth-delay product: the largest throughput of the last 10 s times the baseline
    /// is how many jobs run when nothing queues; as many again may queue.
    ///
    /// While jobs take at most 1.5 times their baseline, the limit rises by at least one per window
    /// instead; above twice, the factor falls from 2 to 1, so that the queue drains. The factor is
    /// BBR's `cwnd_gain`; go-zero's and Kratos' shedders count the same product.
    pub const fn bdp() -> Self {
        Self::adaptive(Algorithm::Bdp)
    }

    /// The limit never falls below this number of jobs; from 0, which means the same as 1, to the
    /// capacity. Default 1. A capacity that is set lower while the pool runs is stronger.
    ///
    /// Choose it below what the servers behind the pool bear without queueing, and below the workers: a
    /// baseline can't be measured with fewer jobs than this.
    pub const fn min(mut self, jobs: usize) -> Self {
        self.min = jobs;
        self
    }

    /// What it starts with; from [`min`](Self::min), at least 1, to the capacity. Default: 20 or twice
    /// the workers, whichever is more, but within those bounds.
    pub const fn initial(mut self, jobs: usize) -> Self {
        self.initial = Some(jobs);
        self
    }

    const fn adaptive(algorithm: Algorithm) -> Self {
        Self { algorithm: Some(algorithm), min: 1, initial: None }
    }

    /// Whether the settings fit a pool of that capacity.
    pub(crate) fn check(&self, capacity: usize) -> Result<(), BuildError> {
        BuildError::check_range("limit.min", self.min, 0..=capacity)?;
        match self.initial {
            Some(initial) => {
                BuildError::check_range("limit.initial", initial, self.min.max(1)..=capacity)
            }
            None => Ok(()),
        }
    }

    /// What finds the limit of a pool with so many workers and slots, none if it is fixed.
    pub(crate) fn limiter(&self, workers: usize, capacity: usize) -> Option<Limiter> {
        let algorithm = self.algorithm?;
        let per_worker = workers.saturating_mul(DEFAULT_INITIAL_PER_WORKER);
        let initial = self.initial.unwrap_or(per_worker.max(DEFAULT_INITIAL)).min(capacity);
        Some(Limiter::new(algorithm, workers, self.min, initial))
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self::fixed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADAPTIVE: [Limit; 4] = [Limit::aimd(), Limit::vegas(), Limit::gradient(), Limit::bdp()];

    #[test]
    fn the_default_is_fixed() {
        assert_eq!(Limit::default(), Limit::fixed());
        assert!(Limit::fixed().min(3).initial(5).limiter(8, 512).is_none());
        assert!(ADAPTIVE.iter().all(|limit| *limit != Limit::fixed()));
        assert_ne!(Limit::vegas(), Limit::vegas().min(2));
    }

    #[test]
    fn it_starts_at_twenty_or_twice_the_workers_within_the_bounds() {
        let start = |limit: &Limit, workers, capacity| {
            limit.limiter(workers, capacity).unwrap().limit(capacity)
        };
        for limit in ADAPTIVE {
            assert_eq!(start(&limit, 8, 512), 20);
            assert_eq!(start(&limit, 16, 512), 32);
            assert_eq!(start(&limit, 8, 10), 10);
            assert_eq!(start(&limit, usize::MAX, 512), 512);
            assert_eq!(start(&limit.clone().initial(7), 8, 512), 7);
            assert_eq!(start(&limit.clone().min(30), 8, 512), 30);
        }
    }

    #[test]
    fn settings_that_cannot_be_used_are_named() {
        let said = |limit: Limit| limit.check(512).err().map(|error| error.to_string());
        assert_eq!(said(Limit::default()), None);
        for limit in ADAPTIVE {
            assert_eq!(said(limit.clone().min(0)), None);
            assert_eq!(said(limit.clone().min(512).initial(512)), None);
            assert_eq!(said(limit.clone().initial(1)), None);
            assert_eq!(
                said(limit.clone().min(513)).unwrap(),
                "limit.min = 513: must be from 0 to 512"
            );
            assert_eq!(
                said(limit.clone().initial(0)).unwrap(),
                "limit.initial = 0: must be from 1 to 512"
            );
            assert_eq!(
                said(limit.clone().initial(513)).unwrap(),
                "limit.initial = 513: must be from 1 to 512"
            );
            assert_eq!(
                said(limit.min(8).initial(7)).unwrap(),
                "limit.initial = 7: must be from 8 to 512"
            );
        }
    }
}
