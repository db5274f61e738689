//! Shares of the slots, and the budget of bytes beside them: what is kept, what is common, what is refused and why.

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use common::{
    Count, Peak, assert_at_rest, counting_waker, fail_quietly, occupy, on_drop, poll, race, recv,
    rounds, watchdog,
};
use weirpool::test::ManualClock;
use weirpool::{
    BuildError, Builder, Clock, JobHandle, JobSpec, Partition, PartitionId, Permit, Pool, Priority,
    Reason, Rejected, Shutdown, Submit,
};

fn builder(workers: usize, capacity: usize) -> Builder {
    Pool::builder().workers(workers).capacity(capacity).batch()
}

/// A job of the partition of that name; of none by the empty name.
fn of<'a>(pool: &'a Pool, partition: &str) -> JobSpec<'a> {
    match partition {
        "" => pool.job(),
        name => pool.job().partition(pool.partition(name).expect("it was configured")),
    }
}

fn reason<T, F>(answer: Result<T, Rejected<F>>) -> Option<Reason> {
    answer.err().map(|rejected| rejected.reason())
}

/// As many permits as there are, and why there are no more.
fn fill(spec: JobSpec<'_>) -> (Vec<Permit>, Reason) {
    let mut permits = Vec::new();
    loop {
        match spec.try_reserve() {
            Ok(permit) => permits.push(permit),
            Err(refusal) => return (permits, refusal.reason()),
        }
    }
}

// ── Shares ──────────────────────────────────────────────────────────────────────────────────────

const NORMAL: Priority = Priority::Normal;
const CRITICAL: Priority = Priority::Critical;

