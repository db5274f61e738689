//! Random trees of nested submits and joins, beside strangers: whatever runs on top of a body that joins is
//! what that body waits for.
//!
//! A worker that joins a job which runs elsewhere runs descendants of that job meanwhile. Whether it gets to
//! do so is a matter of luck, and nothing here rests on it; but nothing else may ever run there, since it
//! could want a lock that the waiting body holds.

mod common;

use std::cell::RefCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};

use common::{Count, Elsewhere, elsewhere, give_way, resolve, rounds_in, watchdog};
use fastrand::Rng;
use weirpool::{JobHandle, Pool, Priority};

/// So many generations has a tree.
const GENERATIONS: usize = 5;

/// A body on a thread's stack.
struct Frame {
    job: usize,
    /// The job that it joins just now.
    joins: Option<usize>,
}

thread_local! {
    /// The bodies on this thread's stack, the top one last.
    static STACK: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
}

/// Handles that a body has not joined.
struct Left(Vec<Pending>);

struct Pending {
    job: usize,
    handle: JobHandle<Left>,
}

/// A job's own number, after those of the jobs that it descends from.
#[derive(Clone)]
struct Line(Vec<usize>);

impl Line {
    fn job(&self) -> usize {
        *self.0.last().expect("it has a number")
    }

    fn is_of(&self, ancestor: usize) -> bool {
        self.0.contains(&ancestor)
    }
}

/// What the jobs of one round share.
struct Forest {
    pool: Pool,
    numbers: Count,
    accepted: Count,
    ran: Count,
    /// How often a body ran on top of another, and was not the very job which that joins.
    helped: Count,
    wrongs: Mutex<Vec<String>>,
    /// Handles that go to another thread.
    sent_away: mpsc::Sender<Pending>,
}

impl Forest {
    fn line(&self, parents: &[usize]) -> Line {
        Line(parents.iter().copied().chain([self.numbers.next()]).collect())
    }

    /// Submits a job that others wait for; runs it here if the pool is full.
    fn submit(
        self: &Arc<Self>,
        line: Line,
        priority: Priority,
        seed: u64,
    ) -> Result<Pending, Left> {
        let (forest, job) = (Arc::clone(self), line.job());
        let once = Once::default();
        let body = move || forest.run(&line, &once, true, seed);
        match self.pool.job().priority(priority).try_submit(body) {
            Ok(handle) => {
                self.accepted.add();
                Ok(Pending { job, handle })
            }
            Err(refused) => Err(waiting_for(job, || {
                self.accepted.add();
                refused.run_here()
            })),
        }
    }

    /// Submits a job that nobody waits for.
    fn spawn(self: &Arc<Self>, line: Line, priority: Priority, seed: u64) {
        let forest = Arc::clone(self);
        let once = Once::default();
        let body = move || drop(forest.run(&line, &once, false, seed));
        if self.pool.job().priority(priority).try_spawn(body).is_ok() {
            self.accepted.add();
        }
    }

    /// The body of each job.
    fn run(self: &Arc<Self>, line: &Line, once: &Once, awaited: bool, seed: u64) -> Left {
        self.check(line, awaited);
        if once.0.fetch_add(1, SeqCst) != 0 {
            self.wrongs.lock().unwrap().push(format!("job {} ran twice", line.job()));
        }
        STACK.with_borrow_mut(|stack| stack.push(Frame { job: line.job(), joins: None }));
        let left = self.grow(line, &mut Rng::with_seed(seed));
        let top = STACK.with_borrow_mut(Vec::pop).expect("it was pushed");
        assert_eq!(top.job, line.job());
        self.ran.add();
        left
    }

    /// All bodies below this one wait for it, or for what it descends from.
    fn check(&self, line: &Line, awaited: bool) {
        STACK.with_borrow(|stack| {
            for below in stack {
                let is_theirs = awaited && below.joins.is_some_and(|joined| line.is_of(joined));
                if !is_theirs {
                    let Frame { job, joins } = below;
                    let wrong = format!("{:?} on top of {job}, which joins {joins:?}", line.0);
                    self.wrongs.lock().unwrap().push(wrong);
                }
            }
            if stack.last().is_some_and(|top| top.joins != Some(line.job())) {
                self.helped.add();
            }
        });
    }

