//! What the driver serves over HTTP: the API for people and programs, and the sessions of executors.

pub mod api;
pub mod problem;
pub(crate) mod serve;
pub mod sessions;
