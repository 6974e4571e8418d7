//! To come.

pub mod messages;