/// One after the other each takes all it can get: how much that is, and why not more.
type Fill = (&'static str, Priority, usize, Reason);

fn check(name: &str, pool: &Pool, fills: &[Fill]) {
    let mut random = fastrand::Rng::with_seed(7);
    // The order in which slots come back must not matter.
    for _ in 0..10 {
        let mut held = Vec::new();
        for &(partition, priority, admitted, why) in fills {
            let (permits, refusal) = fill(of(pool, partition).priority(priority));
            let who = if partition.is_empty() { "nobody's" } else { partition };
            assert_eq!((permits.len(), refusal), (admitted, why), "{name}: {who}, {priority:?}");
            held.extend(permits);
        }
        random.shuffle(&mut held);
        held.into_iter().for_each(drop);
        assert_eq!(pool.in_flight(), 0, "{name}");
    }
}

#[test]
fn reserved_slots_are_kept_for_their_partition_and_the_rest_is_common() {
    use Reason::{Full, Partition as Max};
    let share = |slots| Partition::new().reserved(slots);
    let max = |slots| Partition::new().max(slots);

    let pool = builder(1, 8).partition("a", share(3)).partition("b", max(2)).build().unwrap();
    check("others fill up first", &pool, &[("", NORMAL, 5, Full), ("a", NORMAL, 3, Full)]);
    check("critical work, too", &pool, &[("", CRITICAL, 5, Full), ("a", NORMAL, 3, Full)]);
    check("a maximum", &pool, &[("b", NORMAL, 2, Max), ("", NORMAL, 3, Full)]);
    check("a full common part", &pool, &[("", NORMAL, 5, Full), ("b", CRITICAL, 0, Full)]);
    check("above the share", &pool, &[("a", NORMAL, 8, Full), ("", NORMAL, 0, Full)]);
    check("at the maximum of all", &pool, &[("b", NORMAL, 2, Max), ("a", NORMAL, 6, Full)]);

    let pool = builder(1, 8).partition("a", share(3).max(4)).partition("c", share(2)).build();
    let pool = pool.unwrap();
    check("two shares", &pool, &[("", NORMAL, 3, Full), ("c", NORMAL, 2, Full)]);
    check("share and maximum", &pool, &[("a", NORMAL, 4, Max), ("", NORMAL, 2, Full)]);
    let all = [("c", CRITICAL, 5, Full), ("a", CRITICAL, 3, Full), ("", CRITICAL, 0, Full)];
    check("one above its share, the other kept to it", &pool, &all);

    let pool = builder(1, 4).partition("a", share(4).max(4)).build().unwrap();
    check("nothing is common", &pool, &[("", CRITICAL, 0, Full), ("a", NORMAL, 4, Max)]);
}

#[test]
fn the_critical_reserve_is_of_the_common_part() {
    use Reason::{Full, Partition as Max};
    let pool = builder(1, 10).critical_reserve(2);
    let pool = pool.partition("a", Partition::new().reserved(3));
    let pool = pool.partition("b", Partition::new().max(4)).build().unwrap();
    let everything = [
        ("", NORMAL, 5, Full),
        ("a", NORMAL, 3, Full),
        ("b", NORMAL, 0, Full),
        ("b", CRITICAL, 2, Full),
        ("", CRITICAL, 0, Full),
    ];
    check("reserves kept by all", &pool, &everything);
    check("critical first", &pool, &[("", CRITICAL, 7, Full), ("a", NORMAL, 3, Full)]);
    check("a share needs no reserve", &pool, &[("a", NORMAL, 8, Full), ("a", CRITICAL, 2, Full)]);
    check("critical meets a maximum", &pool, &[("b", CRITICAL, 4, Max), ("", NORMAL, 1, Full)]);
}

/// What one job asks for.
#[derive(Clone, Copy, Debug)]
struct Want {
    at: Option<usize>,
    bytes: u64,
    priority: Priority,
}

/// What the contract says, in the plainest way.
struct Model {
    capacity: usize,
    critical_reserve: usize,
    max_bytes: u64,
    /// Share, maximum and use of each partition.
    partitions: Vec<(usize, usize, usize)>,
    outside: usize,
    bytes: u64,
}

impl Model {
    fn shares(&self) -> usize {
        self.partitions.iter().map(|(share, ..)| share).sum()
    }

    /// Slots of the common part that are taken.
    fn common(&self) -> usize {
        let above = self.partitions.iter().map(|(share, _, used)| used.saturating_sub(*share));
        self.outside + above.sum::<usize>()
    }

    fn in_flight(&self) -> usize {
        self.outside + self.partitions.iter().map(|(.., used)| used).sum::<usize>()
    }

    /// More is taken and reserved than there is, after the capacity was lowered.
    fn is_over(&self) -> bool {
        self.shares() + self.common() >= self.capacity
    }

    fn judge(&self, want: Want) -> Result<(), Reason> {
        let reserve = if want.priority == CRITICAL { 0 } else { self.critical_reserve };
        let has_common = self.shares() + self.common() + reserve < self.capacity;
        let has_slot = match want.at.map(|at| self.partitions[at]) {
            Some((_, max, used)) if used >= max => return Err(Reason::Partition),
            Some((share, _, used)) if used < share => self.in_flight() < self.capacity,
            _ => has_common,
        };
        if self.bytes + want.bytes > self.max_bytes {
            return Err(Reason::Bytes);
        }
        if has_slot { Ok(()) } else { Err(Reason::Full) }
    }

    fn used(&mut self, want: Want) -> &mut usize {
        want.at.map_or(&mut self.outside, |at| &mut self.partitions[at].2)
    }

    fn enter(&mut self, want: Want) {
        *self.used(want) += 1;
        self.bytes += want.bytes;
    }

    fn leave(&mut self, want: Want) {
        *self.used(want) -= 1;
        self.bytes -= want.bytes;
    }
}

enum Held {
    Permit(Permit),
    Job(JobHandle<()>),
    /// Not yet used.
    Grant(Submit<fn(), ()>),
}

struct Waiting {
    submit: Submit<fn(), ()>,
    wakes: Count,
    want: Want,
}

/// A pool whose only worker is busy, and what the model thinks of it.
struct Trial {
    pool: Pool,
    ids: [PartitionId; 3],
    model: Model,
    holders: Vec<(Held, Want)>,
    /// In the order in which they came.
    line: Vec<Waiting>,
    random: fastrand::Rng,
}

impl Trial {
    /// A pool of random shares; one slot of the common part will be the busy worker's.
    fn new(mut random: fastrand::Rng) -> Self {
        let names = ["a", "b", "c"];
        let capacity = random.usize(2..14);
        let critical_reserve = random.usize(0..3).min(capacity - 2);
        let mut left = capacity - critical_reserve - 1;
        let mut pool = builder(1, capacity).critical_reserve(critical_reserve).max_bytes(40);
        let mut partitions = Vec::new();
        for name in names {
            let reserved = random.usize(0..=left.min(4));
            let max = reserved.max(1) + random.usize(0..6);
            left -= reserved;
            partitions.push((reserved, max, 0));
            pool = pool.partition(name, Partition::new().reserved(reserved).max(max));
        }
        let pool = pool.build().unwrap();
        let ids = names.map(|name| pool.partition(name).unwrap());
        let model =
            Model { capacity, critical_reserve, max_bytes: 40, partitions, outside: 1, bytes: 0 };
        Self { pool, ids, model, holders: Vec::new(), line: Vec::new(), random }
    }

    fn step(&mut self) {
        match self.random.u8(0..16) {
            0..=4 if !self.holders.is_empty() => self.release(),
            0..=9 => self.ask(),
            10..=12 if self.line.len() < 12 => self.wait(),
            13 | 14 if !self.line.is_empty() => {
                let at = self.random.usize(..self.line.len());
                drop(self.line.remove(at));
            }
            15 => self.resize(),
            _ => (),
        }
        self.note_grants();
        let now = self.pool.snapshot();
        assert_eq!((now.in_flight, now.bytes), (self.model.in_flight(), self.model.bytes));
    }

    fn resize(&mut self) {
        self.model.capacity = self.random.usize(1..16);
        self.pool.set_capacity(self.model.capacity);
    }

    /// Ends the hold of somebody; a grant may also be used.
    fn release(&mut self) {
        let at = self.random.usize(..self.holders.len());
        let (held, want) = self.holders.swap_remove(at);
        match held {
            Held::Permit(permit) => drop(permit),
            Held::Job(job) => assert!(job.cancel()),
            Held::Grant(mut submit) => {
                if self.random.bool() {
                    let Poll::Ready(job) = poll(&mut submit, Waker::noop()) else {
                        panic!("it was woken for nothing")
                    };
                    self.holders.push((Held::Job(job.unwrap()), want));
                    return;
                }
            }
        }
        self.model.leave(want);
    }

    fn want(&mut self) -> Want {
        let lanes = [Priority::Low, NORMAL, Priority::High, CRITICAL, CRITICAL];
        let at = [None, Some(0), Some(1), Some(2)][self.random.usize(0..4)];
        Want { at, bytes: self.random.u64(0..12), priority: lanes[self.random.usize(0..5)] }
    }

    fn spec(&self, want: Want) -> JobSpec<'_> {
        let spec = self.pool.job().priority(want.priority).bytes(want.bytes);
        want.at.map_or(spec, |at| spec.partition(self.ids[at]))
    }

    fn ask(&mut self) {
        let want = self.want();
        let (way, spec) = (self.random.u8(0..3), self.spec(want));
        // Whether a permit displaces is left open.
        let answer = match way {
            0 if want.priority != CRITICAL => spec.try_reserve().map(Held::Permit),
            1 if want.priority != CRITICAL => {
                spec.try_reserve().map(|permit| Held::Job(permit.submit(|| ()).unwrap()))
            }
            _ => spec.try_submit(|| ()).map(Held::Job).map_err(|no| no.refusal()),
        };
        let refused = answer.as_ref().err().map(|refusal| refusal.reason());
        match self.expected(want) {
            Expected::Answer(reason) => assert_eq!(refused, reason, "{want:?}"),
            Expected::BehindOthers => assert!(refused.is_some(), "it overtook: {want:?}"),
        }
        if let Ok(held) = answer {
            self.model.enter(want);
            self.holders.push((held, want));
        }
    }

    fn wait(&mut self) {
        let want = self.want();
        let (waker, wakes) = counting_waker();
        let mut submit = self.spec(want).submit((|| ()) as fn());
        let answer = poll(&mut submit, &waker);
        let at_once = matches!(self.expected(want), Expected::Answer(None));
        assert_eq!(answer.is_ready(), at_once, "{want:?}");
        match answer {
            Poll::Pending => self.line.push(Waiting { submit, wakes, want }),
            Poll::Ready(job) => {
                self.model.enter(want);
                self.holders.push((Held::Job(job.unwrap()), want));
            }
        }
    }

    /// What the answer to a job that was just asked for had to be. If one had to give way to it, that has left the model.
    fn expected(&mut self, want: Want) -> Expected {
        let before = |other: &Want| other.at == want.at && other.priority >= want.priority;
        if self.line.iter().any(|waiting| before(&waiting.want)) {
            return Expected::BehindOthers;
        }
        let reason = self.model.judge(want).err();
        let displaces = reason == Some(Reason::Full) && want.priority == CRITICAL;
        if displaces && self.one_gave_way(want) {
            return Expected::Answer(None);
        }
        Expected::Answer(reason)
    }

    /// Whether somebody had to give way to this one; then exactly one did, and has left the model.
    fn one_gave_way(&mut self, to: Want) -> bool {
        let has_common_slot = |of: Want| {
            of.at.map(|of| self.model.partitions[of]).is_none_or(|(share, _, used)| used > share)
        };
        let may = |(held, want): &&(Held, Want)| {
            matches!(held, Held::Job(_))
                && want.priority < Priority::High
                && (want.at == to.at || has_common_slot(*want))
        };
        let lowest = self.holders.iter().filter(may).map(|(_, want)| want.priority).min();
        let gone = |(held, _): &(Held, Want)| matches!(held, Held::Job(job) if job.is_finished());
        let gone: Vec<_> = (0..self.holders.len()).filter(|&at| gone(&self.holders[at])).collect();
        assert_eq!(gone.len(), usize::from(lowest.is_some()), "one gives way to one");
        let Some(lowest) = lowest else { return false };
        assert!(may(&&self.holders[gone[0]]) && self.holders[gone[0]].1.priority == lowest);
        let (_, victim) = self.holders.swap_remove(gone[0]);
        self.model.leave(victim);
        assert!(self.model.is_over() || self.model.judge(to).is_ok(), "{victim:?}, {to:?}");
        true
    }

    /// Those who were woken have a slot; those who were not could not have had one.
    fn note_grants(&mut self) {
        let mut granted = Vec::new();
        let mut at = 0;
        while at < self.line.len() {
            if self.line[at].wakes.get() == 0 {
                at += 1;
                continue;
            }
            let Waiting { submit, wakes, want } = self.line.remove(at);
            assert_eq!(wakes.get(), 1, "one grant is one wake");
            let kind = |other: &Want| (other.at, other.priority) == (want.at, want.priority);
            let earlier = &self.line[..at];
            assert!(!earlier.iter().any(|other| kind(&other.want)), "it overtook: {want:?}");
            granted.push((Held::Grant(submit), want));
        }
        granted.sort_by_key(|(_, want)| std::cmp::Reverse(want.priority));
        for (held, want) in granted {
            assert_eq!(self.model.judge(want), Ok(()), "{want:?}");
            self.model.enter(want);
            self.holders.push((held, want));
        }
        for at in [None, Some(0), Some(1), Some(2)] {
            let of_line = self.line.iter().filter(|waiting| waiting.want.at == at);
            // Of the highest class, who came first.
            if let Some(head) = of_line.rev().max_by_key(|waiting| waiting.want.priority) {
                assert!(self.model.judge(head.want).is_err(), "it waits in vain: {:?}", head.want);
            }
        }
    }
}

