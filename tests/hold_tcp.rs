//! `TcpRefusal`: refused clients read their whole answer, and nobody lingers for longer than
//! allowed.
#![cfg(unix)]

mod common;

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use common::{STEP, elsewhere, eventually, race, rounds_in, watchdog};
use weirpool::hold::{Answer, TcpRefusal, TcpRefusalBuilder, TcpRefusalSnapshot};
use weirpool::test::ManualClock;
use weirpool::{BuildError, Clock};

const MS: Duration = Duration::from_millis(1);
const MIB: usize = 1 << 20;
const BUSY: &str =
    "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3\r\nConnection: close\r\n\r\n";
const IMPOSSIBLE_STACK: usize = isize::MAX as usize / 2;

/// Connections over the loopback.
struct Loopback(TcpListener);

impl Loopback {
    fn new() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    /// A client and the server's end. The client's reads and writes have a watchdog.
    fn connect(&self) -> (TcpStream, TcpStream) {
        let client = TcpStream::connect(self.0.local_addr().unwrap()).unwrap();
        client.set_read_timeout(Some(STEP)).unwrap();
        client.set_write_timeout(Some(STEP)).unwrap();
        (client, self.0.accept().unwrap().0)
    }

    /// The same with small system buffers, of which the system makes twice as much.
    fn connect_narrow(&self) -> (TcpStream, TcpStream) {
        let ends = self.connect();
        set_buffer(&ends.0, libc::SO_RCVBUF);
        set_buffer(&ends.1, libc::SO_SNDBUF);
        ends
    }
}

fn set_buffer(stream: &TcpStream, option: libc::c_int) {
    // Less makes the systems wait for each other by timers, segments being as large as that.
    let bytes: libc::c_int = 128 << 10;
    // SAFETY: an open socket, and an int that lives.
    let answer = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    assert_eq!(answer, 0);
}

/// Returns when the peer's system has all that was written, and the end. A receiver's system may take
/// its time to say so.
fn wait_flushed(server: &TcpStream) {
    #[cfg(target_os = "linux")]
    eventually("all is acknowledged", || {
        let mut bytes: libc::c_int = 0;
        // SAFETY: an open socket, and a place for the answer.
        unsafe {
            libc::ioctl(server.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) == 0 && bytes == 0
        }
    });
    #[cfg(not(target_os = "linux"))]
    let _ = server;
}

/// Linger 100 ms on a manual clock, driven by `step` alone.
fn by_hand() -> (TcpRefusalBuilder, ManualClock) {
    let clock = ManualClock::new();
    let builder = TcpRefusal::builder().linger(100 * MS);
    (builder.clock(clock.clone()).without_thread(), clock)
}

/// With a thread, and times that are no part of the test.
fn patient() -> TcpRefusalBuilder {
    TcpRefusal::builder().linger(Duration::MAX)
}

/// The threads of this process with this name, of at most 15 bytes.
#[cfg(target_os = "linux")]
fn threads_named(name: &str) -> Vec<libc::pid_t> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = tasks.filter(|task| {
        let comm = std::fs::read_to_string(task.path().join("comm"));
        comm.is_ok_and(|comm| comm.trim() == name)
    });
    named.map(|task| task.file_name().to_str().unwrap().parse().unwrap()).collect()
}

/// All that comes until the end of the stream.
fn read_all(mut client: &TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes).unwrap();
    bytes
}

/// Steps until the figures are right.
#[track_caller]
fn step_until(refusal: &TcpRefusal, what: &str, right: impl Fn(&TcpRefusalSnapshot) -> bool) {
    eventually(what, || {
        refusal.step();
        right(&refusal.snapshot())
    });
}

#[track_caller]
fn check_adds_up(now: &TcpRefusalSnapshot) {
    let ended = now.closed_by_peer
        + now.broken
        + now.cut_by_time
        + now.cut_by_bound
        + now.cut_by_shutdown
        + now.cut_without_thread;
    assert_eq!(now.accepted, now.held as u64 + ended, "{now:?}");
    assert!(now.answered <= ended, "{now:?}");
}

