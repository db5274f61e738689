//! What clients are told, by HTTP and by gRPC.

mod common;

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, Response, Version};
use weirpool::breaker::{CallError, CircuitBreaker};
use weirpool::load::{LoadReport, RetryAfter, RetryPushback};
use weirpool::service::http::{
    Answer, GrpcCode, TimeUnit, answer, grpc_timeout, report_load, timeout,
};
use weirpool::service::{BoxError, ServiceError};
use weirpool::test::ManualClock;
use weirpool::{JobError, Partition, Pool, Priority, Reason, Refusal, ShedReason, Shutdown};

use common::{eventually, occupy, quiet_panic, resolve};

/// Status, whether there is `Retry-After`, whether the connection closes; code of gRPC.
type Told = (u16, bool, bool, GrpcCode);

const OVERLOADED: Told = (503, true, false, GrpcCode::Unavailable);
const QUOTA: Told = (429, true, false, GrpcCode::ResourceExhausted);
const TOO_LATE: Told = (504, false, false, GrpcCode::DeadlineExceeded);
const CLOSING: Told = (503, false, true, GrpcCode::Unavailable);

const REASONS: [(Reason, Told); 9] = [
    (Reason::Full, OVERLOADED),
    (Reason::Limit, OVERLOADED),
    (Reason::QueueDelay, OVERLOADED),
    (Reason::Cpu, OVERLOADED),
    (Reason::Bytes, OVERLOADED),
    (Reason::Partition, QUOTA),
    (Reason::Deadline, TOO_LATE),
    (Reason::Closed, CLOSING),
    (Reason::Forked, CLOSING),
];

/// What an answer tells, and that its header fields say the same.
#[track_caller]
fn told(answer: Answer) -> Told {
    let response = answer.into_response(Version::HTTP_11, ());
    let headers = response.headers();
    let seconds = headers.get("retry-after").map(|value| value.to_str().unwrap().to_owned());
    assert_eq!(seconds, answer.retry_after().map(|seconds| seconds.to_string()));
    if let Some(RetryAfter::Seconds(seconds)) = answer.retry_after() {
        assert!(seconds >= 1, "asked to come back at once");
    }
    let closes = headers.get("connection").is_some_and(|value| value == "close");
    assert_eq!(closes, answer.closes_connection());
    // HTTP/2 has no such field.
    let http2 = answer.into_response(Version::HTTP_2, ());
    assert!(!http2.headers().contains_key("connection"));

    let grpc = answer.into_grpc_response(());
    assert_eq!(grpc.status(), 200);
    assert_eq!(grpc.headers()["content-type"], "application/grpc");
    assert_eq!(grpc.headers()["grpc-status"], answer.grpc_code().value().to_string());
    let pushback = grpc.headers().get("grpc-retry-pushback-ms");
    let pushback = pushback.map(|value| RetryPushback::parse(value.to_str().unwrap()));
    assert_eq!(pushback.is_some(), answer.grpc_pushback().is_some());
    (response.status().as_u16(), seconds.is_some(), closes, answer.grpc_code())
}

#[test]
fn each_reason_to_refuse_has_its_answer() {
    for (reason, expected) in REASONS {
        assert_eq!(told(Answer::from(reason)), expected, "{reason:?}");
    }
}

#[test]
fn each_way_to_end_without_a_result_has_its_answer() {
    let broken = (500, false, false, GrpcCode::Internal);
    let check = |error: JobError, expected: Told| {
        assert_eq!(told(Answer::from(&error)), expected, "{error:?}");
        let whole = ServiceError::from(error);
        assert_eq!(told(Answer::from(&whole)), expected, "{whole:?}");
    };
    check(JobError::Shed(ShedReason::QueueDelay), OVERLOADED);
    check(JobError::Shed(ShedReason::Displaced), OVERLOADED);
    check(JobError::Shed(ShedReason::Deadline), TOO_LATE);
    check(JobError::Discarded, CLOSING);
    check(JobError::Cancelled, (503, false, false, GrpcCode::Cancelled));
    check(JobError::TooDeep, broken);
    let pool = Pool::new(1, 1).unwrap();
    let panicked = pool.try_submit(|| quiet_panic()).map(|job: weirpool::JobHandle<()>| job);
    check(resolve(panicked.unwrap()).unwrap_err(), broken);
}

