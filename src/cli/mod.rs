//! The command line.

pub mod dev_cluster;
