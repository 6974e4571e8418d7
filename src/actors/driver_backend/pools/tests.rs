//! Tests of pools over a real ledger.

use std::time::Duration;

use super::*;
use crate::config::Profile;
use crate::model::news::Outcome;
use crate::model::snapshot::asked;
use crate::testing::{Scenario, at};

const POOL: &str = "pool";

/// A ledger, and a cluster that has room for so many executors of each profile.
struct World {
    scenario: Scenario,
    pools: Pools,
    room: BTreeMap<&'static str, usize>,
    next: u64,
}

impl World {
    fn new(pool: Pool) -> Self {
        let mut config = Config {
            pools: BTreeMap::from([(POOL.into(), pool.clone())]),
            ..Config::default()
        };
        for name in pool.names() {
            config.profiles.insert(name, Profile::default());
        }
        Self {
            scenario: Scenario::new(&[("spot", 0), ("on-demand", 0)]),
            pools: Pools::new(Arc::new(config)),
            room: BTreeMap::from([("spot", 1_000), ("on-demand", 1_000)]),
            next: 1,
        }
    }

    /// The pool is to have so many executors.
    fn asks(&mut self, target: u32) {
        let targets = BTreeMap::from([(POOL.into(), target)]);
        let targets = self.pools.expanded(targets, self.scenario.current());
        self.scenario.tell(News::Targets(targets.unwrap()));
    }

    /// The executors of a profile, those that wait first.
    fn live(&self, profile: &str) -> Vec<u64> {
        let entries = self.scenario.current().entries.values();
        let mut live: Vec<_> = entries
            .filter(|entry| entry.profile.as_str() == profile && entry.class().is_live())
            .map(|entry| (entry.class() == Class::Running, entry.id.get()))
            .collect();
        live.sort_unstable();
        live.into_iter().map(|(_, n)| n).collect()
    }

    fn running(&self, profile: &str) -> usize {
        usize::try_from(self.scenario.counts(profile).running).unwrap()
    }

    /// Requests what is missing, deletes what is too much, and places what waits.
    fn allocate(&mut self) {
        for (profile, room) in self.room.clone() {
            let target = self.scenario.current().target(&profile.into());
            let (target, live) = (usize::try_from(target).unwrap(), self.live(profile));
            for n in live.iter().take(live.len().saturating_sub(target)) {
                self.scenario.goes(*n);
            }
            for _ in live.len()..target {
                let (n, profile) = (self.next, profile.into());
                self.next += 1;
                self.scenario.requested(n, Outcome::Sent { profile });
                self.scenario.created(n);
            }
            for n in self.live(profile) {
                let runs = self.scenario.entry(n).unwrap().class() == Class::Running;
                match self.running(profile) < room {
                    _ if runs => {}
                    true => self.scenario.runs(n),
                    false => self.finds_no_node(n),
                }
            }
        }
    }

    fn finds_no_node(&mut self, n: u64) {
        let mut pod = self.scenario.pod(n);
        let why = Scheduling::Waiting(Some("0/3 nodes are available".into()));
        if pod.scheduling != why {
            pod.scheduling = why;
            self.scenario.observe(pod);
        }
    }

    /// A step each second for this long. Returns what is wanted then: spot, in addition, on demand.
    fn pass(&mut self, seconds: u64) -> (u32, u32, u32) {
        for _ in 0..seconds {
            self.scenario.pass(1_000);
            self.allocate();
            self.pools.observe(&self.scenario.batch());
            let now = self.scenario.now().tick;
            let plan = (self.pools).decide(self.scenario.current(), |_| false, now);
            plan.news
                .into_iter()
                .for_each(|news| self.scenario.tell(news));
        }
        let targets = &self.scenario.current().targets;
        let (spot, on_demand) = (targets["spot"], targets["on-demand"]);
        (spot.asked, spot.surge, on_demand.asked)
    }
}

fn pool() -> Pool {
    Pool {
        profiles: vec!["spot".to_owned(), "on-demand".to_owned()],
        fallback_after: Duration::from_secs(120),
        return_after: Duration::from_secs(600),
        ..Pool::default()
    }
}

// spec: B-74, B-76
#[test]
fn what_finds_no_room_for_long_is_requested_of_the_next_profile() {
    let mut world = World::new(pool());
    world.room.insert("spot", 6);
    world.asks(10);
    assert_eq!(world.pass(120), (10, 0, 0));
    assert_eq!(world.pass(2), (6, 0, 4));
    // More of the pool is more of what can be had.
    world.asks(12);
    assert_eq!(world.pass(1), (6, 0, 6));
    world.asks(5);
    assert_eq!(world.pass(1), (5, 0, 0));
    // That there was no room for ten is not known of five.
    world.asks(10);
    assert_eq!(world.pass(1), (10, 0, 0));
}

