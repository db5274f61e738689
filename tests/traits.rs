//! What the types promise to the compiler: checked when this file compiles.

#![deny(unreachable_patterns)] // a wildcard after all variants is reachable only where the enum is non-exhaustive

use std::cell::Cell;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;

use weirpool::test::ManualClock;
use weirpool::{
    BuildError, Builder, CancelOnDrop, Canceller, Clock, Context, JobError, JobHandle, JobId,
    JobSpec, Load, Panic, Permit, Pool, Priority, Reason, Refusal, Rejected, ShedReason, Shutdown,
    ShutdownReport, Snapshot,
};

/// Compiles only if the type has all these traits.
macro_rules! has {
    ($type:ty: $($bounds:tt)+) => {{
        fn has<T: $($bounds)+>() {}
        has::<$type>();
    }};
}

/// Compiles only if the type does not have the trait: else the two implementations are ambiguous.
macro_rules! lacks {
    ($type:ty: $trait:ident) => {{
        trait Lacks<A> {
            fn lacks() {}
        }
        struct Has;
        impl<T: ?Sized> Lacks<()> for T {}
        impl<T: ?Sized + $trait> Lacks<Has> for T {}
        <$type as Lacks<_>>::lacks();
    }};
}

/// Neither `Debug` nor anything else.
struct Opaque;

/// `Send` and not `Sync`.
type NotSync = Cell<u8>;

/// Neither `Send` nor `Sync`, and not `UnwindSafe`.
type Local = Rc<Cell<u8>>;

#[test]
fn a_pool_is_shared_freely() {
    has!(Pool: Clone + Send + Sync + Debug + UnwindSafe + RefUnwindSafe + Unpin + 'static);
    has!(Builder: Send + 'static);
    has!(JobSpec<'_>: Copy + Clone);
    has!(Permit: Send + Debug + 'static);
    has!(Canceller: Clone + Send + Sync + 'static);
    has!(Context: Clone + Send + Sync + 'static);
}

#[test]
fn a_handle_is_as_free_as_its_result() {
    fn of_any<T>() {
        has!(JobHandle<T>: Unpin + UnwindSafe + Debug);
    }
    fn of_send<T: Send>() {
        has!(JobHandle<T>: Send + Sync);
        has!(CancelOnDrop<T>: Send);
    }
    of_any::<Opaque>();
    of_any::<Local>();
    of_send::<NotSync>();
    has!(JobHandle<NotSync>: Future<Output = Result<NotSync, JobError>>);
    has!(CancelOnDrop<NotSync>: Future<Output = Result<NotSync, JobError>> + Unpin);
    lacks!(JobHandle<Local>: Send);
    lacks!(JobHandle<Local>: Sync);
    lacks!(CancelOnDrop<Local>: Send);
    has!(JobId: Copy + Eq + Hash + Debug + Send + Sync);
}

#[test]
fn a_refusal_is_an_error_everywhere() {
    fn of_any<F: 'static>() {
        has!(Rejected<F>: Error + Debug + Display);
        let _: fn(Rejected<F>) -> Refusal = From::from;
    }
    fn of_send<F: Send>() {
        has!(Rejected<F>: Send + Sync);
    }
    of_any::<Opaque>();
    of_any::<Local>();
    of_send::<NotSync>();
    lacks!(Rejected<Local>: Send);
    lacks!(Rejected<Local>: Sync);
    has!(Refusal: Copy + Error + Send + Sync + 'static);
    has!(Reason: Copy + Eq + Hash + Debug + Display + Send + Sync + 'static);

    fn passes<F: Send + 'static>(
        rejected: Rejected<F>,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let answer: Result<(), _> = Err(rejected);
        answer?;
        Ok(())
    }
    let _ = passes::<NotSync>;
}

#[test]
fn errors_travel() {
    has!(JobError: Error + Send + Sync + 'static);
    has!(BuildError: Error + Send + Sync + 'static);
    has!(Panic: Debug + Display + Send + Sync + 'static);
    has!(ShedReason: Copy + Eq + Debug + Send + Sync + 'static);
}

#[test]
fn the_small_types_are_plain_values() {
    has!(Priority: Copy + Ord + Hash + Default + Debug + Send + Sync);
    has!(Shutdown: Copy + Debug + Send + Sync);
    has!(ShutdownReport: Clone + Debug + Send + Sync);
    has!(Snapshot: Clone + Debug + Send + Sync + 'static);
    has!(Load: Clone + Debug + Send + Sync);
    has!(ManualClock: Clone + Clock);
    has!(dyn Clock: Send + Sync + ?Sized);

    assert_eq!(Priority::default(), Priority::Normal);
    let mut lanes = [Priority::Critical, Priority::Normal, Priority::High, Priority::Low];
    lanes.sort();
    assert_eq!(lanes, [Priority::Low, Priority::Normal, Priority::High, Priority::Critical]);
}

/// Compiles only while the enums have these variants and may get more.
#[allow(clippy::match_like_matches_macro)] // `matches!` would not warn of an unreachable wildcard
#[test]
fn enums_may_grow() {
    fn reason(reason: Reason) -> bool {
        match reason {
            Reason::Full
            | Reason::Limit
            | Reason::QueueDelay
            | Reason::Cpu
            | Reason::Deadline
            | Reason::Partition
            | Reason::Bytes
            | Reason::Closed
            | Reason::Forked => true,
            _ => false,
        }
    }
    fn shed(reason: ShedReason) -> bool {
        match reason {
            ShedReason::QueueDelay | ShedReason::Deadline | ShedReason::Displaced => true,
            _ => false,
        }
    }
    fn job(error: &JobError) -> bool {
        match error {
            JobError::Cancelled
            | JobError::Shed(_)
            | JobError::Panicked(_)
            | JobError::Discarded
            | JobError::TooDeep => true,
            _ => false,
        }
    }
    fn build(error: &BuildError) -> bool {
        match error {
            BuildError::Invalid { setting: _, value: _, expected: _, .. }
            | BuildError::Spawn(_) => true,
            _ => false,
        }
    }
    fn priority(priority: Priority) -> bool {
        match priority {
            Priority::Low | Priority::Normal | Priority::High | Priority::Critical => true,
            _ => false,
        }
    }
    fn shutdown(how: Shutdown) -> bool {
        match how {
            Shutdown::Drain | Shutdown::Discard => true,
            _ => false,
        }
    }
    assert!(reason(Reason::Full) && shed(ShedReason::Displaced) && job(&JobError::Cancelled));
    assert!(priority(Priority::Low) && shutdown(Shutdown::Drain));
    assert!(build(&Pool::new(0, 1).unwrap_err()));
}

#[test]
fn errors_say_what_happened() {
    let errors = [
        JobError::Cancelled,
        JobError::Shed(ShedReason::Deadline),
        JobError::Discarded,
        JobError::TooDeep,
    ];
    let is = |error: &JobError| {
        (error.is_cancelled(), error.is_shed(), error.is_discarded(), error.is_panic())
    };
    assert_eq!(
        errors.each_ref().map(is),
        [
            (true, false, false, false),
            (false, true, false, false),
            (false, false, true, false),
            (false, false, false, false)
        ]
    );
    let texts = errors.each_ref().map(ToString::to_string);
    assert!(texts.iter().all(|text| !text.is_empty()));
    assert!((1..texts.len()).all(|later| !texts[..later].contains(&texts[later])), "{texts:?}");
}
