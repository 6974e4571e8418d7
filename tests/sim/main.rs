//! The simulator: the driver as wired in production, on the embedded cluster, under a paused clock, in a world where
//! things go wrong; all of it from a seed.
//!
//! - `cargo test sim`: a modest number of seeds.
//! - `BOATSWAIN_SIM_SEEDS=5000 cargo test --release sim`: so many; from `BOATSWAIN_SIM_FIRST` on, where that is set.
//! - `BOATSWAIN_SIM_EXECUTORS=2000`, `BOATSWAIN_SIM_HOURS=24`: every world is that large, or lasts that long before it
//!   becomes calm, with as many more faults.
//! - `BOATSWAIN_SIM_SEED=7 cargo test --test sim all_invariants -- --nocapture`: one, with all that happened.
//! - `BOATSWAIN_SIM_KEEP=folder`: the trace of each seed is written there.
//! - A violation ends with the command that shows it again, in the shortest form that does ([`shrink`]).
//! - `BOATSWAIN_SIM_PLANTED=ReportedTwice cargo test --test sim all_invariants`: the same with a fault of the driver's own.
//! - `BOATSWAIN_SIM_PLANTED=all cargo test --release --test sim planted -- --nocapture`: which seed finds which fault
//!   ([`planted`]).
//!
//! - `cargo test sim_sets`: the worlds in which sets make the executors' pods ([`sets`]), by the same variables.
//!
//! [`script`] draws what is done from the seed, [`world`] does it, [`network`] stands between the drivers and the API
//! server, [`checks`], [`truth`] and [`calm`] hold what comes of it against the invariants (spec 9).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod budget;
mod calm;
mod case;
mod checks;
mod claims;
mod drivers;
mod exits;
mod faults;
mod hand;
mod memory;
mod network;
mod node;
mod planted;
mod probe;
mod requests;
mod runs;
mod same;
mod script;
mod sets;
mod shrink;
mod talk;
mod trace;
mod truth;
mod weather;
mod webhook;
mod world;

use std::env;

use case::Case;
use runs::{run_many, run_with_log};

/// How many seeds are run where nobody says how many.
const MODEST: u64 = 200;

// spec: I-1, I-2, I-3, I-4, I-5, I-6, I-7, I-9, I-10, I-12
#[test]
fn sim_all_invariants_hold_in_every_world() {
    let planted = case::named_fault();
    run_asked_for(MODEST, Case::named(), |seed| Case::with(planted, seed));
}

/// Runs the case that the environment names, with all that happens; where it names none, the cases of as many seeds as it
/// says, or of so many.
fn run_asked_for(modest: u64, named: Option<Case>, of: impl Fn(u64) -> Case + Sync) {
    trace::note_panics();
    trace::log_by_thread();
    if let Some(case) = named {
        let run = run_with_log(&case);
        println!("{}", run.trace);
        assert_eq!(run.verdict, Ok(()), "{case}");
        return;
    }
    let first = number("BOATSWAIN_SIM_FIRST").unwrap_or(1);
    let seeds = number("BOATSWAIN_SIM_SEEDS").unwrap_or(modest);
    if let Err(violation) = run_many(first..first + seeds, of) {
        panic!("{violation}");
    }
}

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}
