use super::*;
use crate::model::executor::Session;
use crate::model::news::Outcome;
use crate::model::node::Node;
use crate::model::testing::{Scenario, id, running};

const NOTICE: u64 = 120;

struct World {
    scenario: Scenario,
    part: LeavingNodes,
}

impl World {
    /// Executors 1 to 4 run, each on the node of its number.
    fn new(max_surge: u32) -> Self {
        let mut config = Config::default();
        config.nodes.notice = Duration::from_secs(NOTICE);
        config.nodes.max_surge = max_surge;
        let mut world = Self {
            scenario: Scenario::new(&[("default", 4)]),
            part: LeavingNodes::new(Arc::new(config)),
        };
        for n in 1..=4 {
            world.runs_on(n, &format!("node-{n}"));
        }
        world
    }

    fn runs_on(&mut self, n: u64, node: &str) {
        self.runs_of("default", n, node);
    }

    fn runs_of(&mut self, profile: &str, n: u64, node: &str) {
        let profile = profile.into();
        self.scenario.requested(n, Outcome::Sent { profile });
        self.scenario.created(n);
        let mut pod = running(self.scenario.pod(n));
        pod.node = Some(node.into());
        self.scenario.observe(pod);
    }

    fn registers(&mut self, n: u64) {
        self.scenario
            .tell(News::Session(id(n), Session::open(false)));
    }

    fn leaves(&mut self, node: u64, leaves: bool) {
        let why = leaves.then(|| Arc::from("it is being deleted"));
        self.scenario.tell(News::Node(Node {
            name: format!("node-{node}").into(),
            zone: None,
            capacity_type: None,
            ready: true,
            leaves: why,
        }));
    }

    /// Decides, and tells the ledger. Returns the executors that leave, and how many are wanted beyond the target.
    fn round(&mut self) -> (Vec<u64>, u32) {
        let now = self.scenario.now().tick;
        let plan = self.part.decide(self.scenario.current(), now);
        let mut leave = Vec::new();
        for news in plan.news {
            if let News::Retire { ids, .. } = &news {
                leave.extend(ids.iter().map(|id| id.get()));
            }
            self.scenario.tell(news);
        }
        let target = self.scenario.current().targets[&ProfileName::from("default")];
        (leave, target.surge)
    }
}

// spec: B-71
#[test]
fn executors_of_a_node_that_leaves_stay_until_as_many_others_run() {
    let mut world = World::new(100);
    assert_eq!(world.round(), (vec![], 0));
    world.leaves(1, true);
    world.leaves(2, true);
    assert_eq!(world.round(), (vec![], 2));
    assert_eq!(world.round(), (vec![], 2), "nothing runs yet");
    world.runs_on(5, "node-5");
    assert_eq!(world.round(), (vec![1], 1));
    world.runs_on(6, "node-5");
    assert_eq!(world.round(), (vec![2], 0));
    assert_eq!(world.round(), (vec![], 0));
}

// spec: B-71
#[test]
fn when_half_of_a_nodes_time_is_over_its_executors_leave_in_any_case() {
    let mut world = World::new(100);
    world.leaves(1, true);
    assert_eq!(world.round(), (vec![], 1));
    world.scenario.pass(NOTICE * 1_000 / 2);
    assert_eq!(world.round(), (vec![1], 0));
}

// spec: B-71
#[test]
fn executors_of_a_profile_that_has_left_the_configuration_leave_without_a_replacement() {
    let mut world = World::new(100);
    world.runs_of("gone", 9, "node-9");
    world.leaves(9, true);
    assert_eq!(world.round(), (vec![], 0));
    world.scenario.pass(NOTICE * 1_000 / 2);
    assert_eq!(world.round(), (vec![9], 0));
    let targets = &world.scenario.current().targets;
    assert!(!targets.contains_key(&ProfileName::from("gone")));
    assert_eq!(world.round(), (vec![], 0));
}

// spec: B-71
#[test]
fn the_surge_has_a_bound_and_ends_when_it_is_taken_back_that_a_node_leaves() {
    let mut world = World::new(1);
    world.leaves(1, true);
    world.leaves(2, true);
    assert_eq!(world.round(), (vec![], 1));
    world.leaves(1, false);
    world.leaves(2, false);
    assert_eq!(world.round(), (vec![], 0));
}

// spec: B-71, B-31
#[test]
fn a_new_target_or_a_hold_begins_anew() {
    let mut world = World::new(100);
    world.leaves(1, true);
    assert_eq!(world.round(), (vec![], 1));
    world.scenario.want("default", 4);
    assert_eq!(world.round(), (vec![], 1));
    world.scenario.tell(News::Hold {
        by: None,
        how: LeaveMethod::Delete,
    });
    assert_eq!(world.round(), (vec![], 0));
}

// spec: B-71, B-32
#[test]
fn while_the_roll_replaces_an_executor_of_the_profile_it_is_left_to_that() {
    let mut world = World::new(100);
    let profile = "default".into();
    world.scenario.tell(News::Surge { profile, by: 1 });
    world.leaves(1, true);
    world.leaves(2, true);
    assert_eq!(world.round(), (vec![], 1));
    let profile = "default".into();
    world.scenario.tell(News::Surge { profile, by: 0 });
    assert_eq!(world.round(), (vec![], 2));
}

// spec: B-72
#[test]
fn an_executor_that_was_requested_after_its_node_was_known_to_leave_stays() {
    let mut world = World::new(100);
    world.leaves(1, true);
    assert_eq!(world.round(), (vec![], 1));
    world.runs_on(5, "node-1");
    assert_eq!(world.round(), (vec![1], 0));
    world.scenario.goes(1);
    assert_eq!(world.round(), (vec![], 0));
}

// spec: B-71
#[test]
fn a_registered_executor_stays_until_its_replacement_is_registered() {
    let mut world = World::new(100);
    for n in 1..=4 {
        world.registers(n);
    }
    world.leaves(1, true);
    assert_eq!(world.round(), (vec![], 1));
    world.runs_on(5, "node-5");
    assert_eq!(world.round(), (vec![], 1));
    world.registers(5);
    assert_eq!(world.round(), (vec![1], 0));
}

// spec: W-15
#[test]
fn a_node_that_is_gone_is_forgotten_with_its_last_executor() {
    let mut world = World::new(100);
    world.leaves(1, false);
    world.scenario.tell(News::NodeDeleted("node-1".into()));
    assert_eq!(world.round(), (vec![], 1));
    world.scenario.goes(1);
    world.round();
    assert!(world.scenario.current().nodes.leaving.is_empty());
}

// spec: B-71
#[test]
fn while_several_nodes_are_left_the_target_falls_by_as_many_as_leave_each() {
    let mut world = World::new(100);
    for node in 1..=3 {
        world.leaves(node, true);
    }
    assert_eq!(world.round(), (vec![], 3));
    world.scenario.pass(NOTICE * 1_000 / 2);
    let now = world.scenario.now().tick;
    let plan = world.part.decide(world.scenario.current(), now);
    let mut wanted = Vec::new();
    for news in plan.news {
        world.scenario.tell(news);
        let profile = ProfileName::from("default");
        let (target, counts) = (
            world.scenario.current().target(&profile),
            world.scenario.current().counts(&profile),
        );
        wanted.push((target, counts.running));
    }
    assert_eq!(wanted, [(6, 3), (5, 2), (4, 1)]);
}
