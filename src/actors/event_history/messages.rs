use std::collections::BTreeMap;

use actix::Message;
use jiff::Timestamp;
use tokio::sync::watch;

use super::event::{EventId, What};
use super::history::{ExecutorHistory, Reading};
use super::views::{ExecutorList, ExecutorView, Selection};
use crate::model::ExecutorId;

/// Reports an event that no snapshot shows.
#[derive(Debug, Clone, PartialEq, Message)]
#[rtype(result = "()")]
pub struct Happened(pub What);

/// Requests live executors.
#[derive(Debug, Clone, Default, Message)]
#[rtype(result = "ExecutorList")]
pub struct GetExecutors(pub Selection);

/// Requests the history of an executor (spec B-51); `None` for one that ended long ago.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Option<Explanation>")]
pub struct Explain(pub ExecutorId);

#[derive(Debug, Clone)]
pub struct Explanation {
    /// Its present state, if it is alive.
    pub now: Option<ExecutorView>,
    pub history: ExecutorHistory,
}

/// Requests the events after one (spec B-50).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "EventsRead")]
pub struct ReadEvents {
    /// The last event that the reader has.
    pub after: Option<EventId>,
    /// The most events to return.
    pub most: usize,
}

#[derive(Debug, Clone)]
pub struct EventsRead {
    pub reading: Reading,
    /// When the events were read.
    pub time: Timestamp,
    /// All live executors, if the reader has to start anew.
    pub living: Vec<ExecutorView>,
    /// The profiles that are being removed, if the reader has to start anew.
    pub removing: Vec<String>,
    /// The profiles that have failed, and why, if the reader has to start anew.
    pub failed: BTreeMap<String, String>,
}

/// Requests a receiver of the number of the last event.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "Growth")]
pub struct FollowEvents;

/// The number of the last event, as it grows.
#[derive(Debug, Clone)]
pub struct Growth(pub watch::Receiver<u64>);
