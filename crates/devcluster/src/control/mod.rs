//! Fault injection at run time, over a control socket.

pub mod faults;
pub mod node_faults;
pub mod socket;
