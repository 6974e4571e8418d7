//! The state, the task that owns it, and the file that persists it.

pub(crate) mod follow;
pub(crate) mod publish;
pub(crate) mod seeds;
pub(crate) mod server;
pub(crate) mod store;
pub(crate) mod work_queue;
