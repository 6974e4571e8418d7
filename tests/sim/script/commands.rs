//! Draws the commands that the application and operators send to the driver. They have a random stream of their own,
//! so that runs without commands do not change.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Command, Fault, Step, ms};

/// Separates the random stream of the commands from the others.
const COMMANDS: u64 = 0x7374_6565_7269_6e67;

/// Percentage of seeds with commands.
const PERCENT_OF_SEEDS: u32 = 20;

/// The commands before the faults end.
pub fn steps(seed: u64, faults_end: Duration) -> Vec<Step> {
    let mut rng = StdRng::seed_from_u64(seed ^ COMMANDS);
    if !rng.random_ratio(PERCENT_OF_SEEDS, 100) {
        return Vec::new();
    }
    (0..rng.random_range(1..8))
        .map(|_| Step {
            at: faults_end.mul_f64(rng.random()),
            fault: command(&mut rng),
        })
        .collect()
}

fn command(rng: &mut StdRng) -> Fault {
    let what = match rng.random_range(0..8) {
        0..=2 => Command::Kill {
            replace: rng.random(),
            force: rng.random(),
        },
        3..=5 => Command::Decommission {
            replace: rng.random(),
        },
        _ => Command::Hold {
            time: ms(rng, 100..120_000),
        },
    };
    Fault::Command {
        pick: rng.random(),
        count: rng.random_range(1..5),
        what,
    }
}
