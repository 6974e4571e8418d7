//! The state, the task that owns it, and the file that persists it.

pub(crate) mod data;
pub(crate) mod follow;
pub(crate) mod keep;
pub(crate) mod looks;
pub(crate) mod publish;
pub(crate) mod seeds;
pub(crate) mod server;
pub(crate) mod store;
