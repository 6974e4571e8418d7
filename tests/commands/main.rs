//! Tests the commands of the driver's API: a whole driver on the embedded cluster in the same process, under a paused
//! clock.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod application;
mod contract;
mod demand;
mod executors;
mod failed_profiles;
mod pauses;
mod profiles;
mod removal;
mod rolling;
mod rust_client;
mod upgrade;
mod world;
