//! Queues and sleep alone: what is pushed is found, whoever goes to sleep at that moment.
#![cfg(loom)]

use loom_tests::{AtLeast, Ghost, explore};
use std::sync::{Arc, Mutex};
use weirpool::loom::thread;
use weirpool::protocols::{Entry, Lanes, Nest, Shelf, Sleep, job, nest, nest_of};

/// What the workers of a model share.
struct Crew {
    lanes: Lanes,
    shelves: Vec<Shelf>,
    sleep: Sleep,
    slept: Ghost,
    done: Ghost,
}

impl Crew {
    fn new(workers: usize, shelf: Option<Shelf>) -> Arc<Self> {
        Self::of(workers, shelf.into_iter().collect())
    }

    fn of(workers: usize, shelves: Vec<Shelf>) -> Arc<Self> {
        Arc::new(Self {
            lanes: Lanes::new(4),
            shelves,
            sleep: Sleep::new(workers),
            slept: Ghost::default(),
            done: Ghost::default(),
        })
    }

    fn has_work(&self) -> bool {
        self.lanes.has_work() || self.shelves.iter().any(|shelf| !shelf.is_empty())
    }

    fn take(&self) -> Option<Entry> {
        self.lanes.take().or_else(|| self.shelves.iter().find_map(Shelf::steal))
    }

    /// Works like a worker until it has run `quota` jobs, then like a worker inside a long body:
    /// it takes part in nothing.
    fn work(&self, worker: usize, quota: usize) {
        self.sleep.start_searching();
        let mut searching = true;
        let mut ran = 0;
        while ran < quota {
            if let Some(entry) = self.take() {
                if searching && self.sleep.stop_searching() && self.has_work() {
                    self.sleep.notify(1);
                }
                searching = false;
                if run(Some(entry)) == 1 {
                    ran += 1;
                    self.done.add();
                }
                continue;
            }
            if !searching {
                self.sleep.start_searching();
                searching = true;
            }
            self.sleep.fall_asleep(worker);
            if !self.has_work() {
                self.slept.add();
                self.sleep.park(worker);
            }
            self.sleep.get_up(worker);
        }
    }

    fn push(&self) {
        let (entry, handle) = job(|| ());
        drop(handle);
        self.lanes.push(entry);
        self.sleep.notify(1);
    }
}

/// A job is pushed while the only worker goes to sleep. Nothing else would ever wake it.
#[test]
fn push_against_park() {
    explore("sleep: push, park", None, AtLeast(100), &["slept", "stayed awake"], |seen| {
        let crew = Crew::new(1, None);
        let worker = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || crew.work(0, 1))
        };
        crew.push();
        worker.join().unwrap();
        seen.note(if crew.slept.get() > 0 { "slept" } else { "stayed awake" });
    });
}

/// Two jobs, two workers that run one each and then are busy for ever: the second job must not
/// rely on the worker that took the first.
#[test]
fn the_last_searcher_passes_the_search_on() {
    explore(
        "sleep: last searcher",
        Some(2),
        AtLeast(1_000),
        &["one slept", "none slept"],
        |seen| {
            let crew = Crew::new(2, None);
            let workers: Vec<_> = (0..2)
                .map(|worker| {
                    let crew = Arc::clone(&crew);
                    thread::spawn(move || crew.work(worker, 1))
                })
                .collect();
            crew.push();
            crew.push();
            for worker in workers {
                worker.join().unwrap();
            }
            assert_eq!(crew.done.get(), 2);
            seen.note(if crew.slept.get() > 0 { "one slept" } else { "none slept" });
        },
    );
}

/// A body pushes a child to its own deque and never looks at it: a sleeping peer must.
#[test]
fn a_nested_push_against_park() {
    explore("sleep: nested push, park", None, AtLeast(100), &["slept", "stayed awake"], |seen| {
        let (nest, shelf) = nest();
        let crew = Crew::new(1, Some(shelf));
        let peer = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || crew.work(0, 1))
        };
        let (entry, handle) = job(|| ());
        drop(handle);
        nest.push(entry);
        crew.sleep.notify(1);
        peer.join().unwrap();
        seen.note(if crew.slept.get() > 0 { "slept" } else { "stayed awake" });
    });
}

