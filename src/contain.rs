//! The wall around user code: what panics inside stays inside.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a caught panic carried.
pub(crate) type Payload = Box<dyn Any + Send>;

/// Runs user code; a panic comes back as a value.
///
/// `AssertUnwindSafe` is right here because nothing of ours is borrowed mutably across a call: the
/// pool calls user code only between its own steps, never inside one.
pub(crate) fn contain<R>(f: impl FnOnce() -> R) -> Result<R, Payload> {
    catch_unwind(AssertUnwindSafe(f))
}

/// Drops `value`; false if its destructor panicked. The payload of that panic is dropped too.
pub(crate) fn drop_contained<V>(value: V) -> bool {
    call_contained(move || drop(value))
}

/// Calls `f` for its effect; false if it panicked. The payload of that panic is dropped too.
pub(crate) fn call_contained(f: impl FnOnce()) -> bool {
    match contain(f) {
        Ok(()) => true,
        Err(payload) => {
            drop_payload(payload);
            false
        }
    }
}

/// Drops a panic's payload. A payload whose own destructor panics is the end of the road: what
/// *that* panic carried is leaked, since dropping it could go on for ever.
pub(crate) fn drop_payload(payload: Payload) {
    if let Err(next) = contain(move || drop(payload)) {
        std::mem::forget(next);
    }
}

/// A value whose destructor is user code and may run on any thread: a panic in it is contained.
pub(crate) struct Contained<V>(ManuallyDrop<V>);

impl<V> Contained<V> {
    pub(crate) fn new(value: V) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<V> std::ops::Deref for Contained<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.0
    }
}

impl<V> std::ops::DerefMut for Contained<V> {
    fn deref_mut(&mut self) -> &mut V {
        &mut self.0
    }
}

impl<V> Drop for Contained<V> {
    fn drop(&mut self) {
        // SAFETY: the value is taken in the destructor, which runs once, and is not used after.
        let value = unsafe { ManuallyDrop::take(&mut self.0) };
        drop_contained(value);
    }
}
