//! Real time for tasks, where no runtime is at hand.

use std::task::Waker;
use std::time::Instant;

use super::stat::{Arc, AtomicUsize, Relaxed};
use super::{Bell, Parker, Place, thread};

/// Wakes a task at a given instant, by a thread that lives until then or until the alarm is dropped.
pub(crate) struct Alarm {
    shared: Arc<Shared>,
    place: Place,
}

struct Shared {
    off: Parker,
    expired: AtomicUsize,
    bell: Bell,
}

impl Alarm {
    /// None if the thread can't be created.
    pub(crate) fn at(until: Instant) -> Option<Self> {
        let shared = Arc::new(Shared {
            off: Parker::new(),
            expired: AtomicUsize::new(0),
            bell: Bell::new(),
        });
        let sleeper = Arc::clone(&shared);
        let builder = thread::Builder::new().name("weirpool-alarm".to_owned());
        let sleep = move || {
            if !sleeper.off.park_until(Some(until)) {
                sleeper.expired.store(1, Relaxed);
                // The bell's lock publishes the store to whoever registered before.
                sleeper.bell.ring();
            }
        };
        builder.spawn(sleep).ok().map(|_| Self { shared, place: Place::default() })
    }

    /// Whether the instant has come; if not, `waker` is woken then.
    pub(crate) fn has_expired(&mut self, waker: &Waker) -> bool {
        self.shared.bell.listen(&mut self.place, waker);
        self.shared.expired.load(Relaxed) != 0
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.shared.off.unpark();
    }
}
