//! The block of a job, and the values that stand for who owns which part of it.
//!
//! [`JobRef`] is one reference. [`Running`], [`Seized`] and [`Ended`] exist only between two
//! transitions of the state word, so holding one *is* the proof that this thread may touch the
//! body or the result; the `unsafe` blocks below rest on nothing else.

use std::alloc::Layout;
use std::mem::{ManuallyDrop, needs_drop};
use std::ptr::NonNull;
use std::task::Waker;

use super::block;
use super::state::{CancelOutcome, Outcome, Published, State};
use crate::admission::ledger::Holding;
use crate::admission::partition;
use crate::contain::{Payload, call_contained, contain, drop_contained};
use crate::priority::{Class, Priority};
use crate::sync::UnsafeCell;
use crate::sync::stat::{AtomicU64, Relaxed};

/// What is the same for all jobs: 64 bytes, one cache line.
#[repr(C)]
pub(crate) struct Header {
    pub(super) state: State,
    label: Label,
    flags: Flags,
    /// [`partition::Index::code`] of the partition it holds its slot in.
    partition: u16,
    vtable: &'static VTable,
    owner: NonNull<()>,
    pub(super) waiter: UnsafeCell<Option<Waker>>,
    /// Where it was queued, see [`Header::place`]; written once, before the job can be found.
    place: AtomicU64,
    enqueued_ns: u64,
    deadline_ns: u64,
}

#[cfg(not(all(loom, feature = "loom")))]
const _: () = assert!(size_of::<usize>() != 8 || size_of::<Header>() == 64);

/// What is special about a job; immutable.
#[derive(Clone, Copy)]
struct Flags(u8);

impl Flags {
    /// The block ends with the bytes the job holds; see [`JobRef::holding`].
    const HAS_BYTES: u8 = 1;
    /// A scope waits for its end.
    const SCOPED: u8 = 2;
    /// It is never shed because of the time it has waited.
    const EXEMPT: u8 = 4;

    #[inline]
    fn of(origin: &Origin) -> Self {
        let has_bytes = if origin.holding.bytes != 0 { Self::HAS_BYTES } else { 0 };
        let scoped = if origin.scoped { Self::SCOPED } else { 0 };
        let exempt = if origin.exempt { Self::EXEMPT } else { 0 };
        Self(has_bytes | scoped | exempt)
    }

    fn has_bytes(self) -> bool {
        self.0 & Self::HAS_BYTES != 0
    }

    fn is_scoped(self) -> bool {
        self.0 & Self::SCOPED != 0
    }

    fn is_exempt(self) -> bool {
        self.0 & Self::EXEMPT != 0
    }
}

/// Priority and class in one byte.
#[derive(Clone, Copy)]
struct Label(u8);

const _: () = assert!(Priority::COUNT * Class::COUNT <= 1 << u8::BITS);

impl Label {
    #[inline]
    fn new(priority: Priority, class: Class) -> Self {
        Self((class.index() * Priority::COUNT + priority.lane()) as u8)
    }

    fn priority(self) -> Priority {
        Priority::of_lane(self.0 % Priority::COUNT as u8)
    }

    fn class(self) -> Class {
        Class(self.0 / Priority::COUNT as u8)
    }
}

/// The place of a job that was not pushed yet.
pub(crate) const UNPLACED: u64 = u64::MAX;

/// What a job is born with.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) priority: Priority,
    pub(crate) class: Class,
    pub(crate) enqueued_ns: u64,
    pub(crate) deadline_ns: u64,
    pub(crate) holding: Holding,
    /// Whether a scope waits for the job's end.
    pub(crate) scoped: bool,
    /// Whether it is never shed because of the time it has waited.
    pub(crate) exempt: bool,
    /// The pool's shared state. The job doesn't keep it alive; its slot does.
    pub(crate) owner: NonNull<()>,
}

impl Header {
    pub(crate) fn priority(&self) -> Priority {
        self.label.priority()
    }

    pub(crate) fn class(&self) -> Class {
        self.label.class()
    }

    pub(crate) fn is_exempt(&self) -> bool {
        self.flags.is_exempt()
    }

    pub(crate) fn enqueued_ns(&self) -> u64 {
        self.enqueued_ns
    }

    pub(crate) fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    pub(crate) fn owner(&self) -> NonNull<()> {
        self.owner
    }

    /// Neither urgent nor unimportant, and of no partition.
    pub(crate) fn is_common(&self) -> bool {
        self.priority() == Priority::Normal && self.partition == 0
    }

