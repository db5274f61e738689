//! The table.

use std::time::{Duration, Instant};

use crate::client::{Log, Sent};
use crate::options::Options;

/// What all clients together have to tell.
pub(crate) struct Figures {
    begun: Instant,
    clients: Vec<Log>,
}

impl Figures {
    pub(crate) fn new(begun: Instant) -> Self {
        Self { begun, clients: Vec::new() }
    }

    pub(crate) fn add(&mut self, client: Log) {
        self.clients.push(client);
    }

    /// Prints a row about the second half of the time.
    pub(crate) fn print(&self, name: &str, options: &Options) {
        let half = Duration::from_secs_f64(options.seconds / 2.0);
        let from = self.begun + half;
        let wanted: usize =
            self.clients.iter().map(|c| c.wanted.iter().filter(|at| **at >= from).count()).sum();
        let of_client = |client: &Log| -> Vec<Sent> {
            client.sent.iter().copied().filter(|sent| sent.at >= from).collect()
        };
        let by_client: Vec<Vec<Sent>> = self.clients.iter().map(of_client).collect();
        let sent: Vec<Sent> = by_client.iter().flatten().copied().collect();
        let count = |what: fn(&Sent) -> bool| sent.iter().filter(|sent| what(sent)).count() as f64;
        let all = (sent.len() as f64).max(1.0);
        let could = options.capacity_per_s() * half.as_secs_f64();
        let mut latencies: Vec<Duration> =
            sent.iter().filter(|sent| sent.accepted).map(|sent| sent.latency).collect();
        latencies.sort_unstable();
        let shares: Vec<f64> = by_client
            .iter()
            .map(|sent| sent.iter().filter(|sent| sent.accepted).count() as f64)
            .collect();
        println!(
            "{name:<11}{wanted:>7}{:>7}{:>9.2}{:>8.1}%{:>8.0}%{:>8.1}%{:>7.0}{:>7.0}{:>10.2}",
            sent.len(),
            all / could,
            100.0 * count(|sent| !sent.accepted) / all,
            100.0 * count(|sent| sent.accepted) / could,
            100.0 * count(|sent| sent.is_retry) / all,
            quantile_ms(&latencies, 0.50),
            quantile_ms(&latencies, 0.99),
            jain(&shares),
        );
        let crowded: u64 = self.clients.iter().map(|client| client.crowded).sum();
        if crowded > 0 {
            println!("{:<11}({crowded} requests found their client's threads busy)", "");
        }
    }
}

pub(crate) fn print_header() {
    println!(
        "{:<11}{:>7}{:>7}{:>9}{:>9}{:>9}{:>9}{:>7}{:>7}{:>10}",
        "", "wanted", "sent", "of cap.", "refused", "served", "retries", "p50", "p99", "fairness"
    );
}

fn quantile_ms(sorted: &[Duration], share: f64) -> f64 {
    let place = (share * sorted.len() as f64) as usize;
    let latency = sorted.get(place.min(sorted.len().saturating_sub(1)));
    latency.map_or(f64::NAN, |latency| 1000.0 * latency.as_secs_f64())
}

/// Jain's index of fairness.
fn jain(shares: &[f64]) -> f64 {
    let (sum, squares) = shares
        .iter()
        .fold((0.0, 0.0), |(sum, squares), share| (sum + share, squares + share * share));
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}
