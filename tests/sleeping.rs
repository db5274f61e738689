//! Workers that sleep: they use no CPU, and the one job that comes while they go to sleep runs.

mod common;

use std::sync::{Arc, Barrier, mpsc};

use common::{Gate, STEP, elsewhere, eventually, give_way, hold, recv, rounds_in};
use weirpool::{JobHandle, Pool, Priority, Shutdown};

/// How one job comes to a sleeping pool; it sends its round when it runs.
type Submit = fn(&Pool, usize, mpsc::Sender<usize>);

const WAYS: [(&str, Submit); 8] = [
    ("spawned", |pool, round, ran| pool.try_spawn(move || ran.send(round).unwrap()).unwrap()),
    ("submitted", |pool, round, ran| {
        drop(pool.try_submit(move || ran.send(round).unwrap()).unwrap());
    }),
    ("low", |pool, round, ran| at(pool, Priority::Low, round, ran)),
    ("high", |pool, round, ran| at(pool, Priority::High, round, ran)),
    ("critical", |pool, round, ran| at(pool, Priority::Critical, round, ran)),
    ("with a permit", |pool, round, ran| {
        let permit = pool.try_reserve().unwrap();
        drop(permit.submit(move || ran.send(round).unwrap()).unwrap());
    }),
    ("nested, its parent ends", |pool, round, ran| {
        let own = pool.clone();
        pool.try_spawn(move || own.try_spawn(move || ran.send(round).unwrap()).unwrap()).unwrap();
    }),
    ("nested, its parent stays if there are peers", |pool, round, ran| {
        let own = pool.clone();
        let parent = move || {
            let runs = Gate::new();
            let begins = runs.clone();
            let child = move || {
                begins.open();
                ran.send(round).unwrap();
            };
            own.job().priority(Priority::Low).try_spawn(child).unwrap();
            if own.workers() > 1 {
                runs.wait();
            }
        };
        pool.try_spawn(parent).unwrap();
    }),
];

fn at(pool: &Pool, priority: Priority, round: usize, ran: mpsc::Sender<usize>) {
    pool.job().priority(priority).try_spawn(move || ran.send(round).unwrap()).unwrap();
}

/// Submits one job after the other, each when the workers have gone to sleep or are about to.
fn one_at_a_time(workers: usize, ways: &[(&str, Submit)], rounds: usize) {
    let pool = Pool::new(workers, 8).unwrap();
    let (sender, ran) = mpsc::channel();
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..rounds {
        eventually("nothing is left", || pool.in_flight() == 0);
        // Zero to catch them awake, some to catch them half-way, many to find them asleep.
        give_way([0, 0, random.usize(0..8), random.usize(0..200)][round % 4]);
        let (way, submit) = ways[round / 4 % ways.len()];
        submit(&pool, round, sender.clone());
        match ran.recv_timeout(STEP) {
            Ok(answer) => assert_eq!(answer, round),
            Err(_) => panic!("{way}, round {round}, {workers} workers: never run"),
        }
    }
}

#[test]
fn one_job_submitted_while_all_workers_sleep_always_runs() {
    for workers in [1, 2, 8] {
        one_at_a_time(workers, &WAYS[..1], rounds_in(5000, 100_000));
    }
}

#[test]
fn a_job_wakes_a_worker_whatever_queue_it_goes_to() {
    for workers in [1, 2, 8] {
        one_at_a_time(workers, &WAYS, rounds_in(5000, 100_000));
    }
}

#[test]
fn jobs_submitted_at_once_from_many_threads_all_run() {
    for workers in [1, 2, 8] {
        // A job has its slot for a moment longer than its submitter waits: one on each worker, at most.
        let pool = Pool::new(workers, workers + 3).unwrap();
        let start = Arc::new(Barrier::new(3));
        let submitters: Vec<_> = (0..3)
            .map(|_| {
                let (pool, start) = (pool.clone(), Arc::clone(&start));
                elsewhere(move || {
                    let (sender, ran) = mpsc::channel();
                    for round in 0..rounds_in(1000, 20_000) {
                        start.wait();
                        let sender = sender.clone();
                        pool.try_spawn(move || sender.send(round).unwrap()).unwrap();
                        assert_eq!(ran.recv_timeout(STEP), Ok(round));
                    }
                })
            })
            .collect();
        for submitter in submitters {
            submitter.wait_for(4 * STEP);
        }
    }
}

