//! The service's answers, seen by its clients.

mod common;

use std::time::{Duration, Instant};

use common::client::{Connection, get};
use common::server::Server;
use common::until;
use weirpool::load::{AgentReply, LoadReport};

const BIGGEST: usize = 4 << 20;

/// Waits that are no part of a test are as long as they may be: it is not told how busy its machine is.
const PATIENT: [&str; 4] = ["--deadline", "3600000", "--read-time", "3600000"];

/// All bodies together may hold 64 MiB.
const BIGGEST_AT_ONCE: usize = 16;

/// Sends a thumbnail request that the server has a picture for.
fn ask(server: &Server) -> Connection {
    let mut client = server.connect();
    client.post("/thumbnail?image=2", b"");
    client
}

/// How many jobs run, and how many wait.
fn running_and_queued(server: &Server) -> (f64, f64) {
    (server.metric("weirpool_running_jobs"), server.metric("weirpool_queued_jobs"))
}

#[test]
fn the_routes_do_their_work() {
    let server = Server::start(&PATIENT);
    let post = |path: &str, body: &[u8]| {
        let mut client = server.connect();
        client.post(path, body);
        client.answer()
    };
    assert_eq!(post("/password", b"user=ada&password=correct+horse").status, 200);
    assert_eq!(post("/password", b"user=ada&password=wrong").status, 401);
    assert_eq!(post("/password", b"user=nobody&password=nobody+has+this+one").status, 401);
    assert_eq!(post("/password", b"no form").status, 400);
    for image in ["0", "1", "2"] {
        let answer = post(&format!("/thumbnail?image={image}"), b"");
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("image/jpeg")));
    }
    assert_eq!(post("/thumbnail?image=3", b"").status, 404);
    assert_eq!(post("/thumbnail?image=x", b"").status, 400);
    assert_eq!(post("/thumbnail", b"no picture").status, 422);
    // It has a second of its own to begin in, which a busy machine may use up.
    until("it is healthy", || get(&server.address, "/healthz").status == 200);
    assert_eq!(get(&server.address, "/readyz").status, 200);
    assert_eq!(server.metric("weirpool_in_flight_slots"), 0.0);
}

#[test]
fn the_same_without_protection() {
    let server = Server::start(&["--unprotected"]);
    assert_eq!(ask(&server).answer().status, 200);
    assert_eq!(get(&server.address, "/healthz").status, 200);
    assert_eq!(server.metric("service_jobs_queued"), 0.0);
}

#[test]
fn a_client_that_hangs_up_frees_its_queued_job_and_not_a_running_one() {
    let server = Server::start(&[&["--workers", "1", "--slow", "10000"], &PATIENT[..]].concat());
    let running = ask(&server);
    until("the first runs", || running_and_queued(&server) == (1.0, 0.0));
    for hung_up in 1..=3 {
        let queued = ask(&server);
        until("another waits", || running_and_queued(&server) == (1.0, 1.0));
        drop(queued);
        until("it is cancelled", || {
            server.metric("weirpool_cancelled_total") == f64::from(hung_up)
        });
        assert_eq!(server.metric("weirpool_in_flight_slots"), 1.0, "its slot is back");
    }
    drop(running);
    let queued = ask(&server);
    until("another waits", || running_and_queued(&server) == (1.0, 1.0));
    assert_eq!(server.metric("weirpool_in_flight_slots"), 2.0, "what runs keeps its slot");
    drop(queued);
    until("it is cancelled", || server.metric("weirpool_cancelled_total") == 4.0);
    assert_eq!(running_and_queued(&server), (1.0, 0.0));
}

