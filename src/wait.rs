//! Waiting for a slot, with or without async; and, for tasks, for the pool to be idle or gone.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::admission::ledger::Slot;
use crate::admission::waiters::{Standing, Ticket};
use crate::admission::{Ask, Checks};
use crate::error::{Reason, Refusal, Rejected};
use crate::handle::JobHandle;
use crate::pool::Pool;
use crate::schedule::inside::is_inside;
use crate::schedule::{Core, Shutdown, ShutdownReport};
use crate::sense::clock::NO_DEADLINE;
use crate::submit::submit;
use crate::sync::{Alarm, Arc, Parker, Place};

/// A submit that waits for a slot, from [`Pool::submit`]: a future for any runtime.
///
/// It takes its place in line at its first poll. Dropping it gives up: a slot it had been granted
/// goes to the next. It keeps the pool open, but not against [`close`](Pool::close), which resolves
/// it with [`Reason::Closed`].
///
/// # Panics
/// If it is polled after it has resolved.
#[must_use = "nothing is submitted before it is polled"]
pub struct Submit<F, T> {
    pool: Pool,
    ask: Ask,
    /// None once it has resolved.
    job: Option<F>,
    waiting: Option<Waiting>,
    result: PhantomData<fn() -> T>,
}

/// A place in line.
#[derive(Clone, Copy)]
struct Waiting {
    ticket: Ticket,
    reason: Reason,
}

impl<F, T> Unpin for Submit<F, T> {}
impl<F, T> UnwindSafe for Submit<F, T> {}
impl<F, T> RefUnwindSafe for Submit<F, T> {}

impl<F, T> Submit<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    pub(crate) fn new(pool: Pool, mut ask: Ask, job: F) -> Self {
        // Who is ready to wait, waits for the CPU as well.
        ask.checks = ask.checks.min(Checks::Delay);
        Self { pool, ask, job: Some(job), waiting: None, result: PhantomData }
    }

    /// Takes a slot, or a place in line, or what the line has given.
    fn advance(&mut self, waker: &Waker) -> Poll<Result<JobHandle<T>, Rejected<F>>> {
        assert!(self.job.is_some(), "this submit has already resolved");
        if self.pool.core().is_forked() {
            // The line's lock may be held for ever by a thread that doesn't exist here.
            self.waiting = None;
            return Poll::Ready(self.refused(Reason::Forked));
        }
        let waiting = match self.waiting {
            Some(waiting) => waiting,
            None => match self.enter() {
                Ok(waiting) => *self.waiting.insert(waiting),
                Err(result) => return Poll::Ready(result),
            },
        };
        match self.pool.core().ledger.waiters().ask(waiting.ticket, waker) {
            Standing::Waiting => Poll::Pending,
            Standing::Closed => {
                self.waiting = None;
                Poll::Ready(self.refused(Reason::Closed))
            }
            Standing::Granted => {
                self.waiting = None;
                Poll::Ready(self.use_grant())
            }
        }
    }

    /// The first attempt: a slot at once, or a place in line.
    fn enter(&mut self) -> Result<Waiting, Result<JobHandle<T>, Rejected<F>>> {
        let Self { pool, ask, job, .. } = self;
        let core = pool.core();
        let reason = match core.admit(ask) {
            Ok(slot) => return Err(settle(core, ask, job, Ok(slot))),
            Err(reason) => reason,
        };
        if !may_wait(reason) {
            return Err(settle(core, ask, job, Err(core.refuse(reason))));
        }
        match core.claim(ask) {
            Ok(claim) => {
                Ok(Waiting { ticket: core.ledger.waiters().join(&core.ledger, claim), reason })
            }
            Err(refusal) => Err(settle(core, ask, job, Err(refusal))),
        }
    }

    fn use_grant(&mut self) -> Result<JobHandle<T>, Rejected<F>> {
        let Self { pool, ask, job, .. } = self;
        let core = pool.core();
        // It has waited, and is not shed for having waited.
        ask.checks = Checks::Bounds;
        let expired = ask.deadline_ns != NO_DEADLINE && core.time.now_ns() >= ask.deadline_ns;
        let slot = if expired {
            core.ledger.cancel_permit(ask.holding());
            Err(core.refuse(Reason::Deadline))
        } else {
            core.redeem(ask.holding())
        };
        settle(core, ask, job, slot)
    }

    fn refused(&mut self, reason: Reason) -> Result<JobHandle<T>, Rejected<F>> {
        let Self { pool, ask, job, .. } = self;
        let core = pool.core();
        settle(core, ask, job, Err(core.refuse(reason)))
    }

    /// Waits on this thread; when the time is up, refuses with the reason it waited on.
    ///
    /// On a worker of the same pool it never waits: the worker might be the one it waits for.
    pub(crate) fn block_until(
        mut self,
        until: Option<Instant>,
    ) -> Result<JobHandle<T>, Rejected<F>> {
        if is_inside(self.pool.core()) {
            let Self { pool, ask, job, .. } = &mut self;
            let core = pool.core();
            let slot = core.admit(ask).map_err(|reason| core.refuse(reason));
            return settle(core, ask, job, slot);
        }
        let parker = Parker::of_this_thread();
        let waker = parker.waker();
        loop {
            if let Poll::Ready(result) = self.advance(&waker) {
                return result;
            }
            if !parker.park_until(until) {
                // A grant that came at the last moment is used.
                if let Poll::Ready(result) = self.advance(&waker) {
                    return result;
                }
                let reason = self.waiting.map_or(Reason::Full, |waiting| waiting.reason);
                self.leave_line();
                return self.refused(reason);
            }
        }
    }
}

