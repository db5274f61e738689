//! HAProxy's agent check: tells the balancer how large a share this server can bear.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::timeout;
use weirpool::load::{AdminState, AgentReply};

use crate::App;
use crate::sample::Sample;

/// A check is one short line.
const WRITE_TIME: Duration = Duration::from_secs(1);
const RETRY_TIME: Duration = Duration::from_millis(100);

/// Over the last three seconds.
const MEAN_OF_SAMPLES: usize = 15;

/// Answers one check after the other, until the runtime ends.
pub(crate) async fn answer(listener: TcpListener, app: App) {
    loop {
        let Ok((mut socket, _)) = listener.accept().await else {
            // No descriptors left: somebody has to close one first.
            tokio::time::sleep(RETRY_TIME).await;
            continue;
        };
        let line = reply(&app).to_string();
        // HAProxy is gone, or it will ask again.
        let _ = timeout(WRITE_TIME, socket.write_all(line.as_bytes())).await;
    }
}

fn reply(app: &App) -> AgentReply {
    if app.ending.has_begun() {
        return AgentReply { admin: Some(AdminState::Drain), ..AgentReply::default() };
    }
    let Some(pool) = app.engine.pool() else {
        return AgentReply { admin: Some(AdminState::Ready), ..AgentReply::default() };
    };
    // One moment's load swings between 0 and 1 with every few jobs; a balancer wants the mean.
    let weight_percent = mean_free_percent(&app.watch.since(0));
    AgentReply { weight_percent: Some(weight_percent), ..AgentReply::from(&pool.load()) }
}

/// Never 0, which HAProxy takes for `drain`.
fn mean_free_percent(samples: &[Arc<Sample>]) -> u32 {
    let latest = &samples[samples.len().saturating_sub(MEAN_OF_SAMPLES)..];
    let free: f64 = latest.iter().map(|sample| 1.0 - sample.score.unwrap_or(0.0)).sum();
    (100.0 * free / latest.len().max(1) as f64).round().clamp(1.0, 100.0) as u32
}
