//! Draws how wrong the drivers' wall clocks are, and when they are set forward or back, as time synchronisation does
//! after a machine was suspended or restored.

use std::time::Duration;

use boatswain::clock;
use jiff::SignedDuration;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Fault, Script, Step, ms};

/// Separates the random stream of [`steps`] from the others.
const CLOCK_STEPS: u64 = 0x636c_6f63_6b73;

/// Percentage of seeds in which the wall clocks are set.
const PERCENT_OF_SEEDS: u32 = 15;

/// A step of all drivers' wall clocks, at a time since the run began.
pub type ClockStep = clock::Step;

/// How wrong the drivers' wall clocks are.
pub fn skew(rng: &mut StdRng) -> Duration {
    match rng.random_bool(0.2) {
        true => ms(rng, 0..7_200_000),
        false => Duration::ZERO,
    }
}

/// The steps before the faults end, and the faults that go with them.
pub fn steps(seed: u64, faults_end: Duration) -> (Vec<ClockStep>, Vec<Step>) {
    let mut rng = StdRng::seed_from_u64(seed ^ CLOCK_STEPS);
    if !rng.random_ratio(PERCENT_OF_SEEDS, 100) {
        return (Vec::new(), Vec::new());
    }
    let mut steps: Vec<_> = (0..rng.random_range(1..5))
        .map(|_| {
            let seconds = match rng.random_range(0..4) {
                0 => rng.random_range(1..30),
                1 | 2 => rng.random_range(30..3_600),
                _ => rng.random_range(3_600..86_400),
            };
            ClockStep {
                after: faults_end.mul_f64(rng.random()),
                by: SignedDuration::from_secs(if rng.random() { seconds } else { -seconds }),
            }
        })
        .collect();
    let faults = match rng.random() {
        true => restart_in_backoff(&mut rng, faults_end, &mut steps),
        false => Vec::new(),
    };
    steps.sort_by_key(|step| step.after);
    (steps, faults)
}

/// A driver that backs off is killed after its clock was set back: the record says that the backoff ends in hours.
fn restart_in_backoff(
    rng: &mut StdRng,
    faults_end: Duration,
    steps: &mut Vec<ClockStep>,
) -> Vec<Step> {
    let begin = faults_end.mul_f64(rng.random_range(0.3..0.9));
    let set_back = begin + ms(rng, 8_000..40_000);
    steps.push(ClockStep {
        after: set_back,
        by: SignedDuration::from_secs(-rng.random_range(7_200..40_000)),
    });
    let crash_loop = Fault::CrashLoop {
        pick: rng.random(),
        time: Duration::from_secs(60),
        code: 1,
    };
    let kill = Fault::Kill {
        restart_after: Duration::from_secs(1),
    };
    vec![
        Step {
            at: begin,
            fault: crash_loop,
        },
        Step {
            at: set_back + ms(rng, 0..3_000),
            fault: kill,
        },
    ]
}

impl Script {
    /// The most by which two readings of the drivers' wall clocks may be wrong.
    pub fn clock_error(&self) -> Duration {
        let set = self.clock_steps.iter().map(|step| step.by.unsigned_abs());
        self.skew + set.sum::<Duration>()
    }
}
