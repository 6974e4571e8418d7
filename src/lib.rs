//! boatswain keeps a distributed application's executor pods alive on Kubernetes.
//!
//! The modules, lowest layer first:
//!
//! - [`planted`], [`exit`]: planted faults for the simulator; exit codes.
//! - [`model`]: values and pure functions: ids, pods, entries, snapshots, reasons.
//! - [`clock`], [`secret`], [`telemetry`], [`metrics`]: time; secrets; logs; numbers for Prometheus.
//! - [`kubernetes`]: the client, typed calls, the meaning of failures, how pods are built.
//! - [`event_recorder`]: Kubernetes Events on the driver's pod.
//! - [`config`]: the configuration file.
//! - [`manifests`]: the objects that a driver needs in its cluster.
//! - [`actors`]: one folder for each actor, with its decisions as pure functions.
//! - [`server`]: the HTTP API, and the sessions of executors.
//! - [`driver`]: start, wiring of the actors, end.
//! - [`cli`]: the command line.
//!
//! The agent and the embedded cluster are separate crates. `ARCHITECTURE.md` explains the design.

#![forbid(unsafe_code)]

pub mod actors;
pub mod cli;
pub mod clock;
pub mod config;
pub mod driver;
pub mod event_recorder;
pub mod exit;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod kubernetes;
pub mod manifests;
pub mod metrics;
pub mod model;
pub mod planted;
pub mod secret;
pub mod server;
pub mod telemetry;

#[cfg(test)]
mod testing;
