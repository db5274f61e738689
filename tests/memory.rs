//! Memory of a process that works on and on: what it has taken after a while, it has taken for good.
//!
//! A test binary of its own, with one test, so that nothing else takes memory meanwhile.

#![cfg(target_os = "linux")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use common::{occupy, rounds_in, watchdog};
use weirpool::{JobHandle, Pool, Priority};

/// Bytes allocated and not freed, in the whole process.
static LIVE_BYTES: AtomicIsize = AtomicIsize::new(0);

struct Counting;

// SAFETY: everything is left to the system's allocator; the counter neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE_BYTES.fetch_add(layout.size() as isize, Relaxed);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as isize, Relaxed);
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn what_a_long_run_takes_is_what_a_short_one_takes() {
    let _watchdog = watchdog();
    // First, while there is no block yet that another pool has left.
    a_churn_of_all_ends_and_sizes_stays_within_the_bound();
    ten_million_jobs_take_no_more_than_a_hundred_thousand();
}

// ── The whole process ───────────────────────────────────────────────────────────────────────────

const WORKERS: usize = 2;
const IN_FLIGHT: usize = 1_000;
/// What may be kept of the blocks of these jobs, which are small: see [`KEPT_BYTES`].
const KEPT_SMALL_BYTES: usize = (IN_FLIGHT + (WORKERS + 1) * 2 * 32) * 128;

fn ten_million_jobs_take_no_more_than_a_hundred_thousand() {
    let pool = Pool::new(WORKERS, IN_FLIGHT).unwrap();
    let mut handles = Vec::with_capacity(IN_FLIGHT);
    let (short, long) = (100_000, rounds_in(400_000, 10_000_000));
    let mut run = |jobs: usize| {
        for _ in 0..jobs / IN_FLIGHT {
            handles.extend((0..IN_FLIGHT).map(|number| pool.try_submit(move || number).unwrap()));
            let sum: usize = handles.drain(..).map(|job: JobHandle<_>| job.join().unwrap()).sum();
            assert_eq!(sum, IN_FLIGHT * (IN_FLIGHT - 1) / 2);
        }
    };
    run(short);
    let (before, resident_before) = (live_bytes(), resident_kib());
    run(long - short);
    let (after, resident_after) = (live_bytes(), resident_kib());
    println!("{resident_before} KiB after {short} jobs, {resident_after} KiB after {long}");
    // Judged by what is allocated: the system's figure is rough where there are many cores.
    let bound = (KEPT_SMALL_BYTES + SPARE_BYTES) as isize;
    assert!(after <= before + bound, "{before} bytes after {short} jobs, {after} after {long}");
}

/// What the process has of real memory, for the eye.
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix("kB").unwrap().trim().parse().unwrap()
}

// ── The blocks ──────────────────────────────────────────────────────────────────────────────────

const SLOTS: usize = 64;

/// Blocks are kept in three sizes of together so many bytes: as many of each as the pool has slots,
/// and two magazines of 32 for each thread that ever had one.
const KEPT_BYTES: usize = (SLOTS + (WORKERS + 1) * 2 * 32) * (128 + 256 + 512);
/// The queues have their room from the beginning; what else grows a little on the way (a deque, the
/// room to sweep it) is a few KiB.
const SPARE_BYTES: usize = 16 << 10;

fn a_churn_of_all_ends_and_sizes_stays_within_the_bound() {
    let pool = Pool::new(WORKERS, SLOTS).unwrap();
    let mut churn = Churn { pool: &pool, random: fastrand::Rng::with_seed(1), ended: [0; 4] };
    let before = live_bytes();
    let mut most = 0;
    for _ in 0..rounds_in(2_000, 60_000) {
        churn.round();
        most = most.max(live_bytes() - before);
    }
    let ended = churn.ended;
    println!("{most} bytes kept at most; [joined, dropped, cancelled, nested] {ended:?}");
    assert!(ended.iter().all(|times| *times > 1_000), "not all ends were seen: {ended:?}");
    let bound = (KEPT_BYTES + SPARE_BYTES) as isize;
    assert!(most <= bound, "{most} bytes are kept, of {bound} at most");
}

fn live_bytes() -> isize {
    LIVE_BYTES.load(Relaxed)
}

struct Churn<'a> {
    pool: &'a Pool,
    random: fastrand::Rng,
    /// Jobs joined, dropped by their owner, cancelled, and submitted in a body.
    ended: [usize; 4],
}

impl Churn<'_> {
    /// Fills the pool, in half of the rounds behind workers that are held, and ends all in some way.
    fn round(&mut self) {
        let held = self.random.bool().then(|| occupy(self.pool));
        let room = SLOTS - self.pool.in_flight();
        let mut jobs: Vec<_> = (0..room).map(|_| self.submit()).collect();
        self.random.shuffle(&mut jobs);
        for job in jobs.drain(..room / 2) {
            self.end(job);
        }
        if let Some(held) = held {
            held.free();
        }
        for job in jobs {
            self.join(job);
        }
        self.nested();
        self.pool.wait_idle();
    }

    /// A job whose captures have one of the sizes of blocks, or are too large for all.
    fn submit(&mut self) -> JobHandle<usize> {
        match self.random.u8(..5) {
            0 => self.submit_sized::<8>(),
            1 => self.submit_sized::<100>(),
            2 => self.submit_sized::<400>(),
            3 => self.submit_sized::<1_000>(),
            _ => self.submit_sized::<5_000>(),
        }
    }

    fn submit_sized<const BYTES: usize>(&mut self) -> JobHandle<usize> {
        let lanes = [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];
        let lane = lanes[self.random.usize(..lanes.len())];
        let captures = [1_u8; BYTES];
        let job = move || captures.iter().map(|byte| usize::from(*byte)).sum();
        self.pool.job().priority(lane).try_submit(job).expect("there is room")
    }

    fn end(&mut self, job: JobHandle<usize>) {
        if self.random.bool() {
            self.ended[2] += usize::from(job.cancel());
        } else {
            self.ended[1] += 1;
        }
    }

    fn join(&mut self, job: JobHandle<usize>) {
        assert!(job.join().unwrap() >= 8);
        self.ended[0] += 1;
    }

    /// Some jobs in a body, each joined in place, cancelled or left to itself.
    fn nested(&mut self) {
        let (inner, children) = (self.pool.clone(), self.random.usize(..16));
        let body = move || {
            for number in 0..children {
                let child = inner.try_submit(move || number).expect("there is room");
                match number % 3 {
                    0 => assert_eq!(child.join().unwrap(), number),
                    1 => drop(child.cancel()),
                    _ => drop(child),
                }
            }
        };
        self.pool.try_submit(body).expect("there is room").join().unwrap();
        self.ended[3] += children;
    }
}
