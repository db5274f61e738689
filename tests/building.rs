//! Building: every setting is checked, every default holds, every thread has its name, its stack and its hooks, and a pool whose
//! threads cannot all be made leaves none behind.

mod common;

use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use std::time::Duration;

use common::{
    Rendezvous, STEP, assert_all_slots_free, assert_all_workers_live, eventually, fail, occupy,
    watchdog,
};
use weirpool::{BuildError, Builder, Pool, Shutdown};

/// Runs `look` once on every worker, all at the same time.
fn on_every_worker<T: Send + 'static>(pool: &Pool, look: fn() -> T) -> Vec<T> {
    let all = Rendezvous::new(pool.workers());
    let jobs: Vec<_> = (0..pool.workers())
        .map(|_| {
            let all = all.clone();
            pool.try_submit(move || {
                all.meet();
                look()
            })
            .unwrap()
        })
        .collect();
    jobs.into_iter().map(|job| job.join().unwrap()).collect()
}

#[test]
fn a_setting_that_makes_no_sense_is_named_with_its_value() {
    type Build = fn() -> Result<Pool, BuildError>;
    fn builder() -> Builder {
        Pool::builder().workers(2).capacity(4)
    }
    let huge = usize::MAX.to_string();
    let cases: [(&str, &str, Build); 14] = [
        ("workers", "0", || Pool::new(0, 1)),
        ("capacity", "0", || Pool::new(1, 0)),
        ("workers", "0", || builder().workers(0).build()),
        ("workers", "0", || Pool::builder().workers(0).build()),
        ("capacity", "0", || builder().capacity(0).build()),
        ("capacity", "0", || builder().batch().capacity(0).build()),
        ("workers", &huge, || builder().workers(usize::MAX).build()),
        ("workers", &huge, || Pool::builder().workers(usize::MAX).build()),
        ("capacity", &huge, || builder().capacity(usize::MAX).build()),
        ("critical_reserve", "4", || builder().critical_reserve(4).build()),
        ("critical_reserve", &huge, || builder().critical_reserve(usize::MAX).build()),
        ("ageing_bound", "0", || builder().ageing_bound(Duration::ZERO).build()),
        ("stack_size", "0", || builder().stack_size(0).build()),
        ("name", "before", || builder().name("before\0after").build()),
    ];
    for (named, shown, build) in cases {
        let error = build().expect_err(named);
        let text = error.to_string();
        assert!(text.contains(named) && text.contains(shown), "{named} = {shown}: {text}");
        match error {
            BuildError::Invalid { setting, value, .. } => {
                assert!(
                    setting == named && value.contains(shown),
                    "{named} = {shown}: {setting} = {value}"
                );
            }
            other => panic!("{named} = {shown}: {other:?}"),
        }
    }
}

#[test]
fn a_stack_of_the_whole_address_space_is_an_error() {
    for size in [usize::MAX, usize::MAX / 2, isize::MAX as usize - 4096] {
        assert!(Pool::builder().workers(1).stack_size(size).build().is_err(), "{size}");
    }
}

#[test]
fn settings_on_the_edge_of_sense_work() {
    let _watchdog = watchdog();
    let edges = [
        Pool::builder().workers(1).capacity(1),
        Pool::builder().workers(3).capacity(1),
        Pool::builder().workers(1).capacity(2).critical_reserve(1),
        Pool::builder().workers(1).ageing_bound(Duration::from_nanos(1)),
        Pool::builder().workers(1).ageing_bound(Duration::MAX),
        Pool::builder()
            .workers(1)
            .name("a name that is far longer than an operating system keeps for a thread"),
        Pool::builder().workers(1).name("überlauf"),
        Pool::builder().workers(1).seed(u64::MAX),
    ];
    for builder in edges {
        let pool = builder.build().unwrap();
        assert_eq!(pool.try_submit(|| 1).unwrap().join().unwrap(), 1);
        pool.wait_idle();
        assert_eq!(pool.in_flight(), 0);
    }
}

#[test]
fn a_pool_that_is_refused_starts_no_thread() {
    let started = Arc::new(AtomicUsize::new(0));
    let count = started.clone();
    let hook = move || {
        count.fetch_add(1, SeqCst);
    };
    let refused = Pool::builder().workers(2).capacity(0).on_thread_start(hook).build();
    assert!(refused.is_err());
    assert_eq!(
        (started.load(SeqCst), Arc::strong_count(&started)),
        (0, 1),
        "the hooks are gone with the builder"
    );
}

