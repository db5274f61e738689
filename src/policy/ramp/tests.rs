use super::super::ema::Ema;
use super::*;

/// A source of random numbers that needs nothing: SplitMix64.
struct Random(u64);

impl Random {
    /// From 0 to below 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((bits ^ (bits >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// About normally distributed with mean 0 and deviation 1: twelve uniform numbers, summed.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.next()).sum::<f64>() - 6.0
    }
}

/// Whether one job is refused at this CPU use, by a random number from 0 to below 1.
fn refuses(ramp: &Ramp, busy: f64, urgency: Urgency, random: f64) -> bool {
    random < share_of(urgency, ramp.share(Some(busy)))
}

#[test]
fn linear_between_the_bounds() {
    let ramp = Ramp::new(0.7, 0.9).unwrap();
    for (busy, share) in [
        (Some(0.65), 0.0),
        (Some(0.70), 0.0),
        (Some(0.75), 0.25),
        (Some(0.80), 0.5),
        (Some(0.90), 1.0),
        (Some(1.5), 1.0),
        (Some(f64::INFINITY), 1.0),
        (Some(-1.0), 0.0),
        (Some(f64::NAN), 0.0),
        (None, 0.0),
    ] {
        let is = ramp.share(busy);
        assert!((is - share).abs() < 1e-9, "{is} instead of {share} at {busy:?}");
    }
}

#[test]
fn equal_bounds_are_a_step() {
    let ramp = Ramp::new(0.8, 0.8).unwrap();
    assert_eq!(ramp.share(Some(0.79)), 0.0);
    assert_eq!(ramp.share(Some(0.80)), 1.0);
    let full = Ramp::new(1.0, 1.0).unwrap();
    assert_eq!((full.share(Some(0.999)), full.share(Some(1.0))), (0.0, 1.0));
}

#[test]
fn a_bad_bound_is_named_with_its_value() {
    for (lo, hi, setting) in [
        (0.9, 0.7, "hi"),
        (f64::NAN, 0.9, "lo"),
        (0.7, f64::NAN, "hi"),
        (0.0, 0.9, "lo"),
        (-0.1, 0.9, "lo"),
        (0.7, 1.1, "hi"),
        (1.1, 1.2, "lo"),
        (0.7, f64::INFINITY, "hi"),
    ] {
        let bad = Ramp::new(lo, hi).unwrap_err();
        assert_eq!(bad.setting, setting, "{lo}, {hi}");
        let value = if setting == "lo" { lo } else { hi };
        assert_eq!(bad.value.to_bits(), value.to_bits());
    }
}

#[test]
fn high_priority_and_exempt_work_is_not_shed_like_the_rest() {
    let ramp = Ramp::new(0.7, 0.9).unwrap();
    let mut random = Random(7);
    let refused = Urgency::ALL
        .map(|urgency| (0..10_000).filter(|_| refuses(&ramp, 0.8, urgency, random.next())).count());
    let [low, normal, high, critical] = refused;
    assert!((7_350..=7_650).contains(&low), "{low}");
    assert!((4_850..=5_150).contains(&normal), "{normal}");
    assert!((2_350..=2_650).contains(&high), "{high}");
    assert_eq!(critical, 0);
}

#[test]
fn the_order_of_urgency_holds_at_every_use() {
    for step in 0..=100 {
        let share = f64::from(step) / 100.0;
        let shares = Urgency::ALL.map(|urgency| share_of(urgency, share));
        assert!(shares.is_sorted_by(|low, high| low >= high), "{shares:?}");
        assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)), "{shares:?}");
    }
}

#[test]
fn the_ends_leave_nothing_to_chance() {
    let ramp = Ramp::new(0.8, 0.95).unwrap();
    let almost_one = 1.0 - f64::EPSILON / 2.0;
    for urgency in [Urgency::Low, Urgency::Normal, Urgency::High] {
        assert!(refuses(&ramp, 0.95, urgency, almost_one));
        assert!(!refuses(&ramp, 0.80, urgency, 0.0));
    }
    assert!(!refuses(&ramp, 1.0, Urgency::Critical, 0.0));
}

