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

pub mod agent;
pub mod announcer;
pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod credentials;
pub mod devcluster;
pub mod driver;
pub mod driver_backend;
pub mod exit;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod kubernetes;
pub mod lifecycle_manager;
pub mod metrics;
pub mod model;
pub mod planted;
pub mod pod_allocator;
pub mod pod_groups;
pub mod poll_source;
pub mod protocol;
pub mod record_keeper;
pub mod secret;
pub mod sessions;
pub mod set_scaler;
pub mod snapshot_store;
pub mod telemetry;
pub mod watch_source;

#[cfg(test)]
mod testing;
