//! To come.

pub mod backoff;