    pub(crate) fn partition(&self) -> Option<partition::Index> {
        partition::Index::of_code(self.partition)
    }

    /// Whether a handle or a scope may wait for its end.
    pub(crate) fn is_awaited(&self) -> bool {
        self.flags.is_scoped() || !self.state.is_detached()
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Which queue the job was pushed to and where in it: unique within its pool, so it is the
    /// job's identity too.
    pub(crate) fn place(&self) -> u64 {
        self.place.load(Relaxed)
    }

    /// Set by the queue as part of the push, whose own synchronization publishes it.
    pub(crate) fn set_place(&self, place: u64) {
        self.place.store(place, Relaxed);
    }
}

/// What depends on the types of a job's body and result.
struct VTable {
    /// Of the block without the bytes at its end.
    layout: Layout,
    /// Calls the body and leaves its result, or what its panic carried; true for a result.
    run: unsafe fn(NonNull<Header>) -> bool,
    drop_body: unsafe fn(NonNull<Header>) -> bool,
    /// None if there is nothing to drop in a result.
    drop_result: Option<unsafe fn(NonNull<Header>) -> bool>,
    /// Moves the result to the address given.
    take_result: unsafe fn(NonNull<Header>, *mut ()),
    take_panic: unsafe fn(NonNull<Header>) -> Payload,
    free: unsafe fn(NonNull<Header>),
}

#[repr(C)]
struct Block<F, T> {
    header: Header,
    stage: UnsafeCell<Stage<F, T>>,
}

/// What the phase says it is.
union Stage<F, T> {
    body: ManuallyDrop<F>,
    result: ManuallyDrop<T>,
    panic: ManuallyDrop<Payload>,
}

impl<F: FnOnce() -> T, T> Block<F, T> {
    const LAYOUT: Layout = Layout::new::<Self>();
    const VTABLE: VTable = VTable {
        layout: Self::LAYOUT,
        run: Self::run,
        drop_body: Self::drop_body,
        drop_result: if needs_drop::<T>() { Some(Self::drop_result) } else { None },
        take_result: Self::take_result,
        take_panic: Self::take_panic,
        free: Self::free,
    };

    /// # Safety
    /// As for all functions here: `job` points to a live block of these very types.
    unsafe fn stage<'a>(job: NonNull<Header>) -> &'a UnsafeCell<Stage<F, T>> {
        // SAFETY: `repr(C)` puts the header first, so its address is the block's; it is alive for
        // as long as the caller's reference.
        unsafe { &(*job.cast::<Self>().as_ptr()).stage }
    }

    /// # Safety
    /// The caller owns the body, which has not been taken.
    unsafe fn run(job: NonNull<Header>) -> bool {
        // SAFETY: the block is alive, and the stage holds a body that is the caller's.
        let stage = unsafe { Self::stage(job) };
        // SAFETY: as above; it is taken once, since only one thread ever wins the body.
        let body = stage.with_mut(|stage| unsafe { ManuallyDrop::take(&mut (*stage).body) });
        let ended = contain(body);
        stage.with_mut(|stage| match ended {
            // SAFETY: the stage is empty and still the caller's alone until it publishes.
            Ok(result) => unsafe {
                (*stage).result = ManuallyDrop::new(result);
                true
            },
            // SAFETY: the same.
            Err(payload) => unsafe {
                (*stage).panic = ManuallyDrop::new(payload);
                false
            },
        })
    }

    /// # Safety
    /// The caller owns the body, which has not been taken.
    unsafe fn drop_body(job: NonNull<Header>) -> bool {
        // SAFETY: the caller's promise; it is taken once.
        let body = unsafe { Self::stage(job) }
            .with_mut(|stage| unsafe { ManuallyDrop::take(&mut (*stage).body) });
        drop_contained(body)
    }

    /// # Safety
    /// The caller owns the result, which is there and has not been taken.
    unsafe fn drop_result(job: NonNull<Header>) -> bool {
        // SAFETY: the caller's promise; it is taken once.
        let result = unsafe { Self::stage(job) }
            .with_mut(|stage| unsafe { ManuallyDrop::take(&mut (*stage).result) });
        drop_contained(result)
    }

