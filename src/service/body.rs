//! A response body that holds its request's slot.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use ::http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::held::{End, Held};
use super::parts::Hold;

/// The slot returns when the body of the response has ended: at its end, at an error, or when it is
/// dropped half-way.
#[derive(Clone, Copy, Debug, Default)]
pub struct UntilBodyEnd;

impl<B: Body> Hold<Response<B>> for UntilBodyEnd {
    type Held = Response<HeldBody<B>>;

    fn hold(response: Response<B>, held: Option<Held>) -> Self::Held {
        response.map(|body| HeldBody::new(body, held))
    }
}

pin_project! {
    /// A body, and the slot of its request until the body has ended.
    ///
    /// Frames, trailers and the size hint are those of the body itself. The slot returns once it is
    /// known that nothing more comes: when the body says so, before or after a frame, also without
    /// being polled; when it ends or fails; when it is dropped, and then after the body is.
    #[derive(Debug)]
    pub struct HeldBody<B> {
        #[pin]
        body: B,
        held: Option<Held>,
    }
}

impl<B: Body> HeldBody<B> {
    fn new(body: B, held: Option<Held>) -> Self {
        let mut this = Self { body, held };
        look(&this.body, &mut this.held);
        this
    }
}

/// Returns the slot if nothing more comes. A server that has sent as many bytes as were announced
/// may drop a body that hasn't said so, and then that is no half-way.
fn look(body: &impl Body, held: &mut Option<Held>) {
    if held.is_none() {
        return;
    }
    if body.is_end_stream() {
        end(held, End::Finished);
    } else if body.size_hint().exact() == Some(0) {
        held.iter_mut().for_each(|held| held.ends_as(End::Finished));
    }
}

fn end(held: &mut Option<Held>, end: End) {
    if let Some(held) = held.take() {
        held.end(end);
    }
}

impl<B: Body> Body for HeldBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        match &frame {
            Some(Ok(_)) => look(&*this.body, this.held),
            Some(Err(_)) => end(this.held, End::Failed),
            None => end(this.held, End::Finished),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
