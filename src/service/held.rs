//! The slot of one request, and what became of all of them.

use std::fmt;

use super::RequestClass;
use crate::error::Refusal;
use crate::pool::Pool;
use crate::submit::Permit;
use crate::sync::stat::{Arc, AtomicU64, Mutex, Relaxed};

/// The pool that gives the slots, and the count of requests: shared by all clones of a layer.
#[derive(Debug)]
pub(super) struct Gatekeeper {
    pub(super) pool: Pool,
    tally: Arc<Tally>,
}

impl Gatekeeper {
    pub(super) fn new(pool: Pool) -> Self {
        Self { pool, tally: Arc::default() }
    }

    /// A slot for a request of this class.
    pub(super) fn admit(&self, class: RequestClass) -> Result<Held, Refusal> {
        match class.job(&self.pool).try_reserve() {
            Ok(permit) => {
                self.tally.started.fetch_add(1, Relaxed);
                Ok(Held {
                    place: Place::Own(permit),
                    end: End::Cancelled,
                    tally: Arc::clone(&self.tally),
                })
            }
            Err(refusal) => {
                self.tally.refused.fetch_add(1, Relaxed);
                Err(refusal)
            }
        }
    }

    pub(super) fn counts(&self) -> RequestCounts {
        self.tally.counts()
    }
}

/// What has become of the requests of a layer, from
/// [`AdmissionLayer::counts`](super::AdmissionLayer::counts).
///
/// At rest, with no request inside, `started == finished + failed + cancelled`. All are counts since
/// the layer was made, over all its clones.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests that got a slot.
    pub started: u64,
    /// Of these: answered, and where the body counts, to its end.
    pub finished: u64,
    /// Of these: ended by an error, of the service or of the body.
    pub failed: u64,
    /// Of these: dropped before their end, or ended by a panic. A body that its server never asks
    /// for, as for `HEAD`, counts here.
    pub cancelled: u64,
    /// Requests that got no slot.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Tally {
    started: AtomicU64,
    finished: AtomicU64,
    failed: AtomicU64,
    cancelled: AtomicU64,
    refused: AtomicU64,
}

impl Tally {
    fn counts(&self) -> RequestCounts {
        RequestCounts {
            started: self.started.load(Relaxed),
            finished: self.finished.load(Relaxed),
            failed: self.failed.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            refused: self.refused.load(Relaxed),
        }
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum End {
    Finished,
    Failed,
    Cancelled,
}

/// The slot of one request. Whoever has it holds it up; dropping it counts the request's one end and
/// returns the slot, in this order, so that the counts add up once all slots are back.
#[derive(Debug)]
pub struct Held {
    place: Place,
    end: End,
    tally: Arc<Tally>,
}

#[derive(Debug)]
enum Place {
    Own(Permit),
    Lent(RequestSlot),
}

impl Held {
    /// From here on the slot may be taken by whoever has the [`RequestSlot`].
    pub(super) fn lend(&mut self) -> RequestSlot {
        if let Place::Lent(slot) = &self.place {
            return slot.clone();
        }
        let slot = RequestSlot(Arc::new(Mutex::new(None)));
        if let Place::Own(permit) = std::mem::replace(&mut self.place, Place::Lent(slot.clone())) {
            *slot.0.lock() = Some(permit);
        }
        slot
    }

    /// If it is dropped from now on, this is how the request ended.
    pub(super) fn ends_as(&mut self, end: End) {
        self.end = end;
    }

    /// The request has ended.
    pub(super) fn end(mut self, end: End) {
        self.ends_as(end);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let ends = match self.end {
            End::Finished => &self.tally.finished,
            End::Failed => &self.tally.failed,
            End::Cancelled => &self.tally.cancelled,
        };
        ends.fetch_add(1, Relaxed);
        if let Place::Lent(slot) = &self.place {
            drop(slot.take());
        }
    }
}

/// The slot that a request holds, for its handler to submit a job with: one slot for the request
/// and for the job that it is about, from
/// [`AdmissionLayer::hand_over`](super::AdmissionLayer::hand_over).
///
/// Clones are the same slot. If nobody takes it, it returns when the request ends; after that, and
/// after it was taken once, there is none.
///
/// ```
/// use tower_layer::Layer;
/// use tower_service::Service;
/// use weirpool::service::{AdmissionLayer, Offload, RequestSlot};
///
/// #[derive(Default)]
/// struct Request {
///     slot: Option<RequestSlot>,
/// }
///
/// let pool = weirpool::Pool::new(1, 1)?;
/// let layer = AdmissionLayer::new(pool.clone())
///     .hand_over(|request: &mut Request, slot| request.slot = Some(slot));
/// # let other_pool = weirpool::Pool::new(1, 1)?;
/// # let handler = move |request: Request| {
/// // In the handler, when the body has been read:
/// let permit = request.slot.and_then(|slot| slot.take()).expect("this request's own");
/// permit.submit(|| "computed with the request's slot").unwrap().join().unwrap()
/// # };
/// # let mut service = layer.layer(Offload::new(other_pool, handler));
/// # let answer = pollster::block_on(service.call(Request::default()))?;
/// # assert_eq!(answer, "computed with the request's slot");
/// # assert_eq!(pool.in_flight(), 0);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone)]
pub struct RequestSlot(Arc<Mutex<Option<Permit>>>);

impl RequestSlot {
    /// Takes the slot over: from now on it is the permit's, and returns with it or with its job.
    pub fn take(&self) -> Option<Permit> {
        // The lock is free again before anybody can drop what was in it.
        self.0.lock().take()
    }
}

impl fmt::Debug for RequestSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestSlot").finish()
    }
}
