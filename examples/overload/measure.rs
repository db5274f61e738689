//! The whole measurement, step by step.

use std::sync::Arc;
use std::time::Duration;

use crate::args::{Args, checkout};
use crate::arrivals::{Load, Phase};
use crate::cell;
use crate::input::Work;
use crate::outcome::Outcome;
use crate::pools::Kind;
use crate::progress::Progress;
use crate::row::Row;
use crate::words::Setting;
use crate::{Stop, report};

/// The load under which the capacity is measured. Well above 1, because the first guess may be
/// far too low on a machine that was busy during the calibration.
const SATURATING: f64 = 3.0;

/// The capacity needs no more than this.
const LONGEST_CAPACITY_RUN: Duration = Duration::from_secs(2);

/// The load that jumps, as multiples of the capacity, each for two thirds of a row's time.
const STEPS: [f64; 3] = [0.5, 2.5, 0.5];

/// What was measured so far.
#[derive(Default)]
pub(crate) struct Results {
    /// None before the capacity is known.
    pub(crate) setting: Option<Setting>,
    pub(crate) rows: Vec<Row>,
    /// Of the load that jumps.
    pub(crate) step: Vec<Row>,
}

/// Fills `results`, which hold what was finished however this ends.
pub(crate) fn measure(results: &mut Results, args: &Args) -> Result<(), Stop> {
    let mut progress = Progress::new();
    let folder = args.folder.clone().unwrap_or_else(checkout);
    progress.phase(&format!("reading {}", folder.display()));
    let mut work = Work::read(&folder)?;
    progress.phase("calibrating a job to 1 ms");
    let job_time = work.calibrate();
    let mut bench =
        Bench { work: Arc::new(work), args, job_time, capacity: 0.0, progress, done: 0 };
    bench.capacity = bench.measure_capacity()?;
    let setting = bench.setting();
    bench.progress.clear();
    report::print_heading(&setting);
    results.setting = Some(setting);

    let mut rows = Vec::new();
    let end = bench.measure_rows(&mut rows);
    results.rows = typical(rows);
    let end = end.and_then(|()| bench.measure_step(&mut results.step));
    bench.progress.clear();
    end
}

/// Of each load and pool the round with the median of good answers, the lower one of two; least load
/// first, and in the order of the pools, whichever was first to be measured.
fn typical(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| {
        let by_pool = a.load.total_cmp(&b.load).then((a.kind as usize).cmp(&(b.kind as usize)));
        by_pool.then(a.good_per_s.total_cmp(&b.good_per_s))
    });
    let mut typical = Vec::new();
    let mut rows = rows.into_iter().peekable();
    while let Some(first) = rows.next() {
        let mut rounds = vec![first];
        while let Some(row) =
            rows.next_if(|row| row.load == rounds[0].load && row.kind == rounds[0].kind)
        {
            rounds.push(row);
        }
        typical.push(rounds.swap_remove((rounds.len() - 1) / 2));
    }
    typical
}

/// How many rows the table will have.
pub(crate) fn row_count(args: &Args) -> usize {
    args.loads.len() * args.kinds.len()
}

fn step_kinds(args: &Args) -> impl Iterator<Item = Kind> {
    Kind::TYPICAL.into_iter().filter(|kind| args.step && args.kinds.contains(kind))
}

struct Bench<'a> {
    work: Arc<Work>,
    args: &'a Args,
    job_time: Duration,
    capacity: f64,
    progress: Progress,
    done: usize,
}

