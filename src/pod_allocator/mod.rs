//! PodAllocator: how many executors there are, when they are asked for, and which go.

pub mod allocation;
pub mod crash_loop;
pub mod hold;
pub mod pace;
pub mod slots;
pub mod victims;