#[test]
fn real_refusals_are_answered_with_the_pools_hint() {
    let clock = ManualClock::new();
    let pool = Pool::builder()
        .workers(1)
        .clock(clock.clone())
        .capacity(3)
        .partition("tenant", Partition::new().max(1))
        .max_bytes(10)
        .batch()
        .build()
        .unwrap();
    let tenant = pool.partition("tenant").unwrap();
    let held = pool.job().partition(tenant).try_reserve().unwrap();
    let refused = |refusal: Result<_, Refusal>| told(Answer::from(refusal.map(drop).unwrap_err()));
    assert_eq!(refused(pool.job().partition(tenant).try_reserve()), QUOTA);
    assert_eq!(refused(pool.job().bytes(11).try_reserve()), OVERLOADED);
    assert_eq!(refused(pool.job().timeout(Duration::ZERO).try_reserve()), TOO_LATE);
    let rest = pool.try_reserve_many(2).unwrap();
    let full = pool.try_reserve().unwrap_err();
    assert_eq!(told(Answer::from(full)), OVERLOADED);
    // Nothing is known yet of how long anything takes.
    assert_eq!(Answer::from(full).grpc_pushback(), None);
    drop((held, rest));
    let long = {
        let clock = clock.clone();
        move || clock.advance(Duration::from_millis(2500))
    };
    pool.try_submit(long).unwrap().join().unwrap();
    eventually("the service time is known", || pool.snapshot().mean_service_time.is_some());
    let all = pool.try_reserve_many(3).unwrap();
    let full = Answer::from(pool.try_reserve().unwrap_err());
    assert_eq!(told(full), OVERLOADED);
    // One job's 2.5 s at least, and up to half as much again; three slots are ahead of it at most.
    match (full.retry_after(), full.grpc_pushback()) {
        (Some(RetryAfter::Seconds(seconds)), Some(RetryPushback::After(wait))) => {
            assert!((3..=12).contains(&seconds), "{seconds} s");
            assert!(wait >= Duration::from_millis(2500), "{wait:?}");
        }
        other => panic!("no hint: {other:?}"),
    }
    drop(all);
    pool.close();
    assert_eq!(refused(pool.try_reserve()), CLOSING);
    pool.shutdown(Shutdown::Drain, None);
}

/// An error of somebody's middleware around another.
#[derive(Debug)]
struct Around(BoxError);

impl fmt::Display for Around {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("something is wrong")
    }
}

impl Error for Around {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.0)
    }
}

fn refusal() -> Refusal {
    let pool = Pool::new(1, 1).unwrap();
    let _held = pool.try_reserve().unwrap();
    pool.try_reserve().unwrap_err()
}

#[test]
fn a_shed_error_is_found_however_deep_it_is_boxed() {
    let full = || ServiceError::from(refusal());
    let rejected = || -> BoxError {
        let pool = Pool::new(1, 1).unwrap();
        let _held = pool.try_reserve().unwrap();
        // A closure's type has no name, so its rejection is found by its cause.
        pool.try_submit(|| ()).unwrap_err().into()
    };
    let boxed: [BoxError; 11] = [
        full().into(),
        Box::new(Box::new(full())),
        Box::new(Arc::new(full())),
        Box::new(Around(full().into())),
        Box::new(Around(Box::new(Around(Box::new(Box::new(full())))))),
        Box::new(std::io::Error::other(full())),
        Box::new(Around(Box::new(std::io::Error::other(Around(full().into()))))),
        refusal().into(),
        Box::new(Around(Box::new(Box::new(refusal())))),
        rejected(),
        Box::new(std::io::Error::other(rejected())),
    ];
    for error in boxed {
        assert_eq!(Answer::of_error(&*error).map(told), Some(OVERLOADED), "{error:?}");
    }
    let shed = Around(Box::new(JobError::Shed(ShedReason::Deadline)));
    assert_eq!(Answer::of_error(&shed).map(told), Some(TOO_LATE));
}

#[test]
fn an_open_breaker_is_unavailable() {
    let breaker = CircuitBreaker::new();
    breaker.force_open();
    let open = breaker.try_acquire().unwrap_err();
    assert_eq!(told(Answer::from(open)), OVERLOADED);
    let error: CallError<fmt::Error> = breaker.call(|| Err::<(), _>(fmt::Error)).unwrap_err();
    let error = Around(error.into());
    assert_eq!(Answer::of_error(&error).map(told), Some(OVERLOADED));
}

