//! The orders that the driver gives executors.

use std::time::Duration;

/// An order to an executor, with a deadline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    pub demand: Demand,
    /// How long the executor has, from when the order is given.
    pub within: Duration,
    /// A human-readable reason.
    pub why: String,
}

/// What an order demands. Later variants override earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Finish running tasks, accept no more, and exit.
    Drain,
    /// Exit.
    Stop,
}
