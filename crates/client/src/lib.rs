#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod client;
mod events;
#[rustfmt::skip]
mod requests;
#[rustfmt::skip]
mod types;
#[rustfmt::skip]
mod words;

pub use boatswain_agent::trust::{Ca, TrustError};
pub use client::{Client, ClientError, Token};
pub use events::{Events, Message};
pub use types::*;
pub use words::*;
