//! Twenty clients ask a server over TCP for two and a half times what it can do, with and without a
//! `Pacer`.
//!
//! ```text
//! cargo run --release --example pacing -- --seconds 6
//! ```
//!
//! The server has a weirpool pool behind it. A request that gets no slot is answered at once: refused,
//! with `retry-after` and a load report, as an HTTP server would do it. The clients read both.

mod client;
mod options;
mod report;
mod server;
mod wire;

use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use client::{Client, Manner};
use options::{HELP, Options};
use report::Figures;
use server::Server;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// All clients for a while against one new server.
fn measure(options: &Options, manner: Manner) -> Result<Figures, AnyError> {
    let server = Server::start(options)?;
    let address = server.address();
    let begun = Instant::now();
    let end = begun + Duration::from_secs_f64(options.seconds);
    let per_s = options.load * options.capacity_per_s() / options.clients as f64;
    let clients: Vec<_> = (0..options.clients as u64)
        .map(|number| {
            let seed = options.seed.wrapping_add(number);
            thread::spawn(move || Client::new(address, manner, per_s, seed).run(end))
        })
        .collect();
    let mut all = Figures::new(begun);
    for client in clients {
        all.add(client.join().map_err(|_| "a client panicked")??);
    }
    server.stop();
    Ok(all)
}

fn run(options: &Options) -> Result<(), AnyError> {
    println!(
        "{} clients ask for {:.1} times the {:.0} requests a second that the server can do, for {} s",
        options.clients,
        options.load,
        options.capacity_per_s(),
        options.seconds,
    );
    report::print_header();
    for (name, manner) in [("without", Manner::Naive), ("with Pacer", Manner::Paced)] {
        measure(options, manner)?.print(name, options);
    }
    Ok(())
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(wrong) => {
            eprintln!("{wrong}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
