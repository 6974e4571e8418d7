use actix::Message;

use crate::model::{ExecutorId, Tick};

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
