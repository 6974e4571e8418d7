//! LifecycleManager: how an executor goes, how it ends, and why.

pub mod duties;
