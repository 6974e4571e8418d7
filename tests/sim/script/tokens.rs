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

/// Percentage of the seeds with such tokens in which the keys cannot be read for some time.
const PERCENT_WITHHELD: u32 = 60;

/// Percentage of these in which that never ends.
const PERCENT_FOR_EVER: u32 = 30;

/// Lets executors of some seeds use such tokens. Returns what happens to the keys before the faults end, and how wrong
/// the drivers' wall clocks are at least.
pub fn draw(seed: u64, config: &mut Config, faults_end: Duration) -> (Vec<Step>, Duration) {
    let mut rng = StdRng::seed_from_u64(seed ^ TOKENS);
    let sessions = &mut config.backend.sessions;
    if sessions.listen.is_none() || !rng.random_ratio(PERCENT_OF_SEEDS, 100) {
        return (Vec::new(), Duration::ZERO);
    }
    sessions.auth = Some(Auth::Kubernetes);
    let mut steps: Vec<Step> = (0..rng.random_range(0..5))
        .map(|_| Step {
            at: faults_end.mul_f64(rng.random()),
            fault: Fault::RotateKeys,
        })
        .collect();
    let wrong = match rng.random() {
        true => ms(&mut rng, 0..7_200_000),
        false => Duration::ZERO,
    };
    if rng.random_ratio(PERCENT_WITHHELD, 100) {
        let at = faults_end.mul_f64(rng.random());
        let time = ms(&mut rng, 5_000..900_000);
        let lasts = rng.random_ratio(PERCENT_FOR_EVER, 100);
        let fault = Fault::WithholdKeys {
            code: [403, 406, 500][rng.random_range(0..3)],
            time: (!lasts).then_some(time),
        };
        steps.push(Step { at, fault });
        // From now on each new executor has a token whose key no driver knows.
        let fault = Fault::RotateKeys;
        steps.push(Step { at, fault });
    }
    (steps, wrong)
}
