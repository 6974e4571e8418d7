//! The actors, one folder each; the decision of each is a pure function beside it. They share no state and speak in
//! messages.

pub mod api_health;
pub mod driver_backend;
pub mod event_history;
pub mod executor_registry;
pub mod failures;
pub mod lease_keeper;
pub mod lifecycle_manager;
pub mod pod_allocator;
pub mod poll_source;
pub mod profile_messages;
pub mod record_keeper;
pub mod set_scaler;
pub mod snapshot_store;
pub mod watch_source;