#[test]
fn each_step_does_what_it_says_and_what_came_before() {
    let steps = Steps::default();
    for (busy, halves, low, normal) in [
        (None, false, false, false),
        (Some(f64::NAN), false, false, false),
        (Some(0.70), false, false, false),
        (Some(0.71), true, false, false),
        (Some(0.80), true, false, false),
        (Some(0.81), true, true, false),
        (Some(0.85), true, true, false),
        (Some(0.86), true, true, true),
        (Some(f64::INFINITY), true, true, true),
    ] {
        let level = steps.level(busy);
        assert_eq!(level.halves(), halves, "{busy:?}");
        assert_eq!(level.refuses(Urgency::Low), low, "{busy:?}");
        assert_eq!(level.refuses(Urgency::Normal), normal, "{busy:?}");
        assert_eq!(level.refuses(Urgency::High), normal, "{busy:?}");
        assert!(!level.refuses(Urgency::Critical));
    }
}

#[test]
fn steps_out_of_order_are_refused_by_name() {
    for (halve, drop_low, refuse, setting) in [
        (0.0, 0.8, 0.9, "halve"),
        (f64::NAN, 0.8, 0.9, "halve"),
        (0.8, 0.7, 0.9, "drop_low"),
        (0.7, 0.8, 0.75, "refuse"),
        (0.7, 0.8, 1.01, "refuse"),
    ] {
        assert_eq!(Steps::new(halve, drop_low, refuse).unwrap_err().setting, setting);
    }
    assert_eq!(Steps::new(0.7, 0.8, 0.85), Ok(Steps::default()));
    assert!(Steps::new(0.8, 0.8, 0.8).is_ok());
}

/// A pool of eight workers with 1 ms jobs, `load` times as many of them as it can do, behind a ramp
/// that is always armed: sampled each 100 ms for 20 minutes. Mean and deviation of the refused share
/// once it had a minute to settle.
fn settle(load: f64, tau_ns: u64) -> (f64, f64) {
    const SAMPLE_NS: u64 = 100_000_000;
    const JOBS_PER_SAMPLE: f64 = 800.0;
    let ramp = Ramp::new(0.80, 0.95).unwrap();
    let mut ema = Ema::new(tau_ns);
    let mut random = Random(42);
    let (mut queued, mut shares) = (0.0, Vec::new());
    for sample in 1..=12_000 {
        let share = ramp.share(ema.value());
        // Arrivals vary as a Poisson process does; what isn't done waits, 64 slots per worker.
        let expected = load * JOBS_PER_SAMPLE * (1.0 - share);
        let admitted = (expected + expected.sqrt() * random.normal()).max(0.0);
        let work = queued + admitted;
        let done = work.min(JOBS_PER_SAMPLE);
        queued = (work - done).min(512.0);
        ema.add(sample * SAMPLE_NS, done / JOBS_PER_SAMPLE);
        if sample > 600 {
            shares.push(share);
        }
    }
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>();
    (mean, (variance / shares.len() as f64).sqrt())
}

#[test]
fn the_default_ramp_settles_at_twice_five_and_ten_times_the_load() {
    const TAU_NS: u64 = 4_000_000_000;
    for load in [2.0, 5.0, 10.0] {
        let (mean, deviation) = settle(load, TAU_NS);
        assert!(deviation < 0.1, "deviation {deviation} at {load}");
        // The use stands where the ramp refuses exactly what is too much for it.
        let use_at_rest = load * (1.0 - mean);
        let use_on_ramp = 0.80 + 0.15 * mean;
        assert!((use_at_rest - use_on_ramp).abs() < 0.06, "{use_at_rest}, {use_on_ramp} at {load}");
    }
}

#[test]
fn beyond_the_bound_the_loop_swings() {
    // An average over 0.4 s has a share of 0.22 per sample, more than the 0.0296 that ten times the
    // load allows.
    let (_, deviation) = settle(10.0, 400_000_000);
    assert!(deviation > 0.2, "{deviation}");
}
