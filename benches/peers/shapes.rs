//! The shapes: what is done to a pool, and how that becomes nanoseconds.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::peer::Peer;
use crate::support::figures::{median, quantile};
use crate::support::work::Work;
use crate::tally::ENDED;
use crate::tree::Tree;

const PRODUCERS: usize = 4;
const BURST: usize = 32;
/// Jobs that one producer has in flight at most, for every pool alike: no service lets requests pile up
/// without end either, and a queue that drains in little more than a millisecond is one that a pool
/// with a door does not refuse.
const WINDOW: u64 = 4_096;
const WINDOW_NS: u64 = 1_500_000;
/// How often the producer of detached jobs looks how many are still in flight.
const LOOK_EVERY: u64 = 256;
/// Until the workers of every pool have given up looking and sleep.
const IDLE: Duration = Duration::from_micros(500);

/// What one round of one shape said.
pub(crate) struct Measured {
    /// One figure per name that the shape has.
    pub(crate) ns: Vec<f64>,
    pub(crate) jobs: u64,
}

impl Measured {
    /// The time of all, by the jobs that ran.
    fn per_job(started: Instant, ran: u64) -> Self {
        // At a standstill of the machine a pool may have shed all of a round.
        Self { ns: vec![started.elapsed().as_nanos() as f64 / ran.max(1) as f64], jobs: ran.max(1) }
    }
}

/// A closure with some captures, as real ones have: some pools allocate nothing for one without.
fn job(number: u64, work: Work) -> impl FnOnce() -> u64 + Send + 'static {
    move || work.run(number)
}

/// The same, which says so when it is gone.
fn counted_job(number: u64, work: Work) -> impl FnOnce() + Send + 'static {
    let ticket = ENDED.ticket();
    move || {
        black_box(work.run(number));
        drop(ticket);
    }
}

/// One producer outside, nothing returned; until the last job has run.
pub(crate) fn detached<P: Peer>(peer: P, jobs: u64) -> Measured {
    let (before, shed) = (ENDED.count(), peer.shed());
    let started = Instant::now();
    for number in 0..jobs {
        if number % LOOK_EVERY == 0 {
            while before + number > ENDED.count() + WINDOW {
                thread::yield_now();
            }
        }
        peer.spawn(counted_job(number, Work::NONE));
    }
    ENDED.wait_for(before + jobs);
    Measured::per_job(started, jobs - (peer.shed() - shed))
}

/// One producer outside, every result asked for, window by window. The time of one job in nanoseconds
/// says how many make a window.
pub(crate) fn joined<P: Peer>(peer: P, jobs: u64, work_ns: u64) -> Measured {
    let (work, window) = (Work::of_ns(work_ns), WINDOW.min(WINDOW_NS / work_ns.max(1)));
    let started = Instant::now();
    let ran = in_windows(peer, jobs, window, work);
    Measured::per_job(started, ran)
}

/// Submits and joins them, a window at a time; returns how many ran.
fn in_windows<P: Peer>(peer: P, jobs: u64, window: u64, work: Work) -> u64 {
    let full = (0..jobs / window).map(|_| submit_and_join(peer, window, work)).sum::<u64>();
    full + submit_and_join(peer, jobs % window, work)
}

/// Returns how many of the jobs ran.
fn submit_and_join<P: Peer>(peer: P, jobs: u64, work: Work) -> u64 {
    let mut handles = Vec::with_capacity(jobs as usize);
    for number in 0..jobs {
        handles.push(peer.submit(job(number, work)));
    }
    handles.into_iter().filter_map(|handle| black_box(P::join(handle))).count() as u64
}

/// Four producers outside, each of which asks for all results of its own.
pub(crate) fn producers<P: Peer>(peer: P, jobs: u64) -> Measured {
    let each = jobs / PRODUCERS as u64;
    let barrier = Barrier::new(PRODUCERS + 1);
    thread::scope(|scope| {
        let producer = || {
            barrier.wait();
            in_windows(peer, each, WINDOW / PRODUCERS as u64, Work::NONE)
        };
        let producers: Vec<_> = (0..PRODUCERS).map(|_| scope.spawn(producer)).collect();
        // The clock starts before the first of them can.
        let started = Instant::now();
        barrier.wait();
        let ran = producers.into_iter().map(|producer| producer.join().expect("no panic")).sum();
        Measured::per_job(started, ran)
    })
}

/// One job that submits all others from inside, nothing returned; until the last one has run.
pub(crate) fn nested<P: Peer>(peer: P, jobs: u64) -> Measured {
    let (all, shed) = (ENDED.count() + jobs, peer.shed());
    let started = Instant::now();
    let submit_all = move || {
        for number in 0..jobs {
            peer.spawn(counted_job(number, Work::NONE));
        }
        jobs
    };
    // Without this one job there would be none.
    while P::join(peer.submit(submit_all)).is_none() {}
    ENDED.wait_for(all);
    Measured::per_job(started, jobs - (peer.shed() - shed))
}

/// A tree of nested submits and joins; by its leaves, of which there are as many as forks, and one.
pub(crate) fn fork_join(tree: Tree, run: impl FnOnce() -> u64) -> Measured {
    let started = Instant::now();
    let leaves = run();
    assert_eq!(leaves, tree.leaves(), "the tree was not worked off");
    Measured::per_job(started, leaves)
}

/// One job at a time, there and back: median, and how bad it gets.
///
/// Each waits for the one before, so that these are times of a pool that has nothing else to do; they
/// are no latencies of a service under load.
pub(crate) fn round_trips<P: Peer>(peer: P, trips: u64) -> Measured {
    let once = |number| {
        let started = Instant::now();
        black_box(peer.round_trip(job(number, Work::NONE)));
        started.elapsed().as_nanos() as f64
    };
    let mut times: Vec<_> = (0..trips).map(once).collect();
    let ns = [0.5, 0.99, 0.999].map(|share| quantile(&mut times, share)).to_vec();
    Measured { ns, jobs: trips }
}

/// After a pause, 32 jobs at once, and all results; the whole burst, in the median.
pub(crate) fn bursts<P: Peer>(peer: P, bursts: u64) -> Measured {
    let once = |_| {
        thread::sleep(IDLE);
        let started = Instant::now();
        let ran = submit_and_join(peer, BURST as u64, Work::NONE);
        started.elapsed().as_nanos() as f64 * BURST as f64 / ran as f64
    };
    let mut times: Vec<_> = (0..bursts).map(once).collect();
    Measured { ns: vec![median(&mut times)], jobs: bursts * BURST as u64 }
}