#[test]
fn a_slot_is_taken_before_the_body_and_a_refusal_does_not_read_it() {
    let server = Server::start(&[&["--workers", "1"], &PATIENT[..]].concat());
    let slow: Vec<_> = (0..BIGGEST_AT_ONCE)
        .map(|_| {
            let mut client = server.connect();
            client.send_head("POST", "/thumbnail", BIGGEST);
            client
        })
        .collect();
    until("all have a slot", || server.metric("weirpool_reserved_slots") == BIGGEST_AT_ONCE as f64);

    let mut refused = server.connect();
    refused.send_head("POST", "/thumbnail", BIGGEST);
    let answer = refused.answer();
    assert_eq!(answer.status, 503);
    let reason = answer.header("x-weirpool-reason");
    assert_eq!(reason, Some("refused: the budget of bytes is used up"));
    let retry_s: Option<u64> = answer.header("retry-after").and_then(|wait| wait.parse().ok());
    assert!(retry_s >= Some(1), "{answer:?}");
    let load = LoadReport::parse(answer.header("endpoint-load-metrics").expect("a report"));
    assert_eq!(load.expect("one that can be read").named_metrics["in_flight"], 16.0);

    // Without a body there is nothing to pay for.
    assert_eq!(ask(&server).answer().status, 200);
    // Who hangs up loses the slot.
    drop(slow);
    until("no slot is held", || server.metric("weirpool_in_flight_slots") == 0.0);
}

#[test]
fn who_never_sends_the_body_is_told_so_and_loses_the_slot() {
    let server = Server::start(&["--workers", "1", "--read-time", "1"]);
    let mut silent = server.connect();
    silent.send_head("POST", "/thumbnail", BIGGEST);
    assert_eq!(silent.answer().status, 408);
    until("no slot is held", || server.metric("weirpool_in_flight_slots") == 0.0);
}

#[test]
fn a_body_that_is_too_large_is_not_read() {
    let server = Server::start(&[]);
    let mut announced = server.connect();
    announced.send_head("POST", "/thumbnail", BIGGEST + 1);
    assert_eq!(announced.answer().status, 413);
    assert_eq!(server.metric("weirpool_accepted_total"), 0.0);
}

#[test]
fn what_could_not_begin_in_time_is_told_so() {
    const DEADLINE: Duration = Duration::from_millis(100);
    let server = Server::start(&["--workers", "1", "--slow", "200", "--deadline", "100"]);
    // Whether one waits for long enough behind another shows afterwards: once more, if not.
    until("one runs while another waits for too long", || {
        let both = [ask(&server), ask(&server)];
        let mut seen_at = None;
        let mut is_late = false;
        until("both have ended, or one is late", || {
            match running_and_queued(&server) {
                (1.0, 1.0) => {
                    let seen_at: Instant = *seen_at.get_or_insert_with(Instant::now);
                    is_late = seen_at.elapsed() > DEADLINE;
                }
                _ => seen_at = None,
            }
            is_late || server.metric("weirpool_in_flight_slots") == 0.0
        });
        let mut told = both.map(|client| client.answer().status);
        told.sort_unstable();
        if is_late {
            assert_eq!(told, [200, 504]);
        }
        is_late
    });
}

#[test]
fn the_balancer_is_told_how_much_is_free_and_when_the_server_ends() {
    use std::io::Read;
    let mut server = Server::start(&[&["--agent-port", "0"], &PATIENT[..]].concat());
    let line = server.next_line();
    let agent = line.strip_prefix("agent checks on ").expect("an address");
    let check = || {
        let mut line = String::new();
        let mut agent = std::net::TcpStream::connect(agent).expect("an agent");
        agent.read_to_string(&mut line).expect("a line");
        line.parse::<AgentReply>().expect("one that HAProxy reads")
    };
    assert_eq!(check().to_string(), "up ready 100%\n");

    let mut accepted = server.connect();
    accepted.send_head("POST", "/thumbnail", 4);
    until("it has a slot", || server.metric("weirpool_reserved_slots") == 1.0);
    server.ask_to_end();
    until("the balancer is told", || check().to_string() == "drain\n");
    accepted.send(b"junk");
    assert_eq!(accepted.answer().status, 422, "what was accepted is answered");
    assert!(server.ended().contains("discarded: 0, still_running: 0"));
}
