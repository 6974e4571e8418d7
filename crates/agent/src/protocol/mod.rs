//! The protocol between executors and the driver: the messages in both directions, and their parser
//! (spec B-1 to B-11, O-61). `docs/protocol.md` describes the protocol for authors of clients.
//!
//! A message is one JSON object whose field `type` names its kind. Unknown fields are ignored, so
//! that either side may be newer. Unknown types are answered with a problem.

mod from_executor;
mod order;
mod reading;
mod to_executor;

pub use from_executor::{AskToGo, Exiting, FromExecutor, Heartbeat, Register, Usage};
pub use order::{Demand, Order};
pub use reading::{MESSAGE_LIMIT, Misread, read};
pub use to_executor::{Notice, Registered, ToExecutor};

/// The code of the answer (503) to a token that the driver cannot verify now: try again, for as long as it takes.
pub const NO_KEYS: &str = "no-keys";
