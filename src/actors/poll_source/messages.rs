//! The messages of PollSource.

use actix::Message;

/// Requests a list before the interval has passed. Requests while one is waiting are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct PollNow;

/// Stops the poll: the list in flight is cancelled at once, and nothing more is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Stop;
