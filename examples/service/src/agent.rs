//! HAProxy's agent check: tells the balancer how large a share this server can bear.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::timeout;
use weirpool::load::{AdminState, AgentReply};

use crate::App;

/// A check is one short line.
const WRITE_TIME: Duration = Duration::from_secs(1);
const RETRY_TIME: Duration = Duration::from_millis(100);

/// Answers one check after the other, until the runtime ends.
pub(crate) async fn answer(listener: TcpListener, app: App) {
    let mut samples = app.watch.subscribe();
    let mut weight = Weight::default();
    loop {
        tokio::select! {
            Ok(()) = samples.changed() => {
                let score = samples.borrow_and_update().as_ref().and_then(|sample| sample.score);
                weight.follow(score.unwrap_or(0.0));
            }
            accepted = listener.accept() => match accepted {
                Ok((mut socket, _)) => {
                    let line = reply(&app, &weight).to_string();
                    // HAProxy is gone, or it will ask again.
                    let _ = timeout(WRITE_TIME, socket.write_all(line.as_bytes())).await;
                }
                // No descriptors left: somebody has to close one first.
                Err(_) => tokio::time::sleep(RETRY_TIME).await,
            },
        }
    }
}

fn reply(app: &App, weight: &Weight) -> AgentReply {
    if app.ending.has_begun() {
        return AgentReply { admin: Some(AdminState::Drain), ..AgentReply::default() };
    }
    let Some(pool) = app.engine.pool() else {
        return AgentReply { admin: Some(AdminState::Ready), ..AgentReply::default() };
    };
    AgentReply { weight_percent: Some(weight.percent()), ..AgentReply::from(&pool.load()) }
}

/// Sinks while the load score is above the middle, and rises while it is below.
///
/// The free share of one moment would do as a weight, but not as well: at equal scores all servers
/// then get equal shares, so a slow one keeps more than it can bear. This comes to rest where the
/// slow one is lightly loaded too, or at its whole weight.
struct Weight(f64);

impl Weight {
    const AIM: f64 = 0.3;
    /// Per sample, of which there are five a second: at full load it halves in a second.
    const GAIN: f64 = 0.2;

    fn follow(&mut self, score: f64) {
        if score.is_nan() {
            return;
        }
        self.0 = (self.0 * (Self::GAIN * (Self::AIM - score)).exp()).clamp(0.01, 1.0);
    }

    /// Never 0, which HAProxy takes for `drain`.
    fn percent(&self) -> u32 {
        (100.0 * self.0).round().clamp(1.0, 100.0) as u32
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_weight_finds_the_share_that_loads_the_server_lightly() {
        // A server whose score is what it gets over what it can do.
        let rest = |capacity: f64| {
            let mut weight = Weight::default();
            for _ in 0..1000 {
                weight.follow((weight.0 / capacity).min(1.0));
            }
            weight.percent()
        };
        assert_eq!(rest(4.0), 100, "it could bear more");
        assert_eq!(rest(0.5), 15);
        assert_eq!(rest(0.0), 1, "the least there is");
        let mut odd = Weight::default();
        odd.follow(f64::NAN);
        assert_eq!(odd.percent(), 100, "what is no figure says nothing");
    }
}
