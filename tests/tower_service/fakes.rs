//! Services that are told when to answer.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tower_service::Service;
use weirpool::Pool;

use crate::common::{Count, counting_waker};

/// A pool of so many slots, for requests only.
pub(crate) fn slots(count: usize) -> Pool {
    Pool::new(1, count).unwrap()
}

/// The error of a service itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Own(pub(crate) u32);

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the service's own error {}", self.0)
    }
}

impl Error for Own {}

/// A service that counts its calls, panics if one wasn't preceded by its own readiness, and answers as
/// it is told.
pub(crate) struct Probe {
    is_ready: bool,
    pub(crate) shared: Arc<Shared>,
}

#[derive(Default)]
pub(crate) struct Shared {
    pub(crate) calls: Count,
    inside: AtomicUsize,
    highest: AtomicUsize,
    told: Mutex<Told>,
}

#[derive(Default)]
struct Told {
    answers: Vec<Result<u32, Own>>,
    wakers: Vec<Waker>,
}

impl Shared {
    /// One more call may end, like this.
    pub(crate) fn tell(&self, answer: Result<u32, Own>) {
        let mut told = self.told.lock().unwrap();
        told.answers.insert(0, answer);
        for waker in told.wakers.drain(..) {
            waker.wake();
        }
    }

    /// Futures that exist.
    pub(crate) fn inside(&self) -> usize {
        self.inside.load(SeqCst)
    }

    /// The most that ever existed at once.
    pub(crate) fn highest(&self) -> usize {
        self.highest.load(SeqCst)
    }
}

impl Probe {
    pub(crate) fn new() -> Self {
        Self { is_ready: false, shared: Arc::default() }
    }
}

impl Clone for Probe {
    /// As with every service, readiness is not cloned.
    fn clone(&self) -> Self {
        Self { is_ready: false, shared: Arc::clone(&self.shared) }
    }
}

impl<R> Service<R> for Probe {
    type Response = u32;
    type Error = Own;
    type Future = Call;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Own>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: R) -> Call {
        assert!(std::mem::take(&mut self.is_ready), "called without having been ready");
        self.shared.calls.add();
        let inside = self.shared.inside.fetch_add(1, SeqCst) + 1;
        self.shared.highest.fetch_max(inside, SeqCst);
        Call(Arc::clone(&self.shared))
    }
}

pub(crate) struct Call(Arc<Shared>);

impl Future for Call {
    type Output = Result<u32, Own>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut told = self.0.told.lock().unwrap();
        if let Some(answer) = told.answers.pop() {
            return Poll::Ready(answer);
        }
        told.wakers.push(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, SeqCst);
    }
}

/// A service from a closure, always ready.
#[derive(Clone)]
pub(crate) struct FromFn<F>(pub(crate) F);

impl<R, F, Fut, T, E> Service<R> for FromFn<F>
where
    F: FnMut(R) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    type Response = T;
    type Error = E;
    type Future = Fut;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), E>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Fut {
        (self.0)(request)
    }
}

/// Asks for readiness, as every caller must, and calls.
pub(crate) fn call<R, S: Service<R>>(service: &mut S, request: R) -> Pin<Box<S::Future>> {
    assert!(is_ready(service), "the layer made its caller wait");
    Box::pin(service.call(request))
}

/// Whether the service is ready; nobody may be woken for that.
pub(crate) fn is_ready<R, S: Service<R>>(service: &mut S) -> bool {
    let (waker, wakes) = counting_waker();
    let ready = service.poll_ready(&mut Context::from_waker(&waker)).is_ready();
    assert_eq!(wakes.get(), 0, "woken by the call that asked");
    ready
}
