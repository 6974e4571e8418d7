//! Draws the commands that the application and operators send to the driver. They have a random stream of their own,
//! so that runs without commands do not change.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Fault, Step, Wish, ms};

/// Separates the random stream of the commands from the others.
const STREAM: u64 = 0x7374_6565_7269_6e67;

/// Percentage of seeds with commands.
const SHARE: u32 = 20;

/// The commands before the faults end.
pub fn steps(seed: u64, calm: Duration) -> Vec<Step> {
    let mut rng = StdRng::seed_from_u64(seed ^ STREAM);
    if !rng.random_ratio(SHARE, 100) {
        return Vec::new();
    }
    (0..rng.random_range(1..8))
        .map(|_| Step {
            at: calm.mul_f64(rng.random()),
            fault: ask(&mut rng),
        })
        .collect()
}

fn ask(rng: &mut StdRng) -> Fault {
    let what = match rng.random_range(0..8) {
        0..=2 => Wish::Kill {
            replace: rng.random(),
            force: rng.random(),
        },
        3..=5 => Wish::Decommission {
            replace: rng.random(),
        },
        _ => Wish::Hold {
            time: ms(rng, 100..120_000),
        },
    };
    Fault::Ask {
        pick: rng.random(),
        count: rng.random_range(1..5),
        what,
    }
}
