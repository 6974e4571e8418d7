//! What DriverBackend is asked.

use actix::{Message, Recipient};

use super::views::StatusView;
use crate::actors::lifecycle_manager::messages::Ended;

/// Subscribes to the end of every executor from now on.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct HearOfEnds(pub Recipient<Ended>);

/// Asks for the application's status (spec O-42).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "StatusView")]
pub struct GetStatus;
