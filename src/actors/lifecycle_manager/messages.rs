//! What LifecycleManager tells.

use actix::Message;

use super::pending_actions::Ending;
use crate::model::{ExecutorId, Tick};

/// An executor's end and its reason, told once (spec L-1).
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct Ended(pub Box<Ending>);

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
