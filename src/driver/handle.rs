//! The handle to a driver in the same process.

use std::collections::BTreeMap;

use actix::Recipient;
use axum::Router;
use tokio::sync::{mpsc, oneshot};

use crate::actors::driver_backend::messages::{Refused, RefusedProfile};
use crate::actors::snapshot_store::messages::{Measures, Round};
use crate::config::{Changes, OnSignal};
use crate::model::{ProfileName, Snapshot};
use crate::server::api::tokens::Tokens;

use super::remainder::Remainder;

/// The targets of all profiles, or why the requested ones are refused.
type Targets = Result<BTreeMap<ProfileName, u32>, Refused>;

/// The changes that took effect, or why none did.
type Reconfigured = Result<Box<Changes>, RefusedProfile>;

/// A command to a driver. Commands are executed one at a time, and callers wait for the answer, so
/// the queue needs no limit.
pub(super) enum Command {
    /// `None`: as `shutdown.on_signal` says.
    Stop(Option<OnSignal>),
    SetTargets(BTreeMap<ProfileName, u32>, oneshot::Sender<Targets>),
    Reconfigure(Box<Changes>, oneshot::Sender<Reconfigured>),
    Look(oneshot::Sender<Snapshot>),
    Measure(oneshot::Sender<Measures>),
    Remainder(oneshot::Sender<Remainder>),
    Observe(Recipient<Round>),
    Sessions(oneshot::Sender<Option<Router>>),
    Routes(Tokens, oneshot::Sender<Router>),
}

#[derive(Clone)]
pub struct Handle {
    commands: mpsc::UnboundedSender<Command>,
}

impl Handle {
    /// Returns a handle and the receiving end of its commands.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Command>) {
        let (commands, received) = mpsc::unbounded_channel();
        (Self { commands }, received)
    }

    /// Stops the driver as `shutdown.on_signal` says (spec O-10).
    pub fn stop(&self) {
        self.send(Command::Stop(None));
    }

    pub fn stop_by(&self, way: OnSignal) {
        self.send(Command::Stop(Some(way)));
    }

    /// Sets targets and returns those of all profiles. `None` if the driver has ended.
    pub async fn set_targets(&self, targets: BTreeMap<ProfileName, u32>) -> Option<Targets> {
        self.ask(|answer| Command::SetTargets(targets, answer))
            .await
    }

    /// Has these changes of the configuration take effect, all or none (spec C-6). `None` if the driver ends, or does not
    /// run yet: nothing was changed.
    pub async fn reconfigure(&self, changes: Box<Changes>) -> Option<Reconfigured> {
        self.ask(|answer| Command::Reconfigure(changes, answer))
            .await
    }

    /// `None` if the driver has ended or does not run yet.
    pub async fn look(&self) -> Option<Snapshot> {
        self.ask(Command::Look).await
    }

    /// `None` if the driver has ended or does not run yet.
    pub async fn measure(&self) -> Option<Measures> {
        self.ask(Command::Measure).await
    }

    /// Waits until the driver runs, and returns what tells at any time what it would leave. `None` if it has ended before.
    pub async fn remainder(&self) -> Option<Remainder> {
        self.ask(Command::Remainder).await
    }

    /// The routes for executors, without a socket. `None` without a listener, or if the driver has
    /// ended.
    pub async fn sessions(&self) -> Option<Router> {
        self.ask(Command::Sessions).await.flatten()
    }

    /// Passes every later batch of snapshots to this recipient.
    pub fn observe(&self, reader: Recipient<Round>) {
        self.send(Command::Observe(reader));
    }

    /// The API's routes, without a socket. `None` if the driver has ended or does not run yet.
    pub async fn routes(&self, tokens: Tokens) -> Option<Router> {
        self.ask(|answer| Command::Routes(tokens, answer)).await
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (answer, answered) = oneshot::channel();
        self.send(command(answer));
        answered.await.ok()
    }

    pub(super) fn send(&self, command: Command) {
        // Sending fails only if the driver has already ended.
        let _ = self.commands.send(command);
    }
}
