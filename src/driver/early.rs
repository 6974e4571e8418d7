//! Commands that arrive before the actors run, above all the request to stop (spec O-107).

use std::pin::pin;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::actors::driver_backend::messages::Stop;
use crate::config::{Config, OnSignal};
use crate::exit::Exit;
use crate::kubernetes::Clients;

use super::handle::{Command, Handle};
use super::lease::{self, Lease};
use super::stop_request::StopRequest;

pub(super) struct Early {
    pub(super) commands: mpsc::UnboundedReceiver<Command>,
    /// Commands that are kept for the actors, so that no observer misses an end, and who asks once is answered.
    pub(super) kept: Vec<Command>,
    pub(super) stop: StopRequest,
    /// `None` without `ha.lease`, and while this driver stands by.
    pub(super) lease: Option<Lease>,
}

impl Early {
    pub(super) fn new(commands: mpsc::UnboundedReceiver<Command>, stop: StopRequest) -> Self {
        Self {
            commands,
            kept: Vec::new(),
            stop,
            lease: None,
        }
    }

    /// Awaits a step of the start, and accepts commands meanwhile. A request to hand over ends the
    /// driver at once: whatever the step has written, a successor expects. After a request to end
    /// the application, or to let its executors go, the start goes on, because only then it is known
    /// what has to be deleted; and so it does until it is known what a signal means.
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
            let end = self.stop.deadline();
            let is_open = self.stop.is_open();
            tokio::select! {
                biased;
                exit = lease::lost(&mut self.lease) => return Err(exit),
                Some(command) = self.commands.recv() => self.accept(command),
                _ = self.stop.meaning(), if is_open => {}
                done = &mut step => return done,
                () = until(end) => return Err(not_taken_over()),
            }
        }
    }

    /// Awaits a step of a standby, and accepts commands meanwhile. A standby that is stopped, in whichever way, has
    /// nothing to end (spec O-89).
    ///
    /// # Errors
    /// Returns the exit code of a driver that is stopped, or that cannot have the Lease.
    pub(super) async fn standing_by<T>(
        &mut self,
        step: impl Future<Output = Result<T, Exit>>,
    ) -> Result<T, Exit> {
        let mut step = pin!(step);
        while !self.stop.is_made() {
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
    pub(super) async fn release(&mut self) {
        if let Some(lease) = &mut self.lease {
            lease.release().await;
        }
    }

    /// What an early request to stop means; `None` if there was none.
    ///
    /// # Errors
    /// Returns the exit code of a driver that hands over.
    pub(super) async fn learned(&mut self) -> Result<Option<Stop>, Exit> {
        if self.stop.is_open() {
            tokio::select! {
                biased;
                exit = lease::lost(&mut self.lease) => return Err(exit),
                _ = self.stop.meaning() => {}
            }
        }
        self.hand_over()?;
        Ok(self.stop.known())
    }

    /// # Errors
    /// Returns the exit code of a driver that was requested to hand over.
    pub(super) fn hand_over(&self) -> Result<(), Exit> {
        match self.stop.known() {
            Some(Stop::HandOver) => Err(handed_over()),
            _ => Ok(()),
        }
    }

    /// Queries are dropped, because there is nothing to show yet, and new settings, because the start has used the old
    /// ones.
    fn accept(&mut self, command: Command) {
        match command {
            Command::Stop(way) => self.stop.make(way),
            Command::Look(_)
            | Command::Measure(_)
            | Command::Sessions(_)
            | Command::Routes(..)
            | Command::Reconfigure(..) => {}
            command @ (Command::SetTargets(..) | Command::Observe(_) | Command::Remainder(_)) => {
                self.kept.push(command)
            }
        }
    }
}

/// Awaits the clients, which may take as long as a credential plugin, and keeps commands for the start. A request to stop
/// has the meaning that it has for [`Early::during`].
///
/// # Errors
/// Returns the exit code of a driver without clients, of one that hands over, or whose time to end is over.
pub(super) async fn connected(
    config: &Config,
    clients: impl Future<Output = Result<Clients, Exit>>,
    handle: Handle,
    commands: &mut mpsc::UnboundedReceiver<Command>,
) -> Result<Clients, Exit> {
    let mut clients = pin!(clients);
    let mut kept = Vec::new();
    let mut end = None;
    let connected = loop {
        tokio::select! {
            biased;
            connected = &mut clients => break connected,
            Some(command) = commands.recv() => {
                if let Command::Stop(way) = &command {
                    if way.unwrap_or(config.shutdown.on_signal) == OnSignal::HandOver {
                        return Err(handed_over());
                    }
                    end.get_or_insert_with(|| Instant::now() + config.shutdown.grace);
                }
                kept.push(command);
            }
            () = until(end) => return Err(not_taken_over()),
        }
    };
    for command in kept {
        handle.send(command);
    }
    connected
}

fn handed_over() -> Exit {
    tracing::info!("stopped before it has taken over: executors stay for the successor");
    Exit::Superseded
}

fn not_taken_over() -> Exit {
    tracing::error!(
        "the time to end is over, and the application was not taken over: executors may be left; \
         start the driver again to end them"
    );
    Exit::Unreachable
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => sleep_until(end).await,
        None => std::future::pending().await,
    }
}
