//! Draws runs in which executors prove themselves with tokens of service accounts, and when the keys that sign these are
//! rotated.

use std::time::Duration;

use boatswain::config::{Auth, Config};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Fault, Step};

/// Separates this random stream from the others.
const TOKENS: u64 = 0x0074_6f6b_656e_7300;

/// Percentage of the seeds with sessions.
const PERCENT_OF_SEEDS: u32 = 30;

/// Lets executors of some seeds use such tokens, and returns the rotations before the faults end.
pub fn draw(seed: u64, config: &mut Config, faults_end: Duration) -> Vec<Step> {
    let mut rng = StdRng::seed_from_u64(seed ^ TOKENS);
    let sessions = &mut config.backend.sessions;
    if sessions.listen.is_none() || !rng.random_ratio(PERCENT_OF_SEEDS, 100) {
        return Vec::new();
    }
    sessions.auth = Some(Auth::Kubernetes);
    (0..rng.random_range(0..5))
        .map(|_| Step {
            at: faults_end.mul_f64(rng.random()),
            fault: Fault::RotateKeys,
        })
        .collect()
}
