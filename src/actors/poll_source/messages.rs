//! The messages of PollSource.

use std::time::Duration;

use actix::Message;

/// Requests a list before the interval has passed. Requests while one is waiting are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct PollNow;

/// Makes lists at this interval from now on (spec C-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct NewInterval(pub Duration);

/// Stops the poll: the list in flight is cancelled at once, and nothing more is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Stop;
