//! The simulator: the driver as wired in production, on the embedded cluster, under a paused clock, in a world where
//! things go wrong; all of it from a seed.
//!
//! - `cargo test sim`: a modest number of seeds.
//! - `BOATSWAIN_SIM_SEEDS=5000 cargo test --release sim`: so many.
//! - `BOATSWAIN_SIM_EXECUTORS=2000`, `BOATSWAIN_SIM_HOURS=24`: every world is that large, or lasts that long before it
//!   becomes calm, with as many more faults.
//! - `BOATSWAIN_SIM_SEED=7 cargo test sim -- --nocapture`: one, with all that happened.
//!
//! [`script`] draws what is done from the seed, [`world`] does it, [`network`] stands between the drivers and the API
//! server, [`checks`] and [`calm`] hold what comes of it against the invariants (spec 9).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod calm;
mod checks;
mod drivers;
mod exits;
mod faults;
mod hand;
mod network;
mod node;
mod requests;
mod runs;
mod script;
mod trace;
mod weather;
mod webhook;
mod world;

use std::env;

use runs::{run, run_many};

/// How many seeds are run where nobody says how many.
const MODEST: u64 = 60;

// spec: I-1, I-2, I-3, I-4, I-5, I-6, I-7, I-9, I-10, I-12
#[test]
fn sim_all_invariants_hold_in_every_world() {
    trace::note_panics();
    trace::log_by_thread();
    if let Some(seed) = number("BOATSWAIN_SIM_SEED") {
        let run = run(seed, true);
        println!("{}", run.trace);
        assert_eq!(run.verdict, Ok(()), "seed {seed}");
        return;
    }
    let first = number("BOATSWAIN_SIM_FIRST").unwrap_or(1);
    let seeds = number("BOATSWAIN_SIM_SEEDS").unwrap_or(MODEST);
    if let Err(violation) = run_many(first..first + seeds) {
        panic!("{violation}");
    }
}

#[test]
fn sim_the_same_seed_gives_the_same_trace() {
    trace::note_panics();
    trace::log_by_thread();
    for seed in 1..6 {
        // Without the log: which of its lines are wanted at all is settled between the threads that run tests.
        let (one, other) = (run(seed, false).trace, run(seed, false).trace);
        let differs = one
            .lines()
            .zip(other.lines())
            .find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(one.len(), other.len(), "seed {seed}");
    }
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}