/// Whether the server's end is gone: the next writes of the client break.
fn is_cut(mut client: &TcpStream) -> bool {
    client.write_all(b"x").is_err()
}

/// A client that sends 64 KiB at once, before it is refused or meanwhile, and then reads; whether
/// it got all of the answer.
fn sends_much_then_reads(net: &Loopback, before: bool, refuse: impl FnOnce(TcpStream)) -> bool {
    let (mut client, server) = net.connect();
    let send = move || client.write_all(&[b'x'; 64 << 10]).map(|()| client);
    let read = |client: TcpStream| {
        let mut answer = Vec::new();
        (&client).read_to_end(&mut answer).is_ok() && answer == BUSY.as_bytes()
    };
    if before {
        let client = send();
        refuse(server);
        client.is_ok_and(read)
    } else {
        let sender = thread::spawn(move || send().is_ok_and(read));
        refuse(server);
        sender.join().unwrap()
    }
}

#[test]
fn a_client_that_sends_64_kib_at_once_reads_the_whole_503() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    let tries = rounds_in(100, 1_000);
    let refuse = |server| refusal.refuse(server, BUSY);
    let complete = (0..tries).filter(|n| sends_much_then_reads(&net, n % 2 == 0, refuse)).count();
    assert!(complete * 1_000 >= tries * 999, "{complete} of {tries}");
    eventually("all have ended", || refusal.snapshot().held == 0);
    let now = refusal.snapshot();
    assert_eq!((now.answered, now.closed_by_peer), (tries as u64, tries as u64), "{now:?}");
    check_adds_up(&now);
}

#[test]
fn delayed_close_cuts_off_data_still_to_be_written() {
    // A slow reader of 1 MiB gets all of it, over seconds, with 100 ms of linger.
    let _watchdog = watchdog();
    let (builder, clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.build().unwrap());
    let (mut client, server) = net.connect_narrow();
    let sent: Vec<u8> = (0..MIB).map(|at| (at / 7) as u8).collect();
    refusal.refuse(server, sent.clone());
    assert!(refusal.snapshot().unwritten_bytes > 0, "more than the system takes");
    let mut received = vec![0; MIB];
    for piece in received.chunks_mut(MIB / 64) {
        // 16 KiB in 15.6 ms.
        client.read_exact(piece).unwrap();
        clock.advance(15 * MS);
        refusal.step();
    }
    assert!(received == sent);
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "and the end");
    drop(client);
    step_until(&refusal, "it has ended", |now| now.held == 0);
    // Once the client's system had all of it, the client had 100 ms to close, as any other.
    let now = refusal.snapshot();
    assert_eq!((now.answered, now.broken, now.closed_by_peer + now.cut_by_time), (1, 0, 1));
}

#[test]
fn a_slow_reader_in_real_time_gets_all_of_it() {
    let _watchdog = watchdog();
    let net = Loopback::new();
    // The reader pauses as often as it likes: it is the test's threads that must keep up.
    let refusal = patient().build().unwrap();
    let (mut client, server) = net.connect_narrow();
    refusal.refuse(server, vec![7_u8; MIB]);
    let reader = elsewhere(move || {
        let mut piece = vec![0; 16 << 10];
        let mut total = 0;
        loop {
            match client.read(&mut piece).unwrap() {
                0 => return total,
                bytes => {
                    total += bytes;
                    thread::park_timeout(MS);
                }
            }
        }
    });
    assert_eq!(reader.wait(), MIB);
    eventually("it has ended", || refusal.snapshot().closed_by_peer == 1);
}

#[test]
fn delayed_close_a_peer_that_never_closes_is_cut_a_linger_after_the_flush() {
    let (builder, clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.build().unwrap());
    let (client, server) = net.connect();
    let same = server.try_clone().unwrap();
    refusal.refuse(server, BUSY);
    assert_eq!(read_all(&client), BUSY.as_bytes());
    // A step takes note of the end of the flush.
    wait_flushed(&same);
    drop(same);
    refusal.step();
    clock.advance(100 * MS - Duration::from_nanos(1));
    assert_eq!(refusal.step(), 1);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(refusal.step(), 0);
    let now = refusal.snapshot();
    assert_eq!((now.cut_by_time, now.answered, now.held), (1, 1, 0));
    eventually("the socket is closed", || is_cut(&client));
}

