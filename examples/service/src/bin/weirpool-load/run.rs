//! The two loops: open, as callers who know nothing of each other; closed, to find the capacity.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout, timeout_at};

use crate::connection::Target;
use crate::options::Options;
use crate::plan::{Kind, Plan, pick};
use crate::tally::{End, Tally};

const MEMORY_PERIOD: Duration = Duration::from_secs(1);

/// After a refusal a caller of the closed loop takes a breath, so as not to burn the server's CPU.
const RETRY_TIME: Duration = Duration::from_millis(2);

/// The requests, made once.
struct Requests {
    password: Vec<u8>,
    thumbnail: Vec<u8>,
    health: Vec<u8>,
}

impl Requests {
    fn new(target: &Target, options: &Options) -> Self {
        let picture = if options.is_upload { picture() } else { Vec::new() };
        let login = b"user=ada&password=correct+horse";
        Self {
            password: target.request("POST", "/password", login),
            thumbnail: target.request("POST", "/thumbnail", &picture),
            health: target.request("GET", "/healthz", b""),
        }
    }

    fn of(&self, kind: Kind) -> &[u8] {
        match kind {
            Kind::Password => &self.password,
            Kind::Thumbnail => &self.thumbnail,
            Kind::Health => &self.health,
        }
    }
}

/// A picture to send.
fn picture() -> Vec<u8> {
    let mut jpeg = Vec::new();
    let waves = image::RgbImage::from_fn(800, 600, |x, y| {
        let wave = (x as f32 / 40.0).sin() * (y as f32 / 30.0).cos();
        image::Rgb([(128.0 + 100.0 * wave) as u8, (x / 4) as u8, (y / 4) as u8])
    });
    let encoder = image::codecs::jpeg::JpegEncoder::new(&mut jpeg);
    match waves.write_with_encoder(encoder) {
        Ok(()) => jpeg,
        Err(error) => unreachable!("a vector takes any JPEG: {error}"),
    }
}

/// Sends what is due when it is due, and waits for what is under way.
pub(crate) async fn open_loop(target: &Target, plan: Plan, options: &Options) -> Tally {
    let requests = Requests::new(target, options);
    let tally = RefCell::new(Tally::new(options.deadline));
    let send = |kind, due: Instant| {
        let requests = &requests;
        async move {
            let end = call(target, requests.of(kind), due + options.patience).await;
            (kind, due.elapsed(), end)
        }
    };
    let sending = async {
        let begin = Instant::now();
        let mut under_way = FuturesUnordered::new();
        for due in plan {
            let at = begin + due.at;
            // Only what is early waits; what is late goes out at once, and its delay counts.
            while Instant::now() < at {
                tokio::select! {
                    biased;
                    () = sleep_until(at) => break,
                    Some((kind, took, end)) = under_way.next() => {
                        tally.borrow_mut().add(kind, took, end);
                    }
                }
            }
            under_way.push(send(due.kind, at));
        }
        while let Some((kind, took, end)) = under_way.next().await {
            tally.borrow_mut().add(kind, took, end);
        }
    };
    tokio::select! {
        () = sending => {}
        () = watch_memory(target, &tally) => {}
    }
    let memory = resident_bytes(target).await;
    tally.borrow_mut().memory.extend(memory);
    tally.into_inner()
}

/// Good answers a second, to so many callers that ask again as soon as they have an answer.
pub(crate) async fn closed_loop(
    target: &Target,
    options: &Options,
    callers: usize,
    time: Duration,
) -> f64 {
    let requests = Requests::new(target, options);
    let passwords = options.mix.password / (options.mix.password + options.mix.thumbnail);
    let good = Cell::new(0_u32);
    let begin = Instant::now();
    let ask = |seed| {
        let (requests, good) = (&requests, &good);
        async move {
            let mut random = fastrand::Rng::with_seed(seed);
            // A refused kind is asked for again: else the cheaper or more urgent one would prevail.
            let mut kind = pick(&mut random, passwords);
            while begin.elapsed() < time {
                let end = call(target, requests.of(kind), begin + time).await;
                if end == End::Answered(200) {
                    good.set(good.get() + 1);
                    kind = pick(&mut random, passwords);
                } else {
                    sleep(RETRY_TIME).await;
                }
            }
        }
    };
    let mut asking: FuturesUnordered<_> = (0..callers as u64).map(ask).collect();
    while asking.next().await.is_some() {}
    f64::from(good.get()) / begin.elapsed().as_secs_f64()
}

async fn call(target: &Target, request: &[u8], until: Instant) -> End {
    match timeout_at(until, target.call(request)).await {
        Ok(Ok(answer)) if answer.is_shed => End::Shed,
        Ok(Ok(answer)) => End::Answered(answer.status),
        Ok(Err(_broken)) => End::Broken,
        Err(_late) => End::GivenUp,
    }
}

/// Asks for the server's memory about once a second, and never ends.
async fn watch_memory(target: &Target, tally: &RefCell<Tally>) {
    let mut ticks = interval(MEMORY_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let memory = resident_bytes(target).await;
        tally.borrow_mut().memory.extend(memory);
    }
}

/// As the server's `/metrics` has it.
async fn resident_bytes(target: &Target) -> Option<f64> {
    let request = target.request("GET", "/metrics", b"");
    let answer = timeout(MEMORY_PERIOD, target.call(&request)).await.ok()?.ok()?;
    let text = String::from_utf8(answer.body).ok()?;
    let value = |line: &str| line.strip_prefix("process_resident_memory_bytes ")?.parse().ok();
    text.lines().find_map(value)
}
