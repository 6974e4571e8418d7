//! The driver's HTTP servers: the API for operators and clients, and the sessions of executors.

pub mod api;
pub mod limits;
pub mod problem;
pub(crate) mod serve;
pub mod sessions;
pub mod tls;
