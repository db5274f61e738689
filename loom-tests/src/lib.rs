//! What the models share: exploring one, saying how much was explored, and noting what was seen.
#![cfg(loom)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Which outcomes a model met, over all its executions. Kept outside of what loom sees.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<BTreeMap<&'static str, usize>>>);

impl Seen {
    /// Notes that an execution met `outcome`.
    pub fn note(&self, outcome: &'static str) {
        *self.0.lock().unwrap().entry(outcome).or_default() += 1;
    }
}

/// A count of executions below which a model can't have interleaved what it is about: a primitive
/// that loom doesn't see shows as a single execution.
#[derive(Clone, Copy)]
pub struct AtLeast(pub usize);

/// Explores every execution of `model` with at most `preemptions` preemptions (none: all of them),
/// prints how many there were, and fails if they were fewer than `floor` or if one of the outcomes
/// in `must_see` never came about.
pub fn explore(
    name: &str,
    preemptions: Option<usize>,
    floor: AtLeast,
    must_see: &[&'static str],
    model: impl Fn(&Seen) + Send + Sync + 'static,
) {
    for cut in ["LOOM_MAX_DURATION", "LOOM_MAX_PERMUTATIONS"] {
        assert!(std::env::var_os(cut).is_none(), "{cut} would cut the proof off");
    }
    let executions = Arc::new(AtomicUsize::new(0));
    let seen = Seen::default();
    let mut builder = weirpool::loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 20_000;
    builder.check({
        let (executions, seen) = (Arc::clone(&executions), seen.clone());
        move || {
            executions.fetch_add(1, Relaxed);
            model(&seen);
        }
    });
    let executions = executions.load(Relaxed);
    let bound = preemptions.map_or("all".to_owned(), |bound| format!("at most {bound}"));
    let outcomes = seen.0.lock().unwrap();
    println!("model {name}: {executions} executions, {bound} preemptions, outcomes {outcomes:?}");
    assert!(executions >= floor.0, "{name}: only {executions} executions, expected {}", floor.0);
    for outcome in must_see {
        assert!(outcomes.contains_key(outcome), "{name}: never saw \"{outcome}\"");
    }
}
