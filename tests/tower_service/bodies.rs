//! Slots that are held until the response's body has ended.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame, SizeHint};
use tower_layer::Layer;
use tower_service::Service;
use weirpool::load::LoadReport;
use weirpool::service::http::{ReportLoadLayer, answer};
use weirpool::service::{AdmissionLayer, HeldBody};
use weirpool::{Pool, Reason};

use crate::common::{Count, Drops, Tracked, assert_all_slots_free};
use crate::fakes::{FromFn, Own, call, slots};

/// What a body does when it is polled.
enum Step {
    Data(&'static str),
    Trailers,
    Fail,
    Wait,
}

/// A body that follows a script, counts how often it was polled, and whose drop is seen.
struct Scripted {
    steps: VecDeque<Step>,
    says_end: bool,
    hint: SizeHint,
    polls: Count,
    _gone: Tracked,
}

impl Body for Scripted {
    type Data = &'static [u8];
    type Error = Own;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Polled {
        self.polls.add();
        Poll::Ready(match self.steps.pop_front() {
            Some(Step::Data(text)) => {
                if let Some(exact) = self.hint.exact() {
                    self.hint = SizeHint::with_exact(exact - text.len() as u64);
                }
                Some(Ok(Frame::data(text.as_bytes())))
            }
            Some(Step::Trailers) => Some(Ok(Frame::trailers(trailers()))),
            Some(Step::Fail) => Some(Err(Own(5))),
            Some(Step::Wait) => {
                self.steps.push_front(Step::Wait);
                return Poll::Pending;
            }
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.says_end && self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}

fn trailers() -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    trailers
}

struct Stage {
    pool: Pool,
    layer: AdmissionLayer,
    polls: Count,
    gone: Drops,
}

impl Stage {
    fn new() -> Self {
        let pool = slots(1);
        let layer = AdmissionLayer::new(pool.clone());
        Self { pool, layer, polls: Count::new(), gone: Drops::new() }
    }

    fn body(&self, steps: impl IntoIterator<Item = Step>, says_end: bool) -> Scripted {
        Scripted {
            steps: steps.into_iter().collect(),
            says_end,
            hint: SizeHint::default(),
            polls: self.polls.clone(),
            _gone: self.gone.tracked(),
        }
    }

    /// The response with this body, and the slot held if need be.
    fn respond(&self, body: Scripted) -> HeldBody<Scripted> {
        let body = Arc::new(Mutex::new(Some(body)));
        let mut service = self.layer.clone().until_body_end().layer(FromFn(move |()| {
            let body = body.lock().unwrap().take().expect("one call");
            async move { Ok::<_, Own>(Response::builder().status(200).body(body).unwrap()) }
        }));
        let mut future = call(&mut service, ());
        let answer = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Ok(response)) = answer else { panic!("no response") };
        // The completed future is kept until here: it holds nothing.
        let (parts, body) = response.into_parts();
        assert_eq!(parts.status, 200);
        drop(future);
        body
    }

    fn is_full(&self) -> bool {
        let refused = self.pool.try_reserve().map(drop).map_err(|refusal| refusal.reason());
        refused == Err(Reason::Full)
    }

    /// Of one request: that its slot is back, and how it ended.
    fn ended(&self, finished: u64, failed: u64, cancelled: u64) {
        assert_all_slots_free(&self.pool);
        let counts = self.layer.counts();
        assert_eq!(
            (counts.started, counts.finished, counts.failed, counts.cancelled),
            (1, finished, failed, cancelled)
        );
    }
}

type Polled = Poll<Option<Result<Frame<&'static [u8]>, Own>>>;

fn next(body: &mut HeldBody<Scripted>) -> Polled {
    Pin::new(body).poll_frame(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn by_default_the_slot_returns_with_the_headers() {
    let stage = Stage::new();
    let body = stage.body([Step::Data("a"), Step::Wait], false);
    let body = Mutex::new(Some(body));
    let mut service = stage.layer.layer(FromFn(|()| {
        let body = body.lock().unwrap().take().expect("one call");
        async move { Ok::<_, Own>(Response::new(body)) }
    }));
    let mut future = call(&mut service, ());
    let answer = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(answer, Poll::Ready(Ok(_))));
    stage.ended(1, 0, 0);
}

#[test]
fn a_streaming_body_holds_the_slot_until_it_ends() {
    let stage = Stage::new();
    let mut body = stage.respond(stage.body([Step::Data("one"), Step::Wait], false));
    assert!(matches!(next(&mut body), Poll::Ready(Some(Ok(_)))));
    assert!(next(&mut body).is_pending());
    assert!(stage.is_full());
    drop(body);
    stage.ended(0, 0, 1);
}

#[test]
fn a_body_that_ends_returns_the_slot_once() {
    let stage = Stage::new();
    let mut body = stage.respond(stage.body([Step::Data("one")], false));
    assert!(matches!(next(&mut body), Poll::Ready(Some(Ok(_)))));
    assert!(stage.is_full());
    assert!(matches!(next(&mut body), Poll::Ready(None)));
    assert!(!stage.is_full());
    assert!(matches!(next(&mut body), Poll::Ready(None)));
    drop(body);
    stage.ended(1, 0, 0);
}

#[test]
fn a_body_that_says_its_end_with_the_last_frame_returns_the_slot_there() {
    let stage = Stage::new();
    let mut body = stage.respond(stage.body([Step::Data("one"), Step::Trailers], true));
    assert!(matches!(next(&mut body), Poll::Ready(Some(Ok(_)))));
    assert!(stage.is_full());
    match next(&mut body) {
        Poll::Ready(Some(Ok(frame))) => assert_eq!(frame.trailers_ref(), Some(&trailers())),
        _ => panic!("the trailers are missing"),
    }
    // The body still exists, and its slot is somebody else's.
    stage.ended(1, 0, 0);
    assert_eq!(stage.gone.count(), 0);
}

#[test]
fn a_body_that_fails_returns_the_slot_once() {
    let stage = Stage::new();
    let mut body = stage.respond(stage.body([Step::Data("one"), Step::Fail], false));
    assert!(matches!(next(&mut body), Poll::Ready(Some(Ok(_)))));
    assert!(matches!(next(&mut body), Poll::Ready(Some(Err(Own(5))))));
    assert!(!stage.is_full());
    drop(body);
    stage.ended(0, 1, 0);
}

#[test]
fn an_empty_body_returns_the_slot_without_being_polled() {
    let stage = Stage::new();
    let body = stage.respond(stage.body([], true));
    assert_eq!(stage.polls.get(), 0);
    assert!(body.is_end_stream());
    stage.ended(1, 0, 0);
}

#[test]
fn a_body_is_gone_before_its_slot_returns() {
    let stage = Stage::new();
    drop(stage.respond(stage.body([Step::Wait], false)));
    assert_eq!(stage.gone.count(), 1);
    stage.ended(0, 0, 1);

    /// A body that looks at the pool when it is dropped.
    struct Looks(Pool);
    impl Drop for Looks {
        fn drop(&mut self) {
            assert_eq!(self.0.in_flight(), 1, "the slot came back too early");
        }
    }
    impl Body for Looks {
        type Data = &'static [u8];
        type Error = Own;
        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Polled {
            Poll::Pending
        }
    }
    let pool = slots(1);
    let mut service = AdmissionLayer::new(pool.clone())
        .until_body_end()
        .layer(FromFn(|()| async { Ok::<_, Own>(Response::new(Looks(pool.clone()))) }));
    let mut future = call(&mut service, ());
    let answer = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Ok(response)) = answer else { panic!("no response") };
    drop(response);
    assert_all_slots_free(&pool);
}

#[test]
fn what_a_body_announces_is_unchanged_and_sent_in_full_is_no_half_way() {
    let stage = Stage::new();
    let mut body = stage.body([Step::Data("12345"), Step::Data("678")], false);
    body.hint = SizeHint::with_exact(8);
    let mut body = stage.respond(body);
    assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(8), false));
    assert!(matches!(next(&mut body), Poll::Ready(Some(Ok(_)))));
    assert_eq!(body.size_hint().exact(), Some(3));
    match next(&mut body) {
        Poll::Ready(Some(Ok(frame))) => assert_eq!(frame.into_data().ok(), Some(&b"678"[..])),
        _ => panic!("the data is missing"),
    }
    // Trailers might still come.
    assert!(stage.is_full());
    // A server that counts bytes drops it here, without having asked for the end.
    drop(body);
    stage.ended(1, 0, 0);
}

