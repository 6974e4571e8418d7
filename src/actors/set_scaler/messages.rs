//! What SetScaler is told.

use actix::Message;

/// The application is over: the sets go, once nobody drains any more. Answered with how many there still are.
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "usize")]
pub struct EndSets;
