//! The state, the task that owns it, and the file it may be kept in.

pub(crate) mod data;
pub(crate) mod follow;
pub(crate) mod keep;
pub(crate) mod looks;
pub(crate) mod publish;
pub(crate) mod seeds;
pub(crate) mod server;
pub(crate) mod store;
