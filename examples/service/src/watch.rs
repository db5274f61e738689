//! Takes a sample five times a second, and keeps those of the last minute.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::engine::{Engine, Route};
use crate::sample::{Sample, Sampler, TURNED_AWAY};

const LOOK_PERIOD: Duration = Duration::from_millis(20);
const LOOKS_PER_SAMPLE: u32 = 10;
/// A minute, and the sample at its beginning.
const KEPT: usize = 301;

/// What doesn't change while the process lives.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct About {
    /// Tells this process from the one before it on the same port.
    pub(crate) born_ms: u64,
    is_protected: bool,
    workers: Option<usize>,
    capacity: Option<usize>,
    target_ms: Option<f64>,
    period_ms: u64,
    routes: [&'static str; Route::ALL.len()],
    turned_away: [&'static str; TURNED_AWAY.len()],
}

pub(crate) struct Watch {
    about: About,
    latest: watch::Sender<Option<Arc<Sample>>>,
    /// The oldest first.
    kept: Mutex<VecDeque<Arc<Sample>>>,
}

impl Watch {
    /// Samples until the runtime ends.
    pub(crate) fn start(engine: Arc<Engine>, target: Duration) -> Arc<Self> {
        let watch = Arc::new(Self::new(&engine, target));
        let sampling = Arc::clone(&watch);
        tokio::spawn(async move {
            let mut ticks = interval(LOOK_PERIOD);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut sampler = Sampler::new();
            loop {
                for _ in 0..LOOKS_PER_SAMPLE {
                    ticks.tick().await;
                    sampler.look(&engine);
                }
                sampling.keep(sampler.take(&engine));
            }
        });
        watch
    }

    fn new(engine: &Engine, target: Duration) -> Self {
        let born = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let pool = engine.pool();
        let about = About {
            born_ms: born.as_millis() as u64,
            is_protected: pool.is_some(),
            workers: pool.map(weirpool::Pool::workers),
            capacity: pool.map(weirpool::Pool::capacity),
            target_ms: pool.map(|_| target.as_secs_f64() * 1e3),
            period_ms: (LOOK_PERIOD * LOOKS_PER_SAMPLE).as_millis() as u64,
            routes: Route::ALL.map(Route::name),
            turned_away: TURNED_AWAY,
        };
        Self { about, latest: watch::Sender::new(None), kept: Mutex::default() }
    }

    fn keep(&self, sample: Sample) {
        let sample = Arc::new(sample);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_back(Arc::clone(&sample));
        if kept.len() > KEPT {
            kept.pop_front();
        }
        drop(kept);
        self.latest.send_replace(Some(sample));
    }

    pub(crate) fn about(&self) -> &About {
        &self.about
    }

    pub(crate) fn latest(&self) -> Option<Arc<Sample>> {
        self.latest.borrow().clone()
    }

    /// Tells of each new sample.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Arc<Sample>>> {
        self.latest.subscribe()
    }

    /// The kept samples after the one of this number.
    pub(crate) fn since(&self, number: u64) -> Vec<Arc<Sample>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().filter(|sample| sample.number > number).cloned().collect()
    }
}
