//! Fault injection at run time, over a control socket.

pub mod ask_node;
pub mod faults;
pub mod socket;
