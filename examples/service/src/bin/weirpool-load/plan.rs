//! When which request is due: fixed beforehand.

use std::time::Duration;

use crate::options::Mix;

/// Health checks a second, evenly spaced.
const HEALTH_RATE: f64 = 20.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Password,
    Thumbnail,
    Health,
}

/// One request of the schedule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// Since the beginning.
    pub(crate) at: Duration,
    pub(crate) kind: Kind,
}

/// The load and the health checks together, in order.
pub(crate) struct Plan {
    random: fastrand::Rng,
    duration: Duration,
    rate: f64,
    /// The share of passwords.
    passwords: f64,
    next_load: Due,
    next_health_s: f64,
}

impl Plan {
    pub(crate) fn new(rate: f64, duration: Duration, mix: &Mix, seed: u64) -> Self {
        let passwords = mix.password / (mix.password + mix.thumbnail);
        let first = Due { at: Duration::ZERO, kind: Kind::Password };
        let random = fastrand::Rng::with_seed(seed);
        let mut plan =
            Self { random, duration, rate, passwords, next_load: first, next_health_s: 0.0 };
        plan.next_load = plan.draw();
        plan
    }

    /// Poisson arrivals: the gaps are exponential.
    fn draw(&mut self) -> Due {
        let gap_s = -(1.0 - self.random.f64()).ln() / self.rate;
        Due {
            at: self.next_load.at + Duration::from_secs_f64(gap_s),
            kind: pick(&mut self.random, self.passwords),
        }
    }
}

/// The kind of the next request of the load.
pub(crate) fn pick(random: &mut fastrand::Rng, passwords: f64) -> Kind {
    if random.f64() < passwords { Kind::Password } else { Kind::Thumbnail }
}

impl Iterator for Plan {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        let health = Duration::from_secs_f64(self.next_health_s);
        let due = if health <= self.next_load.at {
            self.next_health_s += 1.0 / HEALTH_RATE;
            Due { at: health, kind: Kind::Health }
        } else {
            let due = self.next_load;
            self.next_load = self.draw();
            due
        };
        (due.at < self.duration).then_some(due)
    }
}
