//! Everything at once, for as long as you like, with ghost counters that the pool does not see.
//!
//! ```text
//! cargo run --release --example stress -- --seconds 60 --seed 1 --submitters 8 --workers 4
//! ```
//!
//! Submitting threads do at random what users do: submit at any priority, with and without waiting
//! for a slot, in partitions and with bytes, join, cancel, give up, drop the handle, panic, set
//! deadlines, reserve slots, borrow in a scope, submit and join inside bodies. Meanwhile somebody
//! changes the capacity, somebody waits for the pool to be idle, and a watcher looks at the bounds
//! all the time.
//!
//! Every now and then all of them pause, and at the end: then no job may be lost, no slot, no byte, no
//! thread. Each closure that was made was dropped once, each accepted job ended once, nothing is in
//! flight, no bound was ever passed and each can be reached again, and all workers still run side by
//! side. Exit code 1 and a message if not.

mod ghosts;
mod ground;
mod options;
mod rest;
mod submitter;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use fastrand::Rng;
use ghosts::Ghosts;
use ground::{Bounds, Ground};
use options::{HELP, Options};
use submitter::{Mix, Submitter};
use weirpool::{Reason, ShedReason, Shutdown};

/// After so long without any job ending, something hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is done until the next pause.
struct Round {
    mix: Mix,
    resizing: bool,
}

/// The basics, and what else there is. Many things let in whoever waits, and so heal what was missed:
/// a new capacity everybody, the end of a job with bytes whoever waits in any partition. So there are
/// rounds without them.
const ROUNDS: [Round; 4] = [
    Round { mix: Mix::Basics, resizing: false },
    Round { mix: Mix::Undivided, resizing: false },
    Round { mix: Mix::Everything, resizing: false },
    Round { mix: Mix::Everything, resizing: true },
];

/// After so long all pause.
const ROUND: Duration = Duration::from_millis(300);

/// Runs `work` on a thread of its own, prints how it goes, and gives up when no job ends any more.
fn supervise(ground: &Ground, all: &Ghosts, work: impl FnOnce() + Send + 'static) -> bool {
    let (done, is_done) = mpsc::channel();
    let worker = thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    let (begun, mut moved_at, mut moved) = (Instant::now(), Instant::now(), 0);
    loop {
        match is_done.recv_timeout(Duration::from_secs(1)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) => return true,
            Err(RecvTimeoutError::Disconnected) => {
                all.violation(format_args!("a thread of ours panicked: {:?}", worker.join().err()));
                return false;
            }
        }
        let (dropped, refused) = (all.dropped.load(SeqCst), all.refused.load(SeqCst));
        println!(
            "{:>4} s: {dropped} jobs settled, {refused} of them refused, {} in flight, peak {}",
            begun.elapsed().as_secs(),
            ground.pool.in_flight(),
            all.peak.load(SeqCst),
        );
        if dropped != moved {
            (moved, moved_at) = (dropped, Instant::now());
        } else if moved_at.elapsed() > PATIENCE {
            all.violation(format_args!("nothing moves any more: {:?}", ground.pool.snapshot()));
            return false;
        }
    }
}

/// Looks at the bounds.
fn watch(ground: &Ground, all: &Ghosts, over: &AtomicBool) {
    let bounds = &ground.bounds;
    while !over.load(SeqCst) {
        all.see(ground);
        let seen = ground.pool.snapshot();
        let sum = seen.reserved + seen.queued + seen.running;
        all.check(seen.in_flight == sum, format_args!("{} is not {sum}", seen.in_flight));
        all.check(seen.in_flight <= bounds.capacity, "a snapshot above the capacity");
        all.check(seen.bytes <= bounds.max_bytes, "a snapshot above the budget of bytes");
        thread::park_timeout(Duration::from_micros(100));
    }
}

/// Changes the capacity all the time; at last it is what it was.
fn resize(ground: &Ground, all: &Ghosts, rng: &mut Rng, over: &AtomicBool) {
    let largest = ground.bounds.capacity;
    while !over.load(SeqCst) {
        let slots = if rng.bool() { largest } else { rng.usize(1..=largest) };
        ground.pool.set_capacity(slots);
        all.resized.fetch_add(1, SeqCst);
        thread::park_timeout(Duration::from_micros(rng.u64(0..500)));
    }
    ground.pool.set_capacity(largest);
}

/// Waits for the pool to be idle, again and again.
fn idle(ground: &Ground, all: &Ghosts, over: &AtomicBool) {
    while !over.load(SeqCst) {
        ground.pool.wait_idle();
        all.idle.fetch_add(1, SeqCst);
        thread::park_timeout(Duration::from_millis(1));
    }
}

