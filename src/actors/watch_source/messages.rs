//! The messages of WatchSource.

use actix::Message;

/// Stops the watch: the call in flight is cancelled at once, and nothing more is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Stop;
