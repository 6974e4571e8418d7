//! The deterministic simulator: it runs the driver, wired as in production, against the embedded Kubernetes cluster
//! under a paused clock, injects faults drawn from a seed, and checks the invariants (spec 9) at every step.
//!
//! [`script`] draws the faults from the seed, [`world`] executes them, and [`network`] stands between the drivers and
//! the API server. [`checks`], [`beliefs`] and [`convergence`] check the invariants.
//!
//! - `cargo test sim`: the default number of seeds.
//! - `BOATSWAIN_SIM_SEEDS=5000 cargo test --release sim`: this many seeds, beginning at `BOATSWAIN_SIM_FIRST` if set.
//! - `BOATSWAIN_SIM_EXECUTORS=2000`, `BOATSWAIN_SIM_HOURS=24`: the size of every fleet, and how long faults are
//!   injected in every run. The number of faults grows with the hours.
//! - `BOATSWAIN_SIM_SEED=7 cargo test --test sim all_invariants -- --nocapture`: one seed, with its whole trace.
//! - `BOATSWAIN_SIM_KEEP=folder`: writes the trace of each seed to this folder.
//! - A violation is printed with a command that reproduces it, in the shortest form found ([`shrink`]).
//! - `BOATSWAIN_SIM_PLANTED=ReportedTwice cargo test --test sim all_invariants`: the same with a fault planted in the
//!   driver.
//! - `BOATSWAIN_SIM_PLANTED=all cargo test --release --test sim planted -- --nocapture`: which seed finds which planted
//!   fault ([`planted`]).
//! - `cargo test sim_sets`: the runs in which sets make the executors' pods ([`sets`]), with the same variables.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beliefs;
mod budget;
mod case;
mod checks;
mod claims;
mod convergence;
mod credentials;
mod drains;
mod drivers;
mod early_ends;
mod engine;
mod exits;
mod faults;
mod found;
mod kept;
mod lease;
mod leaving_nodes;
mod memory;
mod neighbours;
mod network;
mod network_conditions;
mod node;
mod objects;
mod outages;
mod planted;
mod pools;
mod probe;
mod requests;
mod runs;
mod same;
mod script;
mod sessions;
mod sets;
mod shrink;
mod sizes;
mod spares;
mod tokens;
mod trace;
mod webhook;
mod world;

use std::env;

use case::Case;
use runs::{run_many, run_with_log};

/// Number of seeds that run by default.
const DEFAULT_SEEDS: u64 = 40;

// spec: I-1, I-2, I-3, I-4, I-5, I-6, I-7, I-9, I-10, I-12
#[test]
fn sim_all_invariants_hold_in_every_run() {
    let planted = case::fault_from_env();
    run_from_env(DEFAULT_SEEDS, Case::from_env(), |seed| {
        Case::with_fault(planted, seed)
    });
}

/// Runs the case that the environment names and prints its trace. If it names none, runs the number of seeds that the
/// environment sets, or `default_seeds`.
fn run_from_env(default_seeds: u64, named: Option<Case>, of: impl Fn(u64) -> Case + Sync) {
    trace::capture_panics();
    trace::install_log();
    if let Some(case) = named {
        let run = run_with_log(&case);
        println!("{}", run.trace);
        assert_eq!(run.verdict, Ok(()), "{case}");
        return;
    }
    let first = number("BOATSWAIN_SIM_FIRST").unwrap_or(1);
    let seeds = number("BOATSWAIN_SIM_SEEDS").unwrap_or(default_seeds);
    if let Err(violation) = run_many(first..first + seeds, of) {
        panic!("{violation}");
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}
