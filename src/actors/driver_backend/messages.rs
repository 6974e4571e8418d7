use actix::Message;

use super::views::StatusView;

/// Requests the application's status (spec O-42).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "StatusView")]
pub struct GetStatus;
