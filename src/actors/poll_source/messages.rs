//! What PollSource is told.

use actix::Message;

/// A list is wanted before the next interval is over; many askings make one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct PollNow;

/// The driver stops: whatever is in flight is dropped at once, and nothing more is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Stop;
