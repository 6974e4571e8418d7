//! What an executor is told to do.

use std::time::Duration;

/// Something that an executor is told to do, and by when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// What.
    pub demand: Demand,
    /// How long it has for that, counted from when the order is given.
    pub within: Duration,
    /// Why, for people.
    pub why: String,
}

/// What can be demanded of an executor; the later one outdoes the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Finish what is under way, take on nothing more, and exit (spec B-30).
    Drain,
    /// Exit (spec B-28).
    Stop,
}
