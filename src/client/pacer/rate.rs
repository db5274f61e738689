//! Which rate the server takes: the arithmetic under [`Pacer`](super::Pacer).
//!
//! Each answer moves the rate by a small step, so that nothing has to be averaged, and a client that
//! sends a hundred times as much is not slower to learn. In the middle the rate *x* (requests a second)
//! follows
//!
//! ```text
//! dx/dt = x · gain(x) · (growth(x) − refused share − price(score))
//! ```
//!
//! - A refusal lowers the rate by one request a second: what is refused too much is gone within a few
//!   seconds, whatever the rate.
//! - `growth(x)` falls with the square root of *x*. All clients of a server meet the same refused share
//!   and the same score, so they come to rest at the same *x*: that makes the shares fair, as in TCP.
//!   With TCP's own 1/*x* only a narrow range of rates would end up at a bearable refused share, with a
//!   constant nothing would make the shares equal. (Bansal and Balakrishnan, "Binomial congestion
//!   control algorithms", 2001.) How fast they become equal depends on how large growth and price are.
//!   Refusals are dear, so without reports it is slow; a price that is a figure in an answer costs
//!   nothing.
//! - `gain(x)` makes the steps of slow clients smaller, so that a rate of a few requests a second isn't
//!   ruled by the luck of single ones.
//! - The rate and the server's queue are two integrators in one loop, which would swing. So a part of
//!   the rate is held back at once as the score rises: that damps it.
//!
//! Where the server is far from full the rate rises faster: by the reported score, or when refusals
//! that were to be expected stay away. The score counts only if the server doesn't refuse at low ones:
//! it may be about something else than what refuses. After an outage, or a shorter dip, the rate
//! returns to what was usual.
//!
//! The constants were chosen in the simulation of `tests/pacing`.

use std::time::{Duration, Instant};

use crate::client::time::{age, anchor_for, seconds};

/// Share of the rate by which it grows each second at a rate of 1/s, over its root.
const GROWTH: f64 = 0.112;
/// The most of it: below about one request a second the root would promise too much.
const MAX_GROWTH: f64 = 0.1;
/// Below this rate the steps shrink with it.
const FULL_GAIN_PER_S: f64 = 12.0;

/// The same where the server reports its score: more, since nobody pays for it with refusals.
const REPORTED_GROWTH: f64 = 1.0;
/// Above a score of 1 less this the growth fades.
const FADING: f64 = 0.05;
/// Share of the rate by which it falls each second at the low score; it goes with this power of the
/// score, so that rates from five to five hundred come to rest at scores that hardly differ,
const PRICE: f64 = 0.14;
const STEEPNESS: i32 = 16;
/// and is no more than this.
const MAX_PRICE: f64 = 1.0;

/// Below this score the server has room. Above it a part of the rate is held back at once.
const LOW_SCORE: f64 = 0.83;
/// Share of the rate that is held back, per unit of the score above.
const HELD_BACK: f64 = 2.0;
/// Share of the rate by which it grows each second at a score of 0, less above.
const GROWTH_OF_IDLE: f64 = 0.5;
/// A score that is older says nothing.
const SCORE_LASTS: Duration = Duration::from_secs(1);
/// Share of the newest answer in the score at which the server is taken to be full.
const FULL_SCORE_WEIGHT: f64 = 0.1;

/// So many expected refusals must have stayed away before the growth speeds up,
const MISSED_REFUSALS: f64 = 2.0;
/// and so much faster is it for each further one,
const BOOST: f64 = 4.0;
/// but no faster than this share of the rate each second.
const MAX_BOOSTED_GROWTH: f64 = 0.5;

/// So many refusals in a row are an outage.
const OUTAGE_REFUSALS: u32 = 10;
/// Afterwards each accepted request raises the rate by this share, but not by more than so many
/// requests a second, until it is at this share of the usual one.
const RETURN_STEP: f64 = 0.5;
const MAX_RETURN_STEP_PER_S: f64 = 2.0;
const RETURNED: f64 = 0.9;
/// Without an outage, a rate that has fallen below the usual one grows by up to this share each second,
const RETURN_GROWTH: f64 = 0.5;
/// once so many requests were accepted in a row.
const RETURN_AFTER: u32 = 5;
/// Time in which the usual rate follows what is accepted.
const MEMORY_S: f64 = 8.0;
/// If nothing is accepted for so long, it stands still.
const GAP: Duration = Duration::from_millis(1500);

