//! The live page in a browser: its charts move, and it survives the server's restart.
//!
//! With `WEIRPOOL_SCREENSHOTS=folder` it also spends a minute of changing load and leaves pictures of
//! the page there; `page.png` and `phone-dark.png`, which the README shows, are
//! made by that.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::browser::{Browser, Page};
use common::server::Server;

/// Requests a second to a server, from a process of its own, until it is dropped.
struct Load(Child);

impl Load {
    fn start(server: &Server, options: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_weirpool-load"))
            .args(["--server", &server.address, "--seconds", "600"])
            .args(options)
            .stdout(Stdio::null())
            .spawn();
        Self(child.expect("the generator starts"))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The charts by their heading, each as the sum of what is drawn in it.
fn drawn(page: &mut Page<'_>) -> Vec<(String, String)> {
    let charts = page.evaluate(
        "[...document.querySelectorAll('figure')].map(figure => [
            figure.querySelector('h2').firstChild.textContent.trim(),
            [...figure.querySelectorAll('svg[role=img] path')].map(p => p.getAttribute('d')).join('|'),
        ])",
    );
    serde_json::from_value(charts).expect("pairs of texts")
}

fn wait_for_events(page: &mut Page<'_>, more: u32) {
    let received = page.evaluate("Number(document.body.dataset.received ?? 0)");
    page.until(&format!("Number(document.body.dataset.received ?? 0) >= {received} + {more}"));
}

#[test]
fn the_charts_move_and_the_page_survives_a_restart() {
    let Some(mut browser) = Browser::start() else {
        // Past the test harness, which would swallow it.
        let _ = writeln!(std::io::stderr(), "SKIPPED: chromium is not installed");
        return;
    };
    let server = Server::start(&[]);
    let load = Load::start(&server, &["--rate", "1200"]);
    let mut page = browser.open(&format!("http://{}/pool", server.address));
    page.resize(1180, 900, false);

    page.until("document.body.dataset.state === 'live'");
    wait_for_events(&mut page, 15);
    let before = drawn(&mut page);
    wait_for_events(&mut page, 15);
    let after = drawn(&mut page);
    let titles: Vec<_> = after.iter().map(|(title, _)| title.as_str()).collect();
    let expected =
        ["Served", "Turned away", "Wait in the queue", "Slots", "CPU and workers", "Offered load"];
    assert_eq!(titles, expected);
    for ((title, before), (_, after)) in before.iter().zip(&after) {
        assert!(after.contains('L'), "{title} is empty");
        assert_ne!(before, after, "{title} stands still");
    }
    assert_eq!(page.evaluate("document.querySelectorAll('.tile dd').length"), 6);
    assert_eq!(
        page.evaluate("document.documentElement.scrollWidth <= innerWidth"),
        true,
        "nothing sticks out"
    );

    // The next process on the same port: the page finds it by itself and starts anew.
    let port = server.port().to_owned();
    drop((load, server));
    page.until("document.body.dataset.state !== 'live'");
    let server = Server::start_on(&port, &[]);
    page.until("document.body.dataset.state === 'live'");
    wait_for_events(&mut page, 3);
    assert_eq!(page.evaluate("samples[0].number < 10 && samples.length >= 3"), true);
    if let Some(folder) = std::env::var_os("WEIRPOOL_SCREENSHOTS") {
        take_pictures(&mut page, &server, &PathBuf::from(folder));
    }
}

/// A quiet time, a flood of three times the capacity, and a quiet time again.
fn take_pictures(page: &mut Page<'_>, server: &Server, folder: &Path) {
    let mut load = None;
    for (rate, events) in [("250", 110), ("1500", 130), ("250", 75)] {
        drop(load.replace(Load::start(server, &["--rate", rate])));
        wait_for_events(page, events);
    }
    for (name, width, height, is_phone, is_dark) in [
        ("page", 1000, 880, false, false),
        ("page-dark", 1000, 880, false, true),
        ("phone", 390, 1700, true, false),
        ("phone-dark", 390, 1700, true, true),
    ] {
        page.resize(width, height, is_phone);
        page.set_dark(is_dark);
        wait_for_events(page, 2);
        let file = folder.join(format!("{name}.png"));
        std::fs::write(&file, page.screenshot()).expect("the folder can be written");
    }
}
