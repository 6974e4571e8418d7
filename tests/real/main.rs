//! What only a real cluster shows; `tests/real/run real` starts one and runs these tests in it.
//!
//! Each test has a namespace of its own. Most of them run side by side on two real nodes and one of KWOK's. Those that
//! restart a part of the cluster are called `alone_…`, and run one after the other.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

#[expect(dead_code, reason = "tests/outside uses the rest")]
#[path = "../outside/api.rs"]
mod api;
mod driver;
mod place;
#[expect(dead_code, reason = "tests/outside uses the rest")]
#[path = "../outside/process.rs"]
mod process;

mod accounts;
mod admission;
mod ends;
mod ends_of_drivers;
mod evictions;
mod gangs;
mod nodes;
mod pools;
mod registration;
mod releases;
mod rights;
mod server;
mod sizes;
mod spares;
mod webhook;