#[test]
fn a_services_own_errors_are_not_ours_to_answer() {
    let own: [BoxError; 4] = [
        Box::new(fmt::Error),
        Box::new(Around(Box::new(fmt::Error))),
        Box::new(std::io::Error::from(std::io::ErrorKind::NotFound)),
        Box::new(CallError::Failed(fmt::Error)),
    ];
    for error in own {
        assert_eq!(Answer::of_error(&*error), None, "{error:?}");
        assert!(ServiceError::find(&*error).is_none());
    }
    /// Its cause is itself.
    #[derive(Debug)]
    struct Circle;
    impl fmt::Display for Circle {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("round and round")
        }
    }
    impl Error for Circle {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(self)
        }
    }
    assert_eq!(Answer::of_error(&Circle), None);
}

#[test]
fn the_ready_made_responder_goes_by_the_requests_version() {
    let pool = Pool::new(1, 1).unwrap();
    pool.close();
    let closed = pool.try_reserve().unwrap_err();
    let mut request = Request::new(());
    let response: Response<Vec<u8>> = answer(&request, closed);
    assert_eq!((response.status().as_u16(), response.body().len()), (503, 0));
    assert_eq!(response.headers()["connection"], "close");
    *request.version_mut() = Version::HTTP_2;
    let response: Response<String> = answer(&request, closed);
    assert!(!response.headers().contains_key("connection"));
}

#[test]
fn a_header_says_how_long_the_client_waits() {
    let grpc = |value: &[u8]| {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", HeaderValue::from_bytes(value).unwrap());
        grpc_timeout(&headers)
    };
    let good: [(&str, Duration); 8] = [
        ("1H", Duration::from_secs(3600)),
        ("2M", Duration::from_secs(120)),
        ("3S", Duration::from_secs(3)),
        ("250m", Duration::from_millis(250)),
        ("5u", Duration::from_micros(5)),
        ("7n", Duration::from_nanos(7)),
        ("0m", Duration::ZERO),
        ("99999999H", Duration::from_secs(99_999_999 * 3600)),
    ];
    for (value, expected) in good {
        assert_eq!(grpc(value.as_bytes()), Some(expected), "{value}");
    }
    let bad: [&[u8]; 12] = [
        b"",
        b"5",
        b"m",
        b"-1S",
        b"+1S",
        b"1s",
        b"123456789m",
        b"1.5S",
        b" 1S",
        b"1 S",
        b"\xff",
        b"1\xc2\xb5",
    ];
    for value in bad {
        assert_eq!(grpc(value), None, "{value:?}");
    }
    assert_eq!(grpc_timeout(&HeaderMap::new()), None);

    let own = |value: &'static str, unit| {
        let mut headers = HeaderMap::new();
        headers.insert("x-timeout", HeaderValue::from_static(value));
        timeout(&headers, "X-Timeout", unit)
    };
    let (ms, s) = (TimeUnit::Milliseconds, TimeUnit::Seconds);
    assert_eq!(own("1500", ms), Some(Duration::from_millis(1500)));
    assert_eq!(own("1.5", s), Some(Duration::from_millis(1500)));
    assert_eq!(own("\t2 ", s), Some(Duration::from_secs(2)));
    for value in ["", "-1", "1e3", "inf", "NaN", "1.2.3", ".", "1s"] {
        assert_eq!((own(value, ms), own(value, s)), (None, None), "{value:?}");
    }
    let huge = "99999999999999999999999999999999999999999999";
    assert_eq!(own(huge, s), None);
    assert_eq!(timeout(&HeaderMap::new(), "x-timeout", s), None);
}

#[test]
fn a_response_carries_the_load_of_the_pool() {
    let pool = Pool::new(1, 4).unwrap();
    let busy = occupy(&pool);
    let mut headers = HeaderMap::new();
    report_load(&mut headers, &pool.load());
    let report = LoadReport::parse(headers["endpoint-load-metrics"].to_str().unwrap()).unwrap();
    assert_eq!(report.application_utilization, Some(0.25));
    // A report that is there already stays.
    let permit = pool.job().priority(Priority::High).try_reserve().unwrap();
    report_load(&mut headers, &pool.load());
    let again = LoadReport::parse(headers["endpoint-load-metrics"].to_str().unwrap()).unwrap();
    assert_eq!(again, report);
    drop(permit);
    busy.free();
}
