//! Functions that take arbitrary bytes and panic if a property of the input's processing is violated.
//!
//! `fuzz/` calls them with generated inputs, the tests with recorded examples and mutations of them. They are compiled
//! only for tests and with the feature `fuzzing`. An input's parts are separated by a line `%`.

pub use crate::actors::executor_registry::registry::fuzzing::sessions;
pub use crate::config::fuzzing::{configuration, spark};
pub use crate::kubernetes::calls::fuzzing::watch_lines;
pub use devcluster::fuzzing::{patch, requests, selectors, token};

#[cfg(test)]
mod tests;