#[test]
fn a_peer_that_never_reads_is_cut_some_time_after_the_last_progress() {
    let (builder, clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.write_timeout(100 * MS).build().unwrap());
    let (client, server) = net.connect_narrow();
    refusal.refuse(server, vec![7_u8; 4 * MIB]);
    // What the systems' buffers take is progress, and then there is none.
    let stalled = || {
        refusal.step();
        let before = refusal.snapshot().unwritten_bytes;
        common::give_way(100);
        refusal.step();
        refusal.snapshot().unwritten_bytes == before
    };
    eventually("nothing moves", stalled);
    clock.advance(60 * MS);
    refusal.step();
    // It reads once more: its time begins anew.
    let before = refusal.snapshot().unwritten_bytes;
    step_until(&refusal, "it goes on", |now| {
        (&client).read_exact(&mut [0; 4096]).unwrap();
        now.unwritten_bytes < before
    });
    eventually("nothing moves", stalled);
    clock.advance(99 * MS);
    assert_eq!(refusal.step(), 1);
    clock.advance(MS);
    // The last bytes the client's system took may only have been seen at the last step.
    refusal.step();
    clock.advance(100 * MS);
    assert_eq!(refusal.step(), 0);
    let now = refusal.snapshot();
    assert_eq!((now.cut_by_time, now.answered, now.unwritten_bytes), (1, 0, 0));
}

#[test]
fn a_peer_that_reads_byte_by_byte_is_cut_in_the_end() {
    let (builder, clock) = by_hand();
    let (net, refusal) =
        (Loopback::new(), builder.write_timeout(100 * MS).longest(1_000 * MS).build().unwrap());
    let (client, server) = net.connect_narrow();
    client.set_nonblocking(true).unwrap();
    refusal.refuse(server, vec![7_u8; 16 * MIB]);
    for round in 0..20 {
        assert_eq!(refusal.snapshot().held, 1, "in round {round}");
        let before = refusal.snapshot().unwritten_bytes;
        step_until(&refusal, "there is some progress", |now| {
            let _ = (&client).read(&mut [0; 4096]);
            now.unwritten_bytes < before
        });
        clock.advance(50 * MS - Duration::from_nanos(1));
        refusal.step();
    }
    clock.advance(Duration::from_nanos(20));
    assert_eq!((refusal.step(), refusal.snapshot().cut_by_time), (0, 1));
}

#[test]
fn a_peer_that_sends_for_ever_is_cut_and_drained_within_bounds() {
    let _watchdog = watchdog();
    let (builder, clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.max_drain(100_000).build().unwrap());
    let (client, server) = net.connect();
    refusal.refuse(server, BUSY);
    let mut sending = client.try_clone().unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&sent);
    let sender = elsewhere(move || {
        while sending.write_all(&[b'x'; 4096]).is_ok() {
            count.fetch_add(4096, SeqCst);
        }
    });
    assert_eq!(read_all(&client), BUSY.as_bytes());
    // It comes to a stop, as soon as its system and ours hold no more: it is held back.
    eventually("the client is held back", || {
        refusal.step();
        let before = sent.load(SeqCst);
        thread::park_timeout(50 * MS);
        before == sent.load(SeqCst) && before > 100_000
    });
    assert_eq!(refusal.snapshot().held, 1);
    clock.advance(100 * MS);
    step_until(&refusal, "it is cut", |now| now.cut_by_time == 1);
    sender.wait();
}

