//! One run: jobs offered on a schedule, whatever becomes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use weirpool::Pool;

use crate::support::cpu;
use crate::support::work::Work;

/// An answer later than this is of no use.
const IN_TIME: Duration = Duration::from_millis(25);
/// How often the source looks what is due. It does not spin in between: it shares the cores with the
/// workers, as whoever accepts requests does.
const TICK: Duration = Duration::from_micros(500);

/// What came of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outcome {
    pub(crate) offered: u64,
    pub(crate) completed: u64,
    pub(crate) in_time: u64,
    pub(crate) wall: Duration,
    /// Of the whole process.
    pub(crate) cpu: Duration,
    /// Of the thread that offered, part of the other.
    pub(crate) source_cpu: Duration,
}

impl Outcome {
    /// Jobs done per second of CPU, whoever spent it on what.
    pub(crate) fn per_cpu_second(&self) -> f64 {
        self.completed as f64 / self.cpu.as_secs_f64()
    }

    /// Jobs done per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.completed as f64 / self.wall.as_secs_f64()
    }

    /// CPU seconds that the source spent on one arrival.
    pub(crate) fn source_seconds(&self) -> f64 {
        self.source_cpu.as_secs_f64() / self.offered as f64
    }
}

#[derive(Default)]
struct Done {
    completed: AtomicU64,
    in_time: AtomicU64,
}

/// Jobs that are there when a worker wants one, none refused: what there is to be kept.
pub(crate) fn closed_loop(workers: usize, work: Work, length: Duration) -> Outcome {
    let batch = 64 * workers as u64;
    let pool = Pool::new(workers, batch as usize).expect("the settings make sense");
    run(&pool, |done| {
        let started = Instant::now();
        let mut offered = 0;
        while started.elapsed() < length {
            for number in 0..batch {
                pool.try_spawn(job(done, work, Instant::now(), number)).expect("there is room");
            }
            pool.wait_idle();
            offered += batch;
        }
        offered
    })
}

/// Jobs at so many per second, in an open loop, to a pool with the default settings.
pub(crate) fn open_loop(workers: usize, work: Work, per_second: f64, length: Duration) -> Outcome {
    let pool = Pool::builder().workers(workers).build().expect("the settings make sense");
    run(&pool, |done| {
        let started = Instant::now();
        let mut offered = 0;
        loop {
            let elapsed = started.elapsed();
            let due = (elapsed.min(length).as_secs_f64() * per_second) as u64;
            while offered < due {
                // When it should have come, not when the source got round to it.
                let arrival = started + Duration::from_secs_f64(offered as f64 / per_second);
                offered += 1;
                let _ = pool.try_spawn(job(done, work, arrival, offered));
            }
            if elapsed >= length {
                return offered;
            }
            thread::sleep(TICK);
        }
    })
}

fn job(
    done: &Arc<Done>,
    work: Work,
    arrival: Instant,
    number: u64,
) -> impl FnOnce() + Send + 'static {
    let done = Arc::clone(done);
    move || {
        std::hint::black_box(work.run(number));
        done.completed.fetch_add(1, Relaxed);
        if arrival.elapsed() <= IN_TIME {
            done.in_time.fetch_add(1, Relaxed);
        }
    }
}

fn run(pool: &Pool, source: impl FnOnce(&Arc<Done>) -> u64) -> Outcome {
    let done = Arc::new(Done::default());
    let (started, cpu, source_cpu) = (Instant::now(), cpu::process(), cpu::thread());
    let offered = source(&done);
    let source_cpu = cpu::thread() - source_cpu;
    pool.wait_idle();
    Outcome {
        offered,
        completed: done.completed.load(Relaxed),
        in_time: done.in_time.load(Relaxed),
        wall: started.elapsed(),
        cpu: cpu::process() - cpu,
        source_cpu,
    }
}
