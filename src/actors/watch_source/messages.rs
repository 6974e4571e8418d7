//! What WatchSource is told.

use actix::Message;

use crate::model::Epoch;

/// A list revealed that the API server's history begins anew: so does the watch, with a new list (spec S-13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct ListAnew {
    /// The new history.
    pub epoch: Epoch,
}

/// The driver stops: whatever is in flight is dropped at once, and nothing more is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Stop;