/// Runs what an entry leads to, if it is alive.
fn run(entry: Option<Entry>) -> usize {
    usize::from(entry.is_some_and(|entry| entry.run(|| ())))
}

/// The owner sweeps tombstones out of its deque while a thief steals.
#[test]
fn sweep_against_steal() {
    let must_see = ["stolen", "kept", "thief met a tombstone or nothing"];
    explore("queues: sweep, steal", None, AtLeast(10), &must_see, |seen| {
        let (nest, shelf) = nest();
        let (dead, dead_handle) = job(|| ());
        let (alive, alive_handle) = job(|| ());
        nest.push(dead);
        nest.push(alive);
        assert!(dead_handle.another().cancel(|| ()));
        let thief = thread::spawn(move || run(shelf.steal()));
        nest.sweep();
        let stolen = thief.join().unwrap();
        let mut ran = stolen;
        while let Some(entry) = nest.pop() {
            ran += run(Some(entry));
        }
        assert_eq!(ran, 1, "the job that lives is run once, the other never");
        seen.note(if stolen == 1 { "stolen" } else { "kept" });
        if stolen == 0 {
            seen.note("thief met a tombstone or nothing");
        }
        drop((dead_handle, alive_handle));
    });
}

/// A body joins its newest child in place while a thief steals it.
#[test]
fn join_in_place_against_steal() {
    explore("queues: join, steal", Some(3), AtLeast(10), &["joined", "stolen"], |seen| {
        let (nest, shelf): (Nest, Shelf) = nest();
        let (entry, handle) = job(|| 7);
        nest.push(entry);
        let thief = thread::spawn(move || run(shelf.steal()));
        let in_place = handle.another();
        let retract = handle.another();
        let mine = in_place.run(|| ());
        if mine {
            nest.retract(&retract);
        }
        drop(retract);
        assert_eq!(handle.wait().unwrap(), 7);
        assert_eq!(thief.join().unwrap() + usize::from(mine), 1);
        seen.note(if mine { "joined" } else { "stolen" });
        assert!(nest.pop().is_none(), "no entry is left behind");
    });
}

/// A cancelled job's entry is taken out of its lane while a worker takes it.
#[test]
fn cancel_against_take() {
    explore("queues: cancel, take", None, AtLeast(50), &["ran", "cancelled"], |seen| {
        let lanes = Arc::new(Lanes::new(1));
        let (entry, handle) = job(|| ());
        lanes.push(entry);
        let worker = {
            let lanes = Arc::clone(&lanes);
            thread::spawn(move || run(lanes.take()))
        };
        let mine = handle.another();
        let cancelled = mine.cancel(|| drop(lanes.remove(&mine)));
        let ran = worker.join().unwrap();
        assert_eq!(ran + usize::from(cancelled), 1);
        seen.note(if cancelled { "cancelled" } else { "ran" });
        assert!(lanes.take().is_none(), "no entry is left behind");
    });
}

/// A body joins a child in place that is not the newest, while a thief looks for work. The newest,
/// which the body then waits for by other means, must not be hidden for an instant.
#[test]
fn a_join_in_place_hides_no_other_job() {
    let must_see = ["joined in place", "stolen"];
    explore("queues: join below the newest", Some(2), AtLeast(500), &must_see, |seen| {
        let (nest, shelf) = nest();
        let crew = Crew::new(1, Some(shelf));
        let peer = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || crew.work(0, 1))
        };
        let (older, handle) = job(|| ());
        let (newest, newest_handle) = job(|| ());
        nest.push(older);
        crew.sleep.notify(1);
        nest.push(newest);
        crew.sleep.notify(1);
        let (mine, retract) = (handle.another(), handle.another());
        if mine.run(|| ()) {
            seen.note("joined in place");
            nest.retract(&retract);
            newest_handle.wait().unwrap();
        } else {
            seen.note("stolen");
            run(nest.pop());
        }
        peer.join().unwrap();
        drop((handle, retract));
    });
}

