//! Stories as lines of words.

use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::task::{Poll, Waker};
use std::time::Duration;

use weirpool::breaker::{Builder, CallError, CallPermit, CircuitBreaker, Open, Verdict};

use super::common::clocks::JumpyClock;
use super::common::{poll, quiet_panic};

/// An error, by what it says about the dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Its,
    Mine,
}

pub(crate) type Outcome = Result<(), Fault>;

/// Whoever is at fault is to blame.
pub(crate) fn blame(outcome: &Outcome) -> Verdict {
    match outcome {
        Ok(()) => Verdict::Success,
        Err(Fault::Its) => Verdict::Failure,
        Err(Fault::Mine) => Verdict::Ignore,
    }
}

pub(crate) type Blaming = CircuitBreaker<fn(&Outcome) -> Verdict>;

pub(crate) fn blaming(builder: Builder) -> Blaming {
    builder.classifier(blame as fn(&Outcome) -> Verdict).build().unwrap()
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Succeeds,
    Fails,
    IsIgnored,
    Panics,
    IsGivenUp,
}

impl End {
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "S" => Self::Succeeds,
            "F" => Self::Fails,
            "I" => Self::IsIgnored,
            "P" => Self::Panics,
            "C" => Self::IsGivenUp,
            _ => return None,
        })
    }

    /// What a body does that ends so.
    fn play(self) -> Outcome {
        match self {
            Self::Succeeds => Ok(()),
            Self::Fails => Err(Fault::Its),
            Self::IsIgnored => Err(Fault::Mine),
            Self::Panics => quiet_panic(),
            Self::IsGivenUp => unreachable!("a body can't give itself up"),
        }
    }
}

/// By which of the breaker's faces calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Face {
    Plain,
    Future,
    Permit,
}

pub(crate) const FACES: [Face; 3] = [Face::Plain, Face::Future, Face::Permit];

type CallFuture = Pin<Box<dyn Future<Output = Result<(), CallError<Fault>>>>>;

/// A call that has begun; a future with the place where its body will read how it ends.
pub(crate) enum Begun {
    Permit(CallPermit),
    Future(CallFuture, Arc<AtomicU8>),
}

const PENDING: u8 = u8::MAX;

fn call_future(breaker: &Blaming) -> (CallFuture, Arc<AtomicU8>) {
    let end = Arc::new(AtomicU8::new(PENDING));
    let body = {
        let end = Arc::clone(&end);
        std::future::poll_fn(move |_| match end.load(SeqCst) {
            PENDING => Poll::Pending,
            end => Poll::Ready(
                [End::Succeeds, End::Fails, End::IsIgnored, End::Panics][usize::from(end)].play(),
            ),
        })
    };
    (Box::pin(breaker.call_async(body)), end)
}

/// Begins a call that stays inside.
pub(crate) fn begin(breaker: &Blaming, face: Face) -> Result<Begun, Open> {
    if face != Face::Future {
        return breaker.try_acquire().map(Begun::Permit);
    }
    let (mut future, end) = call_future(breaker);
    match poll(&mut future, Waker::noop()) {
        Poll::Pending => Ok(Begun::Future(future, end)),
        Poll::Ready(Err(CallError::Open(open))) => Err(open),
        Poll::Ready(other) => panic!("it cannot have ended: {other:?}"),
    }
}

impl Begun {
    pub(crate) fn end(self, end: End) {
        match self {
            Self::Permit(permit) => match end {
                End::Succeeds => permit.success(),
                End::Fails => permit.failure(),
                End::IsIgnored => permit.ignore(),
                End::IsGivenUp => drop(permit),
                End::Panics => {
                    let unwound = catch_unwind(AssertUnwindSafe(|| {
                        let _permit = permit;
                        quiet_panic()
                    }));
                    assert!(unwound.is_err());
                }
            },
            Self::Future(future, _) if end == End::IsGivenUp => drop(future),
            Self::Future(mut future, how) => {
                how.store(end as u8, SeqCst);
                let ended = catch_unwind(AssertUnwindSafe(|| poll(&mut future, Waker::noop())));
                match (end, ended) {
                    (End::Panics, Err(_)) => {}
                    (_, Ok(Poll::Ready(result))) => {
                        assert_eq!(result, end.play().map_err(CallError::Failed));
                    }
                    (_, other) => panic!("{end:?}: {other:?}"),
                }
            }
        }
    }
}

