//! What LifecycleManager tells.

use actix::Message;

use super::duties::Ending;

/// An executor's end and its reason, told once (spec L-1).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Ended(pub Box<Ending>);
