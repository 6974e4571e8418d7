//! What LifecycleManager sends.

use actix::Message;

use crate::model::{ExecutorId, Tick};

/// Tell this executor over its session what it is to do (spec L-12, B-28, B-30).
#[derive(Debug, Clone, PartialEq, Eq, Message)]
#[rtype(result = "()")]
pub struct Instruct {
    /// Which one.
    pub executor: ExecutorId,
    /// What it is to do.
    pub order: Order,
    /// By when; then its pod is deleted.
    pub until: Tick,
    /// Why, for people.
    pub why: String,
}

/// What an executor that leaves is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Exit.
    Stop,
    /// Take no new work, finish what it has, and exit.
    Drain,
}
