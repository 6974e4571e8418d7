use super::*;
use crate::actors::failures;
use crate::model::executor::Session;
use crate::model::news::News;
use crate::model::pod::Sighting;
use crate::model::pod::{Phase, PodIdentity, Restarts, Scheduling, Termination};
use crate::model::testing::pending;
use crate::model::{Epoch, LossClass, Pod};
use crate::testing::{Scenario, at, id};

mod lost;
mod numbering;
mod restarts;

const WITHIN: Duration = Duration::from_secs(60);

fn scaling(kind: SetKind) -> Scaling {
    scaling_of(kind, &["default"])
}

fn scaling_of(kind: SetKind, configured: &[&str]) -> Scaling {
    let settings = SetRules {
        kind,
        prefix: "a".to_owned(),
        look_every: Duration::from_secs(30),
        backoff: Backoff {
            initial: Duration::from_millis(200),
            max: Duration::from_secs(30),
        },
        settled_after: Duration::from_secs(60),
        max_in_flight: 8,
        decommission_timeout: WITHIN,
    };
    let failures = failures::FailureBudget {
        max: Some(2),
        window: Duration::ZERO,
        rules: Vec::new(),
        configured: configured.iter().copied().map(ProfileName::from).collect(),
        alone: false,
        node_max: None,
        node_if_possible: false,
        growth: Default::default(),
    };
    let now = Now::new(at(0), jiff::Timestamp::UNIX_EPOCH);
    let failures = Failures::resume(failures, &KeptFailures::default(), now);
    let hashes = BTreeMap::from([("default".into(), "h1".to_owned())]);
    Scaling::new(settings, hashes, ExecutorId::new(2_000), failures)
}

fn seen(replicas: u32) -> SetSeen {
    SetSeen {
        name: "a-default".to_owned(),
        uid: "set".into(),
        replicas,
        template: Some("h1".to_owned()),
        owner: Some("record".into()),
        deleting: false,
    }
}

struct World {
    scenario: Scenario,
    scaling: Scaling,
    version: u64,
}

impl World {
    fn new(kind: SetKind, target: u32) -> Self {
        let mut scenario = Scenario::new_of_sets(&[("default", target)]);
        scenario.pass(1_000);
        Self {
            scenario,
            scaling: scaling(kind),
            version: 1_000,
        }
    }

    /// A set of this many running pods, all with ids.
    fn running(kind: SetKind, pods: u64) -> Self {
        Self::running_by(scaling(kind), kind, pods)
    }

    fn running_by(scaling: Scaling, kind: SetKind, pods: u64) -> Self {
        let mut world = Self {
            scaling,
            ..Self::new(kind, u32::try_from(pods).unwrap())
        };
        world.decide();
        let now = world.scenario.now().tick;
        let count = u32::try_from(pods).unwrap();
        world.scaling.looked(Some(vec![seen(count)]), now);
        for n in 1..=pods {
            world.pod(n, |_| {});
        }
        let settled = world.decide();
        assert_eq!(settled, [], "all is as wanted");
        world
    }

    fn decide(&mut self) -> Vec<Action> {
        let batch = self.scenario.batch();
        let now = self.scenario.now();
        let actions = self.scaling.decide(&batch, now);
        let about_ids =
            |action: &Action| matches!(action, Action::Reserve(_) | Action::KeepFailures(_));
        actions.into_iter().filter(|a| !about_ids(a)).collect()
    }

    /// Whether a round reports a restart.
    fn tells_of_a_restart(&mut self) -> bool {
        (self.decide().iter()).any(|action| matches!(action, Action::Restarted(..)))
    }

    /// The pod of executor `n` is seen running.
    fn pod(&mut self, n: u64, change: impl FnOnce(&mut Pod)) {
        self.version += 1;
        let mut pod = pending("a", n, &format!("u{n}"), self.version);
        pod.name = format!("a-default-{}", n - 1).into();
        pod.phase = Phase::Running;
        pod.scheduling = Scheduling::Bound;
        change(&mut pod);
        let pod = Sighting::Read(Arc::new(pod));
        let epoch = Epoch::default();
        self.scenario.tell(News::Seen { pod, epoch });
    }

    fn registers(&mut self, n: u64) {
        self.scenario
            .tell(News::Session(id(n), Session::open(true)));
    }

    fn target(&mut self, target: u32) {
        let targets = BTreeMap::from([("default".into(), target)]);
        self.scenario.tell(News::Targets(targets));
    }

    /// Marks the executors in the ledger, as the actor does.
    fn retire(&mut self, actions: &[Action]) {
        for action in actions {
            if let Action::Retire(ids, aim, why, how) = action {
                self.scenario.tell(News::Retire {
                    ids: ids.clone(),
                    aim: aim.clone(),
                    why: why.clone(),
                    how: *how,
                });
            }
        }
    }
}

