//! WatchSource.

pub mod messages;
