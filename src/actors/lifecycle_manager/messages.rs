use actix::Message;

use super::kept::Policy;
use crate::model::{Ending, ExecutorId, Tick};

/// Instruct this executor over its session (spec L-12, B-28, B-30).
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Instruct {
    pub executor: ExecutorId,
    pub order: Order,
    /// The pod is deleted after this time.
    pub until: Tick,
    /// A description.
    pub why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Exit.
    Stop,
    /// Take no new work, finish the current work, and exit.
    Drain,
}

/// Keeps the pods of finished executors by this policy from now on (spec C-6, O-77).
#[derive(Debug, Clone, Copy, Message)]
#[rtype(result = "()")]
pub struct NewPolicy(pub Policy);

/// Reports an end to the store, as soon as the record contains it (spec L-1).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Report(pub Ending);
