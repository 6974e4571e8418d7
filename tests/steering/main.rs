//! A driver is steered: the whole of it, by its api, on the embedded cluster in the same process, under a paused clock.

mod application;
mod executors;
mod world;
