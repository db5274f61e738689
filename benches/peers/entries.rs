//! Which pool is measured in which shape.

use crate::peer::Peer;
use crate::plan::Plan;
use crate::pools::futures::{AsyncExecutor, Blocking, Futures, TokioBlocking, TokioSpawn};
use crate::pools::ours::Weirpool;
use crate::pools::threads::{Rayon, RayonInstall, RustyPool, Threadpool, rayon_join};
use crate::shapes::{self, Measured};
use crate::support::work::Work;
use crate::tree::Tree;

/// What a contestant is compared as.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Ours,
    Peer,
    /// Shown, and no part of the ratios.
    Bound,
}

/// One pool in one shape.
pub(crate) struct Entry {
    pub(crate) pool: &'static str,
    pub(crate) role: Role,
    /// The names of its figures; one, but for the round trips.
    pub(crate) shapes: &'static [&'static str],
    pub(crate) run: Box<dyn FnMut() -> Measured>,
    /// Ours, for what it refused and shed.
    pub(crate) ours: Option<&'static weirpool::Pool>,
}

/// In the order of the table.
pub(crate) const SHAPES: &[&[&str]] = &[
    DETACHED,
    JOINED,
    PRODUCERS,
    NESTED,
    FORKJOIN,
    FORKJOIN_EMPTY,
    ROUNDTRIP,
    BURST,
    WORK_1,
    WORK_10,
    WORK_100,
];

const DETACHED: &[&str] = &["detached"];
const JOINED: &[&str] = &["joined"];
const PRODUCERS: &[&str] = &["producers4"];
const NESTED: &[&str] = &["nested"];
const FORKJOIN: &[&str] = &["forkjoin"];
const FORKJOIN_EMPTY: &[&str] = &["forkjoin_empty"];
const ROUNDTRIP: &[&str] = &["roundtrip_p50", "roundtrip_p99", "roundtrip_p999"];
const BURST: &[&str] = &["burst32"];
const WORK_1: &[&str] = &["work1us"];
const WORK_10: &[&str] = &["work10us"];
const WORK_100: &[&str] = &["work100us"];

const MICROSECOND: u64 = 1_000;

struct Sizes {
    jobs: u64,
    trips: u64,
    bursts: u64,
    tree: Tree,
    empty_tree: Tree,
}

impl Sizes {
    /// Each shape of a round takes some ten milliseconds.
    fn new(plan: &Plan) -> Self {
        let leaf = Work::of_ns(10 * MICROSECOND);
        let (depth, empty_depth) = if plan.jobs < 20_000 { (11, 16) } else { (14, 19) };
        Self {
            jobs: plan.jobs,
            trips: plan.jobs / 16,
            bursts: (plan.jobs / 800).max(10),
            tree: Tree { depth, leaf },
            empty_tree: Tree { depth: empty_depth, leaf: Work::NONE },
        }
    }
}

/// All that the plan asks for, shape by shape.
pub(crate) fn entries(plan: &Plan, workers: usize) -> Vec<Entry> {
    let sizes = Sizes::new(plan);
    // All jobs of a round at once, and those that submit them.
    let capacity = (sizes.jobs as usize + 64).max(sizes.empty_tree.leaves() as usize * 2);
    let mut list = List { plan, sizes, entries: Vec::new() };

    if plan.wants_pool("weirpool") {
        let ours = Weirpool::with_defaults(workers, capacity);
        list.add("weirpool", Role::Ours, Some(ours.0), ours);
    }
    if plan.wants_pool("weirpool-bare") {
        let bare = Weirpool::bare(workers, capacity);
        list.add("weirpool-bare", Role::Ours, Some(bare.0), bare);
    }
    list.add_peer("rayon", || Rayon::new(workers));
    list.add_rayons_own(workers);
    list.add_peer("tokio-blocking", || TokioBlocking::new(workers));
    list.add_peer("tokio-spawn", || TokioSpawn::new(workers));
    list.add_peer("rusty_pool", || RustyPool::new(workers));
    list.add_peer("threadpool", || Threadpool::new(workers));
    list.add_peer("async-executor", || AsyncExecutor::new(workers));
    list.add_peer("blocking", || Blocking);
    list.add_peer("futures", || Futures::new(workers));

    let place = |entry: &Entry| SHAPES.iter().position(|shapes| *shapes == entry.shapes);
    list.entries.sort_by_key(place);
    list.entries
}

struct List<'a> {
    plan: &'a Plan,
    sizes: Sizes,
    entries: Vec<Entry>,
}

impl List<'_> {
    fn add_peer<P: Peer>(&mut self, name: &'static str, start: impl FnOnce() -> P) {
        if self.plan.wants_pool(name) {
            self.add(name, Role::Peer, None, start());
        }
    }

    fn add<P: Peer>(
        &mut self,
        pool: &'static str,
        role: Role,
        ours: Option<&'static weirpool::Pool>,
        peer: P,
    ) {
        let Sizes { jobs, trips, bursts, tree, empty_tree } = self.sizes;
        let mut add = |shapes, run: Box<dyn FnMut() -> Measured>| {
            self.push(Entry { pool, role, shapes, run, ours });
        };
        let fork_join =
            move |tree| shapes::fork_join(tree, move || peer.fork_join(tree).expect("it forks"));
        add(DETACHED, Box::new(move || shapes::detached(peer, jobs)));
        add(JOINED, Box::new(move || shapes::joined(peer, jobs, 0)));
        add(PRODUCERS, Box::new(move || shapes::producers(peer, jobs)));
        add(NESTED, Box::new(move || shapes::nested(peer, jobs)));
        if P::FORKS {
            add(FORKJOIN, Box::new(move || fork_join(tree)));
            add(FORKJOIN_EMPTY, Box::new(move || fork_join(empty_tree)));
        }
        add(ROUNDTRIP, Box::new(move || shapes::round_trips(peer, trips)));
        add(BURST, Box::new(move || shapes::bursts(peer, bursts)));
        add(WORK_1, Box::new(move || shapes::joined(peer, jobs / 4, MICROSECOND)));
        add(WORK_10, Box::new(move || shapes::joined(peer, jobs / 20, 10 * MICROSECOND)));
        add(WORK_100, Box::new(move || shapes::joined(peer, jobs / 200, 100 * MICROSECOND)));
    }

    /// What only rayon has: a job on the caller's stack, and `join`.
    fn add_rayons_own(&mut self, workers: usize) {
        let Sizes { trips, tree, empty_tree, .. } = self.sizes;
        let mut start = None;
        let mut rayon = || *start.get_or_insert_with(|| Rayon::new(workers));
        if self.plan.wants_pool("rayon-install") {
            let peer = RayonInstall(rayon());
            let run = Box::new(move || shapes::round_trips(peer, trips));
            let (pool, role) = ("rayon-install", Role::Peer);
            self.push(Entry { pool, role, shapes: ROUNDTRIP, run, ours: None });
        }
        if self.plan.wants_pool("rayon-join") {
            let peer = rayon();
            for (shapes, tree) in [(FORKJOIN, tree), (FORKJOIN_EMPTY, empty_tree)] {
                let run = Box::new(move || shapes::fork_join(tree, || rayon_join(peer, tree)));
                let (pool, role) = ("rayon-join", Role::Bound);
                self.push(Entry { pool, role, shapes, run, ours: None });
            }
        }
    }

    fn push(&mut self, entry: Entry) {
        if entry.shapes.iter().any(|shape| self.plan.wants_shape(shape)) {
            self.entries.push(entry);
        }
    }
}
