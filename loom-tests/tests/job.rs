//! One job alone: run against cancel against the handle's ways to wait and to go.
#![cfg(loom)]

use loom_tests::{AtLeast, Ghost, Payload, Seen, explore};
use std::future::poll_fn;
use std::sync::Arc;
use weirpool::JobError;
use weirpool::loom::{future, thread};
use weirpool::protocols::{Handle, job, shares};

/// What happened to a job's body and its slot.
#[derive(Default)]
struct Fate {
    ran: Ghost,
    dropped: Ghost,
    returned: Ghost,
}

impl Fate {
    /// Returns the slot: the body must be gone by then.
    fn return_slot(&self) {
        assert_eq!(self.dropped.get(), 1, "the slot returned before the body was dropped");
        assert_eq!(self.returned.add(), 0, "the slot returned twice");
    }

    fn check_ended(&self, ran: usize) {
        assert_eq!(self.returned.get(), 1, "the handle resolved before the slot returned");
        assert_eq!(self.dropped.get(), 1);
        assert_eq!(self.ran.get(), ran);
    }
}

/// What a body captures.
struct Captured(Arc<Fate>);

impl Drop for Captured {
    fn drop(&mut self) {
        assert_eq!(self.0.dropped.add(), 0, "the body was dropped twice");
    }
}

/// A job whose body notes that it ran.
fn fated_job(fate: &Arc<Fate>) -> (weirpool::protocols::Entry, Handle<u32>) {
    let captured = Captured(Arc::clone(fate));
    job(move || {
        captured.0.ran.add();
        7
    })
}

fn check_result(seen: &Seen, fate: &Fate, result: Result<u32, JobError>) {
    match result {
        Ok(7) => {
            seen.note("run won");
            fate.check_ended(1);
        }
        Err(JobError::Cancelled) => {
            seen.note("cancel won");
            fate.check_ended(0);
        }
        other => panic!("{other:?}"),
    }
}

/// A worker runs it, a canceller cancels it, the handle blocks on it.
#[test]
fn run_against_cancel_against_join() {
    explore(
        "job: run, cancel, join",
        Some(3),
        AtLeast(1_000),
        &["run won", "cancel won"],
        |seen| {
            let fate = Arc::new(Fate::default());
            let (entry, handle) = fated_job(&fate);
            let canceller = handle.another();
            let worker = {
                let fate = Arc::clone(&fate);
                thread::spawn(move || entry.run(|| fate.return_slot()))
            };
            let cancelling = {
                let fate = Arc::clone(&fate);
                thread::spawn(move || canceller.cancel(|| fate.return_slot()))
            };
            check_result(seen, &fate, handle.wait());
            let (ran, cancelled) = (worker.join().unwrap(), cancelling.join().unwrap());
            assert!(ran != cancelled, "exactly one of them wins");
        },
    );
}

/// The handle goes while the job runs or is cancelled: the result goes with whoever is last.
#[test]
fn run_against_cancel_against_drop_of_the_handle() {
    /// A result that counts its drops.
    struct Output(Arc<Ghost>);
    impl Drop for Output {
        fn drop(&mut self) {
            self.0.add();
        }
    }

    let must_see = ["ran", "cancelled", "dropped by the handle", "dropped by the worker"];
    explore("job: run, cancel, drop", Some(3), AtLeast(1_000), &must_see, |seen| {
        let fate = Arc::new(Fate::default());
        let outputs = Arc::new(Ghost::default());
        let (entry, handle) = {
            let captured = Captured(Arc::clone(&fate));
            let output = Output(Arc::clone(&outputs));
            job(move || {
                captured.0.ran.add();
                output
            })
        };
        let canceller = handle.another();
        let worker = {
            let fate = Arc::clone(&fate);
            thread::spawn(move || entry.run(|| fate.return_slot()))
        };
        let dropping = {
            let outputs = Arc::clone(&outputs);
            thread::spawn(move || {
                let before = outputs.get();
                drop(handle);
                (before, outputs.get())
            })
        };
        let cancelled = canceller.cancel(|| fate.return_slot());
        drop(canceller);
        let (ran, by_handle) = (worker.join().unwrap(), dropping.join().unwrap());
        assert!(ran != cancelled, "exactly one of them wins");
        seen.note(if ran { "ran" } else { "cancelled" });
        if ran {
            seen.note(match by_handle {
                (0, 1) => "dropped by the handle",
                _ => "dropped by the worker",
            });
        }
        assert_eq!(outputs.get(), 1, "the result, made or captured, is dropped once");
        fate.check_ended(usize::from(ran));
    });
}

/// The handle is polled by a task, with its waker replaced in between, while a worker runs it.
#[test]
fn the_last_waker_is_woken() {
    explore("job: wakers", Some(3), AtLeast(100), &["pending first", "ready at once"], |seen| {
        let (entry, mut handle) = job(|| 7);
        let worker = thread::spawn(move || entry.run(|| ()));
        let seen = seen.clone();
        let first =
            future::block_on(poll_fn(|context| std::task::Poll::Ready(handle.poll(context))));
        let result = match first {
            std::task::Poll::Ready(result) => {
                seen.note("ready at once");
                result
            }
            std::task::Poll::Pending => {
                seen.note("pending first");
                // A new block_on has a new waker: one that woke only the first would hang.
                future::block_on(poll_fn(|context| handle.poll(context)))
            }
        };
        assert_eq!(result.unwrap(), 7);
        assert!(worker.join().unwrap());
    });
}

/// A task that polled goes away while the worker publishes.
#[test]
fn a_handle_with_a_waker_is_dropped_against_the_publisher() {
    explore("job: drop with waker", None, AtLeast(100), &[], |_| {
        let (entry, mut handle) = job(|| 7);
        let worker = thread::spawn(move || entry.run(|| ()));
        let _ = future::block_on(poll_fn(|context| {
            std::task::Poll::Ready(handle.poll(context).is_ready())
        }));
        drop(handle);
        assert!(worker.join().unwrap());
    });
}

/// The references of the queue, the handle and a canceller go at the same time. Whoever has the last one is
/// alone with the block, and frees it: so it sees all that the others did with it.
#[test]
fn the_last_reference_comes_after_all_others() {
    let must_see = ["the worker", "the handle", "the canceller"];
    explore("job: references", Some(3), AtLeast(1_000), &must_see, |seen| {
        let (queue, handle) = shares();
        let canceller = handle.another();
        let uses: Arc<[Payload; 3]> = Arc::default();
        let frees = |uses: &[Payload], seen: &Seen, who| {
            uses.iter().for_each(Payload::touch);
            seen.note(who);
        };
        let worker = {
            let (uses, seen) = (Arc::clone(&uses), seen.clone());
            thread::spawn(move || {
                uses[0].touch();
                let last = queue.end();
                if last {
                    frees(&*uses, &seen, "the worker");
                }
                last
            })
        };
        let dropping = {
            let (uses, seen) = (Arc::clone(&uses), seen.clone());
            thread::spawn(move || {
                uses[1].touch();
                let last = handle.drop_handle();
                if last {
                    frees(&*uses, &seen, "the handle");
                }
                last
            })
        };
        uses[2].touch();
        let last = canceller.give_back();
        if last {
            frees(&*uses, seen, "the canceller");
        }
        let lasts = [last, worker.join().unwrap(), dropping.join().unwrap()];
        assert_eq!(lasts.into_iter().filter(|last| *last).count(), 1, "one frees the block");
    });
}
