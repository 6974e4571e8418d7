//! The cluster misbehaving on demand.

pub mod ask_node;
pub mod faults;
pub mod socket;