enum Expected {
    /// The reason of a refusal, if it is one.
    Answer(Option<Reason>),
    /// Somebody in the same partition and in the same class or a higher one waits already.
    BehindOthers,
}

#[test]
fn random_admissions_displacements_and_waits_agree_with_a_plain_model() {
    let _watchdog = watchdog();
    for seed in 0..rounds(200) as u64 {
        let mut trial = Trial::new(fastrand::Rng::with_seed(seed));
        let pool = trial.pool.clone();
        let busy = occupy(&pool);
        for _ in 0..400 {
            trial.step();
        }
        trial.line.clear();
        while !trial.holders.is_empty() {
            trial.release();
        }
        busy.free();
        assert_at_rest(&pool);
        assert_eq!(pool.snapshot().bytes, 0);
    }
}

#[test]
fn hammered_by_threads_every_bound_holds_and_every_share_is_there() {
    let _watchdog = watchdog();
    let (capacity, max_bytes) = (9, 100);
    let pool = builder(2, capacity).max_bytes(max_bytes).critical_reserve(1);
    let pool = pool.partition("owner", Partition::new().reserved(2).max(4));
    let pool = pool.partition("small", Partition::new().reserved(1));
    let pool = pool.partition("b", Partition::new().max(3));
    let pool = pool.partition("c", Partition::new().reserved(1).max(2)).build().unwrap();

    let over = AtomicBool::new(false);
    let peaks = ["owner", "small", "b", "c", ""].map(|name| (name, Arc::new(Peak::default())));
    let bytes_held = Arc::new(AtomicU64::new(0));
    let peak = |name| peaks.iter().find(|(known, _)| *known == name).unwrap().1.clone();
    thread::scope(|s| {
        s.spawn(|| {
            while !over.load(SeqCst) {
                assert!(pool.in_flight() <= capacity, "{pool:?}");
                let now = pool.snapshot();
                assert_eq!(now.in_flight, now.reserved + now.queued + now.running, "{now:?}");
                assert!(now.bytes <= max_bytes && now.in_flight <= capacity, "{now:?}");
            }
        });
        // Alone in their partitions, these two find their shares free whatever the others do.
        let owner = s.spawn(|| {
            // High: with more than its share it holds common slots, so that others may displace what gives way.
            let (peak, spec) = (peak("owner"), of(&pool, "owner").priority(Priority::High));
            let mut random = fastrand::Rng::with_seed(1);
            for _ in 0..rounds(3_000) {
                let share = spec.try_reserve().expect("a share");
                let inside = peak.clone();
                let job = spec.try_submit(move || inside.visit(|| ())).expect("a share");
                let mut permits = vec![Some(share), spec.try_reserve().ok()];
                permits.push(spec.try_reserve().ok());
                random.shuffle(&mut permits);
                job.join().unwrap();
                permits.into_iter().for_each(drop);
            }
        });
        let small = s.spawn(|| {
            for _ in 0..rounds(6_000) {
                peak("small").visit(|| {
                    let permit = of(&pool, "small").try_reserve().expect("a share");
                    drop(permit);
                });
            }
        });
        let crowd: Vec<_> = (0..4)
            .map(|seed| {
                let (peak, bytes_held, pool) = (&peak, &bytes_held, &pool);
                s.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    for _ in 0..rounds(3_000) {
                        let name = ["b", "c", ""][random.usize(0..3)];
                        let (bytes, urgent) = (random.u64(0..50), random.u8(0..8) == 0);
                        let spec = of(pool, name).bytes(bytes);
                        let spec = spec.priority(if urgent { CRITICAL } else { NORMAL });
                        let (inside, held) = (peak(name), bytes_held.clone());
                        let visit = move || {
                            inside.visit(|| {
                                let before = held.fetch_add(bytes, SeqCst);
                                assert!(before + bytes <= max_bytes, "too many bytes");
                                held.fetch_sub(bytes, SeqCst);
                            });
                        };
                        // Displaced or run, refused or not: the books are what is looked at.
                        match random.u8(0..5) {
                            0 => drop(spec.try_submit(visit)),
                            1 => drop(spec.submit_blocking(visit).unwrap()),
                            2 => drop(spec.try_submit(visit).map(|job| job.cancel())),
                            3 => drop(spec.try_reserve().map(|_permit| visit())),
                            _ => drop(spec.try_reserve_many(2).map(|_permits| visit())),
                        }
                    }
                })
            })
            .collect();
        let threads = crowd.into_iter().chain([owner, small]);
        let ends: Vec<_> = threads.map(|thread| thread.join()).collect();
        over.store(true, SeqCst);
        assert!(ends.iter().all(Result::is_ok), "a thread failed");
    });
    pool.wait_idle();
    for (name, max) in [("owner", 4), ("small", 1), ("b", 3), ("c", 2)] {
        assert!(peak(name).highest() <= max, "{name}: {} at once", peak(name).highest());
    }
    assert_eq!((pool.snapshot().bytes, pool.snapshot().panicked), (0, 0));
    assert_at_rest(&pool);
    let (full, max) = (Reason::Full, Reason::Partition);
    let all = [("", NORMAL, 4, full), ("owner", NORMAL, 2, full), ("c", NORMAL, 1, full)];
    check("afterwards", &pool, &all);
    check("afterwards", &pool, &[("owner", NORMAL, 4, max), ("b", CRITICAL, 3, max)]);
}

