//! boatswain keeps a distributed application's executor pods alive on Kubernetes.
//!
//! The modules, lowest layer first:
//!
//! - [`exit`], [`clock`], [`telemetry`], [`metrics`]: exit codes; time; logs; numbers for Prometheus.
//! - [`event_recorder`]: Kubernetes Events on the driver's pod.
//! - [`manifests`]: the objects that a driver needs in its cluster.
//! - [`actors`]: one folder for each actor, with its decisions as pure functions.
//! - [`server`]: the HTTP API, and the sessions of executors.
//! - [`driver`]: start, wiring of the actors, end.
//! - [`cli`]: the command line.
//!
//! Below them are crates: [`model`] (values and the ledger's decisions), [`kubernetes`] (how the driver speaks with a
//! cluster) and [`config`]. The agent, a client and the embedded cluster are crates as well. `ARCHITECTURE.md` explains
//! the design.

#![forbid(unsafe_code)]

pub mod actors;
pub mod cli;
pub mod clock;
pub mod driver;
pub mod event_recorder;
pub mod exit;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod manifests;
pub mod metrics;
pub mod server;
pub mod telemetry;

pub use boatswain_config as config;
pub use boatswain_kubernetes as kubernetes;
pub use boatswain_kubernetes::secret;
pub use boatswain_model as model;
pub use boatswain_model::planted;

#[cfg(test)]
mod testing;
