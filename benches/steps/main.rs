//! What submitting, running and joining one empty job cost, each by itself.
//!
//! `cargo bench --bench steps [-- --quick]`
//!
//! The only worker is held while a thread submits a thousand jobs; then it is let go and runs them, while that
//! thread waits; then they are joined. So nobody meets anybody: both sides never want the same line at the
//! same time, and nobody is woken more than once in a thousand jobs. These are the costs to which those of meeting
//! are added, and since they hardly waver on a busy machine, they are the ones to watch when something
//! changes. The pools take turns, round by round. The first tenth of the rounds counts, with the median beside it.

#[path = "../support/mod.rs"]
mod support;

use std::hint::black_box;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use support::figures::{ns, quantile};
use support::options::{Given, Options};
use weirpool::{JobHandle, Pool, QueueDelay};

/// Jobs of one round.
const JOBS: usize = 1_000;

/// Nanoseconds of each step of one job.
struct Round {
    submit: f64,
    run: f64,
    join: f64,
}

/// One pool in one use.
struct Candidate {
    name: &'static str,
    round: Box<dyn FnMut() -> Round>,
}

fn main() {
    let rounds = rounds();
    let mut candidates = candidates();
    let mut measured: Vec<Vec<Round>> = candidates.iter().map(|_| Vec::new()).collect();
    for nth in 0..rounds + rounds / 10 {
        for (candidate, measured) in candidates.iter_mut().zip(&mut measured) {
            let round = (candidate.round)();
            // The first ones fill caches and teach the pools how short the jobs are.
            if nth >= rounds / 10 {
                measured.push(round);
            }
        }
    }
    println!(
        "{JOBS} jobs, {rounds} rounds; ns per job, in brackets the median; {}\n",
        support::conditions()
    );
    println!("{:<28}{:>16}{:>16}{:>16}{:>8}", "", "submit", "run", "join", "sum");
    for (candidate, rounds) in candidates.iter().zip(&measured) {
        let steps: [fn(&Round) -> f64; 3] =
            [|round| round.submit, |round| round.run, |round| round.join];
        let figures = steps.map(|step| {
            let mut times: Vec<_> = rounds.iter().map(step).collect();
            [0.1, 0.5].map(|share| quantile(&mut times, share))
        });
        let cells = figures.map(|[low, median]| format!("{} ({})", ns(low), ns(median)));
        let sum = figures.iter().map(|[low, _]| low).sum::<f64>();
        let [submit, run, join] = cells;
        println!("{:<28}{submit:>16}{run:>16}{join:>16}{:>8}", candidate.name, ns(sum));
    }
}

fn rounds() -> usize {
    let mut options = Options::of_this_process();
    let mut rounds = 2_000;
    while let Some(given) = options.next() {
        match given {
            Given::Option(name) if name == "quick" => rounds = 100,
            Given::Option(name) if name == "rounds" => rounds = options.value(),
            Given::Option(name) => options.reject(&name),
            Given::Help => {
                println!(
                    "Submitting, running and joining, each by itself.\n\n  --quick  --rounds N"
                );
                std::process::exit(0)
            }
        }
    }
    rounds.max(10)
}

fn candidates() -> Vec<Candidate> {
    let spawn = |pool: &Pool, number| pool.try_spawn(job(number)).expect("there is room");
    let submit = |pool: &Pool, number| pool.try_submit(job(number)).expect("there is room");
    let join = |handle: JobHandle<()>| handle.join().expect("it returns");
    let mut all = Vec::new();
    for (detached, joined, bare) in [
        ("weirpool, detached", "weirpool, joined", false),
        ("weirpool-bare, detached", "weirpool-bare, joined", true),
    ] {
        let pool = pool(bare);
        let same = pool.clone();
        let spawn_held = |pool: &Pool, body: Body| pool.try_spawn(body).expect("there is room");
        all.push(Candidate {
            name: detached,
            round: Box::new(move || round(&pool, spawn_held, spawn, |()| ())),
        });
        all.push(Candidate {
            name: joined,
            round: Box::new(move || round(&same, spawn_held, submit, join)),
        });
    }
    let pool = threadpool::ThreadPool::new(1);
    all.push(Candidate {
        name: "threadpool, detached",
        round: Box::new(move || {
            let execute = |pool: &threadpool::ThreadPool, body: Body| pool.execute(body);
            round(&pool, execute, |pool, number| pool.execute(job(number)), |()| ())
        }),
    });
    all
}

/// With all protections, but for patience: the door mustn't refuse a thousand jobs behind a worker that is
/// held.
fn pool(bare: bool) -> Pool {
    let builder = Pool::builder().workers(1).capacity(JOBS + 2);
    let builder = builder.queue_delay(QueueDelay::graded(Duration::from_secs(60)));
    let builder = if bare { builder.batch() } else { builder };
    builder.build().expect("the settings make sense")
}

type Body = Box<dyn FnOnce() + Send>;

/// As real closures do, it captures something.
fn job(number: usize) -> impl FnOnce() + Send + 'static {
    move || {
        black_box(number);
    }
}

fn round<P, H>(pool: &P, execute: fn(&P, Body), submit: fn(&P, usize) -> H, join: fn(H)) -> Round {
    let (hold, held) = channel::<()>();
    let (begun, begins) = channel();
    execute(
        pool,
        Box::new(move || {
            let _ = begun.send(());
            let _ = held.recv();
        }),
    );
    begins.recv().expect("the worker is free");

    let mut handles = Vec::with_capacity(JOBS);
    let submitting = Instant::now();
    handles.extend((0..JOBS).map(|number| submit(pool, number)));
    let submit_ns = per_job(submitting.elapsed());

    let (ended, ends) = channel();
    execute(
        pool,
        Box::new(move || {
            let _ = ended.send(Instant::now());
        }),
    );
    let running = Instant::now();
    drop(hold);
    let run_ns = per_job(ends.recv().expect("all are run").duration_since(running));

    let joining = Instant::now();
    handles.into_iter().for_each(join);
    Round { submit: submit_ns, run: run_ns, join: per_job(joining.elapsed()) }
}

fn per_job(all: Duration) -> f64 {
    all.as_nanos() as f64 / JOBS as f64
}