#[test]
fn the_defaults_hold_in_whatever_order_the_rest_is_set() {
    let _watchdog = watchdog();
    let pool = Pool::builder().build().unwrap();
    let cores = thread::available_parallelism().map_or(1, usize::from).max(num_cpus::get());
    assert!((1..=cores).contains(&pool.workers()));
    assert_eq!(pool.capacity(), 64 * pool.workers());
    let names: BTreeSet<_> =
        on_every_worker(&pool, || thread::current().name().unwrap().to_owned())
            .into_iter()
            .collect();
    assert_eq!(names, (0..pool.workers()).map(|number| format!("weirpool-{number}")).collect());

    assert_eq!(Pool::builder().workers(3).build().unwrap().capacity(), 192);
    assert_eq!(Pool::builder().capacity(5).workers(3).build().unwrap().capacity(), 5);
    let small = Pool::new(2, 3).unwrap();
    assert_eq!((small.workers(), small.capacity(), small.is_closed()), (2, 3, false));
    let now = small.snapshot();
    assert_eq!(
        (now.workers, now.capacity, now.in_flight, now.accepted, now.rejected.total()),
        (2, 3, 0, 0, 0)
    );
}

#[test]
fn threads_are_named_and_numbered() {
    let _watchdog = watchdog();
    let pool = Pool::builder().name("thumbs").workers(3).capacity(3).build().unwrap();
    let seen = on_every_worker(&pool, || {
        (weirpool::context().unwrap().worker_index(), thread::current().name().unwrap().to_owned())
    });
    let seen: BTreeSet<_> = seen.into_iter().collect();
    assert_eq!(seen, (0..3).map(|number| (number, format!("thumbs-{number}"))).collect());
}

/// Uses at least this much stack.
#[inline(never)]
fn dig(bytes: usize) -> u8 {
    let block = black_box([1_u8; 4096]);
    if bytes <= block.len() { block[0] } else { dig(bytes - block.len()) & black_box(block)[7] }
}

#[test]
fn the_stack_is_as_large_as_asked() {
    let _watchdog = watchdog();
    let pool = Pool::builder().workers(1).stack_size(256 << 20).build().unwrap();
    assert_eq!(pool.try_submit(|| dig(32 << 20)).unwrap().join().unwrap(), 1);
}

#[test]
fn hooks_run_once_on_each_thread_also_after_panics() {
    let _watchdog = watchdog();
    type Threads = Arc<Mutex<Vec<ThreadId>>>;
    let (starts, stops) = (Threads::default(), Threads::default());
    let note = |list: &Threads| {
        let list = list.clone();
        move || list.lock().unwrap().push(thread::current().id())
    };
    let pool = Pool::builder()
        .workers(3)
        .capacity(8)
        .batch()
        .on_thread_start(note(&starts))
        .on_thread_stop(note(&stops))
        .build()
        .unwrap();
    for _ in 0..8 {
        assert!(pool.try_submit(fail).unwrap().join().unwrap_err().is_panic());
    }
    let workers: Vec<_> = on_every_worker(&pool, || thread::current().id());
    let sorted = |ids: &[ThreadId]| {
        let mut ids: Vec<_> = ids.iter().map(|id| format!("{id:?}")).collect();
        ids.sort();
        ids
    };
    assert_eq!(sorted(&starts.lock().unwrap()), sorted(&workers));
    assert_eq!(stops.lock().unwrap().len(), 0);
    drop(pool);
    eventually("all threads have stopped", || stops.lock().unwrap().len() >= 3);
    eventually("the hooks are dropped with the pool", || {
        (Arc::strong_count(&starts), Arc::strong_count(&stops)) == (1, 1)
    });
    assert_eq!(sorted(&stops.lock().unwrap()), sorted(&workers));
    assert_eq!(starts.lock().unwrap().len(), 3);
}

#[test]
fn stop_hooks_run_however_the_pool_ends() {
    let _watchdog = watchdog();
    type End = fn(Pool);
    let ends: [(&str, End); 4] = [
        ("dropped", drop),
        ("drained", |pool| assert_eq!(pool.shutdown(Shutdown::Drain, Some(STEP)).still_running, 0)),
        ("discarded", |pool| {
            assert_eq!(pool.shutdown(Shutdown::Discard, Some(STEP)).still_running, 0)
        }),
        ("dropped by its own worker", |pool| {
            let last = pool.clone();
            let job = pool.try_submit(move || drop(last)).unwrap();
            drop(pool);
            job.join().unwrap();
        }),
    ];
    for (how, end) in ends {
        let stops = Arc::new(AtomicUsize::new(0));
        let count = stops.clone();
        let stop = move || {
            count.fetch_add(1, SeqCst);
        };
        end(Pool::builder().workers(2).on_thread_stop(stop).build().unwrap());
        eventually(how, || (stops.load(SeqCst), Arc::strong_count(&stops)) == (2, 1));
    }
}