/// Makes a call and ends it.
pub(crate) fn call(breaker: &Blaming, face: Face, end: End) -> Result<(), Open> {
    if face != Face::Plain || end == End::IsGivenUp {
        return begin(breaker, face).map(|begun| begun.end(end));
    }
    match catch_unwind(|| breaker.call(|| end.play())) {
        Err(_) => assert_eq!(end, End::Panics, "a panic of unknown origin"),
        Ok(Err(CallError::Open(open))) => return Err(open),
        Ok(result) => assert_eq!(result, end.play().map_err(CallError::Failed)),
    }
    Ok(())
}

fn duration(word: &str) -> Duration {
    let digits = word.find(|c: char| !c.is_ascii_digit()).expect("a number and a unit");
    let (number, unit) = word.split_at(digits);
    let number: u64 = number.parse().expect("a number");
    match unit {
        "ns" => Duration::from_nanos(number),
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "h" => Duration::from_secs(number * 3_600),
        "d" => Duration::from_secs(number * 86_400),
        _ => panic!("unknown unit in {word}"),
    }
}

/// Tells a story with each face and fails where the breaker does something else. The words:
///
/// | | |
/// |---|---|
/// | `S` `F` `I` `P` `C` | a call that succeeds, fails, is ignored, panics, is given up; it must be let in |
/// | `R`, `R:10s`, `R:never` | a call that must be refused, with this hint |
/// | `a=`, `a.S` | call `a` begins and must be let in; it ends with success (or `F`, `I`, `P`, `C`) |
/// | `100*F` | a hundred times |
/// | `+10s`, `-1h` | the clock goes on, or is set back |
/// | `closed`, `half-open`, ... | the breaker must be in this state |
/// | `5/4/0` | the window must hold 5 calls, of which 4 failed and none was slow |
/// | `force-open`, `force-closed`, `automatic` | the operator says so |
pub(crate) fn check(story: &str, build: impl Fn() -> Builder, script: &str) {
    for face in FACES {
        let clock = JumpyClock::new();
        let breaker = blaming(build().clock(clock.clone()));
        let mut begun = HashMap::new();
        for (at, word) in script.split_whitespace().enumerate() {
            let here = || format!("{story}, by {face:?}, at word {at}, {word}: {breaker:?}");
            let (times, word) = match word.split_once('*') {
                Some((times, word)) => (times.parse().expect("how many times"), word),
                None => (1, word),
            };
            for _ in 0..times {
                play(&breaker, face, &clock, &mut begun, word, &here);
            }
        }
    }
}

fn play<'a>(
    breaker: &Blaming,
    face: Face,
    clock: &JumpyClock,
    begun: &mut HashMap<&'a str, Begun>,
    word: &'a str,
    here: &dyn Fn() -> String,
) {
    if let Some(end) = End::of(word) {
        assert!(call(breaker, face, end).is_ok(), "{}", here());
    } else if let Some(hint) = word.strip_prefix('R') {
        let refused = breaker.snapshot().refused;
        let open = call(breaker, face, End::Succeeds).expect_err(&here());
        assert_eq!(breaker.snapshot().refused, refused + 1, "{}", here());
        match hint.strip_prefix(':') {
            None => {}
            Some("never") => assert_eq!(open.retry_after(), None, "{}", here()),
            Some(hint) => assert_eq!(open.retry_after(), Some(duration(hint)), "{}", here()),
        }
    } else if let Some(name) = word.strip_suffix('=') {
        begun.insert(name, begin(breaker, face).unwrap_or_else(|_| panic!("{}", here())));
    } else if let Some((name, end)) = word.split_once('.') {
        let call = begun.remove(name).expect("it has begun");
        call.end(End::of(end).expect("how it ends"));
    } else if let Some(by) = word.strip_prefix('+') {
        clock.advance(duration(by));
    } else if let Some(by) = word.strip_prefix('-') {
        clock.jump_back(duration(by));
    } else if word.contains('/') {
        let counts = breaker.snapshot().counts;
        let seen = format!("{}/{}/{}", counts.calls, counts.failures, counts.slow);
        assert_eq!(seen, word, "{}", here());
    } else {
        match word {
            "force-open" => breaker.force_open(),
            "force-closed" => breaker.force_closed(),
            "automatic" => breaker.automatic(),
            state => {
                assert_eq!(breaker.state().to_string().replace(' ', "-"), state, "{}", here());
                assert_eq!(breaker.snapshot().state, breaker.state(), "{}", here());
            }
        }
    }
}
