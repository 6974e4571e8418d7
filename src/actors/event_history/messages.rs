//! What EventHistory is sent and asked.

use actix::Message;
use tokio::sync::watch;

use super::event::{EventId, What};
use super::history::{ExecutorHistory, Reading};
use super::views::ExecutorView;
use crate::model::ExecutorId;

/// Something happened that no snapshot shows.
#[derive(Debug, Clone, PartialEq, Message)]
#[rtype(result = "()")]
pub struct Happened(pub What);

/// Asks for all executors that live.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Vec<ExecutorView>")]
pub struct GetExecutors;

/// Asks for the history of an executor (spec B-51); `None` for one that ended long ago.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Option<Explanation>")]
pub struct Explain(pub ExecutorId);

/// What is known of one executor.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// How it is, if it lives.
    pub now: Option<ExecutorView>,
    /// What happened to it.
    pub history: ExecutorHistory,
}

/// Asks for the events after one (spec B-50).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "EventsRead")]
pub struct ReadEvents {
    /// The last event that the reader has.
    pub after: Option<EventId>,
    /// At most this many.
    pub most: usize,
}

/// What a reader of events gets, and with it the living where it has to begin anew.
#[derive(Debug, Clone)]
pub struct EventsRead {
    /// The events, or where to begin.
    pub reading: Reading,
    /// All executors that live, for one that begins anew.
    pub living: Vec<ExecutorView>,
}

/// Asks for a receiver that sees the number of the last event grow.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Growth")]
pub struct FollowEvents;

/// The number of the last event, as it grows.
#[derive(Debug, Clone)]
pub struct Growth(pub watch::Receiver<u64>);