/// A worker in a long body has taken two jobs and runs the first; the second must be seen by one that
/// goes to sleep just then. Both were pushed while that one looked for work, so nobody wakes it.
#[test]
fn a_handful_hides_no_job() {
    let must_see = ["slept", "stayed awake", "one in hand", "none in hand"];
    explore("queues: handful, park", None, AtLeast(500), &must_see, |seen| {
        let (_nest, shelf) = nest();
        let crew = Crew::new(1, Some(shelf.clone()));
        let peer = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || crew.work(0, 1))
        };
        crew.push();
        crew.push();
        let next = shelf.take_two(&crew.lanes);
        seen.note(if shelf.is_empty() { "none in hand" } else { "one in hand" });
        assert_eq!(run(next), 1);
        peer.join().unwrap();
        seen.note(if crew.slept.get() > 0 { "slept" } else { "stayed awake" });
        assert_eq!(crew.done.get(), 1);
        assert!(!crew.has_work(), "nothing is left behind");
    });
}

/// The owner of a handful, a thief and a canceller meet at one job.
#[test]
fn a_job_in_hand_is_taken_once() {
    let must_see = ["by the owner", "by the thief", "cancelled"];
    explore("queues: owner, thief, canceller", Some(3), AtLeast(10), &must_see, |seen| {
        let (_nest, shelf) = nest();
        let lanes = Arc::new(Lanes::new(2));
        let (their_shelf, their_lanes) = (shelf.clone(), Arc::clone(&lanes));
        let thief = thread::spawn(move || run(their_shelf.steal()));
        // Made after the thief has begun, who so must learn of them from where he finds them.
        let (first, first_handle) = job(|| ());
        let (second, handle) = job(|| ());
        lanes.push(first);
        lanes.push(second);
        let mine = handle.another();
        let canceller = thread::spawn(move || mine.cancel(|| drop(their_lanes.remove(&mine))));
        assert_eq!(run(shelf.take_two(&lanes)), 1);
        let owner = run(shelf.next_in_hand());
        let (thief, cancelled) = (thief.join().unwrap(), canceller.join().unwrap());
        if cancelled {
            seen.note("cancelled");
        } else {
            seen.note(if owner == 1 { "by the owner" } else { "by the thief" });
        }
        assert_eq!(owner + thief + usize::from(cancelled), 1);
        assert!(shelf.is_empty(), "no entry is left behind");
        drop((first_handle, handle));
    });
}

/// A worker runs two urgent jobs one after the other, of which each pushes a child and doesn't wait for it.
/// Others join the two jobs, and look in the deque for what descends from theirs.
#[test]
fn a_root_tells_whose_children_are_in_the_deque() {
    let must_see = ["first: its child", "first: another", "second: its child", "second: another"];
    explore("queues: root, two helpers", Some(3), AtLeast(1_000), &must_see, |seen| {
        let (nest, shelf) = nest();
        let lanes = Lanes::new(2);
        let ran_by = Arc::new(Mutex::new([None; 2]));
        let child = |nth: usize| {
            let ran_by = Arc::clone(&ran_by);
            job(move || {
                let before = ran_by.lock().unwrap()[nth].replace(thread::current().id());
                assert_eq!(before, None, "it ran twice");
            })
        };
        let help = |joined: Entry, nth: usize, [own, another]: [&'static str; 2]| {
            let (shelf, seen, ran_by) = (shelf.clone(), seen.clone(), Arc::clone(&ran_by));
            thread::spawn(move || {
                let Some((entry, descends)) = shelf.steal_for(&joined) else { return };
                seen.note(if descends { own } else { another });
                assert_eq!(run(Some(entry)), 1, "nobody else has it");
                let ran_here = ran_by.lock().unwrap()[nth] == Some(thread::current().id());
                assert!(ran_here || !descends, "a stranger");
            })
        };
        let [(first, first_handle), (second, second_handle)] = [job(|| ()), job(|| ())];
        // A job's number comes from its queue.
        lanes.push(first);
        lanes.push(second);
        let helpers = [
            help(first_handle.another(), 0, ["first: its child", "first: another"]),
            help(second_handle.another(), 1, ["second: its child", "second: another"]),
        ];
        let children = [child(0), child(1)].map(|(entry, handle)| {
            let next = lanes.take().expect("nobody else takes it");
            nest.begin_root(&next);
            nest.push(entry);
            assert_eq!(run(Some(next)), 1);
            handle
        });
        for helper in helpers {
            helper.join().unwrap();
        }
        while let Some(entry) = nest.pop() {
            run(Some(entry));
        }
        assert!(ran_by.lock().unwrap().iter().all(Option::is_some), "each runs");
        drop((first_handle, second_handle, children));
    });
}