#[test]
fn a_peer_that_closes_at_once_is_done_at_once() {
    let _watchdog = watchdog();
    let net = Loopback::new();
    for threaded in [true, false] {
        let builder = patient();
        let builder = if threaded { builder } else { builder.without_thread() };
        let refusal = builder.build().unwrap();
        let (client, server) = net.connect();
        drop(client);
        refusal.refuse(server, BUSY);
        // No clock of this test's moves, and the linger time is for ever.
        eventually("done", || {
            if !threaded {
                refusal.step();
            }
            let now = refusal.snapshot();
            now.held == 0 && now.closed_by_peer + now.broken == 1
        });
    }
}

#[test]
fn a_client_that_has_only_closed_its_sending_side_gets_the_whole_answer() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    let (mut client, server) = net.connect_narrow();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    refusal.refuse(server, vec![7_u8; MIB]);
    assert_eq!(read_all(&client).len(), MIB);
    eventually("done", || refusal.snapshot().closed_by_peer == 1);
}

#[test]
fn a_client_that_sends_as_much_as_it_is_sent_does_not_deadlock() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    let (mut client, server) = net.connect_narrow();
    set_buffer(&client, libc::SO_SNDBUF);
    refusal.refuse(server, vec![7_u8; MIB]);
    let answer = elsewhere(move || {
        // It reads only when it has sent everything.
        client.write_all(&vec![b'x'; MIB - 1]).unwrap();
        read_all(&client).len()
    });
    assert_eq!(answer.wait(), MIB);
    eventually("done", || refusal.snapshot().held == 0);
}

#[test]
fn streams_reset_by_the_peer_end_at_once() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().max_connections(1_000).build().unwrap());
    let resets = rounds_in(100, 500);
    for round in 0..resets {
        let (mut client, server) = net.connect_narrow();
        // Before the refusal, or in the middle of the answer.
        if round % 2 == 0 {
            reset(client);
            refusal.refuse(server, BUSY);
        } else {
            refusal.refuse(server, vec![7_u8; MIB]);
            client.read_exact(&mut [0; 1000]).unwrap();
            reset(client);
        }
    }
    eventually("all have ended", || refusal.snapshot().held == 0);
    let now = refusal.snapshot();
    assert_eq!((now.broken + now.closed_by_peer, now.unwritten_bytes), (resets as u64, 0));
    assert!(now.broken >= resets as u64 / 2, "{now:?}");
    check_adds_up(&now);
}

/// Closes so that the peer gets a reset.
fn reset(client: TcpStream) {
    reset_on_close(&client);
    drop(client);
}

fn reset_on_close(stream: &TcpStream) {
    let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: an open socket, and a value that lives.
    let answer = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const at_once).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    assert_eq!(answer, 0);
}

#[test]
fn a_socket_set_to_reset_on_close_keeps_its_answer_all_the_same() {
    let (builder, _clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.build().unwrap());
    let (client, server) = net.connect();
    // As some servers do, to be rid of sockets quickly.
    reset_on_close(&server);
    refusal.refuse(server, BUSY);
    drop(refusal);
    assert_eq!(read_all(&client), BUSY.as_bytes());
}

#[test]
fn an_empty_answer_is_a_plain_close() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    let (client, server) = net.connect();
    refusal.refuse(server, "");
    assert_eq!(read_all(&client), b"");
    drop(client);
    eventually("done", || refusal.snapshot().closed_by_peer == 1);
}

#[test]
fn a_full_refusal_cuts_the_oldest() {
    let (builder, _clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.max_connections(3).build().unwrap());
    let mut clients = Vec::new();
    for _ in 0..5 {
        let (mut client, server) = net.connect();
        client.write_all(b"a request").unwrap();
        refusal.refuse(server, BUSY);
        clients.push(client);
        assert!(refusal.snapshot().held <= 3);
    }
    let now = refusal.snapshot();
    assert_eq!((now.held, now.cut_by_bound, now.answered), (3, 2, 2));
    for client in &clients {
        assert_eq!(read_all(client), BUSY.as_bytes(), "also those that were cut");
    }
    for client in &clients[..2] {
        eventually("the oldest are closed", || is_cut(client));
    }
    check_adds_up(&now);
}

