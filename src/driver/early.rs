//! Commands that arrive before the actors run, above all the request to stop (spec O-10).

use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::config::{Config, OnSignal};
use crate::exit::Exit;

use super::handle::Command;
use super::lease::{self, Lease};
use super::owner_chain::{self, OwnerChain};

pub(super) struct Early {
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    /// Commands that are kept for the actors, so that no observer misses an end.
    pub(super) kept: Vec<Command>,
    /// What a signal does; `Auto` until the driver's controllers are known.
    pub(super) on_signal: OnSignal,
    /// `None` without `ha.lease`, and while this driver stands by.
    pub(super) lease: Option<Lease>,
    grace: Duration,
    stop: Option<Stop>,
}

/// A request to stop.
#[derive(Debug, Clone, Copy)]
struct Stop {
    /// `None`: as a signal does.
    way: Option<OnSignal>,
    at: Instant,
}

impl Early {
    pub(super) fn new(config: &Config, commands: mpsc::UnboundedReceiver<Command>) -> Self {
        let on_signal = match config.driver.pod_name {
            // A standby goes on with the application.
            _ if config.ha.lease && config.shutdown.on_signal == OnSignal::Auto => {
                OnSignal::HandOver
            }
            None => owner_chain::on_signal(config.shutdown.on_signal, None),
            Some(_) => config.shutdown.on_signal,
        };
        Self {
            commands,
            kept: Vec::new(),
            on_signal,
            lease: None,
            grace: config.shutdown.grace,
            stop: None,
        }
    }

    /// The driver's controllers are known now.
    pub(super) fn know(&mut self, owner_chain: Option<&OwnerChain>) {
        self.on_signal = owner_chain::on_signal(self.on_signal, owner_chain);
    }

    /// How to stop, and how much time is left for an end; `None` if nothing has asked for a stop.
    pub(super) fn stop(&self) -> Option<(OnSignal, Duration)> {
        let Stop { way, at } = self.stop?;
        let left = self.grace.saturating_sub(at.elapsed());
        Some((way.unwrap_or(self.on_signal), left))
    }

    /// Awaits a step of the start, and accepts commands meanwhile. A request to hand over ends the
    /// driver at once: whatever the step has written, a successor expects. After a request to end
    /// the application the start goes on, because only then it is known what has to be deleted.
    ///
    /// # Errors
    /// Returns the exit code of a driver that hands over, or whose time to end is over.
    pub(super) async fn during<T>(
        &mut self,
        step: impl Future<Output = Result<T, Exit>>,
    ) -> Result<T, Exit> {
        let mut step = pin!(step);
        loop {
            self.hand_over()?;
            let end = self.stop.map(|stop| stop.at + self.grace);
            tokio::select! {
                biased;
                exit = lease::lost(&mut self.lease) => return Err(exit),
                Some(command) = self.commands.recv() => self.accept(command),
                done = &mut step => return done,
                () = until(end) => {
                    tracing::error!(
                        "the time to end is over, and the application was not taken over: executors may be left; \
                         start the driver again to end them"
                    );
                    return Err(Exit::Unreachable);
                }
            }
        }
    }

    /// Awaits a step of a standby, and accepts commands meanwhile. A standby that is stopped, in whichever way, has nothing to end
    /// (spec O-32).
    ///
    /// # Errors
    /// Returns the exit code of a driver that is stopped, or that cannot have the Lease.
    pub(super) async fn standing_by<T>(
        &mut self,
        step: impl Future<Output = Result<T, Exit>>,
    ) -> Result<T, Exit> {
        let mut step = pin!(step);
        while self.stop.is_none() {
            tokio::select! {
                biased;
                Some(command) = self.commands.recv() => self.accept(command),
                done = &mut step => return done,
            }
        }
        tracing::info!("stopped while it stood by: the active driver goes on");
        Err(Exit::Superseded)
    }

    /// Gives the Lease up, if there is one.
    pub(super) async fn release(&self) {
        if let Some(lease) = &self.lease {
            lease.release().await;
        }
    }

    /// # Errors
    /// Returns the exit code of a driver that was requested to hand over.
    pub(super) fn hand_over(&self) -> Result<(), Exit> {
        match self.stop() {
            Some((OnSignal::HandOver, _)) => {
                tracing::info!(
                    "stopped before it has taken over: executors stay for the successor"
                );
                Err(Exit::Superseded)
            }
            _ => Ok(()),
        }
    }

    /// Queries are dropped, because there is nothing to show yet.
    fn accept(&mut self, command: Command) {
        match command {
            Command::Stop(way) if self.stop.is_none() => {
                let at = Instant::now();
                self.stop = Some(Stop { way, at });
            }
            Command::Stop(_)
            | Command::Look(_)
            | Command::Measure(_)
            | Command::Sessions(_)
            | Command::Routes(..) => {}
            command @ (Command::SetTargets(..) | Command::Observe(_)) => self.kept.push(command),
        }
    }
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}
