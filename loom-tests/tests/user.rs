//! A service of one's own under loom: how a user of weirpool tests code that runs on a pool.
//!
//! The service keeps rendered pages. A request for a page that isn't there yet submits a job that
//! renders it, and joins that; when the pool has no slot, the request is refused at once. The model
//! has two clients ask at the same time, and loom tries how their steps and the worker's interleave.
#![cfg(loom)]

use std::collections::BTreeMap;

use weirpool::loom;
use weirpool::test::ManualClock;
use weirpool::{Pool, Shutdown};

// What the service shares between threads comes from loom, so that loom sees it. In your crate:
//
//     #[cfg(loom)]
//     use weirpool::loom::sync::{Arc, Mutex};
//     #[cfg(not(loom))]
//     use std::sync::{Arc, Mutex};
use weirpool::loom::sync::{Arc, Mutex};

/// There is no slot: the client may come back later.
#[derive(Debug)]
struct Busy;

/// The service under test.
struct Pages {
    pool: Pool,
    rendered: Arc<Mutex<BTreeMap<u32, String>>>,
}

impl Pages {
    fn new(pool: Pool) -> Self {
        Self { pool, rendered: Arc::new(Mutex::new(BTreeMap::new())) }
    }

    fn cached(&self, number: u32) -> Option<String> {
        self.rendered.lock().unwrap().get(&number).cloned()
    }

    /// The page, rendered on the pool unless it is there already.
    fn get(&self, number: u32) -> Result<String, Busy> {
        if let Some(page) = self.cached(number) {
            return Ok(page);
        }
        let rendered = Arc::clone(&self.rendered);
        let job = move || {
            let page = format!("page {number}");
            rendered.lock().unwrap().insert(number, page.clone());
            page
        };
        let handle = self.pool.try_submit(job).map_err(|_| Busy)?;
        Ok(handle.join().expect("rendering doesn't panic, and nobody cancels it"))
    }
}

#[test]
fn two_clients_ask_for_the_same_page() {
    let mut model = loom::model::Builder::new();
    // All interleavings of three threads would take hours. Nearly all mistakes show with a thread
    // being interrupted once or twice.
    model.preemption_bound = Some(1);
    model.check(|| {
        // A pool of fixed size, and a clock that stands still: an execution must run the same way
        // each time. The model has three threads, the worker included; loom's limit is five.
        let pool = Pool::builder().workers(1).capacity(1).clock(ManualClock::new());
        let pages = Arc::new(Pages::new(pool.build().unwrap()));

        let other = {
            let pages = Arc::clone(&pages);
            loom::thread::spawn(move || pages.get(7))
        };
        let answers = [pages.get(7), other.join().unwrap()];

        // One slot: a client may be turned away, but only while the other one holds it.
        assert!(answers.iter().any(Result::is_ok), "both were refused");
        for page in answers.into_iter().flatten() {
            assert_eq!(page, "page 7");
        }
        assert_eq!(pages.cached(7).unwrap(), "page 7");

        // loom asks that every thread ends: shut the pool down, or drop its last handle.
        let report = pages.pool.shutdown(Shutdown::Drain, None);
        assert_eq!(report.still_running, 0);
        assert_eq!(pages.pool.in_flight(), 0);
    });
}