    /// # Safety
    /// As [`Self::drop_result`]; `to` is valid for a write of `T`.
    unsafe fn take_result(job: NonNull<Header>, to: *mut ()) {
        // SAFETY: the caller's promise; it is taken once.
        let result = unsafe { Self::stage(job) }
            .with_mut(|stage| unsafe { ManuallyDrop::take(&mut (*stage).result) });
        // SAFETY: the caller's promise.
        unsafe { to.cast::<T>().write(result) };
    }

    /// # Safety
    /// The caller owns the panic's payload, which is there and has not been taken.
    unsafe fn take_panic(job: NonNull<Header>) -> Payload {
        // SAFETY: the caller's promise; it is taken once.
        unsafe { Self::stage(job) }
            .with_mut(|stage| unsafe { ManuallyDrop::take(&mut (*stage).panic) })
    }

    /// # Safety
    /// The caller gave back the last reference, and the stage is empty.
    unsafe fn free(job: NonNull<Header>) {
        let block = job.cast::<Self>();
        // SAFETY: nobody else has the block, which is alive until the next line.
        let has_bytes = unsafe { job.as_ref() }.flags.has_bytes();
        let layout = if has_bytes { with_bytes(Self::LAYOUT).0 } else { Self::LAYOUT };
        // SAFETY: nobody else has the block. Unions drop nothing, so the stage is left alone.
        unsafe { block.drop_in_place() };
        // SAFETY: the block was allocated with this layout, and is dead now.
        unsafe { block::free(block.cast(), layout) };
    }
}

/// A block's layout with a number at its end, and where that number is.
fn with_bytes(layout: Layout) -> (Layout, usize) {
    layout.extend(Layout::new::<u64>()).expect("a block is far smaller than the address space")
}

/// One reference to a job's block.
pub(crate) struct JobRef(NonNull<Header>);

// SAFETY: a reference gives shared access to the header alone, all of which is atomic or immutable
// but for the waiter cell, which has one owner at a time by the state word. Body and result are
// reached only through the owning values below; `new` asks both to be `Send`, or its caller does.
unsafe impl Send for JobRef {}
// SAFETY: the same.
unsafe impl Sync for JobRef {}

impl std::ops::Deref for JobRef {
    type Target = Header;

    #[inline]
    fn deref(&self) -> &Header {
        // SAFETY: the block lives while a reference does.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for JobRef {
    #[inline]
    fn drop(&mut self) {
        if self.state.release() {
            self.free();
        }
    }
}

impl JobRef {
    /// A queued job that nobody asks for the result of.
    #[inline]
    pub(crate) fn detached<F, T>(body: F, origin: Origin) -> Self
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // SAFETY: it borrows nothing.
        Self(unsafe { Self::birth(body, origin, false) })
    }

    /// A queued job: the reference for its queue, and the one for its handle.
    ///
    /// # Safety
    /// What the body and its result borrow lives until the job has ended, and what the result
    /// borrows until the handle is gone.
    #[inline]
    pub(super) unsafe fn with_handle<F, T>(body: F, origin: Origin) -> (Self, Self)
    where
        F: FnOnce() -> T + Send,
        T: Send,
    {
        // SAFETY: the caller's promise.
        let block = unsafe { Self::birth(body, origin, true) };
        (Self(block), Self(block))
    }

    /// The one allocation of a job. It is made with one reference for each `JobRef` it is owed.
    ///
    /// # Safety
    /// See [`Self::with_handle`].
    // Always: what a job is born with would else be written to the stack in small pieces and read again
    // in large ones, for which a processor waits longer than for all the rest.
    #[inline(always)]
    unsafe fn birth<F: FnOnce() -> T, T>(
        body: F,
        origin: Origin,
        with_handle: bool,
    ) -> NonNull<Header> {
        let Holding { partition, bytes } = origin.holding;
        let layout = Block::<F, T>::LAYOUT;
        let block = if bytes == 0 {
            block::allocate(layout)
        } else {
            let (layout, at) = with_bytes(layout);
            let block = block::allocate(layout);
            // SAFETY: the layout has room for the number at that offset, aligned.
            unsafe { block.byte_add(at).cast::<u64>().write(bytes) };
            block
        };
        let block = block.cast::<Block<F, T>>();
        let header = Header {
            state: State::new(with_handle),
            label: Label::new(origin.priority, origin.class),
            flags: Flags::of(&origin),
            partition: partition::Index::code(partition),
            vtable: const { &Block::<F, T>::VTABLE },
            owner: origin.owner,
            waiter: UnsafeCell::new(None),
            place: AtomicU64::new(UNPLACED),
            enqueued_ns: origin.enqueued_ns,
            deadline_ns: origin.deadline_ns,
        };
        let stage = UnsafeCell::new(Stage { body: ManuallyDrop::new(body) });
        // SAFETY: the block was just allocated with this type's layout.
        unsafe { block.write(Block { header, stage }) };
        block.cast()
    }

