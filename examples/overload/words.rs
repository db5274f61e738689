//! What the rows say, in words.

use std::time::Duration;

use crate::numbers::{binary_size, milliseconds, or_dash, percent, tenths};
use crate::outcome::IN_TIME;
use crate::pools::Kind;
use crate::row::Row;

/// Below capacity, a share in time of less than this says that the machine had other work.
const QUIET_SHARE: f64 = 0.95;

/// What the door should keep of the best rate of good answers, and at which loads.
const GOAL: f64 = 0.9;
const GOAL_LOADS: [f64; 2] = [2.5, 10.0];

/// A generator that was later than this deserves a word.
const NOTABLE_LAG_MS: f64 = 5.0;

/// A flooded process that got less than this of its cores had neighbours.
const ALONE_SHARE: f64 = 0.95;

/// What all rows have in common.
pub(crate) struct Setting {
    pub(crate) input_len: usize,
    pub(crate) folder: String,
    pub(crate) piece_len: usize,
    pub(crate) job_time: Duration,
    pub(crate) workers: usize,
    /// Jobs per second.
    pub(crate) capacity: f64,
    /// Of the weirpools; none: their default.
    pub(crate) slots: Option<usize>,
    pub(crate) period: Duration,
    pub(crate) rounds: usize,
}

impl Setting {
    pub(crate) fn sentences(&self) -> [String; 3] {
        let slots = self
            .slots
            .map_or_else(|| "64 slots per worker".to_owned(), |slots| format!("{slots} slots"));
        let median = match self.rounds {
            1 => String::new(),
            rounds => format!("; the median of {rounds} rounds"),
        };
        [
            format!(
                "{} of input from {}; a job compresses and hashes {} in {:.2} ms.",
                binary_size(self.input_len as f64),
                self.folder,
                binary_size(self.piece_len as f64),
                milliseconds(self.job_time),
            ),
            format!(
                "{} workers in each pool; capacity {:.0} jobs/s; {slots} in weirpool.",
                self.workers, self.capacity
            ),
            format!("{} s for each row{median}.", self.period.as_secs_f64()),
        ]
    }

    pub(crate) fn findings(&self, rows: &[Row]) -> Vec<String> {
        let highest = rows.iter().map(|row| row.load).fold(0.0, f64::max);
        let flooded: Vec<_> =
            rows.iter().filter(|row| row.load >= 1.0 && row.load == highest).collect();
        [about_calm(rows), self.about_peak(rows)]
            .into_iter()
            .flatten()
            .chain(about_goal(rows))
            .chain(self.about_goodput(&flooded))
            .chain(self.about_use(&flooded))
            .chain(about_accepted(&flooded))
            .chain(self.about_longest_queue(&flooded))
            .chain(self.about_refusals(&flooded))
            .chain(about_generator(rows))
            .chain(self.about_neighbours(rows))
            .collect()
    }

    fn about_peak(&self, rows: &[Row]) -> Option<String> {
        let best = peak(rows)?;
        Some(format!(
            "Peak, the best rate of good answers of any pool at any load: {:.0}/s, {} of capacity \
             ({} at {}x).",
            best.good_per_s,
            percent(best.good_share),
            best.pool,
            best.load
        ))
    }

    fn about_goodput(&self, flooded: &[&Row]) -> Option<String> {
        let load = flooded.first()?.load;
        let mut ranked = flooded.to_vec();
        ranked.sort_by(|a, b| b.good_per_s.total_cmp(&a.good_per_s));
        let shares: Vec<_> = ranked
            .iter()
            .map(|row| format!("{} {:.0} ({})", row.pool, row.good_per_s, percent(row.good_share)))
            .collect();
        Some(format!(
            "At {load}x, good answers per second (within {} ms; of capacity): {}.",
            IN_TIME.as_millis(),
            shares.join(", ")
        ))
    }

    /// Beside the rates, which depend on how much of the machine a row got: what it made of that.
    fn about_use(&self, flooded: &[&Row]) -> Option<String> {
        let load = flooded.first()?.load;
        let mut shares: Vec<_> = flooded
            .iter()
            .filter_map(|row| {
                let used = row.process_cores.filter(|&cores| cores > 0.0)?;
                Some((row.pool, row.good_per_s * self.job_time.as_secs_f64() / used))
            })
            .collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        let shares: Vec<_> =
            shares.iter().map(|(pool, share)| format!("{pool} {}", percent(*share))).collect();
        (!shares.is_empty()).then(|| {
            format!(
                "Of the processor time used at {load}x, load generator included, so much went into good \
                 answers, by the time a job typically takes: {}.",
                shares.join(", ")
            )
        })
    }

