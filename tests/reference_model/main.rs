//! Random schedules against a simple model of what a pool is.
//!
//! With its workers held at a gate, a pool is a sequential machine: each answer and each count can
//! be foretold. With the workers free and several threads at it, only what must hold in every
//! schedule can be.

#[path = "../common/mod.rs"]
mod common;
mod game;
mod ghost;
mod model;
mod sequential;

use common::{STEP, elsewhere};
use game::{game, play_all};
use ghost::End;
use model::{Shape, Share, Want, shape};
use proptest::collection::vec;
use proptest::prelude::*;
use sequential::{Sequential, Step, step};
use weirpool::Priority;

/// So many times the usual number of cases.
fn times(times: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: times * usual.cases, failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(times(6))]

    #[test]
    fn with_its_workers_held_a_pool_does_what_the_model_says(
        shape in shape(1..3, 0..4),
        steps in vec(step(), 1..60),
    ) {
        let all = elsewhere(move || {
            let mut pool = Sequential::new(shape);
            for step in steps {
                pool.take(step);
                pool.compare();
            }
            pool.finish();
        });
        all.wait_for(2 * STEP);
    }
}

/// A permit's slot and bytes come back before the workers are free, and may serve another than both
/// together would.
#[test]
fn a_permit_comes_back_before_the_workers_do() {
    let share = Share { reserved: 1, max: 2 };
    let (partitions, max_bytes) = (vec![share], Some(4));
    let shape = Shape { workers: 1, common: 0, critical_reserve: 0, partitions, max_bytes };
    let want = |partition, bytes| Want { priority: Priority::Normal, partition, bytes };
    let mut pool = Sequential::new(shape);
    for step in [
        Step::Reserve(want(Some(0), 4)),
        Step::Wait(want(None, 3), End::Returns),
        Step::Wait(want(Some(0), 3), End::Returns),
        Step::LetRun,
    ] {
        pool.take(step);
        pool.compare();
    }
    pool.finish();
}

proptest! {
    #![proptest_config(times(2))]

    #[test]
    fn whatever_several_threads_do_the_invariants_hold(game in game()) {
        play_all(game);
    }
}