    /// Leaves the reference with an address, which is owed to [`from_raw`](Self::from_raw).
    pub(super) fn into_raw(self) -> NonNull<Header> {
        let block = self.0;
        self.forget();
        block
    }

    /// # Safety
    /// The address came from [`into_raw`](Self::into_raw), and is not used so again.
    pub(super) unsafe fn from_raw(block: NonNull<Header>) -> Self {
        Self(block)
    }

    /// One more reference to the same job.
    pub(crate) fn another(&self) -> Self {
        self.state.add_reference();
        Self(self.0)
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    /// What the job holds beyond its slot. Few jobs hold bytes, so the number isn't in the header
    /// but behind the block.
    pub(crate) fn holding(&self) -> Holding {
        let bytes = if self.flags.has_bytes() {
            let (_, at) = with_bytes(self.vtable.layout);
            // SAFETY: the block is alive, and was made with the number at that offset.
            unsafe { self.0.byte_add(at).cast::<u64>().read() }
        } else {
            0
        };
        Holding { partition: self.partition(), bytes }
    }

    /// Wins the job in order to run it.
    #[inline]
    pub(crate) fn start(self) -> Result<Running, Self> {
        match self.state.start() {
            Ok(()) => Ok(Running(self)),
            Err(_) => Err(self),
        }
    }

    /// Wins the job in order to end it unrun.
    pub(crate) fn seize(self) -> Result<Seized, Self> {
        match self.state.seize() {
            Ok(()) => Ok(Seized(self)),
            Err(_) => Err(self),
        }
    }

    /// Wins the job if it is queued, or asks it to stop if it runs.
    pub(crate) fn cancel(&self) -> Option<Seized> {
        match self.state.cancel() {
            CancelOutcome::Seized => Some(Seized(self.another())),
            CancelOutcome::Asked | CancelOutcome::TooLate => None,
        }
    }

    /// # Safety
    /// The caller is the handle, saw the outcome `Completed`, and has not taken the result.
    /// `to` is valid for a write of the result's type.
    pub(super) unsafe fn take_result(&self, to: *mut ()) {
        // SAFETY: the block is alive; the rest is the caller's promise.
        unsafe { (self.vtable.take_result)(self.0, to) }
    }

    /// # Safety
    /// The caller owns the payload: it is the handle and saw the outcome `Panicked`, or it is the
    /// publisher of an unwanted one; and it has not been taken.
    pub(super) unsafe fn take_panic(&self) -> Payload {
        // SAFETY: the block is alive; the rest is the caller's promise.
        unsafe { (self.vtable.take_panic)(self.0) }
    }

    /// # Safety
    /// As [`Self::take_panic`], for the outcome `Completed`.
    pub(super) unsafe fn drop_result(&self) -> bool {
        // SAFETY: the block is alive; the rest is the caller's promise.
        self.vtable.drop_result.is_none_or(|drop_result| unsafe { drop_result(self.0) })
    }

    #[inline]
    fn free(&self) {
        // SAFETY: called by whoever gave back the last reference, once. The stage is empty: a job
        // is only let go after its end, and each end takes the body and leaves the result, if
        // there is one, to an owner who takes it before giving back its reference.
        unsafe { (self.vtable.free)(self.0) }
    }

    /// Lets go of a reference that the state word has already counted down.
    fn forget(self) {
        std::mem::forget(self);
    }
}

/// A job between `start` and its end: this thread owns the body.
#[must_use]
pub(crate) struct Running(JobRef);

impl Running {
    pub(crate) fn job(&self) -> &JobRef {
        &self.0
    }

