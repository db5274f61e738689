//! The breaker's shared state: one lock around the machine, and before it a word that most calls
//! need nothing but a look at.

use crossbeam_utils::CachePadded;

use super::error::Open;
use super::machine::{Ending, Machine, Step, Ticket};
use super::news::News;
use super::settings::Settings;
use super::types::{Snapshot, State, Transition};
use crate::Clock;
use crate::contain::{Contained, Payload, call_contained, drop_payload};
use crate::sense::steady::Readings;
use crate::sync::stat::{self, Relaxed};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// Told of each change of state.
pub(super) type Observer = Box<dyn Fn(&Transition) + Send + Sync>;

/// How many bits of the word are the state; the generation has the rest.
const STATE_BITS: u32 = 3;

/// A call that may go ahead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admitted {
    ticket: Ticket,
    /// None where nobody asks how long it takes.
    started_ns: Option<u64>,
}

/// What handles, permits and calls of one breaker share.
pub(super) struct Core {
    /// `generation << STATE_BITS | state`. On a cache line of its own: read by every call, written
    /// by changes of state only.
    word: CachePadded<AtomicU64>,
    /// Between which readings of the clock an open breaker refuses without the lock.
    refuses_from_ns: AtomicU64,
    refuses_until_ns: AtomicU64,
    guarded: Mutex<Guarded>,
    slow_threshold_ns: Option<u64>,
    readings: Readings,
    observer: Option<Contained<Observer>>,
    refused: stat::AtomicU64,
    contained_panics: stat::AtomicU64,
}

struct Guarded {
    machine: Machine,
    news: News,
}

impl Core {
    pub(super) fn new(
        settings: Settings,
        observer: Option<Observer>,
        clock: Option<Box<dyn Clock>>,
    ) -> Self {
        let readings = Readings::new(clock);
        let machine = Machine::new(settings, readings.now_ns());
        let news = News::new(observer.is_some());
        Self {
            word: CachePadded::new(AtomicU64::new(word_of(&machine))),
            refuses_from_ns: AtomicU64::new(0),
            refuses_until_ns: AtomicU64::new(0),
            guarded: Mutex::new(Guarded { machine, news }),
            slow_threshold_ns: settings.slow.map(|slow| slow.threshold_ns),
            readings,
            observer: observer.map(Contained::new),
            refused: stat::AtomicU64::new(0),
            contained_panics: stat::AtomicU64::new(0),
        }
    }

    pub(super) fn state(&self) -> State {
        State::from_bits(self.word.load(Ordering::SeqCst) & ((1 << STATE_BITS) - 1))
    }

    /// Asks for the right to call.
    ///
    /// A closed breaker is asked by one load. If it opens right after that, the call belongs to a
    /// generation that is gone and its end changes nothing, as if it had asked a moment earlier.
    #[inline]
    pub(super) fn acquire(&self) -> Result<Admitted, Open> {
        let word = self.word.load(Ordering::SeqCst);
        match State::from_bits(word & ((1 << STATE_BITS) - 1)) {
            State::Closed | State::ForcedClosed => {
                let ticket = Ticket { generation: word >> STATE_BITS, probe: None };
                let started_ns = self.slow_threshold_ns.map(|_| self.readings.now_ns());
                Ok(Admitted { ticket, started_ns })
            }
            state => self.acquire_unless_open(state).inspect_err(|_| {
                self.refused.fetch_add(1, Relaxed);
            }),
        }
    }

    #[cold]
    fn acquire_unless_open(&self, state: State) -> Result<Admitted, Open> {
        if state == State::ForcedOpen {
            return Err(Open::new(state, None));
        }
        let now_ns = self.readings.now_ns();
        if state == State::Open {
            // Written before the word that says "open"; if it has opened again since, they are
            // those of a later cool-down, and the refusal is as right.
            let until_ns = self.refuses_until_ns.load(Ordering::SeqCst);
            if self.refuses_from_ns.load(Ordering::SeqCst) <= now_ns && now_ns < until_ns {
                return Err(Open::new(state, Some(until_ns - now_ns)));
            }
        }
        let ticket = self.step(|machine| machine.acquire(now_ns))?;
        Ok(Admitted { ticket, started_ns: Some(now_ns) })
    }

    /// Ends a call that was let through.
    pub(super) fn end(&self, admitted: Admitted, ending: Ending) {
        let now_ns = self.readings.now_ns();
        let slow = match (self.slow_threshold_ns, admitted.started_ns) {
            (Some(threshold_ns), Some(started_ns)) => {
                now_ns.saturating_sub(started_ns) >= threshold_ns
            }
            _ => false,
        };
        self.step(|machine| machine.end(admitted.ticket, ending, slow, now_ns));
    }

    pub(super) fn force_open(&self) {
        let now_ns = self.readings.now_ns();
        self.step(|machine| machine.force_open(now_ns));
    }

    pub(super) fn force_closed(&self) {
        let now_ns = self.readings.now_ns();
        self.step(|machine| machine.force_closed(now_ns));
    }

    pub(super) fn automatic(&self) {
        let now_ns = self.readings.now_ns();
        self.step(|machine| machine.automatic(now_ns));
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let now_ns = self.readings.now_ns();
        let (mut snapshot, missed) = {
            let mut guarded = self.guarded.lock();
            (guarded.machine.snapshot(now_ns), guarded.news.missed())
        };
        snapshot.refused = self.refused.load(Relaxed);
        snapshot.contained_panics = self.contained_panics.load(Relaxed);
        snapshot.missed_transitions = missed;
        snapshot
    }

    /// Notes a panic of user code that goes no further.
    pub(super) fn contained(&self, payload: Payload) {
        self.contained_panics.fetch_add(1, Relaxed);
        drop_payload(payload);
    }

    /// One step of the machine under the lock, made visible, and told once the lock is free.
    fn step<T>(&self, take: impl FnOnce(&mut Machine) -> Step<T>) -> T {
        let mut guarded = self.guarded.lock();
        let Step { answer, change } = take(&mut guarded.machine);
        self.publish(&guarded.machine);
        let observed = change.filter(|_| self.observer.is_some());
        let must_tell = observed.is_some_and(|change| guarded.news.add(change));
        drop(guarded);
        if must_tell {
            self.tell();
        }
        answer
    }

    /// Under the lock, so that the last state is the one that stays.
    fn publish(&self, machine: &Machine) {
        if let Some((from_ns, until_ns)) = machine.refuses_between() {
            self.refuses_from_ns.store(from_ns, Ordering::SeqCst);
            self.refuses_until_ns.store(until_ns, Ordering::SeqCst);
        }
        let word = word_of(machine);
        if self.word.load(Ordering::SeqCst) != word {
            self.word.store(word, Ordering::SeqCst);
        }
    }

    /// Tells the observer what waits, until nothing does: also what other threads, or the observer
    /// itself, change meanwhile.
    #[cold]
    fn tell(&self) {
        let Some(observer) = &self.observer else { return };
        loop {
            let next = self.guarded.lock().news.next();
            let Some(change) = next else { return };
            if !call_contained(|| observer(&change)) {
                self.contained_panics.fetch_add(1, Relaxed);
            }
        }
    }
}

fn word_of(machine: &Machine) -> u64 {
    machine.generation() << STATE_BITS | machine.state().to_bits()
}
