//! The load generator: sends what is due, late or not, and never waits for an answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clocks;
use crate::interrupt::sleep_until;
use crate::outcome::IN_TIME;
use crate::pools::Contender;
use crate::run::{Job, Run};
use crate::{AnyError, Stop};

/// How long after the last arrival the jobs that still wait are given up. Longer than [`IN_TIME`]:
/// no job that could have been in time is given up.
const GRACE: Duration = Duration::from_millis(100);
const _: () = assert!(GRACE.as_nanos() > IN_TIME.as_nanos());

/// What the generator says of itself.
pub(crate) struct Generated {
    /// How long the load was offered: the period, or more if the generator fell behind.
    pub(crate) offered_for: Duration,
    pub(crate) queue_peak: usize,
    /// The most that an arrival was sent behind its schedule.
    pub(crate) lag: Duration,
    /// The same, on average over the arrivals.
    pub(crate) mean_lag: Duration,
    /// Processor time that it needed.
    pub(crate) cpu: Option<Duration>,
    /// Processor time that the whole process got while the load was offered.
    pub(crate) process_cpu: Option<Duration>,
}

/// The generator's whole life, on a thread of its own. However it ends, the run is closed.
pub(crate) fn generate(
    run: &Arc<Run>,
    period: Duration,
    pool: &dyn Contender,
) -> Result<Generated, Stop> {
    let mut generator = Generator::new(run, pool);
    let end = generator.offer_over(period);
    run.close();
    end
}

/// Sends jobs that are all due now.
pub(crate) fn offer_at_once(run: &Arc<Run>, pool: &dyn Contender) -> Result<(), Stop> {
    Generator::new(run, pool).offer_all()
}

struct Generator<'a> {
    run: &'a Arc<Run>,
    pool: &'a dyn Contender,
    next: usize,
    queue_peak: usize,
    lag: Duration,
    lags: Duration,
}

impl<'a> Generator<'a> {
    fn new(run: &'a Arc<Run>, pool: &'a dyn Contender) -> Self {
        let (lag, lags) = (Duration::ZERO, Duration::ZERO);
        Generator { run, pool, next: 0, queue_peak: 0, lag, lags }
    }

    fn offer_over(&mut self, period: Duration) -> Result<Generated, Stop> {
        let start = self.run.start;
        sleep_until(start)?;
        let (cpu, process_cpu) = (clocks::thread_cpu(), clocks::process_cpu());
        self.offer_all()?;
        sleep_until(start + period)?;
        let offered_for = self.run.elapsed();
        let cpu = since(cpu, clocks::thread_cpu());
        let process_cpu = since(process_cpu, clocks::process_cpu());
        sleep_until(start + offered_for + GRACE)?;
        Ok(Generated {
            offered_for,
            queue_peak: self.queue_peak,
            lag: self.lag,
            mean_lag: self.lags / u32::try_from(self.next.max(1)).map_err(AnyError::from)?,
            cpu,
            process_cpu,
        })
    }

    fn offer_all(&mut self) -> Result<(), Stop> {
        while let Some(&due) = self.run.arrivals.get(self.next) {
            sleep_until(self.run.start + due)?;
            self.offer_due();
        }
        Ok(())
    }

    /// Sends all that is due by now.
    fn offer_due(&mut self) {
        let now = self.run.elapsed();
        while let Some(late) =
            self.run.arrivals.get(self.next).and_then(|&due| now.checked_sub(due))
        {
            self.lag = self.lag.max(late);
            self.lags += late;
            self.offer(self.next);
            self.next += 1;
        }
        self.queue_peak = self.queue_peak.max(self.pool.queued(self.run));
    }

    fn offer(&self, index: usize) {
        let job = Job { run: Arc::clone(self.run), index };
        let asked = Instant::now();
        if self.pool.offer(job) {
            self.run.note_accepted();
        } else {
            self.run.note_refused(index, asked.elapsed());
        }
    }
}

fn since(from: Option<Duration>, to: Option<Duration>) -> Option<Duration> {
    Some(to?.saturating_sub(from?))
}