    fn about_longest_queue(&self, flooded: &[&Row]) -> Option<String> {
        let row = flooded.iter().max_by_key(|row| row.queue_peak)?;
        if row.refused > 0 {
            return None;
        }
        let bodies = binary_size((row.queue_peak * self.piece_len) as f64);
        Some(format!(
            "{} refused nothing, and {} jobs came to wait in it; had each owned its input, as \
             requests do, they would have held {bodies}.",
            row.pool, row.queue_peak
        ))
    }

    /// What the refusals cost, and what that leaves by the formula of anybody who refuses.
    fn about_refusals(&self, flooded: &[&Row]) -> Option<String> {
        let costs: Vec<_> = flooded
            .iter()
            .filter_map(|row| Some(format!("{} {} ns", row.pool, row.refusal_ns?)))
            .collect();
        let dearest = flooded.iter().filter_map(|row| row.refusal_ns).max()?;
        let load = flooded.first()?.load;
        // Workers share the serving; whoever refuses takes its processor time from all of them.
        let r = dearest as f64 / self.job_time.as_nanos().max(1) as f64;
        let left = ((1.0 - load * r) / (1.0 - r)).clamp(0.0, 1.0);
        Some(format!(
            "A refused call took, in the median: {}. By goodput = (1 - k r)/(1 - r), with k = {load} \
             times the capacity offered and r = refusal cost / service time, the dearest of these \
             leaves {} of the capacity to good answers; what else is missing is the generator's.",
            costs.join(", "),
            percent(left)
        ))
    }

    fn about_neighbours(&self, rows: &[Row]) -> Option<String> {
        let got = rows.iter().filter(|row| row.load >= 2.0).filter_map(|row| row.process_cores);
        let least = got.min_by(f64::total_cmp)?;
        (least < ALONE_SHARE * self.workers as f64).then(|| {
            format!(
                "In one of the overloaded rows this process got only {least:.2} cores for its {} \
                 workers: others used the machine, so take the figures with care.",
                self.workers
            )
        })
    }
}

pub(crate) fn peak(rows: &[Row]) -> Option<&Row> {
    rows.iter().max_by(|a, b| a.good_per_s.total_cmp(&b.good_per_s))
}

/// Whether those with a door keep what they should, whatever the answer is.
fn about_goal(rows: &[Row]) -> Option<String> {
    let peak = peak(rows)?.good_per_s;
    let shares: Vec<_> = rows
        .iter()
        .filter(|row| Kind::DOORS.contains(&row.kind) && GOAL_LOADS.contains(&row.load))
        .map(|row| {
            let share = row.good_per_s / peak.max(1.0);
            let verdict = if share >= GOAL { "met" } else { "missed" };
            format!("{} at {}x {} ({verdict})", row.pool, row.load, percent(share))
        })
        .collect();
    let goal = percent(GOAL);
    (!shares.is_empty()).then(|| format!("Of that peak (goal: {goal}): {}.", shares.join(", ")))
}

fn about_calm(rows: &[Row]) -> Option<String> {
    let calm = rows.iter().filter(|row| row.load < 1.0);
    let worst = calm.min_by(|a, b| a.share_in_time().total_cmp(&b.share_in_time()))?;
    let share = percent(worst.share_in_time());
    Some(if worst.share_in_time() >= QUIET_SHARE {
        format!(
            "At {}x there is room for all: no pool finished less than {share} of the jobs in time.",
            worst.load
        )
    } else {
        format!(
            "At {}x {} finished only {share} of the jobs in time: the machine probably had other \
             work meanwhile, so take the figures with care.",
            worst.load, worst.pool
        )
    })
}

fn about_accepted(flooded: &[&Row]) -> Option<String> {
    let row = flooded.iter().find(|row| row.refused > 0)?;
    let refused = percent(row.refused as f64 / row.offered as f64);
    Some(format!(
        "{} said no to {refused} of the arrivals; what it took was answered within {} ms at p99, and \
         never more than {} jobs waited.",
        row.pool,
        or_dash(row.p99_ms, tenths),
        row.queue_peak
    ))
}

fn about_generator(rows: &[Row]) -> Option<String> {
    let cpu = rows.iter().filter_map(|row| row.generator_cpu).max_by(f64::total_cmp);
    let lag = rows.iter().map(|row| row.generator_lag_ms).max_by(f64::total_cmp)?;
    let late = if lag > NOTABLE_LAG_MS { "; the latencies include that" } else { "" };
    Some(format!(
        "The load generator shares the cores with the pools: it needed up to {} of one core, and was \
         up to {} ms late{late}.",
        or_dash(cpu, percent),
        tenths(lag)
    ))
}