/// A rate is measured over at least this, and so many requests, but not longer than the last.
const MEASURE: Duration = Duration::from_secs(1);
const MEASURE_REQUESTS: u32 = 10;
const MEASURE_AT_MOST: Duration = Duration::from_secs(3);

const MIN_PER_S: f64 = 1e-3;
const MAX_PER_S: f64 = 1e9;

/// The rate that a server takes from this client.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    /// None until the server has pushed back for the first time: nothing is held back before.
    per_s: Option<f64>,
    min_per_s: f64,
    usual: Usual,
    /// The latest, and when it came.
    score: Option<(f64, Instant)>,
    /// The score at which the server refuses, as far as it is known.
    full_score: f64,
    refusals_in_a_row: u32,
    accepted_in_a_row: u32,
    /// An outage has been, and the rate is on its way back.
    recovering: bool,
    /// Refusals that were to be expected since the last one.
    missed_refusals: f64,
    meter: Meter,
    /// When somebody last had to wait or give up.
    limited_at: Option<Instant>,
}

impl Rate {
    pub(super) fn new(min_per_s: f64) -> Self {
        Self {
            per_s: None,
            min_per_s: if min_per_s.is_nan() {
                MIN_PER_S
            } else {
                min_per_s.clamp(MIN_PER_S, MAX_PER_S)
            },
            usual: Usual::default(),
            score: None,
            refusals_in_a_row: 0,
            accepted_in_a_row: 0,
            recovering: false,
            missed_refusals: 0.0,
            full_score: 1.0,
            meter: Meter::default(),
            limited_at: None,
        }
    }

    /// Requests a second to be sent at present; none: all.
    pub(super) fn per_s(&self, now: Instant) -> Option<f64> {
        let score = self.score(now).unwrap_or(0.0).min(1.0);
        let held_back = HELD_BACK * (score - LOW_SCORE).max(0.0);
        self.per_s.map(|per_s| (per_s * (1.0 - held_back)).max(self.min_per_s))
    }

    fn score(&self, now: Instant) -> Option<f64> {
        let (score, at) = self.score?;
        (age(at, now) <= SCORE_LASTS).then_some(score)
    }

    /// Whether the server has refused everything lately.
    pub(super) fn is_outage(&self) -> bool {
        self.refusals_in_a_row >= OUTAGE_REFUSALS
    }

    /// A request was sent.
    pub(super) fn sent(&mut self, now: Instant) {
        let Some((measured, _)) = self.meter.count(now) else { return };
        if self.per_s.is_none() && self.meter.wanted {
            self.set(measured);
        }
    }

    /// Somebody found no token.
    pub(super) fn limited(&mut self, now: Instant) {
        self.limited_at = Some(now);
    }

    /// The server said how loaded it is: from 0 to 1, more when it is beyond what it wants.
    pub(super) fn reported(&mut self, score: f64, now: Instant) {
        if score.is_nan() {
            return;
        }
        let score = score.clamp(0.0, 2.0);
        self.score = Some((score, now));
        if self.per_s.is_none() && score > LOW_SCORE {
            self.meter.measure_anew(now);
        }
    }

    /// The server did a request.
    pub(super) fn accepted(&mut self, now: Instant) {
        self.refusals_in_a_row = 0;
        self.accepted_in_a_row = self.accepted_in_a_row.saturating_add(1);
        let Some(per_s) = self.per_s else { return self.usual.accepted(now) };
        if self.recovering {
            let returned = per_s + (RETURN_STEP * per_s).min(MAX_RETURN_STEP_PER_S);
            self.recovering = returned < RETURNED * self.usual.per_s.unwrap_or(0.0);
            return self.set(returned);
        }
        self.usual.accepted(now);
        let step = self.step(per_s, now);
        // A rate that nobody needs would rise without end, and be no limit when it is needed.
        if step < 0.0 || self.is_limited(now) {
            self.set(per_s + step);
        }
    }

    /// By how much an accepted request raises the rate of `per_s`; less than 0 if it lowers it.
    fn step(&mut self, per_s: f64, now: Instant) -> f64 {
        let growth = (GROWTH / per_s.sqrt()).min(MAX_GROWTH);
        self.missed_refusals += growth;
        let Some(score) = self.score(now) else { return self.blind_step(per_s, growth) };
        // What the server accepts it can't be too full for.
        self.full_score += (score - self.full_score).max(0.0) * FULL_SCORE_WEIGHT;
        if self.full_score < LOW_SCORE {
            return self.blind_step(per_s, growth);
        }
        let growth = REPORTED_GROWTH / per_s.sqrt() * ((1.0 - score) / FADING).clamp(0.0, 1.0);
        let price = (PRICE * (score / LOW_SCORE).powi(STEEPNESS)).min(MAX_PRICE);
        let room = 1.0 - score / LOW_SCORE;
        gain(per_s) * (growth - price) + GROWTH_OF_IDLE * room.max(0.0)
    }

