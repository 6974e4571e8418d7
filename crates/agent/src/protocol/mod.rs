//! What executors and the driver say to each other: the messages of both directions, and how they are read (spec B-1 to
//! B-11, O-61). `docs/protocol.md` tells the same to people who write a client.
//!
//! A message is one JSON object whose `type` says which one it is. Fields that are not known are ignored, so that either
//! side may be the newer one; a type that is not known is answered with a problem.

mod from_executor;
mod order;
mod reading;
mod to_executor;

pub use from_executor::{AskToGo, Exiting, FromExecutor, Heartbeat, Register};
pub use order::{Demand, Order};
pub use reading::{MESSAGE_LIMIT, Misread, read};
pub use to_executor::{Notice, Registered, Said, ToExecutor};