#[test]
fn a_refusal_full_of_bytes_cuts_the_oldest_with_something_to_write() {
    let (builder, _clock) = by_hand();
    let (net, refusal) = (Loopback::new(), builder.max_bytes(8 * MIB as u64).build().unwrap());
    let answer = |bytes: usize| Answer::from(vec![7_u8; bytes]);
    let ends: Vec<_> = (0..4).map(|_| net.connect_narrow()).collect();
    let (_clients, mut servers): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    let mut refuse = |answer| refusal.refuse(servers.pop().unwrap(), answer);
    refuse(answer(10));
    refuse(answer(5 * MIB));
    refuse(answer(5 * MIB));
    let now = refusal.snapshot();
    assert_eq!((now.held, now.cut_by_bound, now.answered), (2, 1, 0), "the small one stays");
    assert!(now.unwritten_bytes <= 8 * MIB as u64);
    refuse(answer(100 * MIB));
    let now = refusal.snapshot();
    assert_eq!((now.held, now.cut_by_bound), (2, 2), "what never fits drives nothing out");
    check_adds_up(&now);
}

#[test]
fn delayed_close_delays_shutdown() {
    let _watchdog = watchdog();
    let net = Loopback::new();
    for threaded in [true, false] {
        let builder = TcpRefusal::builder().linger(Duration::from_secs(3600));
        let builder = if threaded { builder } else { builder.without_thread() };
        let refusal = builder.longest(Duration::MAX).build().unwrap();
        let (lingering, servers): (Vec<_>, Vec<_>) = (0..50).map(|_| net.connect()).unzip();
        for server in servers {
            refusal.refuse(server, BUSY);
        }
        // With a linger of an hour its own deadline rules; a hang is the watchdog's.
        let report = refusal.shutdown(Some(20 * MS));
        assert_eq!((report.ended, report.cut), (0, 50), "threaded: {threaded}");
        for client in &lingering {
            assert_eq!(read_all(client), BUSY.as_bytes());
        }
        // What comes later is answered, and closed at once.
        let (client, server) = net.connect();
        refusal.refuse(server, BUSY);
        assert_eq!(read_all(&client), BUSY.as_bytes());
        let now = refusal.snapshot();
        assert_eq!((now.held, now.cut_by_shutdown, now.answered), (0, 51, 51));
        let again = refusal.shutdown(None);
        assert_eq!((again.ended, again.cut), (0, 50), "again, with the limit of an hour");
    }
}

#[test]
fn shutdown_with_no_limit_of_its_own_takes_a_linger() {
    let _watchdog = watchdog();
    let net = Loopback::new();
    let refusal = TcpRefusal::builder().linger(30 * MS).build().unwrap();
    let (_client, server) = net.connect();
    refusal.refuse(server, BUSY);
    let report = refusal.shutdown(None);
    // The peer never closes: it is cut, by its own time or by the shutdown's.
    assert_eq!((report.ended + report.cut, refusal.snapshot().held), (1, 0));
}

#[test]
fn shutdown_lets_clients_end_by_themselves() {
    let _watchdog = watchdog();
    let net = Loopback::new();
    for threaded in [true, false] {
        let builder = patient();
        let builder = if threaded { builder } else { builder.without_thread() };
        let refusal = builder.build().unwrap();
        let clients: Vec<_> = (0..10)
            .map(|_| {
                let (client, server) = net.connect_narrow();
                refusal.refuse(server, vec![7_u8; MIB]);
                elsewhere(move || read_all(&client).len())
            })
            .collect();
        let end = || refusal.shutdown(None);
        let (one, other) = race(end, end);
        // Those that had ended before are in no report.
        assert_eq!((one.cut, other.cut), (0, 0), "threaded: {threaded}");
        assert!(one.ended <= 10 && one.ended == other.ended, "threaded: {threaded}");
        assert_eq!(refusal.snapshot().closed_by_peer, 10);
        for client in clients {
            assert_eq!(client.wait(), MIB);
        }
    }
}

