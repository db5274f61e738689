#![cfg(loom)]
use loom_tests::{AtLeast, explore};
use weirpool::loom::thread;
use weirpool::{Pool, Shutdown};

#[test]
fn submit_and_join() {
    explore("submit_and_join", Some(2), AtLeast(10), &[], |_| {
        let pool = Pool::new(1, 1).unwrap();
        let h = pool.try_submit(|| 7).unwrap();
        assert_eq!(h.join().unwrap(), 7);
        pool.shutdown(Shutdown::Drain, None);
    });
}
#[test]
fn two_submitters() {
    explore("two_submitters", Some(1), AtLeast(10), &["full", "both"], |seen| {
        let pool = Pool::new(1, 1).unwrap();
        let other = {
            let pool = pool.clone();
            thread::spawn(move || pool.try_submit(|| 1).map(|h| h.join().unwrap()).is_ok())
        };
        let mine = pool.try_submit(|| 2).map(|h| h.join().unwrap()).is_ok();
        let theirs = other.join().unwrap();
        assert!(mine || theirs);
        seen.note(if mine && theirs { "both" } else { "full" });
        pool.shutdown(Shutdown::Drain, None);
    });
}
