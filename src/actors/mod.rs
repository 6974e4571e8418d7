//! The actors, one folder each; the decision of each is a pure function beside it. They share no state and speak in
//! messages.

pub mod credentials;
pub mod driver_backend;
pub mod event_history;
pub mod event_recorder;
pub mod executor_registry;
pub mod lease_keeper;
pub mod lifecycle_manager;
pub mod metrics;
pub mod pod_allocator;
pub mod poll_source;
pub mod profile_messages;
pub mod profile_objects;
pub mod reachability;
pub mod record_keeper;
pub mod set_scaler;
pub mod snapshot_store;
pub mod watch_source;