#[test]
fn the_last_handle_cuts_what_is_held() {
    let net = Loopback::new();
    for builder in [patient(), patient().without_thread()] {
        let refusal = builder.build().unwrap();
        let (mut client, server) = net.connect();
        client.write_all(&[b'x'; 10_000]).unwrap();
        refusal.refuse(server, BUSY);
        let other = refusal.clone();
        drop(refusal);
        assert_eq!(other.snapshot().held, 1);
        drop(other);
        assert_eq!(read_all(&client), BUSY.as_bytes());
        eventually("the socket is closed", || is_cut(&client));
    }
}

#[test]
fn delayed_close_holds_no_slots() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    let pool = weirpool::Pool::new(1, 2).unwrap();
    let lingering: Vec<_> = (0..50)
        .map(|_| {
            let (client, server) = net.connect();
            let handle = refusal.clone();
            pool.try_submit(move || handle.refuse(server, BUSY)).unwrap().join().unwrap();
            client
        })
        .collect();
    assert_eq!((refusal.snapshot().held, pool.in_flight()), (50, 0));
    assert!(pool.try_reserve_many(2).is_ok());
    drop(lingering);
}

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
    #[derive(Clone)]
    struct Counting(ManualClock, Arc<AtomicU64>);
    impl Clock for Counting {
        fn now(&self) -> Instant {
            self.1.fetch_add(1, SeqCst);
            self.0.now()
        }
    }
    let _watchdog = watchdog();
    let looks = Arc::new(AtomicU64::new(0));
    let clock = Counting(ManualClock::new(), Arc::clone(&looks));
    let net = Loopback::new();
    let refusal = TcpRefusal::builder()
        .linger(80 * MS)
        .max_drain(1_000)
        .clock(clock.clone())
        .build()
        .unwrap();
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
    let settled = looks.load(SeqCst);
    eventually("it has looked some times", || looks.load(SeqCst) > settled + 10);
    let (begin, before) = (Instant::now(), looks.load(SeqCst));
    eventually("it looks on", || looks.load(SeqCst) > before + 6);
    let rounds = (looks.load(SeqCst) - before) / 2;
    // Looks for progress come 10 ms apart at least: slower is always right.
    let most = begin.elapsed().as_millis() as u64 / 9 + 4;
    assert!(rounds <= most, "{rounds} rounds in {:?}", begin.elapsed());
    assert_eq!(refusal.snapshot().held, 3);
}

#[test]
fn a_client_that_drips_does_not_make_the_thread_spin() {
    #[derive(Clone, Default)]
    struct Counting(Arc<AtomicU64>);
    impl Clock for Counting {
        fn now(&self) -> Instant {
            self.0.fetch_add(1, SeqCst);
            Instant::now()
        }
    }
    let _watchdog = watchdog();
    let looks = Counting::default();
    let (net, refusal) = (Loopback::new(), patient().clock(looks.clone()).build().unwrap());
    let (mut client, server) = net.connect();
    client.set_nodelay(true).unwrap();
    refusal.refuse(server, BUSY);
    let (begin, before) = (Instant::now(), looks.0.load(SeqCst));
    for _ in 0..rounds_in(5_000, 50_000) {
        client.write_all(b"x").unwrap();
    }
    let rounds = (looks.0.load(SeqCst) - before) / 2;
    let most = begin.elapsed().as_millis() as u64 + 10;
    assert!(rounds <= most, "{rounds} rounds in {:?}", begin.elapsed());
}

#[test]
fn zero_read_as_unlimited() {
    type Build = fn(TcpRefusalBuilder) -> TcpRefusalBuilder;
    let cases: [(&str, Build); 10] = [
        ("linger = 0ns: must be above zero", |b| b.linger(Duration::ZERO)),
        ("write_timeout = 0ns: must be above", |b| b.write_timeout(Duration::ZERO)),
        ("longest = 0ns: must be at least the linger time", |b| b.longest(Duration::ZERO)),
        ("longest = 1s: must be at least", |b| b.longest(1_000 * MS)),
        ("max_connections = 0: must be from 1 to 16384", |b| b.max_connections(0)),
        ("max_connections = 16385: must be", |b| b.max_connections(16_385)),
        ("max_bytes = 0: must be from 1", |b| b.max_bytes(0)),
        ("max_drain = 0: must be from 1", |b| b.max_drain(0)),
        ("stack_size = 1: must be from 65536", |b| b.stack_size(1)),
        ("name = \"\\0\": must be free of NUL bytes", |b| b.name("\0")),
    ];
    for (expected, set) in cases {
        let error = set(TcpRefusal::builder()).build().unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error} instead of {expected}");
        assert!(matches!(error, BuildError::Invalid { .. }));
    }
}

