//! A circuit breaker: stops calling a dependency that fails, and finds out when it is well again.
//!
//! Put a [`CircuitBreaker`] around each dependency that can fail as a whole: a database, another
//! service, a disk. While most calls fail it refuses further ones at once, which spares the callers
//! the wait and the dependency the load; now and then it lets a few through to see.
//!
//! ```
//! use weirpool::breaker::{CallError, CircuitBreaker};
//!
//! fn price(item: u32) -> Result<u32, std::io::Error> {
//!     // A call over the network.
//! #   Ok(item * 10)
//! }
//!
//! let breaker = CircuitBreaker::new();
//! match breaker.call(|| price(7)) {
//!     Ok(price) => println!("{price}"),
//!     Err(CallError::Open(open)) => println!("not now, but in {:?}", open.retry_after()),
//!     Err(CallError::Failed(error)) => println!("{error}"),
//! }
//!
//! // With a value to fall back on while the breaker is open. A failure stays an error.
//! let price = breaker.call_or(0, || price(7))?;
//! # assert_eq!(price, 70);
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # The states
//!
//! | state | calls | becomes |
//! |---|---|---|
//! | closed | go through and are counted in a sliding window (10 s, in 10 buckets) | open, when the window holds at least 20 calls of which at least 50 % failed, or at least the set share was slow |
//! | open | are refused for the cool-down (10 s) | half-open, with the first call after the cool-down |
//! | half-open | go through as probes while those inside and those that succeeded are together fewer than 3; the others are refused | closed with an empty window, when 3 probes have succeeded; open, with the cool-down starting again, as soon as one has failed |
//! | forced open, forced closed | are all refused, all let through | what [`automatic`](CircuitBreaker::automatic) says: closed with an empty window |
//!
//! The numbers are defaults: [`Builder`] has the settings. They lie between those of Hystrix (50 % of
//! at least 20 calls in 10 s; 5 s; 1 probe), resilience4j (50 % of 100 calls; 60 s; 10 probes) and
//! Polly (10 % of at least 100 calls in 30 s; 5 s; 1 probe).
//!
//! # What counts
//!
//! | the call | is recorded as | a probe |
//! |---|---|---|
//! | returns, judged a success | success | succeeds |
//! | returns, judged a failure | failure | fails |
//! | returns, judged to be ignored (also if it was slow) | nothing | gives its place back |
//! | panics | failure; the panic goes on to the caller | fails |
//! | is given up: future or permit dropped | nothing | gives its place back |
//! | took as long as a slow one, and was judged a success or given up | slow | fails |
//! | never ends | nothing | loses its place after the lease |
//! | ends after the state has changed, or after its lease | nothing | changes nothing |
//! | is refused by the breaker | nothing | |
//!
//! A failure that is slow is one call, counted in both rates. The time-out around a guarded future
//! drops it: unless [`slow_calls`](Builder::slow_calls) is set such calls are never recorded, so set
//! it, or put the time-out *inside* the call and let it return an error.
//!
//! **Calls within calls.** A guarded call that makes another one through the same breaker may be
//! refused there, and hand that refusal on as its own error. Classify it as [`Verdict::Ignore`]:
//! else, with one probe, the probe fails because it is itself inside, again and again.
//!
//! # User code
//!
//! The call, the classifier, the fallback, the observer and the clock are never called under the
//! lock and may all use the breaker. Panics of classifier, observer and clock are contained (a
//! classifier's counts as no opinion, see [`Classify`]); those of the call and the fallback are the
//! caller's, and leave nothing behind.
//!
//! # Cost
//!
//! A closed breaker is asked by one load, and told of the end under one short lock, in which nothing is
//! allocated and nothing of yours is called. An open one refuses without the lock. Measured with empty
//! calls on a busy machine of two cores; 25 ns of each are the reading of the system's clock:
//!
//! | about so many ns per call | 1 thread | 2 threads without a pause |
//! |---|---|---|
//! | closed | 48 | 120 to 170 |
//! | closed, slow calls judged (a second reading of the clock) | 80 | 180 to 205 |
//! | refused, open | 40 | 50 to 80 |
//! | refused, half-open with all probes inside (the lock) | 50 | 130 |
//! | for comparison: closed, also asked under the lock | 100 | 290 |
//! | for comparison: refused, also under the lock | 50 | 260 |
//! | for comparison: closed, counted in atomic buckets without a lock | 47 | 65 |
//!
//! The buckets without a lock were not taken. A call can't be counted and its generation be checked in one
//! step there, so that a late result may land in the window of the next state; and a rate is taken
//! from buckets that others are just emptying. Only threads that do nothing but call would gain by it:
//! a call worth guarding takes microseconds at least, in which the lock is free.
//!
//! # Others
//!
//! failsafe and recloser let every call through while half-open, which is the stampede that a breaker is
//! to prevent, and take a late result for one of the present state. tower-circuitbreaker is
//! deprecated; its successor, tower-resilience-circuitbreaker, bounds its probes by a semaphore of
//! tokio's, whose permit a call that never ends keeps for ever, has an entry for each call in a timed
//! window, and needs tower and tokio. None of them takes its user's clock, so that a story can't be
//! told to the nanosecond in a test, and none runs under loom. So the state machine here is our own.
//!
//! How it works inside is told in `src/breaker/README.md`.

