//! What the test itself sees of a closure: whether it ran, and that it was dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use proptest::prelude::*;
use weirpool::{JobError, ShedReason};

use crate::common::quiet_panic;

/// What a job's body does in the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Returns,
    Panics,
    /// Its result panics when it is dropped.
    ReturnsBomb,
}

pub(crate) fn end() -> impl Strategy<Value = End> {
    prop_oneof![4 => Just(End::Returns), 1 => Just(End::Panics), 1 => Just(End::ReturnsBomb)]
}

impl End {
    /// The same for a job whose result dies in its body, which is a panic of the body.
    pub(crate) fn when_unasked(self) -> Self {
        if self == Self::Returns { self } else { Self::Panics }
    }
}

/// A result that may panic when dropped; whoever takes it defuses it.
#[derive(Debug)]
pub(crate) struct Outcome {
    armed: bool,
}

impl Drop for Outcome {
    fn drop(&mut self) {
        if self.armed {
            quiet_panic()
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Ghost {
    started: AtomicUsize,
    dropped: AtomicUsize,
}

/// In the closure: tells the ghost of its drop.
struct Captured(Arc<Ghost>);

impl Drop for Captured {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, SeqCst);
    }
}

/// A closure whose type can be named.
pub(crate) type Body = Box<dyn FnOnce() -> Outcome + Send>;

impl Ghost {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn body(self: &Arc<Self>, end: End) -> impl FnOnce() -> Outcome + Send + 'static {
        let captured = Captured(Arc::clone(self));
        move || {
            captured.0.started.fetch_add(1, SeqCst);
            if end == End::Panics {
                quiet_panic()
            }
            Outcome { armed: end == End::ReturnsBomb }
        }
    }

    pub(crate) fn started(&self) -> usize {
        self.started.load(SeqCst)
    }

    pub(crate) fn dropped(&self) -> usize {
        self.dropped.load(SeqCst)
    }

    /// It never ran, and is gone.
    #[track_caller]
    pub(crate) fn assert_dropped_unrun(&self) {
        assert_eq!((self.started(), self.dropped()), (0, 1));
    }
}

/// How an accepted job stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fate {
    Queued,
    Completed,
    Panicked,
    Cancelled,
    Displaced,
    Discarded,
}

impl Fate {
    pub(crate) fn when_run(end: End) -> Self {
        if end == End::Panics { Self::Panicked } else { Self::Completed }
    }

    pub(crate) fn has_run(self) -> bool {
        matches!(self, Self::Completed | Self::Panicked)
    }

    /// What a job's outcome says it was; defuses the result.
    pub(crate) fn of(outcome: Result<Outcome, JobError>) -> Self {
        match outcome {
            Ok(mut result) => {
                result.armed = false;
                Self::Completed
            }
            Err(JobError::Panicked(_)) => Self::Panicked,
            Err(JobError::Cancelled) => Self::Cancelled,
            Err(JobError::Discarded) => Self::Discarded,
            Err(JobError::Shed(ShedReason::Displaced)) => Self::Displaced,
            Err(other) => panic!("an outcome for which there is no cause: {other:?}"),
        }
    }
}