impl<F, T> Submit<F, T> {
    fn leave_line(&mut self) {
        if let Some(waiting) = self.waiting.take() {
            let core = self.pool.core();
            if !core.is_forked() {
                core.ledger.waiters().leave(&core.ledger, waiting.ticket);
            }
        }
    }
}

/// Submits the job with its slot, or gives it back.
fn settle<F, T>(
    core: &Arc<Core>,
    ask: &Ask,
    job: &mut Option<F>,
    slot: Result<Slot<'_>, Refusal>,
) -> Result<JobHandle<T>, Rejected<F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let job = job.take().expect("a submit settles once");
    match slot {
        Ok(slot) => Ok(submit(core, slot, ask, job)),
        Err(refusal) => Err(Rejected::new(job, refusal)),
    }
}

/// What passes by itself.
fn may_wait(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::Full | Reason::Limit | Reason::Partition | Reason::Bytes | Reason::QueueDelay
    )
}

impl<F, T> Future for Submit<F, T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Output = Result<JobHandle<T>, Rejected<F>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.advance(context.waker())
    }
}

impl<F, T> Drop for Submit<F, T> {
    fn drop(&mut self) {
        self.leave_line();
    }
}

impl<F, T> fmt::Debug for Submit<F, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submit")
            .field("resolved", &self.job.is_none())
            .field("waiting", &self.waiting.is_some())
            .finish_non_exhaustive()
    }
}

/// Asks on a task's behalf, and takes it off all lists when it goes away.
struct Asker {
    core: Arc<Core>,
    idle: Place,
    exited: Place,
}

impl Asker {
    fn new(core: Arc<Core>) -> Self {
        Self { core, idle: Place::default(), exited: Place::default() }
    }

    fn is_idle(&mut self, context: &Context<'_>) -> bool {
        self.core.ask_idle(&mut self.idle, context.waker())
    }

    fn is_over(&mut self, context: &Context<'_>) -> bool {
        self.is_idle(context) && self.core.ask_exited(&mut self.exited, context.waker())
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        if !self.core.is_forked() {
            self.core.stop_asking(&mut self.idle, &mut self.exited);
        }
    }
}

/// What [`Pool::wait_idle_async`] polls.
pub(crate) struct IdleWait(Asker);

impl IdleWait {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self(Asker::new(core))
    }

    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<()> {
        let at_once = self.0.core.is_forked() || is_inside(&self.0.core);
        if at_once || self.0.is_idle(context) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// What [`Pool::shutdown_async`] polls.
pub(crate) struct ShutdownWait {
    asker: Asker,
    how: Shutdown,
    limit: Option<Duration>,
    begun: bool,
    alarm: Option<Alarm>,
}

impl ShutdownWait {
    pub(crate) fn new(core: Arc<Core>, how: Shutdown, limit: Option<Duration>) -> Self {
        Self { asker: Asker::new(core), how, limit, begun: false, alarm: None }
    }

    pub(crate) fn poll(&mut self, context: &Context<'_>) -> Poll<ShutdownReport> {
        let core = Arc::clone(&self.asker.core);
        if core.is_forked() {
            return Poll::Ready(ShutdownReport::OF_A_CHILD);
        }
        if !std::mem::replace(&mut self.begun, true) {
            let until = self.limit.and_then(|limit| Instant::now().checked_add(limit));
            core.begin_shutdown(self.how, until);
            self.alarm = until.and_then(Alarm::at);
        }
        let time_is_up =
            self.alarm.as_mut().is_some_and(|alarm| alarm.has_expired(context.waker()));
        if is_inside(&core) || time_is_up || self.asker.is_over(context) {
            Poll::Ready(core.report())
        } else {
            Poll::Pending
        }
    }
}
