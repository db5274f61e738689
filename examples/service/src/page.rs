//! The live page and the stream of server-sent events that feeds it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Html;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures_util::stream::{Stream, unfold};
use serde_json::json;
use tokio::sync::watch;

use crate::App;
use crate::sample::Sample;

/// How long a browser waits before it connects again.
const RECONNECT: Duration = Duration::from_secs(1);

pub(crate) async fn show() -> Html<&'static str> {
    Html(include_str!("pool.html"))
}

/// Each event carries the samples that the page doesn't have yet: at first the last minute, or after a
/// break what came since.
pub(crate) async fn events(
    State(app): State<App>,
    headers: HeaderMap,
) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let born_ms = app.watch.about().born_ms;
    let seen = headers.get("last-event-id").and_then(|id| seen_before(id.to_str().ok()?, born_ms));
    let follower =
        Follower { latest: app.watch.subscribe(), seen: seen.unwrap_or(0), is_new: true, app };
    Sse::new(unfold(follower, |mut follower| async move {
        let event = follower.next().await?;
        Some((Ok(event), follower))
    }))
    .keep_alive(KeepAlive::default())
}

/// The number of the last sample that a browser has, if it is one of this process.
fn seen_before(id: &str, born_ms: u64) -> Option<u64> {
    let (born, number) = id.split_once('-')?;
    (born.parse() == Ok(born_ms)).then(|| number.parse().ok())?
}

struct Follower {
    app: App,
    latest: watch::Receiver<Option<Arc<Sample>>>,
    seen: u64,
    is_new: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<Event> {
        tokio::select! {
            // A stream that goes on would keep the server from ending.
            () = self.app.ending.begun() => return None,
            changed = self.latest.changed(), if !self.is_new => changed.ok()?,
            () = std::future::ready(()), if self.is_new => {}
        }
        let samples = self.app.watch.since(self.seen);
        self.seen = samples.last().map_or(self.seen, |sample| sample.number);
        let about = self.is_new.then(|| self.app.watch.about());
        self.is_new = false;
        let samples: Vec<_> = samples.iter().map(|sample| &**sample).collect();
        let id = format!("{}-{}", self.app.watch.about().born_ms, self.seen);
        let data = json!({ "about": about, "samples": samples }).to_string();
        Some(Event::default().id(id).retry(RECONNECT).data(data))
    }
}
