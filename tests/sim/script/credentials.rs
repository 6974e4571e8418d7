//! Draws when the drivers' token expires. This has a random stream of its own, so that the other runs do not change.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Fault, Step, ms};

/// Separates this random stream from the others.
const CREDENTIALS: u64 = 0x6372_6564_656e_7469;

/// Percentage of seeds in which the token expires.
const PERCENT_OF_SEEDS: u32 = 12;

/// The expiries before the faults end. The file is rewritten before that, or late.
pub fn steps(seed: u64, faults_end: Duration) -> Vec<Step> {
    let mut rng = StdRng::seed_from_u64(seed ^ CREDENTIALS);
    if !rng.random_ratio(PERCENT_OF_SEEDS, 100) {
        return Vec::new();
    }
    (0..rng.random_range(1..5))
        .map(|_| Step {
            at: faults_end.mul_f64(rng.random()),
            fault: Fault::ExpireToken {
                late: match rng.random_range(0..4) {
                    0 => Duration::ZERO,
                    1 => ms(&mut rng, 1..3_000),
                    _ => ms(&mut rng, 3_000..90_000),
                },
            },
        })
        .collect()
}