#[test]
fn a_pool_shows_itself_in_every_state() {
    let _watchdog = watchdog();
    let pool = Pool::builder().name("shown").workers(1).capacity(2).build().unwrap();
    let show = || {
        let (short, long) = (format!("{pool:?}"), format!("{pool:#?}"));
        assert!(short.contains("Pool") && long.contains("Pool"), "{short}");
    };
    show();
    let busy = occupy(&pool);
    let queued = pool.try_submit(|| ()).unwrap();
    show();
    busy.free();
    queued.join().unwrap();
    let inner = pool.clone();
    assert!(
        pool.try_submit(move || format!("{inner:?}")).unwrap().join().unwrap().contains("Pool")
    );
    pool.close();
    show();
    pool.shutdown(Shutdown::Drain, Some(STEP));
    show();
}

#[test]
fn clones_are_handles_on_one_pool() {
    let _watchdog = watchdog();
    let pool = Pool::new(2, 2).unwrap();
    let clones: Vec<_> = (0..10).map(|_| pool.clone()).collect();
    let permits: Vec<_> = clones.iter().filter_map(|clone| clone.try_reserve().ok()).collect();
    assert_eq!((permits.len(), pool.in_flight()), (2, 2));
    drop(permits);
    clones[0].close();
    assert!(clones.iter().all(Pool::is_closed) && pool.is_closed());
}

/// Stories that end or starve their process: each runs in a child of its own.
#[cfg(target_os = "linux")]
mod in_a_child {
    use super::*;

    use std::process::Command;

    const CHILD: &str = "WEIRPOOL_TEST_CHILD";

    /// In the parent: runs the test of this name, alone, in a child. In the child: runs `story`.
    fn in_child(test: &str, story: fn()) {
        if std::env::var_os(CHILD).is_some() {
            return story();
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .env("RUST_BACKTRACE", "0") // to show one may need more stack than a story leaves
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        let moaned = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}\n{told}\n{moaned}", output.status);
        assert!(told.contains("1 passed"), "the child ran nothing: {told}");
    }

    fn threads() -> usize {
        std::fs::read_dir("/proc/self/task").unwrap().count()
    }

    fn address_space() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    }

    fn limit_address_space(bytes: u64) {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is a valid place for the one value that is written.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) }, 0);
        limit.rlim_cur = bytes;
        // SAFETY: `limit` is initialised and only read.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "starts a process")]
    fn a_thread_that_cannot_be_made_takes_the_others_with_it() {
        in_child("in_a_child::a_thread_that_cannot_be_made_takes_the_others_with_it", || {
            const GIB: u64 = 1 << 30;
            let _watchdog = watchdog();
            let (starts, stops) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let build = |workers| {
                let (start, stop) = (starts.clone(), stops.clone());
                Pool::builder()
                    .workers(workers)
                    .stack_size(GIB as usize)
                    .on_thread_start(move || {
                        start.fetch_add(1, SeqCst);
                    })
                    .on_thread_stop(move || {
                        stop.fetch_add(1, SeqCst);
                    })
                    .build()
            };
            // Two stacks of 1 GiB fit, with room for what else a thread maps; a third does not.
            limit_address_space(address_space() + 2 * GIB + GIB / 2);
            let before = threads();

            for _ in 0..3 {
                let error = build(4).expect_err("the third stack cannot be had");
                assert!(matches!(error, BuildError::Spawn(_)), "{error:?}");
                assert!(!error.to_string().is_empty());
                assert!(
                    std::error::Error::source(&error).is_some(),
                    "the system's error is the source"
                );
                assert_eq!(
                    starts.load(SeqCst),
                    stops.load(SeqCst),
                    "a thread had not stopped when build returned"
                );
                assert_eq!(
                    (Arc::strong_count(&starts), Arc::strong_count(&stops)),
                    (1, 1),
                    "a thread still holds the hooks"
                );
                eventually("the kernel has buried the threads", || threads() == before);
            }

            // What the failed pools took is back: two workers fit.
            let pool = build(2).expect("two stacks fit");
            assert_all_workers_live(&pool);
            assert_all_slots_free(&pool);
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "starts a process")]
    fn a_tiny_stack_is_refused_or_large_enough_to_run_a_job() {
        in_child("in_a_child::a_tiny_stack_is_refused_or_large_enough_to_run_a_job", || {
            for size in [1, 4096, 16 << 10] {
                match Pool::builder().workers(1).stack_size(size).build() {
                    Ok(pool) => {
                        assert_eq!(pool.try_submit(|| 1).unwrap().join().unwrap(), 1);
                        assert!(pool.try_submit(fail).unwrap().join().unwrap_err().is_panic());
                    }
                    Err(error) => assert!(error.to_string().contains("stack_size"), "{error}"),
                }
            }
        });
    }
}
