//! boatswain keeps a distributed application's executor pods alive on Kubernetes.
//!
//! The modules, lowest layer first:
//!
//! - [`model`]: values and pure functions: ids, pods, entries, snapshots, reasons.
//! - [`kubernetes`]: the client, typed calls, the meaning of failures, how pods are built.
//! - [`config`]: the configuration file.
//! - [`actors`]: one folder for each actor; its decisions are pure functions beside it.
//! - [`server`]: the HTTP API, and the sessions of executors.
//! - [`driver`]: the start, the wiring of all actors, the end.
//! - [`cli`]: the command line.
//! - [`clock`], [`secret`], [`telemetry`], [`exit`]: time, secrets, logs, exit codes.
//! - [`planted`]: faults that the simulator has to find.
//!
//! The agent and the embedded cluster are crates of their own. `ARCHITECTURE.md` has the picture and the reasons.

#![forbid(unsafe_code)]

pub mod actors;
pub mod cli;
pub mod clock;
pub mod config;
pub mod driver;
pub mod exit;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod kubernetes;
pub mod model;
pub mod planted;
pub mod secret;
pub mod server;
pub mod telemetry;

#[cfg(test)]
mod testing;