impl Bench<'_> {
    fn setting(&self) -> Setting {
        let args = self.args;
        Setting {
            input_len: self.work.read_len(),
            // A picture of it may be shown around: where the checkout lies is nobody's business.
            folder: args
                .folder
                .as_ref()
                .map_or_else(|| "this checkout".to_owned(), |folder| folder.display().to_string()),
            piece_len: self.work.piece_len(),
            job_time: self.job_time,
            workers: args.workers,
            capacity: self.capacity,
            slots: args.slots,
            period: args.period,
            rounds: args.rounds,
        }
    }

    /// Jobs per second with all workers busy: what the better of two peers finishes, in its best round,
    /// while far more is offered than the machine can do. It is measured exactly as the rows are, the
    /// load generator's own need for the processor included, so that 1x means the same thing in both.
    fn measure_capacity(&mut self) -> Result<f64, Stop> {
        let guess = self.args.workers as f64 / self.job_time.as_secs_f64();
        let period = self.args.period.min(LONGEST_CAPACITY_RUN);
        let load = Load::steady(guess * SATURATING, period, self.args.seed);
        let mut best = 0.0_f64;
        for kind in Kind::MEASURES.repeat(self.args.rounds) {
            self.progress.phase(&format!("measuring the capacity on {}", kind.name()));
            best = best.max(self.outcome(kind, &load)?.finished_per_s());
        }
        if best > 0.0 {
            Ok(best)
        } else {
            Err("no job was finished while the capacity was measured; try more --seconds".into())
        }
    }

    /// One row for each load, pool and round. The pools of one load get the very same arrivals, and
    /// take turns in being the first: a machine that slowly changes favours none.
    fn measure_rows(&mut self, rows: &mut Vec<Row>) -> Result<(), Stop> {
        let args = self.args;
        for round in 0..args.rounds {
            for (turn, &multiple) in args.loads.iter().enumerate() {
                let load = Load::steady(self.capacity * multiple, args.period, args.seed);
                let mut kinds = args.kinds.clone();
                let first = (round + turn * 2) % kinds.len();
                kinds.rotate_left(first);
                for kind in kinds {
                    rows.push(self.row(kind, multiple, &load, &format!("{multiple}x"))?);
                }
            }
        }
        Ok(())
    }

    fn measure_step(&mut self, rows: &mut Vec<Row>) -> Result<(), Stop> {
        let lasts = self.args.period * 2 / 3;
        let phases = STEPS.map(|multiple| Phase { rate_per_s: self.capacity * multiple, lasts });
        let load = Load::phases(&phases, self.args.seed);
        for kind in step_kinds(self.args) {
            rows.push(self.row(kind, STEPS[1], &load, "a load that jumps")?);
        }
        Ok(())
    }

    fn row(&mut self, kind: Kind, multiple: f64, load: &Load, what: &str) -> Result<Row, Stop> {
        self.done += 1;
        let all = row_count(self.args) * self.args.rounds + step_kinds(self.args).count();
        self.progress.phase(&format!("[{}/{all}] {what} on {}", self.done, kind.name()));
        let outcome = self.outcome(kind, load)?;
        Ok(Row::new(kind, multiple, self.capacity, outcome))
    }

    fn outcome(&mut self, kind: Kind, load: &Load) -> Result<Outcome, Stop> {
        let workers = self.args.workers;
        let pool = kind.build(workers, self.args.slots)?;
        cell::measure(pool.as_ref(), workers, &self.work, load, &mut self.progress)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_round_stands_for_all() {
        let rounds = [
            (Kind::Rayon, 2.5, 30.0),
            (Kind::Door, 10.0, 5.0),
            (Kind::Rayon, 2.5, 10.0),
            (Kind::Door, 2.5, 1.0),
            (Kind::Rayon, 2.5, 20.0),
            (Kind::Door, 2.5, 2.0),
        ];
        let rows = rounds.map(|(kind, load, good)| Row::example(kind, load, good)).into();
        let seen: Vec<_> =
            typical(rows).iter().map(|row| (row.kind, row.load, row.good_per_s)).collect();
        assert_eq!(
            seen,
            [(Kind::Door, 2.5, 1.0), (Kind::Rayon, 2.5, 20.0), (Kind::Door, 10.0, 5.0)]
        );
        assert!(typical(Vec::new()).is_empty());
    }
}