#[test]
fn a_clock_that_goes_back_delays_nothing() {
    struct Jumping(Instant, Arc<AtomicU64>);
    impl Clock for Jumping {
        fn now(&self) -> Instant {
            self.0 + Duration::from_millis(self.1.load(SeqCst))
        }
    }
    let at_ms = Arc::new(AtomicU64::new(10_000_000));
    let clock = Jumping(Instant::now(), Arc::clone(&at_ms));
    let refusal = TcpRefusal::builder().linger(100 * MS).clock(clock).without_thread();
    let (net, refusal) = (Loopback::new(), refusal.build().unwrap());
    let (client, server) = net.connect();
    let same = server.try_clone().unwrap();
    refusal.refuse(server, BUSY);
    assert_eq!(read_all(&client), BUSY.as_bytes());
    wait_flushed(&same);
    drop(same);
    refusal.step();
    at_ms.store(0, SeqCst);
    assert_eq!(refusal.step(), 1);
    at_ms.store(100, SeqCst);
    assert_eq!(refusal.step(), 0);
}

#[test]
fn handles_are_what_they_should_be() {
    fn check<T: Clone + Send + Sync + UnwindSafe + RefUnwindSafe + std::fmt::Debug>(_: &T) {}
    let refusal = TcpRefusal::new().unwrap();
    check(&refusal);
    assert!(format!("{refusal:?}").contains("held: 0"));
    assert!(format!("{:?}", TcpRefusal::builder()).contains("max_connections: 256"));
    let shared: Arc<[u8]> = Arc::from(&b"abc"[..]);
    let same = |answer: Answer| assert_eq!(answer.bytes(), b"abc");
    same("abc".into());
    same(b"abc".into());
    same((&b"abc"[..]).into());
    same(shared.into());
    same(vec![b'a', b'b', b'c'].into());
    same(String::from("abc").into());
}

#[test]
fn pool_used_after_fork() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    let (client, server) = net.connect();
    refusal.refuse(server, BUSY);
    let (_other_client, in_child) = net.connect();
    // SAFETY: the child only uses the refusal and leaves by `_exit`.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", io::Error::last_os_error()),
        0 => {
            // SAFETY: ends a child that hangs.
            unsafe { libc::alarm(20) };
            refusal.refuse(in_child, BUSY);
            let mut right = refusal.step() == 0;
            right &= refusal.shutdown(None).ended == 0;
            right &= refusal.snapshot() == TcpRefusalSnapshot::default();
            drop(refusal);
            // SAFETY: ends the child without destructors.
            unsafe { libc::_exit(i32::from(!right)) }
        }
        child => {
            let mut status = 0;
            // SAFETY: our child, and a valid place.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:x}");
        }
    }
    assert_eq!(read_all(&client), BUSY.as_bytes());
    drop(client);
    eventually("done in the parent", || refusal.snapshot().closed_by_peer == 1);
}

#[test]
fn many_threads_refuse_while_clients_come_and_go() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().max_connections(8).build().unwrap());
    let each = rounds_in(50, 500);
    thread::scope(|scope| {
        for worker in 0..4 {
            let (net, refusal) = (&net, &refusal);
            scope.spawn(move || {
                let mut kept = Vec::new();
                for round in 0..each {
                    let (client, server) = net.connect();
                    refusal.refuse(server, BUSY);
                    assert!(refusal.snapshot().held <= 8);
                    match (worker + round) % 3 {
                        0 => kept.push(client),
                        1 => drop(client),
                        _ => reset(client),
                    }
                }
            });
        }
    });
    eventually("all have ended", || refusal.snapshot().held == 0);
    let now = refusal.snapshot();
    assert_eq!((now.accepted, now.cut_by_time), (4 * each as u64, 0));
    check_adds_up(&now);
}

