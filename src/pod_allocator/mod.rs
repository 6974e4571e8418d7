//! PodAllocator: how many executors there are, when they are asked for, and which go.

pub mod crash_loop;
pub mod pace;
pub mod slots;
pub mod victims;
