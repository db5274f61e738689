//! What became of the requests.

use std::time::Duration;

use crate::plan::Kind;

/// How one request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answered(u16),
    /// Accepted, and after a wait answered with 503.
    Shed,
    GivenUp,
    Broken,
}

/// The counts of one route, or of several together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) offered: u64,
    pub(crate) good: u64,
    pub(crate) late: u64,
    pub(crate) refused: u64,
    pub(crate) shed: u64,
    pub(crate) errors: u64,
    /// Of the 200s, and of what was given up.
    pub(crate) accepted: Times,
    pub(crate) refusals: Times,
}

impl Counts {
    fn add(&mut self, took: Duration, end: End, deadline: Duration) {
        self.offered += 1;
        match end {
            End::Answered(200) => {
                let is_good = took <= deadline;
                *(if is_good { &mut self.good } else { &mut self.late }) += 1;
                self.accepted.add(took);
            }
            End::GivenUp => {
                self.late += 1;
                self.accepted.add(took);
            }
            End::Shed => self.shed += 1,
            End::Answered(504) => self.late += 1,
            End::Answered(503 | 429) => {
                self.refused += 1;
                self.refusals.add(took);
            }
            End::Answered(_) | End::Broken => self.errors += 1,
        }
    }
}

/// Times in nanoseconds; every one is kept, so that the quantiles are exact.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times(Vec<u64>);

impl Times {
    fn add(&mut self, time: Duration) {
        self.0.push(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The smallest time that a share `q` of all doesn't exceed, in milliseconds.
    pub(crate) fn quantile_ms(&self, q: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        let rank = (q * sorted.len() as f64).ceil() as usize;
        let index = rank.clamp(1, sorted.len().max(1)) - 1;
        if sorted.is_empty() {
            return None;
        }
        let (_, time_ns, _) = sorted.select_nth_unstable(index);
        Some(*time_ns as f64 / 1e6)
    }
}

/// Everything that one run found out.
#[derive(Debug)]
pub(crate) struct Tally {
    deadline: Duration,
    pub(crate) password: Counts,
    pub(crate) thumbnail: Counts,
    /// Password and thumbnail together.
    pub(crate) load: Counts,
    pub(crate) health: Counts,
    /// Resident memory of the server in bytes, about each second.
    pub(crate) memory: Vec<f64>,
}

impl Tally {
    pub(crate) fn new(deadline: Duration) -> Self {
        let (password, thumbnail, load, health) = Default::default();
        Self { deadline, password, thumbnail, load, health, memory: Vec::new() }
    }

    pub(crate) fn add(&mut self, kind: Kind, took: Duration, end: End) {
        let of_route = match kind {
            Kind::Password => &mut self.password,
            Kind::Thumbnail => &mut self.thumbnail,
            Kind::Health => &mut self.health,
        };
        of_route.add(took, end, self.deadline);
        if kind != Kind::Health {
            self.load.add(took, end, self.deadline);
        }
    }
}