#[test]
fn as_many_jobs_as_workers_run_side_by_side_after_a_sleep() {
    for workers in [2, 8] {
        let pool = Pool::new(workers, 2 * workers).unwrap();
        for round in 0..rounds_in(300, 10_000) {
            give_way(round % 100);
            hold(&pool, workers).free();
        }
    }
}

#[test]
fn a_join_from_outside_wakes_when_the_job_ends() {
    for workers in [1, 2] {
        let pool = Pool::new(workers, 8).unwrap();
        let all = elsewhere(move || {
            for round in 0..rounds_in(5000, 100_000) {
                let job = pool.try_submit(move || round).unwrap();
                give_way(round % 3);
                assert_eq!(job.join().unwrap(), round);
            }
        });
        all.wait_for(4 * STEP);
    }
}

#[test]
fn bodies_that_park_and_unpark_their_own_thread_lose_no_wake() {
    for workers in [1, 2] {
        let pool = Pool::new(workers, 16).unwrap();
        let known = pool.try_submit(std::thread::current).unwrap().join().unwrap();
        let (sender, ran) = mpsc::channel();
        for round in 0..rounds_in(5000, 100_000) {
            let (sender, own) = (sender.clone(), pool.clone());
            let body = move || {
                let sent = move || sender.send(round).unwrap();
                if round % 2 == 0 {
                    std::thread::current().unpark();
                }
                own.try_spawn(sent).unwrap();
                std::thread::park_timeout(std::time::Duration::ZERO);
            };
            pool.try_spawn(body).unwrap();
            known.unpark();
            assert_eq!(ran.recv_timeout(STEP), Ok(round));
        }
    }
}

#[test]
fn a_stray_unpark_ends_no_wait() {
    type Wait = fn(&Pool, JobHandle<u32>);
    let waits: [Wait; 3] = [
        |_, job| assert_eq!(job.join().unwrap(), 5),
        |pool, _| pool.wait_idle(),
        |pool, _| assert_eq!(pool.shutdown(Shutdown::Drain, None).still_running, 0),
    ];
    for wait in waits {
        let pool = Pool::new(1, 8).unwrap();
        let held = hold(&pool, 1);
        let (job, own) = (pool.try_submit(|| 5).unwrap(), pool.clone());
        let (tell, told) = mpsc::channel();
        let waiting = elsewhere(move || {
            tell.send(std::thread::current()).unwrap();
            wait(&own, job);
            assert_eq!(own.in_flight(), 0);
        });
        let thread = recv(&told);
        for _ in 0..1000 {
            thread.unpark();
            give_way(1);
        }
        assert!(waiting.is_busy());
        held.free();
        waiting.wait();
    }
}

/// The CPU time of a process that only waits, measured in processes of their own.
#[cfg(unix)]
mod idle {
    use std::process::{Command, Stdio};
    use std::sync::mpsc::{self, RecvTimeoutError};
    use std::sync::{Arc, Mutex};
    use std::thread::{self, Thread};
    use std::time::Duration;

    use weirpool::{Pool, Shutdown};

    use super::common::process::cpu_used;
    use super::common::{Count, eventually, give_way, hold};

    /// How long the process is watched at a time while it should do nothing.
    const WATCHED: Duration = Duration::from_secs(2);

    /// The CPU time that it may use meanwhile: a worker that polls uses as much each time.
    const IDLE_CPU: Duration = Duration::from_millis(10);

    /// On a busy machine it may take a while until the last thread has come to rest.
    const TIMES: usize = 30;

    /// Tells a child process which state it is to be watched in.
    const SCENE: &str = "WEIRPOOL_IDLE_SCENE";

    /// Sets a pool up, says when all is quiet, and keeps what must stay alive.
    type Scene = fn() -> Box<dyn std::any::Any>;

