//! The messages of PollSource.

use std::time::Duration;

use actix::Message;

/// Makes lists at this interval from now on (spec C-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct NewInterval(pub Duration);
