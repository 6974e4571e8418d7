//! Properties that must hold for any input from outside: functions that take arbitrary bytes and
//! panic if a property is violated.
//!
//! `fuzz/` calls them with generated inputs, and the tests here with recorded examples and
//! mutations of them; an input that the fuzzer finds can be kept as an example. They are compiled
//! only for tests and with the feature `fuzzing`.
//!
//! Inputs with several parts separate them by a line `%`.

pub use crate::actors::executor_registry::registry::fuzzing::sessions;
pub use crate::config::fuzzing::{configuration, spark};
pub use crate::kubernetes::calls::fuzzing::watch_lines;
pub use devcluster::fuzzing::{patch, requests, selectors, token};

#[cfg(test)]
mod tests;
