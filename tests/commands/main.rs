//! A driver is steered: the whole of it, by its api, on the embedded cluster in the same process, under a paused clock.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod application;
mod contract;
mod demand;
mod executors;
mod pauses;
mod profiles;
mod rolling;
mod world;
