//! Draws the size and the duration of a run.

use std::env;
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Approximate number of executors wanted at first.
    pub executors: u32,
    /// When the faults end.
    pub faults_end: Duration,
    /// Number of faults other than network faults.
    pub faults: usize,
}

/// The standard size.
const STANDARD: Size = Size {
    executors: 20,
    faults_end: Duration::from_secs(30 * 60),
    faults: 50,
};

impl Size {
    /// Mostly small runs whose trace is short enough to read, some of standard size, and a few larger ones. The
    /// environment can fix the number of executors (`BOATSWAIN_SIM_EXECUTORS`) or the duration (`BOATSWAIN_SIM_HOURS`)
    /// of all runs.
    pub fn draw(rng: &mut StdRng) -> Self {
        let seconds = rng.random_range(60..600);
        let small = Self {
            executors: rng.random_range(0..16),
            faults_end: Duration::from_secs(seconds),
            faults: rng.random_range(5..30),
        };
        let large = Self {
            executors: rng.random_range(20..80),
            faults_end: Duration::from_secs(rng.random_range(1..3) * 3_600),
            faults: rng.random_range(50..150),
        };
        let drawn = match rng.random_range(0..100) {
            0..=74 => small,
            75..=97 => STANDARD,
            _ => large,
        };
        let (executors, hours) = (
            number("BOATSWAIN_SIM_EXECUTORS"),
            number("BOATSWAIN_SIM_HOURS"),
        );
        if executors.is_none() && hours.is_none() {
            return drawn;
        }
        let hours = hours.map(|hours| Duration::from_secs(hours * 3_600));
        let faults_end = hours.unwrap_or(STANDARD.faults_end);
        let times = faults_end.div_duration_f64(STANDARD.faults_end).max(1.0);
        Self {
            executors: executors.map_or(STANDARD.executors, |n| n as u32),
            faults_end,
            faults: (STANDARD.faults as f64 * times) as usize,
        }
    }

    /// Whether the sizes and durations are those drawn from the seeds.
    pub fn is_drawn() -> bool {
        number("BOATSWAIN_SIM_EXECUTORS").is_none() && !Self::is_long()
    }

    pub fn is_long() -> bool {
        number("BOATSWAIN_SIM_HOURS").is_some()
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}
