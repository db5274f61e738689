//! What is offered: when jobs arrive, and how long they take.

use fastrand::Rng;

pub(crate) const MS: f64 = 1e6;

/// How long jobs take; each with a mean of one millisecond unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Service {
    Fixed,
    Exponential,
    /// 0.5 ms, and one in nineteen 10 ms.
    Bimodal,
    /// Of sigma 1.
    Lognormal,
    /// Of shape 1.5.
    Pareto,
    /// .1, 2 and 20 ms, as 80, 18 and 2 of a hundred.
    ThreeClasses,
}

impl Service {
    pub(crate) const ALL: [Self; 6] = [
        Self::Fixed,
        Self::Exponential,
        Self::Bimodal,
        Self::Lognormal,
        Self::Pareto,
        Self::ThreeClasses,
    ];

    pub(crate) fn mean_ns(self) -> f64 {
        match self {
            Self::Bimodal => (18.0 * 0.5 + 10.0) / 19.0 * MS,
            Self::ThreeClasses => (0.8 * 0.1 + 0.18 * 2.0 + 0.02 * 20.0) * MS,
            _ => MS,
        }
    }

    pub(crate) fn draw_ns(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Fixed => MS,
            Self::Exponential => MS * exponential(rng),
            Self::Bimodal => MS * if rng.u32(..19) == 0 { 10.0 } else { 0.5 },
            Self::Lognormal => MS * (gaussian(rng) - 0.5).exp(),
            // The mean of a Pareto variable from `m` on is 3 m.
            Self::Pareto => MS / 3.0 * (1.0 - rng.f64()).powf(-1.0 / 1.5),
            Self::ThreeClasses => match rng.u32(..100) {
                0..80 => 0.1 * MS,
                80..98 => 2.0 * MS,
                _ => 20.0 * MS,
            },
        }
    }
}

fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

/// One of a pair by Box and Muller.
fn gaussian(rng: &mut Rng) -> f64 {
    (2.0 * exponential(rng)).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// When jobs arrive, as a multiple of what the servers can do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrivals {
    Poisson(f64),
    /// One load until the moment (in milliseconds), another from then on.
    Step(f64, f64, f64),
    /// Poisson at 0.5 and at 1.7 times the mean in turn, for 100 ms each in the mean.
    Bursts(f64),
}

/// One job on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) at_ns: f64,
    pub(crate) service_ns: f64,
}

/// The arrivals of one run, in order.
pub(crate) struct Stream {
    rng: Rng,
    arrivals: Arrivals,
    service: Service,
    /// Jobs per nanosecond at a load of one.
    capacity: f64,
    now_ns: f64,
    bursting: bool,
    phase_ends_ns: f64,
}

impl Stream {
    pub(crate) fn new(arrivals: Arrivals, service: Service, workers: usize, seed: u64) -> Self {
        let capacity = workers as f64 / service.mean_ns();
        let rng = Rng::with_seed(seed);
        Self { rng, arrivals, service, capacity, now_ns: 0.0, bursting: false, phase_ends_ns: 0.0 }
    }

    fn load(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::Poisson(load) => load,
            Arrivals::Step(before, at_ms, after) => {
                if self.now_ns < at_ms * MS {
                    before
                } else {
                    after
                }
            }
            Arrivals::Bursts(load) => {
                while self.now_ns >= self.phase_ends_ns {
                    self.bursting = !self.bursting;
                    self.phase_ends_ns += 100.0 * MS * exponential(&mut self.rng);
                }
                load * if self.bursting { 1.5 } else { 0.5 }
            }
        }
    }
}

impl Iterator for Stream {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let per_ns = self.load() * self.capacity;
        self.now_ns += exponential(&mut self.rng) / per_ns;
        Some(Arrival { at_ns: self.now_ns, service_ns: self.service.draw_ns(&mut self.rng) })
    }
}
