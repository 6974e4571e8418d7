//! The `boatswain` binary.
#![forbid(unsafe_code)]

fn main() {}
