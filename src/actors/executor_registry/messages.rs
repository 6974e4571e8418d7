//! What ExecutorRegistry is sent and asked, and what it sends.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Message;
use tokio::sync::mpsc;

use super::registry::{ConnectionId, Proof, SessionStep, Via, WhyDoubt};
use super::view::SessionView;
use crate::model::{ExecutorId, ProfileName, Tick};
use boatswain_agent::protocol::{FromExecutor, ToExecutor};

/// What goes out over a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// A message.
    Say(ToExecutor),
    /// The end of the connection.
    Close,
}

/// A connection is open: answered with its number, and with what is to go out over it.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Opened")]
pub struct Open;

/// A connection as ExecutorRegistry knows it.
#[derive(Debug)]
pub struct Opened {
    /// Its number.
    pub connection: ConnectionId,
    /// What is to go out over it; where this ends, the connection does.
    pub outgoing: mpsc::Receiver<Outgoing>,
}

/// A connection has ended.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Lost(pub ConnectionId);

/// A message of an executor's: answered with at least one message.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Vec<ToExecutor>")]
pub struct Say {
    /// Who it has proved to be.
    pub proof: Arc<Proof>,
    /// How the message came.
    pub via: Via,
    /// The message.
    pub message: FromExecutor,
}

/// A message was not taken in: it could not be read, or its sender may not send it.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct NotTakenIn {
    /// Why, in one word.
    pub code: &'static str,
}

/// Asks for the sessions of all registered executors, or of one executor.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "BTreeMap<ExecutorId, SessionView>")]
pub struct GetSessions(pub Option<ExecutorId>);

/// Something happened that no snapshot shows. Sent to the event history.
#[derive(Debug, Clone, PartialEq, Message)]
#[rtype(result = "()")]
pub enum SessionEvent {
    /// A step in an executor's life.
    Step(ExecutorId, ProfileName, SessionStep),
    /// The driver has reason to suspect its own network path, and gives no executor up (spec B-13).
    Degraded(WhyDoubt),
    /// It no longer has.
    Recovered,
}

/// How many executors are registered, or whether the driver is degraded, has changed. Sent to DriverBackend.
#[derive(Debug, Clone, PartialEq, Eq, Default, Message)]
#[rtype(result = "()")]
pub struct SessionsChanged {
    /// How many executors of each profile are registered.
    pub registered: BTreeMap<ProfileName, u32>,
    /// Why the driver is degraded, and since when (spec B-13).
    pub doubt: Option<(WhyDoubt, Tick)>,
}