    /// The same if nothing is known but what was refused.
    fn blind_step(&self, per_s: f64, growth: f64) -> f64 {
        let beyond = (self.missed_refusals - MISSED_REFUSALS).max(0.0);
        let boosted = (growth * (1.0 + BOOST * beyond)).min(MAX_BOOSTED_GROWTH);
        (boosted * gain(per_s)).max(self.return_growth(per_s))
    }

    /// The share by which a rate that has fallen below the usual one grows each second.
    fn return_growth(&self, per_s: f64) -> f64 {
        if self.accepted_in_a_row < RETURN_AFTER {
            return 0.0;
        }
        RETURN_GROWTH * (1.0 - per_s / (RETURNED * self.usual.per_s.unwrap_or(0.0)))
    }

    fn is_limited(&self, now: Instant) -> bool {
        let per_s = self.per_s.unwrap_or(f64::INFINITY);
        let lasts = seconds((2.0 / per_s).max(1.0));
        self.limited_at.is_some_and(|at| age(at, now) <= lasts)
    }

    /// The server refused a request for overload, or did not answer it in time.
    pub(super) fn refused(&mut self, now: Instant) {
        self.refusals_in_a_row = self.refusals_in_a_row.saturating_add(1);
        self.accepted_in_a_row = 0;
        self.missed_refusals = 0.0;
        if let Some(score) = self.score(now) {
            self.full_score += (score - self.full_score).min(0.0) * FULL_SCORE_WEIGHT;
        }
        let Some(per_s) = self.per_s else {
            self.meter.measure_anew(now);
            return;
        };
        let from = if self.is_limited(now) { per_s } else { per_s.min(self.meter.at_most()) };
        self.set(from - gain(from));
        self.recovering = self.is_outage();
    }

    fn set(&mut self, per_s: f64) {
        self.per_s = Some(per_s.clamp(self.min_per_s, MAX_PER_S));
    }
}

/// The size of a step, in requests a second.
fn gain(per_s: f64) -> f64 {
    (per_s / FULL_GAIN_PER_S).min(1.0)
}

/// How many requests a second are accepted in good times. An outage doesn't count.
#[derive(Clone, Debug, Default)]
struct Usual {
    meter: Meter,
    last: Option<Instant>,
    per_s: Option<f64>,
}

impl Usual {
    fn accepted(&mut self, now: Instant) {
        if self.last.is_some_and(|last| age(last, now) > GAP) {
            self.meter = Meter::default();
        }
        self.last = Some(now);
        let Some((measured, span)) = self.meter.count(now) else { return };
        let usual = self.per_s.unwrap_or(measured);
        let weight = (span.as_secs_f64() / MEMORY_S).min(1.0);
        self.per_s = Some(usual + (measured - usual) * weight);
    }
}

/// Measures how many requests there are.
#[derive(Clone, Debug, Default)]
struct Meter {
    begun: Option<Instant>,
    requests: u32,
    per_s: Option<f64>,
    /// Somebody waits for the result.
    wanted: bool,
}

impl Meter {
    /// Notes a request; when a measurement is complete, how many there were a second, and its length.
    fn count(&mut self, now: Instant) -> Option<(f64, Duration)> {
        let begun = self.begun.map_or(now, |begun| anchor_for(begun, now));
        self.begun = Some(begun);
        self.requests = self.requests.saturating_add(1);
        let passed = now.saturating_duration_since(begun);
        let is_enough = passed >= MEASURE && self.requests >= MEASURE_REQUESTS;
        if !is_enough && passed < MEASURE_AT_MOST {
            return None;
        }
        let per_s = f64::from(self.requests) / passed.as_secs_f64();
        (self.per_s, self.begun, self.requests) = (Some(per_s), Some(now), 0);
        Some((per_s, passed))
    }

    /// Begins a measurement, unless one is wanted already.
    fn measure_anew(&mut self, now: Instant) {
        if !self.wanted {
            *self = Self { begun: Some(now), wanted: true, ..Self::default() };
        }
    }

    /// What was sent lately and a quarter more, as far as it is known.
    fn at_most(&self) -> f64 {
        self.per_s.map_or(f64::INFINITY, |per_s| 1.25 * per_s)
    }
}
