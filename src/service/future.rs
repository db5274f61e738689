//! The future of one request: an answer that is there already, or a call that holds its slot.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::held::{End, Held};
use super::parts::{Hold, PassOn};

pin_project! {
    /// The response of an [`Admission`](super::Admission) service.
    ///
    /// The slot was taken when it was made. Dropping it returns the slot at any time, also before
    /// the first poll, after the inner future is gone.
    ///
    /// # Panics
    /// If it is polled after it has ended.
    #[must_use = "futures do nothing unless polled"]
    pub struct AdmissionFuture<F, A, H, Response, Error> {
        #[pin]
        state: State<F, Response, Error>,
        parts: PhantomData<fn() -> (A, H)>,
    }
}

pin_project! {
    #[project = AtState]
    #[project_replace = WasState]
    enum State<F, Response, Error> {
        Refused { answer: Option<Result<Response, Error>> },
        // The inner future is dropped before the slot returns: in the order of the fields.
        Called { #[pin] call: F, held: Held },
        Done,
    }
}

impl<F, A, H, Response, Error> AdmissionFuture<F, A, H, Response, Error> {
    pub(super) fn refused(answer: Result<Response, Error>) -> Self {
        Self::at(State::Refused { answer: Some(answer) })
    }

    pub(super) fn called(call: F, held: Held) -> Self {
        Self::at(State::Called { call, held })
    }

    fn at(state: State<F, Response, Error>) -> Self {
        Self { state, parts: PhantomData }
    }
}

impl<F, A, H, Response, Inner> Future for AdmissionFuture<F, A, H, Response, A::Error>
where
    F: Future<Output = Result<Response, Inner>>,
    A: PassOn<Inner>,
    H: Hold<Response>,
{
    type Output = Result<H::Held, A::Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        let result = match state.as_mut().project() {
            AtState::Called { call, .. } => ready!(call.poll(context)),
            AtState::Refused { answer } => {
                let answer = answer.take();
                state.set(State::Done);
                let answer = answer.expect("it is there until it is taken");
                return Poll::Ready(answer.map(|response| H::hold(response, None)));
            }
            AtState::Done => panic!("polled after it has ended"),
        };
        // The future may be kept alive after this; what it holds is not.
        let WasState::Called { held, .. } = state.project_replace(State::Done) else {
            unreachable!("it was just polled")
        };
        Poll::Ready(match result {
            Ok(response) => Ok(H::hold(response, Some(held))),
            Err(error) => {
                held.end(End::Failed);
                Err(A::pass_on(error))
            }
        })
    }
}

impl<F, A, H, Response, Error> fmt::Debug for AdmissionFuture<F, A, H, Response, Error> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Refused { .. } => "refused",
            State::Called { .. } => "called",
            State::Done => "done",
        };
        f.debug_tuple("AdmissionFuture").field(&state).finish()
    }
}
