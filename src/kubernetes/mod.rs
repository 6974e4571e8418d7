//! Kubernetes: the client, typed calls, what a failure means, how a pod is built and read.
//!
//! Nothing here decides anything about executors; it is what the actors reach the cluster by.

pub mod backoff;
pub mod calls;
pub mod claims;
pub mod client;
pub mod decode;
pub mod draining;
mod explained;
pub mod labels;
pub mod names;
pub mod owned_resources;
pub mod pod_template;
pub mod record;
pub mod refusal;
pub mod rights;
pub mod set_template;
mod transport_error;
mod wire;

pub use calls::{
    Calls, CallsSpec, Deleted, ListPage, ListQuery, NotStreamed, SetKind, SetSeen, WatchLine,
    WatchStream, WatchedPods,
};
pub use client::{Access, Clients, ConnectError};
pub use decode::PodReader;
pub use labels::LabelScheme;
pub use pod_template::{PodBody, ProfileSpec, Template};
pub use record::Record;
pub use refusal::{Failure, Kind};
