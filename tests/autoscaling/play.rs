//! A small world: executors that take some seconds to start, work that takes the slots that are there, and the scaler.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use boatswain::actors::autoscaler::scaler::{Demand, Scaler, Settings};
use boatswain::actors::profiles::messages::Bounds;
use boatswain::model::{ExecutorId, Tick};

use crate::curves::Curve;

/// How many pieces of work an executor does at a time.
pub const SLOTS: u32 = 4;

/// As the configuration has it where nobody says otherwise.
const SETTINGS: Settings = Settings {
    ratio: 1_000,
    backlog_timeout: Duration::from_secs(1),
    sustained_timeout: Duration::from_secs(1),
    idle_timeout: Duration::from_secs(60),
    demand_ttl: Duration::from_secs(60),
};

const BOUNDS: Bounds = Bounds {
    slots: SLOTS,
    least: 2,
    most: 60,
};

/// How a second was.
pub struct Played {
    /// Which one.
    pub second: u32,
    /// How many slots have work, or would.
    pub demand: u32,
    /// How many executors that takes.
    pub wanted: u32,
    /// How many are wanted.
    pub target: u32,
    /// How many run.
    pub running: u32,
    /// How many of these have nothing to do.
    pub idle: u32,
}

/// Plays a curve through, second by second.
pub fn play(curve: &Curve) -> Vec<Played> {
    let mut scaler = Scaler::new(SETTINGS, BOUNDS);
    let mut target = BOUNDS.least;
    let mut last = 0;
    // Who is there, and from which second on it runs.
    let mut executors: BTreeMap<u32, u32> = BTreeMap::new();
    let mut played = Vec::new();
    for second in 0..curve.seconds {
        let now = Tick::after_start(Duration::from_secs(second.into()));
        while (executors.len() as u32) < target {
            last += 1;
            // Not all start alike: 6 to 10 seconds.
            executors.insert(last, second + 6 + last * 7 % 5);
        }
        let running: Vec<u32> = (executors.iter())
            .filter(|(_, runs)| **runs <= second)
            .map(|(n, _)| *n)
            .collect();
        let said = (curve.demand)(second);
        let work = said.unwrap_or(0);
        let has_work = work.min(running.len() as u32 * SLOTS);
        // The oldest get the work.
        let busy: BTreeSet<u32> = running
            .iter()
            .take(has_work.div_ceil(SLOTS) as usize)
            .copied()
            .collect();
        for n in &running {
            scaler.see(id(*n), !busy.contains(n), now);
        }
        let demand = Demand {
            pending: work - has_work,
            running: has_work,
        };
        if said.is_some() {
            scaler.demanded(demand, now);
        }
        played.push(Played {
            second,
            demand: work,
            wanted: demand.wanted(SETTINGS.ratio, BOUNDS),
            target,
            running: running.len() as u32,
            idle: (running.len() - busy.len()) as u32,
        });
        if let Some(step) = scaler.decide(target, now) {
            target = step.target;
            for gone in step.retire {
                executors.retain(|n, _| id(*n) != gone);
            }
        }
    }
    played
}

fn id(n: u32) -> ExecutorId {
    ExecutorId::new(n.into()).unwrap()
}
