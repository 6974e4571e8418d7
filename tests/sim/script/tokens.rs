//! Draws runs in which executors prove themselves with tokens of service accounts, when the keys that sign these are
//! rotated, and how wrong the drivers' clocks are meanwhile.

use std::time::Duration;

use boatswain::config::{Auth, Config};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Fault, Step, ms};

/// Separates this random stream from the others.
const TOKENS: u64 = 0x0074_6f6b_656e_7300;

/// Percentage of the seeds with sessions.
const PERCENT_OF_SEEDS: u32 = 30;

/// Lets executors of some seeds use such tokens. Returns the rotations before the faults end, and how wrong the drivers'
/// wall clocks are at least.
pub fn draw(seed: u64, config: &mut Config, faults_end: Duration) -> (Vec<Step>, Duration) {
    let mut rng = StdRng::seed_from_u64(seed ^ TOKENS);
    let sessions = &mut config.backend.sessions;
    if sessions.listen.is_none() || !rng.random_ratio(PERCENT_OF_SEEDS, 100) {
        return (Vec::new(), Duration::ZERO);
    }
    sessions.auth = Some(Auth::Kubernetes);
    let rotations = (0..rng.random_range(0..5))
        .map(|_| Step {
            at: faults_end.mul_f64(rng.random()),
            fault: Fault::RotateKeys,
        })
        .collect();
    let wrong = match rng.random() {
        true => ms(&mut rng, 0..7_200_000),
        false => Duration::ZERO,
    };
    (rotations, wrong)
}
