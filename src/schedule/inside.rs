//! Whether the calling thread is inside a pool: then it must not wait for it.
//!
//! A worker is, all its life. And any thread is while it drops the body of one of the pool's jobs,
//! for a cancel, a displacement or a discard: until that job's destructors are through, its slot is
//! out, so that a destructor that waited for the pool (the last owner of a service often shuts its
//! pool down) would wait for itself.

use std::cell::Cell;
use std::ptr::{NonNull, null};

use super::core::Core;
use super::worker::Worker;
use crate::sync::local;

local! {
    static INNERMOST: Cell<*const Frame> = Cell::new(null());
}

/// What a thread does inside a pool.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It drops one job's body.
    Dropping,
    /// It empties the queues.
    Discarding,
}

/// One step into a pool; lives on the stack of the thread that took it.
struct Frame {
    core: NonNull<Core>,
    doing: Doing,
    outer: *const Frame,
}

/// Runs `f` inside the pool.
pub(crate) fn step_inside<R>(core: &Core, doing: Doing, f: impl FnOnce() -> R) -> R {
    struct StepOut(*const Frame);
    impl Drop for StepOut {
        fn drop(&mut self) {
            let _ = INNERMOST.try_with(|innermost| innermost.set(self.0));
        }
    }

    let outer = INNERMOST.try_with(Cell::get).unwrap_or(null());
    let frame = Frame { core: NonNull::from(core), doing, outer };
    let _step_out = StepOut(outer);
    let _ = INNERMOST.try_with(|innermost| innermost.set(&raw const frame));
    f()
}

/// Whether the calling thread is inside the pool, as its worker or dropping one of its bodies.
pub(crate) fn is_inside(core: &Core) -> bool {
    Worker::is_current_of(core) || any_frame(|frame| is_of(frame, core))
}

/// Whether the calling thread is emptying the pool's queues already.
pub(crate) fn is_discarding(core: &Core) -> bool {
    any_frame(|frame| is_of(frame, core) && frame.doing == Doing::Discarding)
}

fn is_of(frame: &Frame, core: &Core) -> bool {
    std::ptr::eq(frame.core.as_ptr(), core)
}

fn any_frame(matches: impl Fn(&Frame) -> bool) -> bool {
    let mut next = INNERMOST.try_with(Cell::get).unwrap_or(null());
    // SAFETY: the list begins with this thread's innermost frame and leads outwards. Each frame is
    // on this thread's stack, in a call of `step_inside` that has not returned: when it does, it
    // takes its frame off the list.
    while let Some(frame) = unsafe { next.as_ref() } {
        if matches(frame) {
            return true;
        }
        next = frame.outer;
    }
    false
}
