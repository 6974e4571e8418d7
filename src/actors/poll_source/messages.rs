//! The messages of PollSource.

use std::time::Duration;

use actix::Message;

/// Makes lists at this interval from now on (spec C-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct NewInterval {
    pub interval: Duration,
    /// Whether the interval holds however large the fleet is, as during an end (spec O-11).
    pub is_firm: bool,
}
