//! `AcceptBackoff`: an accept loop that fails does not spin, and one that is interrupted does not
//! wait.

use std::time::{Duration, Instant};

use weirpool::hold::{AcceptBackoff, AcceptNext};

use crate::holds::SECOND;

/// `accept` as a stub: what it returns by turns, against a clock that moves by the waits alone.
struct Accepts {
    backoff: AcceptBackoff,
    start: Instant,
    now: Instant,
    calls_at: Vec<Duration>,
}

impl Accepts {
    fn new() -> Self {
        let now = Instant::now();
        Self { backoff: AcceptBackoff::new(), start: now, now, calls_at: Vec::new() }
    }

    fn fail(&mut self, errno: i32) -> AcceptNext {
        self.calls_at.push(self.now - self.start);
        // Even a call that fails takes some time.
        self.now += Duration::from_micros(5);
        let error = std::io::Error::from_raw_os_error(errno);
        let next = self.backoff.failed(&error, self.now);
        if let AcceptNext::After(wait) = next {
            self.now += wait;
        }
        next
    }

    fn most_calls_in_a_second(&self) -> usize {
        // The calls are in order, so those of a second are neighbours.
        let calls = &self.calls_at;
        let within = |(first, from): (usize, &Duration)| {
            calls[first..].partition_point(|at| *at < *from + SECOND)
        };
        calls.iter().enumerate().map(within).max().unwrap_or(0)
    }
}

#[test]
fn accept_loop_on_emfile_spins() {
    for errno in [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::ENOBUFS, libc::EINVAL] {
        let mut accepts = Accepts::new();
        for _ in 0..10_000 {
            accepts.fail(errno);
        }
        assert!(accepts.most_calls_in_a_second() < 30, "{errno}");
        assert!(accepts.backoff.left(accepts.now).is_zero(), "the wait ends by itself");
        accepts.backoff.succeeded();
        let wait = Duration::from_millis(10);
        assert_eq!(accepts.fail(libc::EMFILE), AcceptNext::After(wait), "as after no failure");
    }
}

#[test]
fn an_aborted_connection_costs_no_wait_and_a_thousand_do() {
    for errno in [libc::ECONNABORTED, libc::EINTR, libc::EPROTO, libc::ENETDOWN, libc::EPERM] {
        let mut accepts = Accepts::new();
        for _ in 0..16 {
            assert_eq!(accepts.fail(errno), AcceptNext::Now, "{errno}");
        }
        for _ in 0..1_000 {
            accepts.fail(errno);
        }
        assert!(accepts.most_calls_in_a_second() < 30, "{errno}");
    }
    let mut accepts = Accepts::new();
    for _ in 0..100 {
        assert_eq!(accepts.fail(libc::EAGAIN), AcceptNext::WhenReady);
    }
}

#[test]
fn who_does_not_wait_lengthens_nothing_and_no_clock_makes_it_stick() {
    let emfile = std::io::Error::from_raw_os_error(libc::EMFILE);
    let start = Instant::now() + 100 * SECOND;
    let ms = Duration::from_millis;
    let mut backoff = AcceptBackoff::between(ms(10), ms(40)).unwrap();
    assert_eq!(backoff.failed(&emfile, start), AcceptNext::After(ms(10)));
    for passed in 0..10 {
        let now = start + ms(passed);
        assert_eq!(backoff.failed(&emfile, now), AcceptNext::After(ms(10 - passed)));
        assert_eq!(backoff.left(now), ms(10 - passed));
    }
    assert_eq!(backoff.failed(&emfile, start + ms(10)), AcceptNext::After(ms(20)));
    // An hour back: nobody waits for it to catch up.
    let back = start - 50 * SECOND;
    assert_eq!(backoff.left(back), Duration::ZERO);
    assert_eq!(backoff.failed(&emfile, back), AcceptNext::After(ms(40)));
    // Far ahead.
    let ahead = start + 100_000 * SECOND;
    assert_eq!(backoff.left(ahead), Duration::ZERO);
    assert_eq!(backoff.failed(&emfile, ahead), AcceptNext::After(ms(40)));

    let mut for_ever = AcceptBackoff::between(Duration::MAX, Duration::MAX).unwrap();
    assert_eq!(for_ever.failed(&emfile, start), AcceptNext::After(Duration::MAX));
    assert_eq!(for_ever.failed(&emfile, back), AcceptNext::After(Duration::MAX));
    for (first, longest, setting) in [(ms(0), ms(1), "first"), (ms(2), ms(1), "longest")] {
        let error = AcceptBackoff::between(first, longest).unwrap_err().to_string();
        assert!(error.starts_with(setting), "{error}");
    }
}
