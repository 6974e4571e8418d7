//! What WatchSource is told.

use actix::Message;

/// The driver stops: whatever is in flight is dropped at once, and nothing more is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Stop;
