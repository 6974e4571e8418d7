use std::collections::BTreeMap;

use actix::Message;
use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{oneshot, watch};

use super::event::{EventId, What};
use super::history::{ExecutorHistory, Reading};
use super::views::{ExecutorView, Selection};
use crate::model::ExecutorId;

/// Reports an event that no snapshot shows.
#[derive(Debug, Clone, PartialEq, Message)]
#[rtype(result = "()")]
pub struct Happened(pub What);

/// Requests a list of live executors as JSON text, which others may share (spec O-133).
#[derive(Message)]
#[rtype(result = "()")]
pub struct ListExecutors {
    pub selection: Selection,
    /// Used if the text has to be made.
    pub room: TakeRoom,
    /// `None`: there is no room for the text.
    pub answer: oneshot::Sender<Option<Bytes>>,
}

/// Takes the room of a text for as long as a copy of it is left; `None` if there is none.
pub type TakeRoom = Box<dyn FnOnce(Vec<u8>) -> Option<Bytes> + Send>;

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
