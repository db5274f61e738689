//! Counters that the pool does not see.

use std::fmt::Display;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::ground::{Bounds, Ground, Holding};

/// What a closure has been through, as it says itself.
pub(crate) mod stage {
    pub(crate) const MADE: u8 = 0;
    pub(crate) const STARTED: u8 = 1;
    pub(crate) const DROPPED_UNRUN: u8 = 2;
    pub(crate) const DROPPED_AFTER_RUN: u8 = 3;
}

/// All that the threads count together.
#[derive(Debug, Default)]
pub(crate) struct Ghosts {
    pub(crate) made: AtomicU64,
    pub(crate) dropped: AtomicU64,
    pub(crate) started: AtomicU64,
    pub(crate) accepted: AtomicU64,
    pub(crate) refused: AtomicU64,
    /// Refused and then run by the caller.
    pub(crate) run_here: AtomicU64,
    /// Closures of submits that were dropped while they waited.
    pub(crate) given_up: AtomicU64,
    /// Slots asked for and refused, before there was a closure.
    pub(crate) reserves_refused: AtomicU64,
    pub(crate) cancels_won: AtomicU64,
    /// Jobs without a ghost, submitted while nothing else was.
    pub(crate) at_rest: AtomicU64,
    /// How often nothing was queued or running.
    pub(crate) idle: AtomicU64,
    pub(crate) resized: AtomicU64,
    pub(crate) peak: AtomicUsize,
    books: Mutex<Books>,
    violations: Mutex<Vec<String>>,
}

/// Who holds what, and the most there ever was. Each entry is made when its slot has been taken, and
/// struck before it returns: what stands in here is in the pool.
#[derive(Debug, Default)]
struct Books {
    bounds: Bounds,
    outside: usize,
    partitions: Vec<usize>,
    bytes: u64,
    partition_peaks: Vec<usize>,
    bytes_peak: u64,
}

impl Books {
    fn enter(&mut self, holding: Holding) {
        match holding.partition {
            Some(which) => self.partitions[which] += 1,
            None => self.outside += 1,
        }
        self.bytes += holding.bytes;
        self.bytes_peak = self.bytes_peak.max(self.bytes);
        for (peak, held) in self.partition_peaks.iter_mut().zip(&self.partitions) {
            *peak = (*peak).max(*held);
        }
    }

    fn strike(&mut self, holding: Holding) {
        match holding.partition {
            Some(which) => self.partitions[which] -= 1,
            None => self.outside -= 1,
        }
        self.bytes -= holding.bytes;
    }

    /// What is wrong with it, if anything is.
    fn wrong(&self) -> Option<String> {
        let shares = self.partitions.iter().zip(&self.bounds.shares);
        let above = shares.clone().any(|(held, share)| *held > share.max);
        // What is held above all shares must leave those shares free.
        let kept = shares.map(|(held, share)| *held.max(&share.reserved)).sum::<usize>();
        let crowded = self.outside + kept > self.bounds.capacity;
        // Without a budget all are zero.
        let heavy = self.bytes > self.bounds.max_bytes;
        (above || crowded || heavy).then(|| format!("a bound was passed: {self:?}"))
    }
}

impl Ghosts {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let none = vec![0; bounds.shares.len()];
        let partition_peaks = none.clone();
        let books = Books { bounds, partitions: none, partition_peaks, ..Books::default() };
        Self { books: Mutex::new(books), ..Self::default() }
    }

    pub(crate) fn violation(&self, what: impl Display) {
        let mut violations = lock(&self.violations);
        if violations.len() < 20 {
            eprintln!("VIOLATION: {what}");
            violations.push(what.to_string());
        }
    }

    pub(crate) fn violations(&self) -> usize {
        lock(&self.violations).len()
    }

    pub(crate) fn check(&self, right: bool, what: impl Display) {
        if !right {
            self.violation(what);
        }
    }

    /// Looks at the bound. The capacity is sometimes lowered, and never raised above the first.
    pub(crate) fn see(&self, ground: &Ground) {
        let in_flight = ground.pool.in_flight();
        self.peak.fetch_max(in_flight, SeqCst);
        let capacity = ground.bounds.capacity;
        self.check(in_flight <= capacity, format_args!("{in_flight} in flight of {capacity}"));
    }

    /// A slot has been taken.
    pub(crate) fn enter(&self, holding: Holding) {
        let wrong = {
            let mut books = lock(&self.books);
            books.enter(holding);
            books.wrong()
        };
        wrong.into_iter().for_each(|wrong| self.violation(wrong));
    }

    /// A slot is about to return.
    pub(crate) fn strike(&self, holding: Holding) {
        lock(&self.books).strike(holding);
    }

    /// What the books say at rest, where nothing stands in them any more, and what the peaks were.
    pub(crate) fn check_books_at_rest(&self) -> (Vec<usize>, u64) {
        let books = lock(&self.books);
        let left = books.outside + books.partitions.iter().sum::<usize>();
        self.check(left == 0 && books.bytes == 0, format_args!("left at rest: {books:?}"));
        (books.partition_peaks.clone(), books.bytes_peak)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics in here")
}

/// What is known of one closure, beyond its life.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) stage: AtomicU8,
    holding: Holding,
    entry: Mutex<Entry>,
}

/// Whether a closure stands in the books.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    NotYet,
    Made,
    /// It was refused, or it is gone.
    Never,
}

/// Lives in a closure and notes what becomes of it.
pub(crate) struct Ghost {
    all: Arc<Ghosts>,
    pub(crate) record: Arc<Record>,
}

impl Ghost {
    pub(crate) fn new(all: &Arc<Ghosts>, holding: Holding) -> Self {
        all.made.fetch_add(1, SeqCst);
        let (stage, entry) = (AtomicU8::new(stage::MADE), Mutex::new(Entry::NotYet));
        Self { all: Arc::clone(all), record: Arc::new(Record { stage, holding, entry }) }
    }

    pub(crate) fn start(&self) {
        self.all.started.fetch_add(1, SeqCst);
        let before = self.record.stage.swap(stage::STARTED, SeqCst);
        self.all.check(before == stage::MADE, format_args!("started in stage {before}"));
    }
}

impl Record {
    /// The job was accepted: it stands in the books, unless it has ended since.
    pub(crate) fn note_accepted(&self, all: &Ghosts) {
        let mut entry = lock(&self.entry);
        if *entry == Entry::NotYet {
            *entry = Entry::Made;
            all.enter(self.holding);
        }
    }

    pub(crate) fn note_refused(&self) {
        *lock(&self.entry) = Entry::Never;
    }

    pub(crate) fn was_refused(&self) -> bool {
        *lock(&self.entry) == Entry::Never
    }
}

impl Drop for Ghost {
    fn drop(&mut self) {
        self.all.dropped.fetch_add(1, SeqCst);
        if std::mem::replace(&mut *lock(&self.record.entry), Entry::Never) == Entry::Made {
            self.all.strike(self.record.holding);
        }
        let after = match self.record.stage.load(SeqCst) {
            stage::MADE => stage::DROPPED_UNRUN,
            stage::STARTED => stage::DROPPED_AFTER_RUN,
            other => return self.all.violation(format_args!("dropped in stage {other}")),
        };
        self.record.stage.store(after, SeqCst);
    }
}
