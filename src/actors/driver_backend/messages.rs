use actix::Message;

use super::counts::CountsView;
use super::views::StatusView;

/// Requests the application's status (spec O-42).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "StatusView")]
pub struct GetStatus;

/// Requests the numbers of the last hour (spec O-82).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "CountsView")]
pub struct GetCounts;
