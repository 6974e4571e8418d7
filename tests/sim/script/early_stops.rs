//! Draws drivers that are requested to stop during their start. They have a random stream of their own, so that runs
//! without them do not change.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Fault, Step, ms};

/// Separates this random stream from the others.
const EARLY_STOPS: u64 = 0x6561_726c_7973_746f;

/// Percentage of seeds with early stops.
const PERCENT_OF_SEEDS: u32 = 25;

/// A start takes fewer polls than this, as long as the network has no faults.
const POLLS: std::ops::Range<u32> = 0..20;

/// The early stops before the faults end.
pub fn steps(seed: u64, faults_end: Duration) -> Vec<Step> {
    let mut rng = StdRng::seed_from_u64(seed ^ EARLY_STOPS);
    if !rng.random_ratio(PERCENT_OF_SEEDS, 100) {
        return Vec::new();
    }
    (0..rng.random_range(1..4))
        .map(|_| Step {
            at: faults_end.mul_f64(rng.random()),
            fault: Fault::StartAndStop {
                polls: rng.random_range(POLLS),
                end: rng.random_bool(0.4),
                restart_after: ms(&mut rng, 0..10_000),
            },
        })
        .collect()
}