#[test]
fn a_refusals_answer_has_the_same_kind_of_body() {
    let pool = slots(1);
    let layer = AdmissionLayer::new(pool.clone()).respond(answer).until_body_end();
    let mut service = layer.layer(FromFn(|_: Request<()>| async {
        Ok::<_, Own>(Response::new(String::from("served")))
    }));
    let permit = pool.try_reserve().unwrap();
    let mut future = Box::pin(service.call(Request::new(())));
    let refused = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Ok(response)) = refused else { panic!("no response") };
    assert_eq!((response.status().as_u16(), response.body().is_end_stream()), (503, true));
    assert_eq!(response.headers()["retry-after"], "1");
    drop(permit);
    // Its body holds nobody's slot.
    assert_all_slots_free(&pool);
    drop(response);
    assert_all_slots_free(&pool);
    assert_eq!((layer.counts().started, layer.counts().refused), (0, 1));
}

#[test]
fn served_or_refused_each_response_carries_the_load() {
    let pool = slots(1);
    let admission = AdmissionLayer::new(pool.clone()).respond(answer);
    let mut service = ReportLoadLayer::new(pool.clone()).layer(admission.layer(FromFn(
        |request: Request<()>| async move {
            if request.uri().path() == "/fails" {
                return Err(Own(1));
            }
            Ok(Response::new(()))
        },
    )));
    let mut ask = |path: &str| {
        let mut request = Request::new(());
        *request.uri_mut() = path.parse().unwrap();
        let mut future = call(&mut service, request);
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => answer.map(|response| {
                let report = response.headers()["endpoint-load-metrics"].to_str().unwrap();
                let report = LoadReport::parse(report).unwrap();
                (response.status().as_u16(), report.application_utilization)
            }),
            Poll::Pending => panic!("it has no answer yet"),
        }
    };
    assert_eq!(ask("/"), Ok((200, Some(0.0))));
    let permit = pool.try_reserve().unwrap();
    assert_eq!(ask("/"), Ok((503, Some(1.0))));
    drop(permit);
    assert_eq!(ask("/fails"), Err(Own(1)));
}