// ── Names ───────────────────────────────────────────────────────────────────────────────────────

/// Submits, and says why not.
type Form = fn(JobSpec<'_>) -> Option<Reason>;

/// Every form of submitting that answers without waiting, or waits no time at all.
const FORMS: [(&str, Form); 6] = [
    ("try_submit", |spec| reason(spec.try_submit(|| ()))),
    ("try_spawn", |spec| reason(spec.try_spawn(|| ()))),
    ("submit_timeout", |spec| reason(spec.submit_timeout(|| (), Duration::ZERO))),
    ("try_reserve", |spec| spec.try_reserve().err().map(|refusal| refusal.reason())),
    ("try_reserve_many(1)", |spec| spec.try_reserve_many(1).err().map(|no| no.reason())),
    ("try_reserve_many(2)", |spec| spec.try_reserve_many(2).err().map(|no| no.reason())),
];

#[test]
fn a_partition_is_known_by_its_name_in_its_own_pool_only() {
    let build = || builder(1, 2).partition("a", Partition::new()).partition("b", Partition::new());
    let (pool, other) = (build().build().unwrap(), build().build().unwrap());
    let a: PartitionId = pool.partition("a").unwrap();
    assert_eq!(pool.partition("a"), Some(a));
    assert_eq!(pool.clone().partition("a"), Some(a));
    assert_ne!(pool.partition("b"), Some(a));
    assert_ne!(other.partition("a"), Some(a), "the same name is another's partition");
    for unknown in ["", "A", "a ", "ab"] {
        assert_eq!(pool.partition(unknown), None);
    }
    pool.job().partition(a).try_submit(|| ()).unwrap().join().unwrap();

    let foreign = other.job().partition(a);
    for (form, ask) in FORMS {
        assert_eq!(ask(foreign), Some(Reason::Partition), "{form}");
    }
    // Waiting would never help.
    assert!(poll(&mut foreign.submit(|| ()), Waker::noop()).is_ready());
    assert_eq!(reason(foreign.submit_blocking(|| ())), Some(Reason::Partition));
    let expired = foreign.deadline(std::time::Instant::now());
    assert_eq!(reason(expired.try_submit(|| ())), Some(Reason::Deadline));
    other.close();
    for (form, ask) in FORMS {
        assert_eq!(ask(expired), Some(Reason::Closed), "{form}");
    }
    assert_eq!((pool.in_flight(), other.in_flight()), (0, 0));
}

#[test]
fn a_setting_of_shares_or_bytes_that_makes_no_sense_is_named() {
    type Build = fn(Builder) -> Builder;
    let part = Partition::new;
    let refused: [(&str, &str, Build); 9] = [
        ("partition", "9", |b| b.partition("a", Partition::new().reserved(9))),
        ("partition", "usize", |b| b.partition("usize", Partition::new().reserved(usize::MAX))),
        ("partition", "b", |b| {
            b.partition("a", Partition::new().reserved(5))
                .partition("b", Partition::new().reserved(4))
        }),
        ("partition", "7", |b| b.critical_reserve(2).partition("a", Partition::new().reserved(7))),
        ("partition", "a", |b| b.partition("a", Partition::new().reserved(3).max(2))),
        ("partition", "0", |b| b.partition("a", Partition::new().max(0))),
        ("partition", "twice", |b| {
            b.partition("twice", Partition::new()).partition("twice", Partition::new())
        }),
        ("partition", "257", |b| {
            (0..257).fold(b, |b, name| b.partition(name.to_string(), Partition::new()))
        }),
        ("max_bytes", "0", |b| b.max_bytes(0)),
    ];
    for (named, shown, set) in refused {
        match set(builder(1, 8)).build().expect_err(named) {
            BuildError::Invalid { setting, value, .. } => {
                assert!(setting.starts_with(named), "{named} = {shown}: {setting} = {value}");
                assert!(value.contains(shown), "{named} = {shown}: {setting} = {value}");
            }
            other => panic!("{named} = {shown}: {other:?}"),
        }
    }

    let at_the_edge = builder(1, 8).critical_reserve(2).max_bytes(1);
    let at_the_edge = at_the_edge.partition("a", part().reserved(3).max(3));
    let at_the_edge = at_the_edge.partition("b", part().reserved(3).max(1_000));
    drop(at_the_edge.partition("", Partition::default()).build().unwrap());
    let many = (0..256).fold(builder(1, 8), |b, name| b.partition(name.to_string(), part()));
    assert!(many.build().unwrap().partition("255").is_some());
    assert_eq!(Partition::default(), Partition::new());
}

#[test]
fn of_several_reasons_the_first_in_the_documented_order_is_reported() {
    let clock = ManualClock::new();
    let pool = builder(1, 1).max_bytes(1).clock(clock.clone());
    let pool = pool.partition("one", Partition::new().max(1)).build().unwrap();
    // Everything is used up by this one.
    let permit = of(&pool, "one").bytes(1).try_reserve().unwrap();
    let full = pool.job();
    let bytes = full.bytes(1);
    let partition = bytes.partition(pool.partition("one").unwrap());
    let deadline = partition.deadline(clock.now());
    let cases = [
        (deadline, Reason::Deadline),
        (partition, Reason::Partition),
        (of(&pool, "one"), Reason::Partition),
        (bytes, Reason::Bytes),
        (full, Reason::Full),
        (full.deadline(clock.now()), Reason::Deadline),
    ];
    for (form, ask) in FORMS {
        for priority in [Priority::Low, CRITICAL] {
            for (spec, expected) in cases {
                assert_eq!(ask(spec.priority(priority)), Some(expected), "{form}");
            }
        }
    }
    assert_eq!((pool.in_flight(), pool.snapshot().bytes), (1, 1), "a refusal keeps nothing");
    pool.close();
    for (form, ask) in FORMS {
        for (spec, _) in cases {
            assert_eq!(ask(spec), Some(Reason::Closed), "{form}");
        }
    }
    drop(permit);
}

#[test]
fn nested_submits_inherit_the_partition() {
    let _watchdog = watchdog();
    let pool = builder(1, 6).partition("one", Partition::new().max(1));
    let pool = pool.partition("two", Partition::new().max(2)).build().unwrap();
    let other = Pool::new(1, 1).unwrap();
    let stranger = pool.try_reserve().unwrap();
    let inner = pool.clone();
    let outer = of(&pool, "one").try_submit(move || {
        let pool = inner;
        let max = Some(Reason::Partition);
        // Not set, so they are in the partition of this body, which has its maximum.
        for (form, ask) in FORMS {
            assert_eq!(ask(pool.job()), max, "{form}");
        }
        assert_eq!(reason(pool.submit_blocking(|| ())), max);
        drop(other.submit_blocking(|| ()).expect("another pool has nothing to do with it"));

        // Set: that holds, for what it submits in turn as well.
        let deeper = pool.clone();
        let child = of(&pool, "two").try_submit(move || {
            let (grandchild, full) = (deeper.try_submit(|| ()), deeper.try_submit(|| ()));
            assert_eq!(reason(full), Some(Reason::Partition));
            grandchild.unwrap().join().unwrap();
        });
        child.unwrap().join().expect("run in place");
        assert_eq!(reason(pool.try_submit(|| ())), max, "back in the body's own partition");

        // A job from outside of partitions that is joined in place keeps outside.
        let deeper = pool.clone();
        let free = move || deeper.try_submit(|| ()).expect("not in a partition").join().unwrap();
        let outsider = thread::scope(|s| s.spawn(|| pool.try_submit(free).unwrap()).join());
        outsider.unwrap().join().expect("run in place");
        assert_eq!(reason(pool.try_submit(|| ())), max);
        pool.submit(|| "submitted in the body, awaited outside")
    });
    let mut later = outer.unwrap().join().unwrap();
    stranger.submit(|| ()).expect("the permit of a thread outside").join().unwrap();

    let busy = occupy(&pool);
    let job = poll(&mut later, Waker::noop()).map(Result::unwrap);
    assert!(job.is_ready());
    assert_eq!(reason(of(&pool, "one").try_submit(|| ())), Some(Reason::Partition));
    busy.free();
    pool.wait_idle();
    assert_at_rest(&pool);
}

// ── Waiting ─────────────────────────────────────────────────────────────────────────────────────

#[test]
fn who_waits_for_its_partition_holds_up_nobody_else() {
    let pool = builder(1, 4).partition("one", Partition::new().max(1));
    let pool = pool.partition("kept", Partition::new().reserved(1)).build().unwrap();
    let one = of(&pool, "one").try_reserve().unwrap();
    let kept = of(&pool, "kept").try_reserve().unwrap();
    let (common, _) = fill(pool.job());
    assert_eq!(common.len(), 2);

    let mut waiting = ["one", "kept", ""].map(|name| (name, of(&pool, name).submit(|| ())));
    let (woken, wakes) = mpsc::channel();
    for (name, submit) in &mut waiting {
        let (name, woken) = (*name, woken.clone());
        assert!(poll(submit, &common::waker(move || woken.send(name).unwrap())).is_pending());
    }
    drop(kept);
    assert_eq!(wakes.try_iter().collect::<Vec<_>>(), ["kept"], "the share is its own");
    drop(common);
    assert_eq!(wakes.try_iter().collect::<Vec<_>>(), [""]);
    assert_eq!(pool.in_flight(), 3);
    drop(pool.try_reserve().expect("the first in line can't have it: its partition is full"));
    drop(one);
    assert_eq!(wakes.try_iter().collect::<Vec<_>>(), ["one"]);
    for (name, mut submit) in waiting {
        assert!(poll(&mut submit, Waker::noop()).is_ready(), "{name}");
    }
    pool.wait_idle();
    assert_at_rest(&pool);
}

#[test]
fn a_slot_above_the_share_goes_to_whoever_has_waited_longest() {
    let pool = builder(1, 3).partition("a", Partition::new().reserved(1));
    let pool = pool.partition("b", Partition::new().reserved(1)).build().unwrap();
    let mut of_a = fill(of(&pool, "a")).0;
    let of_b = fill(of(&pool, "b")).0;
    assert_eq!((of_a.len(), of_b.len()), (2, 1));
    let mut waiting = ["b", "a", ""].map(|name| of(&pool, name).submit(|| ()));
    let (woken, wakes) = mpsc::channel();
    for (at, submit) in waiting.iter_mut().enumerate() {
        let woken = woken.clone();
        assert!(poll(submit, &common::waker(move || woken.send(at).unwrap())).is_pending());
    }
    of_a.pop();
    assert_eq!(wakes.try_iter().collect::<Vec<_>>(), [0], "a is left with its share");
    of_a.pop();
    assert_eq!(wakes.try_iter().collect::<Vec<_>>(), [1], "the share is for a alone");
    drop(of_b);
    // b is left with its share and the slot above it is free.
    assert_eq!(wakes.try_iter().collect::<Vec<_>>(), [2]);
    drop(waiting);
    assert_at_rest(&pool);
}

// ── Bytes ───────────────────────────────────────────────────────────────────────────────────────

#[test]
fn bytes_are_exact_up_to_the_largest_number() {
    for max in [1, 10, u64::MAX - 1, u64::MAX] {
        let pool = builder(1, 8).max_bytes(max).build().unwrap();
        let all = pool.job().bytes(max).try_reserve().unwrap();
        for more in [1, max, u64::MAX] {
            let refused = pool.job().bytes(more).try_submit(|| ());
            assert_eq!(reason(refused), Some(Reason::Bytes), "{more} beside {max}");
        }
        pool.try_submit(|| ()).expect("none is declared").join().unwrap();
        drop(all);
        let one = pool.job().bytes(1).try_reserve().unwrap();
        assert!(pool.job().bytes(max).try_reserve().is_err());
        let rest = pool.job().bytes(max - 1).try_reserve().unwrap();
        assert_eq!(pool.snapshot().bytes, max);
        drop((one, rest));
        assert_eq!(pool.snapshot().bytes, 0);
        if max < u64::MAX {
            assert!(pool.job().bytes(max + 1).try_reserve().is_err());
        }
        assert_at_rest(&pool);
    }
    let without_budget = builder(1, 2).build().unwrap();
    let huge = without_budget.job().bytes(u64::MAX);
    let two = [huge.try_reserve().unwrap(), huge.try_reserve().unwrap()];
    assert_eq!(without_budget.snapshot().bytes, 0);
    drop(two);
}

#[test]
fn bytes_come_back_in_whatever_way_a_job_ends() {
    let _watchdog = watchdog();
    const ALL: u64 = u64::MAX;
    type End = fn(&Pool, JobSpec<'_>, &ManualClock);
    let ends: [(&str, End); 11] = [
        ("a permit is dropped", |_, all, _| drop(all.try_reserve().unwrap())),
        ("a body returns", |_, all, _| all.try_submit(|| ()).unwrap().join().unwrap()),
        ("a body panics", |_, all, _| {
            assert!(all.try_submit(fail_quietly).unwrap().join().unwrap_err().is_panic());
        }),
        ("a permit's job ends", |_, all, _| {
            all.try_reserve().unwrap().submit(|| ()).unwrap().join().unwrap();
        }),
        ("a job is cancelled", |pool, all, _| {
            let busy = occupy(pool);
            assert!(all.try_submit(|| ()).unwrap().cancel());
            assert_eq!(pool.snapshot().bytes, 0, "at once");
            busy.free();
        }),
        ("a cancelled job's capture panics", |pool, all, _| {
            let busy = occupy(pool);
            let bomb = on_drop(fail_quietly);
            assert!(all.try_submit(|| drop(bomb)).unwrap().cancel());
            busy.free();
        }),
        ("a job expires", |pool, all, clock| {
            let busy = occupy(pool);
            let job = all.timeout(Duration::from_secs(1)).try_submit(|| ()).unwrap();
            clock.advance(Duration::from_secs(1));
            busy.free();
            assert!(job.join().unwrap_err().is_shed());
        }),
        ("a waiter gives up", |pool, all, _| {
            let permit = all.try_reserve().unwrap();
            let mut waits = all.submit(|| ());
            assert!(poll(&mut waits, Waker::noop()).is_pending());
            drop(permit);
            assert_eq!(pool.snapshot().bytes, ALL, "it was granted what it asked for");
            drop(waits);
        }),
        ("a job is refused for want of a slot", |pool, all, _| {
            let slots = fill(pool.job()).0;
            assert_eq!(reason(all.try_submit(|| ())), Some(Reason::Full));
            assert_eq!(reason(all.priority(CRITICAL).try_submit(|| ())), Some(Reason::Full));
            drop(slots);
        }),
        ("many are refused together", |_, all, _| {
            assert_eq!(all.try_reserve_many(2).unwrap_err().reason(), Reason::Bytes);
        }),
        ("a job is displaced", |pool, all, _| {
            let busy = occupy(pool);
            let victim = all.priority(Priority::Low).try_submit(|| ()).unwrap();
            let slots = fill(pool.job()).0;
            let urgent = pool.job().priority(CRITICAL).try_submit(|| ()).unwrap();
            assert!(victim.join().unwrap_err().is_shed());
            assert_eq!(pool.snapshot().bytes, 0, "at once");
            drop(slots);
            busy.free();
            urgent.join().unwrap();
        }),
    ];
    for partition in ["", "p"] {
        for (name, end) in ends {
            let clock = ManualClock::new();
            let pool = builder(1, 4).max_bytes(ALL).clock(clock.clone());
            let pool = pool.partition("p", Partition::new().max(3)).build().unwrap();
            // A slot above the share may only go to its own partition or to nobody's: this one is nobody's.
            let partition = if name == "a job is displaced" { "" } else { partition };
            end(&pool, of(&pool, partition).bytes(ALL), &clock);
            assert_eq!(pool.snapshot().bytes, 0, "{name}");
            drop(pool.job().bytes(ALL).try_reserve().expect(name));
            pool.wait_idle();
            assert_at_rest(&pool);
        }
    }
}

#[test]
fn nothing_holds_bytes_in_a_pool_that_has_ended() {
    let _watchdog = watchdog();
    let pool = builder(1, 4).max_bytes(10).build().unwrap();
    let busy = occupy(&pool);
    let queued = pool.job().bytes(4).try_submit(|| ()).unwrap();
    let permit = pool.job().bytes(3).try_reserve().unwrap();
    let mut waits = pool.job().bytes(8).submit(|| ());
    assert!(poll(&mut waits, Waker::noop()).is_pending());
    pool.shutdown(Shutdown::Discard, Some(Duration::ZERO));
    assert!(queued.join().unwrap_err().is_discarded());
    assert_eq!(reason(permit.submit(|| ())), Some(Reason::Closed));
    drop(waits);
    busy.free();
    assert_eq!((pool.in_flight(), pool.snapshot().bytes), (0, 0));
}

// ── Many at once ────────────────────────────────────────────────────────────────────────────────

#[test]
fn many_permits_are_all_or_nothing() {
    let pool = builder(1, 5).max_bytes(100).partition("p", Partition::new().max(3));
    let pool = pool.partition("share", Partition::new().reserved(1)).build().unwrap();
    let in_p = of(&pool, "p");
    let one = [pool.job().bytes(10).try_reserve().unwrap()];
    let cases = [
        (pool.job(), 0, None),
        (pool.job(), 3, None),
        (pool.job(), 4, Some(Reason::Full)),
        (pool.job(), usize::MAX, Some(Reason::Full)),
        (pool.job(), usize::MAX / 2 + 1, Some(Reason::Full)),
        (pool.job(), 1 << 20, Some(Reason::Full)),
        (pool.job(), 1 << 40, Some(Reason::Full)),
        (in_p, 0, None),
        (in_p, 3, None),
        (in_p, 4, Some(Reason::Partition)),
        (in_p, usize::MAX, Some(Reason::Partition)),
        (pool.job().bytes(30), 3, None),
        (pool.job().bytes(31), 3, Some(Reason::Bytes)),
        (pool.job().bytes(u64::MAX), 2, Some(Reason::Bytes)),
        (in_p.bytes(45), 2, None),
        (in_p.bytes(46), 2, Some(Reason::Bytes)),
        (of(&pool, "share"), 4, None),
        (of(&pool, "share"), 5, Some(Reason::Full)),
    ];
    for (case, (spec, count, refused)) in cases.into_iter().enumerate() {
        match spec.try_reserve_many(count) {
            Ok(permits) => {
                assert_eq!((permits.len(), None), (count, refused));
                assert_eq!(pool.in_flight(), 1 + count);
                let jobs: Vec<_> =
                    permits.into_iter().map(|permit| permit.submit(|| ()).unwrap()).collect();
                jobs.into_iter().for_each(|job| job.join().unwrap());
            }
            Err(refusal) => assert_eq!(Some(refusal.reason()), refused, "case {case}"),
        }
        assert_eq!((pool.in_flight(), pool.snapshot().bytes), (1, 10), "case {case}");
    }
    drop(one);

    // None are there even when nothing is left, and not when the pool is closed.
    let full = [fill(pool.job()).0, fill(of(&pool, "share")).0];
    for spec in [pool.job(), in_p, pool.job().bytes(1)] {
        assert!(spec.try_reserve_many(0).unwrap().is_empty());
    }
    drop(full);
    pool.close();
    let specs = [("plain", pool.job()), ("p", in_p), ("bytes", pool.job().bytes(1))];
    for (name, spec) in specs {
        for count in [0, 1, usize::MAX] {
            let refused = spec.try_reserve_many(count).map(|_| ()).map_err(|no| no.reason());
            assert_eq!(refused, Err(Reason::Closed), "{name}, {count}");
        }
    }
}

#[test]
fn two_who_want_more_together_than_there_is_never_both_get_it() {
    let _watchdog = watchdog();
    let pool = builder(1, 5).max_bytes(5).partition("p", Partition::new().max(5)).build().unwrap();
    type Ask = for<'a> fn(&'a Pool) -> JobSpec<'a>;
    let asks: [(Ask, usize); 3] =
        [(|pool| pool.job(), 1), (|pool| of(pool, "p"), 0), (|pool| pool.job().bytes(1), 0)];
    for (ask, at_least) in asks {
        for _ in 0..rounds(500) {
            let take = || ask(&pool).try_reserve_many(3);
            let (one, other) = race(take, take);
            let served = usize::from(one.is_ok()) + usize::from(other.is_ok());
            assert!((at_least..=1).contains(&served), "{served} of two");
            assert_eq!(pool.in_flight(), 3 * served);
            drop((one, other));
            assert_eq!((pool.in_flight(), pool.snapshot().bytes), (0, 0));
        }
    }
    let (tell, told) = mpsc::channel();
    of(&pool, "p").bytes(5).try_spawn(move || tell.send(()).unwrap()).unwrap();
    recv(&told);
}
