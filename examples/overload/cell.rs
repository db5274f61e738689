//! One cell of the table: one load, offered to one fresh pool, while somebody looks on.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::arrivals::Load;
use crate::generator::{generate, offer_at_once};
use crate::input::Work;
use crate::memory::{self, Resident};
use crate::outcome::{Observed, Outcome};
use crate::pools::Contender;
use crate::progress::Progress;
use crate::run::Run;
use crate::samples::{SAMPLE_EVERY, Samples};
use crate::{Stop, interrupt};

/// The graded door of weirpool wants 50 service times before it refuses anything.
const WARM_UP_JOBS: usize = 100;

/// A queue of jobs that return at once is empty long before this, unless a job was lost.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Offers `load` to `pool` and watches what happens.
pub(crate) fn measure(
    pool: &dyn Contender,
    workers: usize,
    work: &Arc<Work>,
    load: &Load,
    progress: &mut Progress,
) -> Result<Outcome, Stop> {
    warm_up(pool, workers, work)?;
    let shed_before = pool.shed();
    let refused_before = pool.refused_by();
    let run = Run::new(work, load);
    let mut samples = Samples::with_room_for(load.period);
    let mut resident = Resident::open();
    memory::give_back_freed();
    let baseline = resident.bytes();

    let generated = thread::scope(|scope| {
        let generator = scope.spawn(|| generate(&run, load.period, pool));
        while !generator.is_finished() {
            thread::sleep(SAMPLE_EVERY);
            let growth = growth(baseline, resident.bytes());
            samples.take(run.elapsed(), pool.queued(&run), growth);
            progress.detail(|| detail(&run, load.period, pool));
        }
        generator.join().expect("the generator does not panic")
    })?;

    let active_workers = pool.active_workers();
    drain(&run, pool, shed_before)?;
    let mut refused_by = pool.refused_by();
    for (reason, count) in &mut refused_by {
        *count -= refused_before.get(reason).copied().unwrap_or(0);
    }
    let shed = pool.shed() - shed_before;
    let observed = Observed { generated, samples, shed, refused_by, active_workers };
    Ok(Outcome::new(&run, observed))
}

fn growth(baseline: Option<u64>, now: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(baseline?))
}

/// Starts all threads, gives each its compressor and lets the pool learn how long a job takes, so
/// that a run does not pay for it. A few jobs at a time: a crowd would put an overload protection on
/// its guard before the run.
fn warm_up(pool: &dyn Contender, workers: usize, work: &Arc<Work>) -> Result<(), Stop> {
    let few = Load::at_once(workers * 2);
    for _ in 0..WARM_UP_JOBS.div_ceil(workers * 2) {
        let shed_before = pool.shed();
        let run = Run::new(work, &few);
        offer_at_once(&run, pool)?;
        drain(&run, pool, shed_before)?;
    }
    Ok(())
}

fn detail(run: &Run, period: Duration, pool: &dyn Contender) -> String {
    let seconds = run.elapsed().min(period).as_secs_f64();
    format!(": {seconds:.1} of {:.1} s, {} queued", period.as_secs_f64(), pool.queued(run))
}

/// Waits until every accepted job has ended or was shed.
fn drain(run: &Run, pool: &dyn Contender, shed_before: u64) -> Result<(), Stop> {
    let give_up = Instant::now() + DRAIN_LIMIT;
    loop {
        let accepted = run.accepted() as u64;
        let ended = run.ended() as u64;
        let shed = pool.shed() - shed_before;
        if ended + shed == accepted {
            return Ok(());
        }
        interrupt::check()?;
        if Instant::now() > give_up {
            return Err(format!(
                "the pool accepted {accepted} jobs, but only {ended} ended and {shed} were shed"
            )
            .into());
        }
        thread::sleep(Duration::from_millis(1));
    }
}