/// Load until `end`.
fn load(
    ground: &Ground,
    all: &Arc<Ghosts>,
    submitters: usize,
    seeds: &mut Rng,
    round: &Round,
    end: Instant,
) {
    let (over, mut resizes) = (AtomicBool::new(false), seeds.fork());
    thread::scope(|scope| {
        let submitters: Vec<_> = (0..submitters)
            .map(|_| {
                let (ground, all) = (ground.clone(), Arc::clone(all));
                let submitter = Submitter::new(ground, all, seeds.fork(), round.mix);
                scope.spawn(move || submitter.run(end))
            })
            .collect();
        if round.mix > Mix::Basics {
            scope.spawn(|| idle(ground, all, &over));
        }
        if round.resizing {
            scope.spawn(|| resize(ground, all, &mut resizes, &over));
        }
        for submitter in submitters {
            if submitter.join().is_err() {
                all.violation("a submitter panicked");
            }
        }
        over.store(true, SeqCst);
    });
}

/// The whole run; violations are in `all`.
fn stress(options: &Options, all: &Arc<Ghosts>) {
    let stopped = Arc::new(AtomicUsize::new(0));
    let hook = Arc::clone(&stopped);
    let ground = Ground::new(options, move || {
        hook.fetch_add(1, SeqCst);
    });

    let over = Arc::new(AtomicBool::new(false));
    let watcher = thread::spawn({
        let (ground, all, over) = (ground.clone(), Arc::clone(all), Arc::clone(&over));
        move || watch(&ground, &all, &over)
    });

    let (own, ghosts, settings) = (ground.clone(), Arc::clone(all), options.clone());
    let finished = supervise(&ground, all, move || {
        let end = Instant::now() + Duration::from_secs(settings.seconds);
        let mut seeds = Rng::with_seed(settings.seed);
        let rounds = if settings.only_basics { &ROUNDS[..1] } else { &ROUNDS[1..] };
        for round in rounds.iter().cycle().take_while(|_| Instant::now() < end) {
            let pause = end.min(Instant::now() + ROUND);
            load(&own, &ghosts, settings.submitters, &mut seeds, round, pause);
            rest::check(&own, settings.workers, &ghosts);
        }
        print_summary(&settings, &own, &ghosts);
        let report = own.pool.shutdown(Shutdown::Drain, None);
        ghosts.check(report.still_running == 0, format_args!("after all: {report:?}"));
    });
    over.store(true, SeqCst);
    if !finished {
        return;
    }
    if watcher.join().is_err() {
        all.violation("the watcher panicked");
    }
    drop(ground);
    let begun = Instant::now();
    while stopped.load(SeqCst) < options.workers && begun.elapsed() < PATIENCE {
        thread::yield_now();
    }
    let exited = stopped.load(SeqCst);
    all.check(exited == options.workers, format_args!("{exited} threads have exited"));
}

fn print_summary(options: &Options, ground: &Ground, all: &Ghosts) {
    let get = |count: &AtomicU64| count.load(SeqCst);
    println!(
        "seed {}: {} closures, {} accepted, {} refused, {} run, {} cancelled, peak {} of {}",
        options.seed,
        get(&all.made),
        get(&all.accepted),
        get(&all.refused),
        get(&all.started),
        get(&all.cancels_won),
        all.peak.load(SeqCst),
        options.capacity,
    );
    if options.only_basics {
        return;
    }
    let (seen, (peaks, bytes)) = (ground.pool.snapshot(), all.check_books_at_rest());
    println!(
        "    {} displaced, {} expired, {} gave up waiting, {} refused for a partition, {} for bytes",
        seen.shed.get(ShedReason::Displaced),
        seen.shed.get(ShedReason::Deadline),
        get(&all.given_up),
        seen.rejected.get(Reason::Partition),
        seen.rejected.get(Reason::Bytes),
    );
    let maxima: Vec<_> = ground.bounds.shares.iter().map(|share| share.max).collect();
    println!(
        "    partitions' peaks {peaks:?} of {maxima:?}, bytes' {bytes} of {}, {} times resized, {} times idle",
        ground.bounds.max_bytes,
        get(&all.resized),
        get(&all.idle),
    );
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("{wrong}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    println!("{options:?}");
    let all = Arc::new(Ghosts::new(Bounds::new(&options)));
    stress(&options, &all);
    match all.violations() {
        0 => {
            println!("OK: nothing was lost");
            ExitCode::SUCCESS
        }
        violations => {
            println!("FAILED: {violations} violations, seed {}", options.seed);
            ExitCode::FAILURE
        }
    }
}