mod call;
mod classify;
mod core;
mod error;
mod machine;
mod news;
mod permit;
mod probes;
mod settings;
mod types;
mod window;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};

use self::core::{Core, Observer};
use self::machine::Ending;
use self::permit::Guard;
use self::settings::Settings;
use crate::Clock;
use crate::contain::{Contained, contain};
use crate::sync::stat::Arc;

pub use call::CallAsync;
pub use classify::{Classify, ErrIsFailure, Verdict};
pub use error::{CallError, Open};
pub use permit::CallPermit;
pub use settings::Builder;
pub use types::{Counts, Snapshot, State, Transition};

/// A circuit breaker around one dependency. Clones share their state.
///
/// See the [module](self) for the states and for what counts.
///
/// ```
/// use std::time::Duration;
/// use weirpool::breaker::{CircuitBreaker, State};
/// use weirpool::test::ManualClock;
///
/// let clock = ManualClock::new();
/// let breaker = CircuitBreaker::builder().min_volume(2).probes(1).clock(clock.clone()).build()?;
/// for _ in 0..2 {
///     let _ = breaker.call(|| Err::<(), _>("connection refused"));
/// }
/// assert_eq!(breaker.state(), State::Open);
///
/// let open = breaker.try_acquire().unwrap_err();
/// assert_eq!(open.retry_after(), Some(Duration::from_secs(10)));
///
/// clock.advance(Duration::from_secs(10));
/// assert_eq!(breaker.call(|| Ok::<_, &str>(42)), Ok(42));
/// assert_eq!(breaker.state(), State::Closed);
/// # Ok::<(), weirpool::BuildError>(())
/// ```
pub struct CircuitBreaker<C = ErrIsFailure> {
    core: Arc<Core>,
    classifier: Arc<Contained<C>>,
}

impl CircuitBreaker {
    /// A breaker with all settings at their defaults.
    pub fn new() -> Self {
        Self::assemble(Settings::DEFAULT, ErrIsFailure, None, None)
    }

    /// Settings to be changed.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

impl<C> CircuitBreaker<C> {
    fn assemble(
        settings: Settings,
        classifier: C,
        observer: Option<Observer>,
        clock: Option<Box<dyn Clock>>,
    ) -> Self {
        let core = Arc::new(Core::new(settings, observer, clock));
        Self { core, classifier: Arc::new(Contained::new(classifier)) }
    }

    /// A handle of the same breaker that judges results by `classifier`: for a dependency that is
    /// called in several ways, with results of several types.
    ///
    /// ```
    /// use weirpool::breaker::{CircuitBreaker, Verdict};
    ///
    /// let database = CircuitBreaker::new();
    /// let lookups = database.with_classifier(|row: &Result<u64, Option<String>>| match row {
    ///     Err(Some(_)) => Verdict::Failure,
    ///     // No such row: an answer.
    ///     Ok(_) | Err(None) => Verdict::Success,
    /// });
    /// let _ = lookups.call(|| Err(None));
    /// assert_eq!(database.snapshot().counts.failures, 0);
    /// ```
    pub fn with_classifier<D: Send + Sync + 'static>(&self, classifier: D) -> CircuitBreaker<D> {
        let classifier = Arc::new(Contained::new(classifier));
        CircuitBreaker { core: Arc::clone(&self.core), classifier }
    }

    /// Calls `call` if the breaker lets it through, and takes its result in.
    ///
    /// A panic of `call` counts as a failure and goes on to the caller.
    ///
    /// # Errors
    ///
    /// [`CallError::Open`] if the call was refused, and [`CallError::Failed`] with its own error if
    /// it returned one, whatever the classifier said to that.
    ///
    /// ```
    /// use weirpool::breaker::{CallError, CircuitBreaker};
    ///
    /// let breaker = CircuitBreaker::new();
    /// assert_eq!(breaker.call(|| "7".parse::<u8>()), Ok(7));
    /// assert!(matches!(breaker.call(|| "x".parse::<u8>()), Err(CallError::Failed(_))));
    /// breaker.force_open();
    /// assert!(breaker.call(|| "7".parse::<u8>()).unwrap_err().is_open());
    /// ```
    pub fn call<T, E>(&self, call: impl FnOnce() -> Result<T, E>) -> Result<T, CallError<E>>
    where
        C: Classify<T, E>,
    {
        let admitted = self.core.acquire()?;
        let mut guard = Guard::new(&*self.core, admitted, Ending::Failure);
        let result = call();
        self.conclude(&mut guard, &result);
        result.map_err(CallError::Failed)
    }

