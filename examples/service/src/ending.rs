//! When the server shall end.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Becomes true once, on SIGINT or SIGTERM.
#[derive(Clone)]
pub(crate) struct Ending(watch::Receiver<bool>);

impl Ending {
    pub(crate) fn on_signals() -> io::Result<Self> {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let (sender, receiver) = watch::channel(false);
        tokio::spawn(async move {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            sender.send_replace(true);
            // Kept, so that no receiver takes its end for an answer.
            sender.closed().await;
        });
        Ok(Self(receiver))
    }

    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when it has begun.
    pub(crate) async fn begun(&mut self) {
        // An error means that the runtime is going down.
        let _ = self.0.wait_for(|has_begun| *has_begun).await;
    }
}