    /// Submits children, and joins some of them and of what they have left.
    fn grow(self: &Arc<Self>, line: &Line, random: &mut Rng) -> Left {
        let mut pending = Vec::new();
        let mut left = Vec::new();
        if line.0.len() < GENERATIONS {
            for _ in 0..random.usize(..4) {
                let (child, seed) = (self.line(&line.0), random.u64(..));
                let priority = priority(random);
                match random.u8(..12) {
                    0 => self.spawn(child, priority, seed),
                    1 => match self.submit(child, priority, seed) {
                        Ok(handle) => drop(self.sent_away.send(handle)),
                        Err(Left(of_child)) => left.extend(of_child),
                    },
                    _ => match self.submit(child, priority, seed) {
                        Ok(handle) => pending.push(handle),
                        Err(Left(of_child)) => pending.extend(of_child),
                    },
                }
                work(random);
            }
        }
        work(random);
        random.shuffle(&mut pending);
        while let Some(next) = pending.pop() {
            match random.u8(..16) {
                0 => drop(next),
                1..4 => left.push(next),
                _ => {
                    let Pending { job, handle } = next;
                    pending.extend(waiting_for(job, || handle.join()).expect("it ran").0);
                }
            }
        }
        Left(left)
    }
}

/// How often a body was called.
#[derive(Default)]
struct Once(AtomicUsize);

/// Does what the body on top of the stack waits for this job with.
fn waiting_for<R>(job: usize, wait: impl FnOnce() -> R) -> R {
    let set = |joins| {
        STACK.with_borrow_mut(|stack| {
            if let Some(top) = stack.last_mut() {
                top.joins = joins;
            }
        });
    };
    set(Some(job));
    let result = wait();
    set(None);
    result
}

/// Most are normal: only those wait in the workers' own queues. None is critical, which could displace others.
fn priority(random: &mut Rng) -> Priority {
    match random.u8(..16) {
        0 => Priority::Low,
        1 => Priority::High,
        _ => Priority::Normal,
    }
}

/// Something to do for a while, so that others come in between.
fn work(random: &mut Rng) {
    match random.u8(..8) {
        0 => give_way(random.usize(..4)),
        1 => (0..random.u32(..20_000)).for_each(|step| _ = black_box(step)),
        _ => {}
    }
}

/// Joins what is left of a tree, from outside.
fn gather(root: Pending) {
    let mut pending = vec![root];
    while let Some(Pending { handle, .. }) = pending.pop() {
        pending.extend(resolve(handle).expect("it ran").0);
    }
}

/// Trees of two threads and a flood of a third; returns how often a worker has helped.
fn round(workers: usize, capacity: usize, seed: u64) -> usize {
    let (sent_away, strays) = mpsc::channel();
    let forest = Arc::new(Forest {
        // Nothing is shed, however long it waits.
        pool: Pool::builder().batch().workers(workers).capacity(capacity).build().unwrap(),
        numbers: Count::new(),
        accepted: Count::new(),
        ran: Count::new(),
        helped: Count::new(),
        wrongs: Mutex::default(),
        sent_away,
    });
    let mut threads: Vec<_> = (0..2)
        .map(|nth| {
            let forest = Arc::clone(&forest);
            elsewhere(move || {
                let mut random = Rng::with_seed(seed ^ nth);
                for _ in 0..8 {
                    let (line, seed) = (forest.line(&[]), random.u64(..));
                    match forest.submit(line, priority(&mut random), seed) {
                        Ok(root) => gather(root),
                        Err(Left(of_root)) => of_root.into_iter().for_each(gather),
                    }
                }
            })
        })
        .collect();
    threads.push({
        let forest = Arc::clone(&forest);
        elsewhere(move || {
            let mut random = Rng::with_seed(!seed);
            for _ in 0..200 {
                // As if it were of the last generation: it submits nothing.
                let parents = [forest.numbers.next(); GENERATIONS];
                let (line, seed) = (forest.line(&parents), random.u64(..));
                forest.spawn(line, priority(&mut random), seed);
                work(&mut random);
            }
        })
    });
    threads.into_iter().for_each(Elsewhere::wait);
    forest.pool.wait_idle();
    strays.try_iter().for_each(gather);
    forest.pool.wait_idle();
    let wrongs = forest.wrongs.lock().unwrap();
    assert!(wrongs.is_empty(), "{workers} workers, seed {seed}: {wrongs:#?}");
    assert_eq!(forest.ran.get(), forest.accepted.get(), "seed {seed}: each runs once");
    forest.helped.get()
}

#[test]
fn on_top_of_a_join_runs_only_what_it_waits_for() {
    let _watchdog = watchdog();
    let mut random = Rng::with_seed(0x7ee5);
    let mut helped = 0;
    for _ in 0..rounds_in(15, 150) {
        for workers in 2..=4 {
            for capacity in [12, 4096] {
                helped += round(workers, capacity, random.u64(..));
            }
        }
    }
    // For the eye: no more than luck.
    println!("a worker has helped {helped} times");
}