    const SCENES: [(&str, Scene); 6] = [
        ("idle after many jobs", || {
            let pool = Pool::new(8, 2000).unwrap();
            for _ in 0..1000 {
                pool.try_spawn(|| ()).unwrap();
            }
            pool.wait_idle();
            Box::new(pool)
        }),
        ("one body that blocks", || {
            let pool = Pool::new(8, 64).unwrap();
            let held = hold(&pool, 1);
            Box::new((pool, held))
        }),
        ("a worker in a join of a running job", || {
            let pool = Pool::new(3, 64).unwrap();
            let mut held = hold(&pool, 1);
            let running = held.jobs.remove(0);
            let joins = pool.try_submit(move || running.join()).unwrap();
            eventually("both run", || pool.running() == 2);
            Box::new((pool, held, joins))
        }),
        ("all workers busy and more queued", || {
            let pool = Pool::new(2, 64).unwrap();
            let held = hold(&pool, 2);
            for _ in 0..20 {
                pool.try_spawn(|| ()).unwrap();
            }
            Box::new((pool, held))
        }),
        ("callers that wait", || {
            let pool = Pool::new(2, 64).unwrap();
            let mut held = hold(&pool, 2);
            let (joined, awaited) = (held.jobs.remove(0), held.jobs.remove(0));
            let (idle, ending) = (pool.clone(), pool.clone());
            let threads = (
                thread::spawn(move || drop(joined.join())),
                thread::spawn(move || drop(pollster::block_on(awaited))),
                thread::spawn(move || idle.wait_idle()),
                thread::spawn(move || {
                    ending.shutdown(Shutdown::Drain, None);
                }),
            );
            eventually("it is being shut down", || pool.is_closed());
            Box::new((pool, held, threads))
        }),
        ("idle after spurious unparks", || {
            let threads: Arc<Mutex<Vec<Thread>>> = Arc::default();
            let (known, started) = (Arc::clone(&threads), Count::new());
            let hook = started.clone();
            let builder = Pool::builder().batch().workers(8).capacity(64);
            let builder = builder.on_thread_start(move || {
                known.lock().unwrap().push(thread::current());
                hook.add();
            });
            let pool = builder.build().unwrap();
            eventually("all have started", || started.get() == 8);
            for _ in 0..10_000 {
                threads.lock().unwrap().iter().for_each(Thread::unpark);
            }
            Box::new(pool)
        }),
    ];

    /// Spends some time in doing nothing at all.
    fn watch() {
        let (_never, nothing) = mpsc::channel::<()>();
        assert_eq!(nothing.recv_timeout(WATCHED), Err(RecvTimeoutError::Timeout));
    }

    /// The child's part: nothing but one scene in a process of its own.
    fn play(name: &str) {
        let (_, scene) = SCENES.iter().find(|scene| scene.0 == name).expect("a scene we know");
        let _kept = scene();
        give_way(10_000);
        let mut seen = Vec::new();
        while seen.last().is_none_or(|used| *used >= IDLE_CPU) {
            assert!(seen.len() < TIMES, "{name}: {seen:?} of CPU in {WATCHED:?} each");
            let before = cpu_used();
            watch();
            seen.push(cpu_used() - before);
        }
    }

    #[test]
    fn workers_with_nothing_to_do_use_no_cpu() {
        if let Ok(name) = std::env::var(SCENE) {
            return play(&name);
        }
        let this = std::env::current_exe().unwrap();
        let children = SCENES.map(|(name, _)| {
            let mut command = Command::new(&this);
            command.args(["--exact", "idle::workers_with_nothing_to_do_use_no_cpu", "--nocapture"]);
            let command = command.env(SCENE, name).stdout(Stdio::null()).stderr(Stdio::piped());
            (name, command.spawn().unwrap())
        });
        let mut wrong = String::new();
        for (name, child) in children {
            let output = child.wait_with_output().unwrap();
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                wrong += &format!("{name}: {}\n{said}\n", output.status);
            }
        }
        assert!(wrong.is_empty(), "{wrong}");
    }
}
