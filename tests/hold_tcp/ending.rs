//! The end of a refusal, by a shutdown that is over in time or with its last handle, and in a child
//! after a fork.

use std::cell::{Ref, RefCell};
use std::io::Write;
use std::time::Duration;

use weirpool::hold::{TcpRefusal, TcpRefusalSnapshot};

use crate::common::forking::{in_a_child, step};

use crate::common::{elsewhere, eventually, race, watchdog};
use crate::net::{Loopback, is_cut, read_all};
use crate::refusals::{BUSY, MIB, MS, patient};

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
fn pool_used_after_fork() {
    let _watchdog = watchdog();
    let (net, refusal) = (Loopback::new(), patient().build().unwrap());
    let (client, server) = net.connect();
    refusal.refuse(server, BUSY);
    let (_other_client, in_child) = net.connect();
    let own = RefCell::new(Some(refusal));
    let refusal = || Ref::map(own.borrow(), |refusal| refusal.as_ref().unwrap());
    in_a_child(vec![
        step("refuse", || {
            refusal().refuse(in_child, BUSY);
            true
        }),
        step("step", || refusal().step() == 0),
        step("shutdown", || refusal().shutdown(None).ended == 0),
        step("look", || refusal().snapshot() == TcpRefusalSnapshot::default()),
        step("drop", || {
            drop(own.take());
            true
        }),
    ]);
    assert_eq!(read_all(&client), BUSY.as_bytes());
    drop(client);
    eventually("done in the parent", || refusal().snapshot().closed_by_peer == 1);
}
