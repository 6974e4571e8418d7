//! Draws runs in which agents run the executors (spec O-60), with times in which these find no driver. They have a random
//! stream of their own, so that runs without agents do not change.

use std::time::Duration;

use boatswain::config::Config;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Fault, Step, ms};

/// Separates this random stream from the others.
const AGENTS: u64 = 0x6167_656e_7473;

/// Percentage of the seeds with sessions.
const PERCENT_OF_SEEDS: u32 = 30;

/// The agents' `--driver-timeout`, if agents run the executors, and the absences of drivers before the faults end.
pub fn draw(seed: u64, config: &Config, faults_end: Duration) -> (Option<Duration>, Vec<Step>) {
    let mut rng = StdRng::seed_from_u64(seed ^ AGENTS);
    if config.backend.sessions.listen.is_none() || !rng.random_ratio(PERCENT_OF_SEEDS, 100) {
        return (None, Vec::new());
    }
    let driver_timeout = ms(&mut rng, 5_000..120_000);
    let absences = (0..rng.random_range(1..4)).map(|_| {
        let time = driver_timeout.mul_f64(rng.random_range(0.5..3.0));
        Step {
            at: faults_end.mul_f64(rng.random()),
            fault: match rng.random() {
                true => Fault::Partition { time },
                false => Fault::Kill {
                    restart_after: time,
                },
            },
        }
    });
    (Some(driver_timeout), absences.collect())
}
