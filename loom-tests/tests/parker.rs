//! The token that a thread waits for: whenever it is left, its owner goes on, and sees what those who
//! left one wrote before.
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use loom_tests::{AtLeast, against, explore};
use weirpool::loom::cell::UnsafeCell;
use weirpool::loom::sync::atomic::AtomicBool;
use weirpool::loom::thread;
use weirpool::protocols::Parker;

/// Something that is written once, before a token is left, and read once, after one was taken: loom
/// reports the race if the token doesn't order the two.
#[derive(Default)]
struct Letter(UnsafeCell<u32>);

// SAFETY: that is what the models show.
unsafe impl Sync for Letter {}
// SAFETY: a number.
unsafe impl Send for Letter {}

impl Letter {
    fn write(&self) {
        // SAFETY: loom checks it.
        self.0.with_mut(|text| unsafe { *text = 1 });
    }

    fn read(&self) -> u32 {
        // SAFETY: loom checks it.
        self.0.with(|text| unsafe { *text })
    }
}

/// Parks until somebody has written a letter and left the token.
fn await_letter(parker: Parker) {
    let letter = Arc::new(Letter::default());
    let (theirs, written) = (parker.clone(), Arc::clone(&letter));
    let mine = move || {
        parker.park();
        assert_eq!(letter.read(), 1);
    };
    against(mine, move || {
        written.write();
        theirs.unpark();
    });
}

/// The token is left before, while or after the owner goes to block.
#[test]
fn unpark_against_park() {
    explore("parker: unpark, park", None, AtLeast(5), &[], |_| {
        await_letter(Parker::new());
    });
}

/// Two leave a token each. The owner may find one or two, but sees what both wrote: it goes on waiting
/// until it does, so that a token which is lost with its message leaves it blocked for ever.
#[test]
fn two_tokens_tell_of_both_letters() {
    let must_see = ["one park", "two parks"];
    explore("parker: two tokens", Some(3), AtLeast(100), &must_see, |seen| {
        let parker = Parker::new();
        let written = Arc::new([AtomicBool::new(false), AtomicBool::new(false)]);
        let writers = [0, 1].map(|which| {
            let (parker, written) = (parker.clone(), Arc::clone(&written));
            thread::spawn(move || {
                // What it says is ordered by the token alone.
                written[which].store(true, Relaxed);
                parker.unpark();
            })
        });
        let mut parks = 0;
        while !written.iter().all(|letter| letter.load(Relaxed)) {
            parker.park();
            parks += 1;
        }
        for writer in writers {
            writer.join().unwrap();
        }
        match parks {
            // It saw both before it ever waited.
            0 => {}
            1 => seen.note("one park"),
            _ => seen.note("two parks"),
        }
    });
}

/// The time is up while the token comes. Whoever finds it has it, once; whoever does not, finds it
/// with the next park.
#[test]
fn the_time_is_up_while_the_token_comes() {
    explore("parker: time-out", None, AtLeast(5), &["taken", "too late"], |seen| {
        let (parker, letter) = (Parker::new(), Arc::new(Letter::default()));
        let (theirs, written) = (parker.clone(), Arc::clone(&letter));
        let mine = || {
            let in_time = parker.park_briefly();
            seen.note(if in_time { "taken" } else { "too late" });
            if !in_time {
                parker.park();
            }
            assert_eq!(letter.read(), 1);
        };
        against(mine, move || {
            written.write();
            theirs.unpark();
        });
        assert!(!parker.park_briefly(), "a token was taken twice");
    });
}

/// A token that was left for an earlier reason is taken once: the next park waits for the next.
#[test]
fn a_token_is_taken_once() {
    explore("parker: again", None, AtLeast(5), &[], |_| {
        let parker = Parker::new();
        parker.unpark();
        parker.park();
        await_letter(parker);
    });
}
