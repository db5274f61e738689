//! What is offered: when jobs arrive, how long they take, how urgent they are.

use fastrand::Rng;

pub(crate) const MS: u64 = 1_000_000;

/// How long jobs take; with a mean of one millisecond unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Service {
    Fixed,
    Exponential,
    /// 0.5 ms, and one in nineteen 10 ms.
    Bimodal,
    /// Of sigma 1.
    Lognormal,
    /// Of shape 1.5: the variance is infinite, and a ninth of the work is in jobs above 25 ms.
    Pareto,
    /// 0.1, 2 and 20 ms, as 80, 18 and 2 of a hundred.
    ThreeClasses,
}

impl Service {
    /// The mixes of the stories: all that don't take the same time each.
    pub(crate) const MIXES: [Self; 5] =
        [Self::Exponential, Self::Bimodal, Self::Lognormal, Self::Pareto, Self::ThreeClasses];

    pub(crate) fn mean_ms(self) -> f64 {
        match self {
            Self::ThreeClasses => 0.8 * 0.1 + 0.18 * 2.0 + 0.02 * 20.0,
            _ => 1.0,
        }
    }

    fn draw_ms(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Fixed => 1.0,
            Self::Exponential => exponential(rng),
            Self::Bimodal if rng.u32(..19) == 0 => 10.0,
            Self::Bimodal => 0.5,
            Self::Lognormal => (gaussian(rng) - 0.5).exp(),
            // The mean of a Pareto variable of this shape from `m` on is 3 m.
            Self::Pareto => (1.0 - rng.f64()).powf(-1.0 / 1.5) / 3.0,
            Self::ThreeClasses => match rng.u32(..100) {
                0..80 => 0.1,
                80..98 => 2.0,
                _ => 20.0,
            },
        }
    }
}

/// Of mean one.
fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

/// One of a pair by Box and Muller.
fn gaussian(rng: &mut Rng) -> f64 {
    (2.0 * exponential(rng)).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// When jobs arrive, in multiples of what the workers can do. At any moment as a Poisson process.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrivals {
    Poisson(f64),
    /// At 0.5 and at 1.5 times this load in turn, each for 100 ms in the mean.
    Bursts(f64),
    /// Each of these loads until its moment (in milliseconds); nothing after the last.
    Steps(&'static [(f64, u64)]),
    /// At one load and at another in turn, each for so many milliseconds.
    InTurn {
        first: f64,
        second: f64,
        each_ms: u64,
    },
    /// Between two loads, up and down in a period of so many milliseconds.
    Tide {
        from: f64,
        to: f64,
        period_ms: u64,
    },
}

/// The classes of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    Low,
    Normal,
    High,
    Critical,
}

/// One job on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Arrival {
    pub(crate) at_ns: u64,
    pub(crate) service_ns: u64,
    pub(crate) priority: Priority,
}

/// One kind of callers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Callers {
    arrivals: Arrivals,
    service: Service,
    priority: Priority,
    /// Every service time is multiplied by this.
    times: f64,
}

impl Callers {
    pub(crate) fn new(arrivals: Arrivals, service: Service) -> Self {
        Self { arrivals, service, priority: Priority::Normal, times: 1.0 }
    }

    pub(crate) fn priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    pub(crate) fn with_jobs_times(self, times: f64) -> Self {
        Self { times, ..self }
    }

    /// All that they send to so many workers before `end_ms`, in order.
    pub(crate) fn send(self, workers: usize, seed: u64, end_ms: u64) -> Vec<Arrival> {
        let mut stream = Stream {
            callers: self,
            rng: Rng::with_seed(seed),
            per_ns: workers as f64 / (self.service.mean_ms() * self.times * MS as f64),
            now_ns: 0.0,
            bursting: false,
            phase_ends_ns: 0.0,
        };
        let end_ns = end_ms * MS;
        std::iter::from_fn(|| stream.next()).take_while(|job| job.at_ns < end_ns).collect()
    }
}

/// Several kinds of callers at once, each in its own right.
pub(crate) fn together(all: &[Callers], workers: usize, seed: u64, end_ms: u64) -> Vec<Arrival> {
    let seeds = (0..).map(|kind| seed + 1_000 * kind);
    let mut arrivals: Vec<Arrival> =
        all.iter().zip(seeds).flat_map(|(kind, seed)| kind.send(workers, seed, end_ms)).collect();
    arrivals.sort_by_key(|arrival| arrival.at_ns);
    arrivals
}

struct Stream {
    callers: Callers,
    rng: Rng,
    /// Jobs per nanosecond at a load of one.
    per_ns: f64,
    now_ns: f64,
    bursting: bool,
    phase_ends_ns: f64,
}

impl Stream {
    fn next(&mut self) -> Option<Arrival> {
        let gap = exponential(&mut self.rng);
        self.now_ns += gap / (self.load()? * self.per_ns);
        let service_ms = self.callers.service.draw_ms(&mut self.rng) * self.callers.times;
        Some(Arrival {
            at_ns: self.now_ns as u64,
            service_ns: (service_ms * MS as f64) as u64,
            priority: self.callers.priority,
        })
    }

    /// The load at this moment; none when all is over.
    fn load(&mut self) -> Option<f64> {
        let now_ms = self.now_ns / MS as f64;
        match self.callers.arrivals {
            Arrivals::Poisson(load) => Some(load),
            Arrivals::Bursts(load) => {
                while self.now_ns >= self.phase_ends_ns {
                    self.bursting = !self.bursting;
                    self.phase_ends_ns += 100.0 * MS as f64 * exponential(&mut self.rng);
                }
                Some(load * if self.bursting { 1.5 } else { 0.5 })
            }
            Arrivals::Steps(steps) => {
                steps.iter().find(|&&(_, until_ms)| now_ms < until_ms as f64).map(|&(load, _)| load)
            }
            Arrivals::InTurn { first, second, each_ms } => {
                Some(if (now_ms as u64 / each_ms) % 2 == 0 { first } else { second })
            }
            Arrivals::Tide { from, to, period_ms } => {
                let turn = std::f64::consts::TAU * now_ms / period_ms as f64;
                Some(from + (to - from) * (1.0 - turn.cos()) / 2.0)
            }
        }
    }
}
