//! Access to the Kubernetes API: the client, typed calls, classification of failures, and the building and decoding of pods.
//!
//! This crate makes no decisions about executors. The driver's actors decide and use it to reach the cluster.

#![forbid(unsafe_code)]

pub mod backoff;
pub mod calls;
pub mod claims;
pub mod client;
mod credentials;
pub mod decode;
pub mod draining;
pub mod driver_pod;
mod explained;
pub mod gate;
pub mod labels;
pub mod leftovers;
pub mod owned_resources;
pub mod pod_template;
pub mod record;
pub mod refusal;
pub mod rights;
pub mod secret;
pub mod server_clock;
pub mod set_template;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transport_error;
mod wire;
pub mod workloads;

pub use calls::{
    Calls, CallsSpec, Deleted, ListPage, ListQuery, NotStreamed, SetKind, SetSeen, WatchLine,
    WatchStream, WatchedPods,
};
pub use client::{Access, Clients, ConnectError};
pub use decode::PodReader;
pub use gate::{Permit, WriteGate};
pub use labels::LabelScheme;
pub use pod_template::{PodBody, ProfileSpec, Template};
pub use record::Record;
pub use refusal::{Failure, FailureKind};