// spec: A-80
#[test]
fn a_missing_set_is_created_and_a_correct_one_left_alone() {
    let mut world = World::new(SetKind::StatefulSet, 3);
    assert_eq!(world.decide(), [Action::Look]);
    assert_eq!(world.decide(), [], "one look at a time");
    let now = world.scenario.now().tick;
    world.scaling.looked(Some(Vec::new()), now);
    let made = [Action::Create("default".into(), 3)];
    assert_eq!(world.decide(), made);
    assert_eq!(world.decide(), [], "one call about a set at a time");
    world.scaling.written("a-default", Ok(seen(3)), now);
    assert_eq!(world.decide(), []);
}

// spec: A-80
#[test]
fn changes_of_a_set_by_others_are_corrected() {
    for (found, wanted) in [
        (Vec::new(), Action::Create("default".into(), 3)),
        (vec![seen(1)], Action::Scale(seen(1), 3)),
    ] {
        let mut world = World::running(SetKind::StatefulSet, 3);
        world.scenario.pass(30_000);
        assert_eq!(world.decide(), [Action::Look]);
        let now = world.scenario.now().tick;
        world.scaling.looked(Some(found), now);
        assert_eq!(world.decide(), [wanted]);
    }
    let mut stale = seen(3);
    stale.template = Some("h0".to_owned());
    let mut lost = seen(3);
    lost.owner = Some("another".into());
    for odd in [stale, lost] {
        let mut world = World::running(SetKind::Deployment, 3);
        world.scenario.pass(30_000);
        world.decide();
        let now = world.scenario.now().tick;
        world.scaling.looked(Some(vec![odd.clone()]), now);
        assert_eq!(world.decide(), [Action::Update("default".into(), odd)]);
    }
}

// spec: A-80
#[test]
fn a_failed_call_is_repeated_after_a_pause_and_a_list() {
    let mut world = World::running(SetKind::StatefulSet, 3);
    world.target(4);
    assert_eq!(world.decide(), [Action::Scale(seen(3), 4)]);
    let now = world.scenario.now().tick;
    world.scaling.written("a-default", Err(()), now);
    assert_eq!(world.decide(), [Action::Look]);
    world.scaling.looked(Some(vec![seen(3)]), now);
    assert_eq!(world.decide(), []);
    world.scenario.pass(500);
    assert_eq!(world.decide(), [Action::Scale(seen(3), 4)]);
}

// spec: A-80
#[test]
fn without_the_record_nothing_is_written() {
    let mut world = World::running(SetKind::StatefulSet, 3);
    world.scenario.tell(News::RecordLost);
    world.target(5);
    assert_eq!(world.decide(), []);
}

// spec: A-80, L-10, A-86
#[test]
fn the_last_pods_of_a_stateful_set_are_retired_and_registered_ones_drain_first() {
    let mut world = World::running(SetKind::StatefulSet, 4);
    world.registers(4);
    world.target(2);
    let actions = world.decide();
    let within = WITHIN;
    assert_eq!(
        actions,
        [
            Action::Retire(
                vec![id(4)],
                TargetChange::Stay,
                LeaveReason::ScaledDown,
                LeaveMethod::Drain { within }
            ),
            Action::Retire(
                vec![id(3)],
                TargetChange::Stay,
                LeaveReason::ScaledDown,
                LeaveMethod::Delete
            ),
        ]
    );
    world.retire(&actions);
    // The third can only be deleted with the fourth, which still drains.
    assert_eq!(world.decide(), []);
    world.scenario.pass(61_000);
    let actions = world.decide();
    assert_eq!(actions, [Action::Look]);
    let now = world.scenario.now().tick;
    world.scaling.looked(Some(vec![seen(4)]), now);
    assert_eq!(world.decide(), [Action::Scale(seen(4), 2)]);
}

// spec: A-86
#[test]
fn executors_that_no_set_has_made_are_retired_as_surplus() {
    for kind in [SetKind::StatefulSet, SetKind::Deployment] {
        let mut world = World::running(kind, 2);
        for n in [7, 8] {
            world.pod(n, |pod| pod.name = format!("a-exec-{n}").into());
        }
        world.registers(8);
        let within = WITHIN;
        let actions = world.decide();
        let retired = [
            Action::Retire(
                vec![id(8)],
                TargetChange::Stay,
                LeaveReason::ScaledDown,
                LeaveMethod::Drain { within },
            ),
            Action::Retire(
                vec![id(7)],
                TargetChange::Stay,
                LeaveReason::ScaledDown,
                LeaveMethod::Delete,
            ),
        ];
        assert_eq!(actions, retired, "{kind:?}");
        world.retire(&actions);
        assert_eq!(world.decide(), [], "{kind:?}: the set has its size");
    }
}

