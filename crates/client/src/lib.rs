#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[rustfmt::skip]
mod api;
mod client;
mod events;

pub use api::*;
pub use boatswain_agent::trust::TrustError;
pub use client::{Client, ClientError, Token};
pub use events::{Events, Message};
