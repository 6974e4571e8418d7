//! What holds of whatever comes from outside: functions that take any bytes, and panic where it does not.
//!
//! `fuzz/` calls them with what it thinks of, and the properties here with recorded examples that were damaged; so what
//! the one finds, the other can keep. They are there for tests, and with the feature `fuzzing`, only.
//!
//! What has more than one part is written with a line `%` between them.

pub use crate::actors::executor_registry::registry::fuzzing::sessions;
pub use crate::config::fuzzing::{configuration, spark};
pub use crate::kubernetes::calls::fuzzing::watch_lines;
pub use devcluster::fuzzing::{patch, requests, selectors, token};

#[cfg(test)]
mod tests;