// spec
#[test]
fn victims_of_a_deployment_are_marked_before_it_shrinks() {
    let mut world = World::running(SetKind::Deployment, 4);
    for n in [1, 2, 4] {
        world.registers(n);
    }
    world.target(3);
    let actions = world.decide();
    // The unregistered one is retired first.
    let expected = Action::Retire(
        vec![id(3)],
        TargetChange::Surplus,
        LeaveReason::ScaledDown,
        LeaveMethod::Delete,
    );
    assert_eq!(actions, [expected]);
    world.retire(&actions);
    let actions = world.decide();
    let [Action::Cheapen { id: marked, .. }] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(*marked, id(3));
    assert_eq!(world.decide(), [], "it waits for the mark");
    world.scaling.cheapened(id(3));
    assert_eq!(world.decide(), [Action::Scale(seen(4), 3)]);
}

// spec, I-12
#[test]
fn an_executor_that_ends_after_the_decision_leaves_one_victim_less() {
    let mut world = World::running(SetKind::Deployment, 4);
    world.target(3);
    let actions = world.decide();
    assert!(matches!(&actions[..], [Action::Retire(ids, ..)] if ids.len() == 1));
    world.pod(1, |pod| pod.phase = Phase::Failed);
    world.retire(&actions);
    let leaves = |n: &u64| {
        world
            .scenario
            .entry(*n)
            .is_some_and(|entry| entry.leaving.is_some())
    };
    assert_eq!((1..=4).find(leaves), None);
}

// spec: A-81, B-30, A-86
#[test]
fn an_executor_that_drains_in_a_deployment_is_replaced_meanwhile() {
    let mut world = World::running(SetKind::Deployment, 3);
    world.registers(2);
    world.retire(&[Action::Retire(
        vec![id(2)],
        TargetChange::Stay,
        LeaveReason::Decommissioned("somebody".into()),
        LeaveMethod::Drain { within: WITHIN },
    )]);
    assert_eq!(world.decide(), [Action::Scale(seen(3), 4)]);
}

// spec: O-11, A-80
#[test]
fn at_the_end_the_sets_are_deleted_and_no_id_is_assigned() {
    let mut world = World::running(SetKind::StatefulSet, 2);
    world.scaling.end();
    assert_eq!(world.scaling.left(), 1);
    assert_eq!(world.decide(), [Action::Look]);
    let now = world.scenario.now().tick;
    world.scaling.looked(Some(vec![seen(2)]), now);
    assert_eq!(world.decide(), [Action::Delete(seen(2))]);
    world.scaling.written("a-default", Err(()), now);
    assert_eq!(world.decide(), [Action::Look]);
    world.scaling.looked(Some(Vec::new()), now);
    assert_eq!(world.scaling.left(), 0);
    assert_eq!(world.decide(), []);
}

// spec: A-80, W-14
#[test]
fn a_failed_look_at_the_sets_is_repeated_when_the_server_is_back() {
    let mut world = World::new(SetKind::StatefulSet, 2);
    for _ in 0..9 {
        assert_eq!(world.decide(), [Action::Look]);
        let now = world.scenario.now().tick;
        world.scaling.looked(None, now);
        world.scenario.pass(31_000);
    }
    assert_eq!(world.decide(), [Action::Look]);
    let now = world.scenario.now().tick;
    world.scaling.looked(None, now);
    assert_eq!(world.decide(), []);
    world.scaling.server_is_back(now);
    assert_eq!(world.decide(), [Action::Look]);
}

// spec: B-57, A-80
#[test]
fn the_set_of_a_removed_profile_is_deleted_when_its_last_pod_is_gone_and_then_forgotten() {
    for kind in [SetKind::StatefulSet, SetKind::Deployment] {
        let mut world = World::running(kind, 1);
        let profile: ProfileName = "default".into();
        world.scenario.tell(News::Remove(profile.clone()));
        let retires = world.decide();
        assert!(matches!(retires[..], [Action::Retire(..)]), "{retires:?}");
        world
            .scaling
            .looked(Some(vec![seen(0)]), world.scenario.now().tick);
        let deletes = [Action::Delete(seen(0))];
        assert_ne!(world.decide(), deletes, "a pod is left");
        world.scenario.goes(1);
        world.scenario.report(1);
        world.scenario.batch();
        world.scenario.release();
        assert_eq!(world.decide(), deletes);
        let now = world.scenario.now().tick;
        assert!(
            !world.scaling.remove_profile(&profile),
            "the delete is not answered"
        );
        world.scaling.written("a-default", Err(()), now);
        assert!(!world.scaling.remove_profile(&profile), "it may be left");
        world.scaling.looked(Some(Vec::new()), now);
        assert!(world.scaling.remove_profile(&profile));
        assert_eq!(world.decide(), [], "it is not made again");
    }
}
