//! A circuit breaker around a dependency that jobs call, with a value to fall back on.
//!
//! You want this where the body of a job calls something that can fail as a whole: a database, another service. Without a
//! breaker every job waits for the same failure, on a worker that others need. Here the price service is down from second 5
//! to second 30. The clock is moved by hand, so that the story is over at once and the same each time.
//!
//! ```text
//! cargo run --release --example breaker
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weirpool::breaker::{CircuitBreaker, Transition};
use weirpool::test::ManualClock;
use weirpool::{Clock, Pool};

const DOWN_FROM: Duration = Duration::from_secs(5);
const DOWN_UNTIL: Duration = Duration::from_secs(30);

/// What to say while the service can't be asked.
const YESTERDAYS_PRICE: u32 = 100;

/// A service far away that is sometimes down.
struct PriceService {
    clock: ManualClock,
    start: Instant,
    asked: AtomicUsize,
}

impl PriceService {
    fn price(&self) -> Result<u32, &'static str> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let now = self.clock.now() - self.start;
        if (DOWN_FROM..DOWN_UNTIL).contains(&now) { Err("connection refused") } else { Ok(117) }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let clock = ManualClock::new();
    let start = clock.now();
    let breaker = CircuitBreaker::builder()
        .min_volume(10)
        .cool_down(Duration::from_secs(5))
        .cool_down_growth(2.0, Duration::from_secs(60))
        .probes(2)
        .clock(clock.clone())
        .on_transition({
            let clock = clock.clone();
            move |change: &Transition| {
                let second = (clock.now() - start).as_secs_f64();
                print!("{second:5.2} s: {} -> {}", change.from, change.to);
                if let Some(rate) = change.counts.failure_rate() {
                    print!(", {:.0} % of {} calls failed", rate * 100.0, change.counts.calls);
                }
                match change.cool_down {
                    Some(cool_down) => println!(", no calls for {cool_down:?}"),
                    None => println!(),
                }
            }
        })
        .build()?;
    let service =
        Arc::new(PriceService { clock: clock.clone(), start, asked: AtomicUsize::new(0) });
    let pool =
        Pool::builder().name("prices").workers(2).capacity(16).clock(clock.clone()).build()?;

    let (mut fresh, mut old, mut errors) = (0, 0, 0);
    // Four requests a second for a minute.
    for _ in 0..240 {
        let (breaker, service) = (breaker.clone(), Arc::clone(&service));
        let job = pool
            .try_submit(move || breaker.call_or(YESTERDAYS_PRICE, || service.price()))
            .map_err(weirpool::Refusal::from)?;
        match job.join()? {
            Ok(YESTERDAYS_PRICE) => old += 1,
            Ok(_) => fresh += 1,
            Err(_) => errors += 1,
        }
        clock.advance(Duration::from_millis(250));
    }

    println!("240 requests: {fresh} fresh prices, {old} of yesterday, {errors} errors");
    println!("the service was asked {} times", service.asked.load(Ordering::Relaxed));
    Ok(())
}