    /// The same with a value to return while calls are refused.
    ///
    /// To fall back on something after a failure too, use what [`Result`] has:
    /// `breaker.call(f).unwrap_or(value)`.
    ///
    /// # Errors
    ///
    /// The call's own error.
    ///
    /// ```
    /// use weirpool::breaker::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::new();
    /// breaker.force_open();
    /// assert_eq!(breaker.call_or(1, || "7".parse::<u8>()), Ok(1));
    /// ```
    pub fn call_or<T, E>(&self, fallback: T, call: impl FnOnce() -> Result<T, E>) -> Result<T, E>
    where
        C: Classify<T, E>,
    {
        self.call_or_else(|_| fallback, call)
    }

    /// The same with a closure that is asked for the value, after the refusal. A panic of it is the
    /// caller's.
    ///
    /// # Errors
    ///
    /// The call's own error.
    ///
    /// ```
    /// use weirpool::breaker::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::new();
    /// breaker.force_open();
    /// let text = breaker.call_or_else(|open| open.to_string(), || Ok::<_, ()>("fresh".to_owned()));
    /// assert_eq!(text.unwrap(), "call refused: the circuit breaker is forced open");
    /// ```
    pub fn call_or_else<T, E>(
        &self,
        fallback: impl FnOnce(Open) -> T,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E>
    where
        C: Classify<T, E>,
    {
        self.call(call).or_else(|error| error.fallback(fallback))
    }

    /// Guards a future: on any runtime, `Send` if the future is. The breaker is asked when the call
    /// is first polled; see [`CallAsync`].
    ///
    /// For a value to fall back on see [`CallError::fallback`].
    ///
    /// ```
    /// use weirpool::breaker::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::new();
    /// let answer = pollster::block_on(breaker.call_async(async { "7".parse::<u8>() }));
    /// assert_eq!(answer, Ok(7));
    /// ```
    pub fn call_async<F, T, E>(&self, call: F) -> CallAsync<F, C>
    where
        F: Future<Output = Result<T, E>>,
        C: Classify<T, E>,
    {
        CallAsync::new(self.clone(), call)
    }

    /// The right to make one call by other means.
    ///
    /// # Errors
    ///
    /// [`Open`] if the call is refused.
    ///
    /// ```
    /// use weirpool::breaker::CircuitBreaker;
    ///
    /// let breaker = CircuitBreaker::new();
    /// let permit = breaker.try_acquire()?;
    /// // The call begins here, and ends elsewhere.
    /// std::thread::spawn(move || permit.success()).join().unwrap();
    /// assert_eq!(breaker.snapshot().counts.calls, 1);
    /// # Ok::<(), weirpool::breaker::Open>(())
    /// ```
    pub fn try_acquire(&self) -> Result<CallPermit, Open> {
        let admitted = self.core.acquire()?;
        Ok(CallPermit::new(Arc::clone(&self.core), admitted))
    }

    /// Judges a result and ends the call.
    fn conclude<T, E, P>(&self, guard: &mut Guard<P>, result: &Result<T, E>)
    where
        C: Classify<T, E>,
        P: Deref<Target = Core>,
    {
        let verdict = contain(|| self.classifier.classify(result)).unwrap_or_else(|payload| {
            self.core.contained(payload);
            ErrIsFailure.classify(result)
        });
        guard.end(verdict);
    }

    /// Refuses all calls from now on. The end of those under way changes nothing.
    ///
    /// ```
    /// use weirpool::breaker::{CircuitBreaker, State};
    ///
    /// let breaker = CircuitBreaker::new();
    /// breaker.force_open();
    /// assert!(breaker.try_acquire().is_err());
    /// breaker.automatic();
    /// assert_eq!(breaker.state(), State::Closed);
    /// ```
    pub fn force_open(&self) {
        self.core.force_open();
    }

    /// Lets all calls through from now on, and goes on counting them without a conclusion. The end
    /// of those under way changes nothing.
    pub fn force_closed(&self) {
        self.core.force_closed();
    }

    /// Ends what was forced: the breaker starts anew, closed, with an empty window and the first
    /// cool-down. Without anything forced it does nothing; `force_closed` before it makes it a
    /// reset.
    pub fn automatic(&self) {
        self.core.automatic();
    }

    /// The state, by one load. A look changes nothing: an open breaker whose cool-down is over stays
    /// [`State::Open`] until somebody calls.
    pub fn state(&self) -> State {
        self.core.state()
    }

    /// What there is to see, at one instant (but for refusals and panics, which are counted outside
    /// the lock).
    pub fn snapshot(&self) -> Snapshot {
        self.core.snapshot()
    }
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::new()
    }
}

impl<C> Clone for CircuitBreaker<C> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), classifier: Arc::clone(&self.classifier) }
    }
}

impl<C> fmt::Debug for CircuitBreaker<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = self.snapshot();
        f.debug_struct("CircuitBreaker")
            .field("state", &now.state)
            .field("counts", &now.counts)
            .finish_non_exhaustive()
    }
}

// Nothing of the breaker is left half done by a panic: the lock is held by code of ours alone.
impl<C> UnwindSafe for CircuitBreaker<C> {}
impl<C> RefUnwindSafe for CircuitBreaker<C> {}
