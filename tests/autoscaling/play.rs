//! A minimal simulation for the autoscaler: executors that take some seconds to start, and work that occupies the free
//! slots.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use boatswain::actors::driver_backend::autoscaler::scaler::{Demand, Scaler};
use boatswain::actors::profile_messages::Bounds;
use boatswain::model::{ExecutorId, Tick};

use crate::curves::Curve;
use boatswain::config::Autoscaling;

pub const SLOTS: u32 = 4;

/// The default configuration.
const CONFIG: Autoscaling = Autoscaling {
    enabled: true,
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

/// One simulated second.
pub struct Played {
    pub second: u32,
    /// Slots needed.
    pub demand: u32,
    /// Executors needed for them.
    pub wanted: u32,
    /// The autoscaler's target.
    pub target: u32,
    /// Running executors.
    pub running: u32,
    /// Running executors without work.
    pub idle: u32,
}

/// Plays a curve second by second.
pub fn play(curve: &Curve) -> Vec<Played> {
    let mut scaler = Scaler::default();
    let mut target = BOUNDS.least;
    let mut last = 0;
    // The executors, and the second from which each runs.
    let mut executors: BTreeMap<u32, u32> = BTreeMap::new();
    let mut played = Vec::new();
    for second in 0..curve.seconds {
        let now = Tick::after_start(Duration::from_secs(second.into()));
        while (executors.len() as u32) < target {
            last += 1;
            // Starts take 6 to 10 seconds.
            executors.insert(last, second + 6 + last * 7 % 5);
        }
        let running: Vec<u32> = (executors.iter())
            .filter(|(_, runs)| **runs <= second)
            .map(|(n, _)| *n)
            .collect();
        let said = (curve.demand)(second);
        let work = said.unwrap_or(0);
        let has_work = work.min(running.len() as u32 * SLOTS);
        // The oldest executors get the work.
        let busy: BTreeSet<u32> = running
            .iter()
            .take(has_work.div_ceil(SLOTS) as usize)
            .copied()
            .collect();
        for n in &running {
            scaler.observe(id(*n), !busy.contains(n), now);
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
            wanted: demand.wanted(CONFIG.ratio, BOUNDS),
            target,
            running: running.len() as u32,
            idle: (running.len() - busy.len()) as u32,
        });
        if let Some(step) = scaler.decide(target, &CONFIG, BOUNDS, now) {
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
