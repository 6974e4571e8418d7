//! Draws refused deletes, volumes that are not mounted, and repeated requests to stop. They have a random stream of their
//! own, so that runs without them do not change.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Fault, Step, ms};
use crate::node::StartupFault;

/// Separates this random stream from the others.
const REFUSALS: u64 = 0x7265_6675_7361_6c73;

/// Percentage of seeds with faults of each of the three kinds.
const PERCENT_OF_SEEDS: u32 = 15;

/// A request to stop is repeated this long after it, in milliseconds.
const AGAIN: std::ops::Range<u64> = 0..5_000;

/// The faults of these kinds before `faults_end`.
pub fn steps(seed: u64, faults_end: Duration) -> Vec<Step> {
    let rng = &mut StdRng::seed_from_u64(seed ^ REFUSALS);
    let mut steps = Vec::new();
    for draw in [refused_deletes, unmounted_volumes, repeated_stops] {
        if !rng.random_ratio(PERCENT_OF_SEEDS, 100) {
            continue;
        }
        for _ in 0..rng.random_range(1..4) {
            let at = faults_end.mul_f64(rng.random());
            let drawn = draw(rng).into_iter();
            steps.extend(drawn.map(|(after, fault)| Step {
                at: at + after,
                fault,
            }));
        }
    }
    steps
}

fn refused_deletes(rng: &mut StdRng) -> Vec<(Duration, Fault)> {
    let time = ms(rng, 1_000..120_000);
    vec![(Duration::ZERO, Fault::RefuseDeletes { time })]
}

/// Some last longer than drivers wait for them (spec O-79).
fn unmounted_volumes(rng: &mut StdRng) -> Vec<(Duration, Fault)> {
    let fault = Fault::Startup {
        pick: rng.random(),
        what: StartupFault::NoVolume,
        time: ms(rng, 1_000..900_000),
    };
    vec![(Duration::ZERO, fault)]
}

fn repeated_stops(rng: &mut StdRng) -> Vec<(Duration, Fault)> {
    let restart_after = ms(rng, 0..10_000);
    let first = match rng.random_bool(0.5) {
        true => Fault::HandOver { restart_after },
        false => Fault::EndApplication { restart_after },
    };
    let end = rng.random_bool(0.5);
    let again = (ms(rng, AGAIN), Fault::StopAgain { end });
    vec![(Duration::ZERO, first), again]
}
