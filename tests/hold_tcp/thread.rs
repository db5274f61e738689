//! The thread that goes on with the connections: one at most, none while nothing is held or if none
//! can be made; it does not spin, whatever its clients do, and goes on when it is interrupted.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Instant;

use weirpool::Clock;
use weirpool::hold::TcpRefusal;
use weirpool::test::ManualClock;

use crate::common::clocks::CountingClock;
#[cfg(target_os = "linux")]
use crate::common::process::threads_named;
use crate::common::settings::IMPOSSIBLE_STACK;
use crate::common::{eventually, rounds_in, watchdog};
use crate::net::{Loopback, read_all};
use crate::refusals::{BUSY, MIB, MS, patient};

#[test]
fn thread_creation_fails_and_the_connection_is_closed_at_once() {
    let net = Loopback::new();
    let refusal = patient().stack_size(IMPOSSIBLE_STACK).build().unwrap();
    for count in 1..=3 {
        let (mut client, server) = net.connect();
        client.write_all(b"a request").unwrap();
        refusal.refuse(server, BUSY);
        let now = refusal.snapshot();
        assert_eq!((now.held, now.cut_without_thread, now.answered), (0, count, count));
        assert_eq!(read_all(&client), BUSY.as_bytes());
    }
    assert_eq!(refusal.shutdown(None).cut, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn there_is_one_thread_at_most_and_none_while_nothing_is_held() {
    let named = |name| threads_named(name).len();
    let net = Loopback::new();
    let refusal = patient().name("one-refusal").build().unwrap();
    assert_eq!(named("one-refusal"), 0);
    for _ in 0..3 {
        let clients: Vec<_> = (0..20)
            .map(|_| {
                let (client, server) = net.connect();
                refusal.refuse(server, BUSY);
                client
            })
            .collect();
        eventually("the thread is there", || named("one-refusal") == 1);
        drop(clients);
        eventually("the thread is gone", || named("one-refusal") == 0);
    }
}

#[test]
fn idle_workers_spin() {
    // Counted in looks at the clock, of which each round of the thread has two.
    let _watchdog = watchdog();
    let clock = CountingClock::of(ManualClock::new());
    let looks = clock.reads.clone();
    let net = Loopback::new();
    let refusal =
        TcpRefusal::builder().linger(80 * MS).max_drain(1_000).clock(clock).build().unwrap();
    // All kinds of clients that do nothing more, while the clock stands still.
    let (idle, server) = net.connect();
    refusal.refuse(server, BUSY);
    let (mut sends_too_much, server) = net.connect();
    sends_too_much.write_all(&[0; 50_000]).unwrap();
    sends_too_much.shutdown(Shutdown::Write).unwrap();
    refusal.refuse(server, BUSY);
    let (never_reads, server) = net.connect_narrow();
    never_reads.shutdown(Shutdown::Write).unwrap();
    refusal.refuse(server, vec![7_u8; 16 * MIB]);
    assert_eq!(read_all(&idle), BUSY.as_bytes());
    assert_eq!(read_all(&sends_too_much), BUSY.as_bytes());
    let settled = looks.get();
    eventually("it has looked some times", || looks.get() > settled + 10);
    let (begin, before) = (Instant::now(), looks.get());
    eventually("it looks on", || looks.get() > before + 6);
    let rounds = (looks.get() - before) / 2;
    // Looks for progress come 10 ms apart at least: slower is always right.
    let most = begin.elapsed().as_millis() as usize / 9 + 4;
    assert!(rounds <= most, "{rounds} rounds in {:?}", begin.elapsed());
    assert_eq!(refusal.snapshot().held, 3);
}

#[test]
fn a_client_that_drips_does_not_make_the_thread_spin() {
    struct RealTime;
    impl Clock for RealTime {
        fn now(&self) -> Instant {
            Instant::now()
        }
    }
    let _watchdog = watchdog();
    let clock = CountingClock::of(RealTime);
    let looks = clock.reads.clone();
    let (net, refusal) = (Loopback::new(), patient().clock(clock).build().unwrap());
    let (mut client, server) = net.connect();
    client.set_nodelay(true).unwrap();
    refusal.refuse(server, BUSY);
    let (begin, before) = (Instant::now(), looks.get());
    for _ in 0..rounds_in(5_000, 50_000) {
        client.write_all(b"x").unwrap();
    }
    let rounds = (looks.get() - before) / 2;
    let most = begin.elapsed().as_millis() as usize + 10;
    assert!(rounds <= most, "{rounds} rounds in {:?}", begin.elapsed());
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_is_interrupted_goes_on() {
    // Signals without SA_RESTART, to the refusal's thread alone, while an answer is on its way.
    extern "C" fn nothing(_: libc::c_int) {}
    let _watchdog = watchdog();
    // SAFETY: the handler does nothing, and the struct is all zero but for it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
    }
    let (net, refusal) = (Loopback::new(), patient().name("interrupted").build().unwrap());
    let (mut client, server) = net.connect_narrow();
    refusal.refuse(server, vec![7_u8; MIB]);
    eventually("the thread is there", || !threads_named("interrupted").is_empty());
    let mut total = 0;
    let mut piece = vec![0; 4096];
    loop {
        for thread in threads_named("interrupted") {
            // SAFETY: a signal to a thread of our own process, with a handler in place; one that is
            // gone gets none.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1) };
        }
        match client.read(&mut piece).unwrap() {
            0 => break,
            bytes => total += bytes,
        }
    }
    assert_eq!(total, MIB);
}
