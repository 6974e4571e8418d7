//! All wiring. A placeholder that stops when it is told to.

use std::future::Future;

use tokio::sync::mpsc;

use crate::config::Config;
use crate::exit::Exit;

/// How a driver that runs is told things.
#[derive(Debug, Clone)]
pub struct Handle {
    stop: mpsc::UnboundedSender<()>,
}

impl Handle {
    /// Tells it to stop, as `shutdown.on_signal` says (spec O-10).
    pub fn stop(&self) {
        // One that has ended by itself need not be told.
        let _ = self.stop.send(());
    }
}

/// Starts a driver: a handle to it, and what it does until it ends, to be awaited in an actix
/// system.
pub fn start(config: Config) -> (Handle, impl Future<Output = Exit>) {
    let (stop, mut stopped) = mpsc::unbounded_channel();
    let running = async move {
        tracing::info!(app = config.app.name, "nothing is driven yet");
        stopped.recv().await;
        Exit::Clean
    };
    (Handle { stop }, running)
}