// spec: B-74, B-76
#[test]
fn what_is_not_requested_of_a_profile_is_requested_of_the_next_one() {
    let mut world = World::new(pool());
    world.asks(10);
    for second in 0..123 {
        let now = at(second * 1_000);
        let plan = (world.pools).decide(world.scenario.current(), |p| p.as_str() == "spot", now);
        plan.news
            .into_iter()
            .for_each(|news| world.scenario.tell(news));
    }
    let targets = asked(&world.scenario.current().targets);
    assert_eq!((targets["spot"], targets["on-demand"]), (0, 10));
}

// spec: B-75
#[test]
fn a_profile_comes_back_by_trials_and_none_of_the_next_one_ends_before_it_runs() {
    let mut world = World::new(pool());
    world.room.insert("spot", 6);
    world.asks(10);
    assert_eq!(world.pass(122), (6, 0, 4));
    world.room.insert("spot", 1_000);
    assert_eq!(world.pass(598), (6, 0, 4));
    assert_eq!(world.pass(1), (6, 1, 4), "one is tried");
    assert_eq!(world.pass(1), (7, 2, 3), "it runs: two");
    assert_eq!((world.running("spot"), world.running("on-demand")), (7, 4));
    assert_eq!(world.pass(1), (9, 1, 1), "no more than are left");
    assert_eq!(world.pass(1), (10, 0, 0));
    assert_eq!(world.pass(1), (10, 0, 0));
    assert_eq!((world.running("spot"), world.running("on-demand")), (10, 0));
}

// spec: B-75
#[test]
fn a_trial_in_vain_ends_and_the_next_one_is_twice_as_late() {
    let mut world = World::new(pool());
    world.room.insert("spot", 6);
    world.asks(10);
    world.pass(122);
    assert_eq!(world.pass(600), (6, 1, 4));
    assert_eq!(world.pass(121), (6, 0, 4), "no room");
    assert_eq!(world.pass(1_190), (6, 0, 4));
    assert_eq!(world.pass(15), (6, 1, 4));
    // What comes late counts, too.
    world.room.insert("spot", 7);
    assert_eq!(world.pass(2), (7, 2, 3));
    assert_eq!(world.pass(125), (7, 0, 3));
}

// spec: B-75
#[test]
fn other_replacements_of_a_profile_go_first() {
    let mut world = World::new(pool());
    world.room.insert("spot", 6);
    world.asks(10);
    world.pass(122);
    assert_eq!(world.pass(600), (6, 1, 4));
    let surge = |by| News::Surge {
        profile: "spot".into(),
        by,
    };
    world.scenario.tell(surge(3));
    assert_eq!(world.pass(700), (6, 3, 4));
    world.scenario.tell(surge(0));
    assert_eq!(world.pass(590), (6, 0, 4));
    assert_eq!(world.pass(15), (6, 1, 4));
}

// spec: B-74, L-40
#[test]
fn a_failed_profile_leaves_all_to_the_next_one_and_is_tried_again_after_a_reset() {
    let mut world = World::new(pool());
    world.asks(4);
    assert_eq!(world.pass(1), (4, 0, 0));
    world.scenario.tell(News::Failed {
        profile: "spot".into(),
        why: "too many failures".into(),
    });
    assert_eq!(world.pass(1), (0, 0, 4));
    world.scenario.tell(News::Reset("spot".into()));
    assert_eq!(world.pass(599), (0, 0, 4));
    assert_eq!(world.pass(2), (1, 2, 3));
}

// spec: B-74
#[test]
fn a_pool_takes_no_more_than_its_profiles_may_have_and_no_target_of_one_of_them() {
    let mut world = World::new(pool());
    let refused = |world: &World, name: &str, target| {
        let targets = BTreeMap::from([(name.into(), target)]);
        let refused = world.pools.expanded(targets, world.scenario.current());
        refused.unwrap_err().to_string()
    };
    let most = 2 * crate::config::MOST_EXECUTORS;
    assert_eq!(
        refused(&world, POOL, most + 1),
        format!(
            "{} executors of pool are too many: at most {most}",
            most + 1
        )
    );
    assert_eq!(
        refused(&world, "spot", 1),
        "profile spot is of the pool pool, which has the target: set that"
    );
    world.asks(most);
}