/// The root's body has joined a stranger in place, which leaves a job in the deque, and then pushes a child of its own.
/// Who joins the root must tell the one from the other.
#[test]
fn what_a_stranger_left_descends_from_nobody() {
    let must_see = ["the stranger's", "the root's", "none"];
    explore("queues: root, leftovers", None, AtLeast(100), &must_see, |seen| {
        let (nest, shelf) = nest();
        let lanes = Lanes::new(2);
        let [(root, root_handle), (stranger, stranger_handle)] = [job(|| ()), job(|| ())];
        lanes.push(root);
        lanes.push(stranger);
        let [(left, left_handle), (own, own_handle)] = [job(|| ()), job(|| ())];
        let (of_left, of_own) = (left_handle.another(), own_handle.another());
        let root = lanes.take().expect("nobody else takes it");
        nest.begin_root(&root);
        let helper = {
            let (joined, seen) = (root_handle.another(), seen.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    let Some((entry, descends)) = shelf.steal_for(&joined) else {
                        seen.note("none");
                        return;
                    };
                    if entry.is_same(&of_left) {
                        assert!(!descends, "a stranger");
                        seen.note("the stranger's");
                    } else {
                        assert!(descends && entry.is_same(&of_own), "a child");
                        seen.note("the root's");
                    }
                    run(Some(entry));
                }
            })
        };
        nest.run_on_top(&stranger_handle.another(), || nest.push(left));
        nest.push(own);
        helper.join().unwrap();
        run(lanes.take());
        while let Some(entry) = nest.pop() {
            run(Some(entry));
        }
        run(Some(root));
        drop((root_handle, stranger_handle, left_handle, own_handle));
    });
}

/// A worker that helps takes a job that it may not run, and puts it into its own deque. A third that goes to
/// sleep meanwhile must be there for it.
#[test]
fn an_adopted_job_is_found() {
    let must_see = ["adopted", "not met", "slept", "stayed awake"];
    explore("queues: adoption, park", Some(3), AtLeast(500), &must_see, |seen| {
        let ((runners, from), (helpers, to)) = (nest(), nest_of(1));
        let crew = Crew::of(1, [from.clone(), to].into());
        let peer = {
            let crew = Arc::clone(&crew);
            thread::spawn(move || crew.work(0, 1))
        };
        let helper = {
            let (crew, seen) = (Arc::clone(&crew), seen.clone());
            thread::spawn(move || match from.steal() {
                Some(entry) => {
                    helpers.adopt(entry);
                    crew.sleep.notify(1);
                    seen.note("adopted");
                }
                None => seen.note("not met"),
            })
        };
        let (entry, handle) = job(|| ());
        drop(handle);
        runners.push(entry);
        crew.sleep.notify(1);
        helper.join().unwrap();
        peer.join().unwrap();
        seen.note(if crew.slept.get() > 0 { "slept" } else { "stayed awake" });
        assert_eq!(crew.done.get(), 1);
    });
}

/// A worker that runs a job at the bottom of its stack, and joins another, puts a stranger into its deque that it
/// came by when it helped. Who joins the job must not take the stranger for a descendant.
#[test]
fn an_adopted_job_descends_from_nothing_here() {
    explore("queues: adoption, root", None, AtLeast(10), &["met", "not met"], |seen| {
        let ((strangers, from), (helpers, to)) = (nest(), nest_of(1));
        let lanes = Lanes::new(1);
        let (root, root_handle) = job(|| ());
        lanes.push(root);
        let root = lanes.take().expect("just pushed");
        helpers.begin_root(&root);
        let (joined, seen) = (root_handle.another(), seen.clone());
        let third = thread::spawn(move || match to.steal_for(&joined) {
            Some((entry, descends)) => {
                seen.note("met");
                assert!(!descends, "a stranger");
                run(Some(entry))
            }
            None => {
                seen.note("not met");
                0
            }
        });
        let (stranger, stranger_handle) = job(|| ());
        strangers.push(stranger);
        helpers.adopt(from.steal().expect("just pushed"));
        assert_eq!(run(Some(root)), 1);
        let here = run(helpers.pop());
        assert_eq!(here + third.join().unwrap(), 1);
        drop((root_handle, stranger_handle));
    });
}