/// Not a test: see `figures` in `tests/hold.rs`. Prints how many of 1000 clients that send 64 KiB
/// at once read all of their answer, with and without `TcpRefusal`, and what lingering connections
/// cost.
#[test]
#[ignore = "prints figures, judges nothing"]
fn figures() {
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    for before in [true, false] {
        let refuse = |server| refusal.refuse(server, BUSY);
        let complete = (0..1_000).filter(|_| sends_much_then_reads(&net, before, refuse)).count();
        println!("complete answers: {complete} of 1000; sent before: {before}");
        let close = |mut server: TcpStream| drop(server.write_all(BUSY.as_bytes()));
        let complete = (0..1_000).filter(|_| sends_much_then_reads(&net, before, close)).count();
        println!("written and closed at once: {complete} of 1000; sent before: {before}");
    }

    let refusal = TcpRefusal::builder().linger(100 * MS).build().unwrap();
    let (mut client, server) = net.connect();
    refusal.refuse(server, vec![7_u8; MIB]);
    let (begin, mut piece, mut total) = (Instant::now(), [0; 16 << 10], 0);
    while let bytes @ 1.. = client.read(&mut piece).unwrap() {
        total += bytes;
        // 1 MiB/s.
        let due = Duration::from_secs_f64(total as f64 / MIB as f64);
        while begin.elapsed() < due {
            thread::park_timeout(due.saturating_sub(begin.elapsed()));
        }
    }
    println!("read at 1 MiB/s: {total} bytes in {:?}, linger 100 ms", begin.elapsed());
    while refusal.snapshot().held > 0 {
        thread::park_timeout(MS);
    }
    let (client, server) = net.connect();
    let begin = Instant::now();
    refusal.refuse(server, BUSY);
    while refusal.snapshot().held > 0 {
        thread::park_timeout(MS / 10);
    }
    println!("never closes: cut after {:?}, linger 100 ms", begin.elapsed());
    drop(client);
    let (clients, servers): (Vec<_>, Vec<_>) = (0..50).map(|_| net.connect()).unzip();
    for server in servers {
        refusal.refuse(server, BUSY);
    }
    let begin = Instant::now();
    let report = refusal.shutdown(Some(50 * MS));
    println!("shutdown with 50 lingering, limit 50 ms: {:?}, {report:?}", begin.elapsed());
    drop(clients);

    let refusal = patient().max_connections(5_000).build().unwrap();
    let (clients, servers): (Vec<_>, Vec<_>) = (0..5_000).map(|_| net.connect()).unzip();
    let (begin, cpu) = (Instant::now(), cpu_us());
    for server in servers {
        refusal.refuse(server, BUSY);
    }
    println!("5000 refused: {:?}, {} µs of CPU", begin.elapsed(), cpu_us() - cpu);
    let (begin, cpu) = (Instant::now(), cpu_us());
    while begin.elapsed() < 3_000 * MS {
        thread::park_timeout(100 * MS);
    }
    println!("5000 held for {:?}: {} µs of CPU", begin.elapsed(), cpu_us() - cpu);
    let (begin, cpu) = (Instant::now(), cpu_us());
    drop(clients);
    while refusal.snapshot().held > 0 {
        thread::park_timeout(MS);
    }
    println!("5000 closed by their peers: {:?}, {} µs of CPU", begin.elapsed(), cpu_us() - cpu);
}

fn cpu_us() -> i64 {
    // SAFETY: all zero is a valid `rusage`, and the place is ours.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &raw mut usage), 0);
        usage
    };
    let us = |time: libc::timeval| time.tv_sec * 1_000_000 + time.tv_usec;
    us(usage.ru_utime) + us(usage.ru_stime)
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