    /// Calls the body, which drops all that it captured.
    #[inline]
    pub(crate) fn run(self) -> Ended {
        // SAFETY: `Running` exists once per job, made by the winner of `start`, and is consumed.
        let completed = unsafe { (self.0.vtable.run)(self.0.0) };
        let outcome = if completed { Outcome::Completed } else { Outcome::Panicked };
        Ended { job: self.0, outcome, has_result: true, contained: 0 }
    }
}

/// A job between `seize` and its end: this thread owns the body and never calls it.
#[must_use]
pub(crate) struct Seized(JobRef);

impl Seized {
    /// Drops the body and all that it captured; a panic in a destructor is contained and counted.
    pub(crate) fn drop_body(self, outcome: Outcome) -> Ended {
        debug_assert!(!matches!(outcome, Outcome::Completed | Outcome::Panicked));
        // SAFETY: `Seized` exists once per job, made by the winner of `seize` or `cancel`.
        let quiet = unsafe { (self.0.vtable.drop_body)(self.0.0) };
        Ended { job: self.0, outcome, has_result: false, contained: u64::from(!quiet) }
    }
}

/// A job whose body is gone and whose outcome is not published: this thread owns the result.
#[must_use]
pub(crate) struct Ended {
    job: JobRef,
    outcome: Outcome,
    /// The block holds a result or a panic's payload.
    has_result: bool,
    contained: u64,
}

/// What publishing left behind.
#[must_use]
pub(crate) struct Aftermath {
    /// The panic of a body whose result nobody asks for.
    pub(crate) unclaimed: Option<Payload>,
    /// How many panics of user code were contained since [`Ended::drop_unwanted`].
    pub(crate) contained: u64,
}

impl Ended {
    pub(crate) fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether its body was called.
    #[inline]
    pub(crate) fn has_run(&self) -> bool {
        matches!(self.outcome, Outcome::Completed | Outcome::Panicked)
    }

    /// What the job holds beyond its slot.
    #[inline]
    pub(crate) fn holding(&self) -> Holding {
        self.job.holding()
    }

    /// Whether a scope waits for the job's end.
    pub(crate) fn is_scoped(&self) -> bool {
        self.job.flags.is_scoped()
    }

    /// If the handle is gone, drops the result before the slot returns. Returns how many panics
    /// of user code were contained in this job's ending so far.
    pub(crate) fn drop_unwanted(&mut self) -> u64 {
        if self.outcome == Outcome::Completed && self.job.state.is_detached() {
            // SAFETY: the result is there, this thread's until it publishes, and nobody can bring
            // a dropped handle back.
            let quiet = unsafe { self.job.drop_result() };
            self.contained += u64::from(!quiet);
            self.has_result = false;
        }
        std::mem::take(&mut self.contained)
    }

    /// Publishes the outcome and wakes who waits. Called after the slot has returned; nothing of
    /// the job is touched afterwards.
    #[inline]
    pub(crate) fn publish(self) -> Aftermath {
        let Self { job, outcome, has_result, .. } = self;
        let mut aftermath = Aftermath { unclaimed: None, contained: 0 };
        let mut published = job.state.publish(outcome, has_result);
        if published == Published::Unwanted {
            // Nothing is published, and the handle is gone for good.
            if outcome == Outcome::Panicked {
                // SAFETY: so the payload is still this thread's, and it was not taken.
                aftermath.unclaimed = Some(unsafe { job.take_panic() });
            } else {
                // SAFETY: the same, for the result.
                let quiet = unsafe { job.drop_result() };
                aftermath.contained = u64::from(!quiet);
            }
            published = job.state.publish(outcome, false);
        }
        match published {
            Published::Released => job.forget(),
            Published::Last => ManuallyDrop::new(job).free(),
            Published::WakeWaiter => {
                // SAFETY: `WAITER` was set at the moment of publishing: the cell is ours for good.
                let waiter = job.waiter.with_mut(|cell| unsafe { (*cell).take() });
                let quiet = waiter.is_none_or(|waiter| call_contained(move || waiter.wake()));
                aftermath.contained = u64::from(!quiet);
            }
            Published::Unwanted => unreachable!("only a job with a result has an unwanted one"),
        }
        aftermath
    }
}

/// A job as seen from inside its own body, which counts no reference.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobView(NonNull<Header>);

impl JobRef {
    pub(crate) fn view(&self) -> JobView {
        JobView(self.0)
    }
}

impl JobView {
    /// # Safety
    /// The job runs on this thread: its [`Running`] keeps the block.
    pub(crate) unsafe fn another(self) -> JobRef {
        // SAFETY: the block is alive by the caller's promise.
        unsafe { self.0.as_ref() }.state.add_reference();
        JobRef(self.0)
    }

    /// # Safety
    /// As [`Self::another`].
    pub(crate) unsafe fn is_asked_to_stop(self) -> bool {
        // SAFETY: the block is alive by the caller's promise.
        unsafe { self.0.as_ref() }.state.is_asked_to_stop()
    }
}
