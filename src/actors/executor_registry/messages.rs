//! The messages that ExecutorRegistry receives and sends.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::Message;
use tokio::sync::mpsc;

use super::registry::{ConnectionId, NoKeys, Proof, SessionStep, Via, WhyDoubt};
use super::view::SessionView;
use crate::model::{ExecutorId, ProfileName, Tick};
use boatswain_agent::protocol::{FromExecutor, ToExecutor, Usage};

/// What is sent over a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    Say(ToExecutor),
    /// Closes the connection.
    Close,
}

/// A connection was opened. It replaces an older one of the same executor that has not registered.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Opened")]
pub struct Open {
    pub proof: Arc<Proof>,
}

#[derive(Debug)]
pub struct Opened {
    pub connection: ConnectionId,
    /// What to send over the connection, which ends when this channel does.
    pub outgoing: mpsc::Receiver<Outgoing>,
}

#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct Lost(pub ConnectionId);

/// A message from an executor. The answer has at least one message.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Vec<ToExecutor>")]
pub struct Say {
    /// The authenticated sender.
    pub proof: Arc<Proof>,
    pub via: Via,
    pub message: FromExecutor,
}

/// A token of a pod's service account could not be verified for this reason, or tokens can be again (spec B-13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct TokensVerified(pub Option<NoKeys>);

/// Requests the sessions of all registered executors, or of one executor.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "BTreeMap<ExecutorId, SessionView>")]
pub struct GetSessions(pub Option<ExecutorId>);

/// Requests a read of the application record. Answered with true if it is this driver's, once it could be read; with
/// false if that stays unknown (spec B-16).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "bool")]
pub struct ReadRecord;

/// An event that no snapshot shows. Sent to the event history.
#[derive(Debug, Clone, PartialEq, Message)]
#[rtype(result = "()")]
pub enum SessionEvent {
    Step(ExecutorId, ProfileName, SessionStep),
    /// What the container of an executor used that has ended, by its last heartbeat.
    Used(ExecutorId, Usage),
    /// The driver suspects its own network path, and gives up no executor.
    Degraded(WhyDoubt),
    Recovered,
}

/// The registered executors or the degraded state have changed. Sent to DriverBackend.
#[derive(Debug, Clone, PartialEq, Eq, Default, Message)]
#[rtype(result = "()")]
pub struct SessionsChanged {
    pub registered: BTreeMap<ProfileName, u32>,
    /// Why the driver is degraded, and since when.
    pub doubt: Option<(WhyDoubt, Tick)>,
}
