//! boatswain keeps a distributed application's executor pods alive on Kubernetes.
//!
//! The map of the house, from the inside out:
//!
//! - [`model`]: values and pure functions: ids, pods, entries, snapshots, reasons.
//! - the actors, one folder each, the decision of each a pure function beside it:
//!   [`watch_source`], [`poll_source`], [`snapshot_store`], [`pod_allocator`],
//!   [`set_scaler`], [`pod_groups`], [`lifecycle_manager`], [`driver_backend`], [`record_keeper`].
//! - [`protocol`]: what executors and the driver say to each other.
//! - [`sessions`]: how executors reach the driver, and prove who they are.
//! - [`kubernetes`]: the client, typed calls, what a failure means, how a pod is built.
//! - [`driver`]: all wiring, in one function. [`api`]: its HTTP, for people and programs.
//! - [`agent`]: runs an executor's program, and speaks to the driver for it.
//! - [`config`], [`cli`], [`exit`], [`secret`], [`telemetry`]: the edges to people.
//! - [`devcluster`]: the embedded cluster; it knows nothing of the driver.
//! - [`planted`]: faults for the simulator to find.
//!
//! `ARCHITECTURE.md` has the picture and the reasons.

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
