use super::*;
use crate::model::executor::LeaveMethod;
use crate::model::news::{News, Outcome, TargetChange};
use crate::model::pod::InitContainer;
use crate::testing::{Scenario, at, id, running};

struct World {
    scenario: Scenario,
    waiting: Waiting,
    overdue: Vec<(u64, u64, String)>,
}

impl World {
    fn new(pending_timeout: Option<u64>) -> Self {
        let settings = WaitLimits {
            pending_timeout: pending_timeout.map(Duration::from_secs),
            stuck_after: Duration::from_secs(30),
        };
        Self {
            scenario: Scenario::new(&[("default", 9)]),
            waiting: Waiting::new(settings),
            overdue: Vec::new(),
        }
    }

    fn start(&mut self, n: u64) {
        let profile = "default".into();
        self.scenario.requested(n, Outcome::Sent { profile });
        self.scenario.created(n);
        self.look(n);
    }

    fn look(&mut self, n: u64) {
        let now = self.scenario.now().tick;
        match self.scenario.entry(n) {
            Some(entry) => self.waiting.observe(entry, now),
            None => self.waiting.removed(id(n)),
        }
    }

    fn waits(&mut self, n: u64, reason: &str, message: &str) {
        let pod = Pod {
            scheduling: Scheduling::Bound,
            executor: ContainerState::Waiting {
                reason: Some(reason.into()),
                message: Some(message.into()),
            },
            ..self.scenario.pod(n)
        };
        self.scenario.observe(pod);
        self.look(n);
    }

    /// Its node has prepared it, or has not.
    fn creating(&mut self, n: u64, awaits_node: bool) {
        let pod = Pod {
            scheduling: Scheduling::Bound,
            awaits_node,
            executor: ContainerState::Waiting {
                reason: Some("ContainerCreating".into()),
                message: None,
            },
            ..self.scenario.pod(n)
        };
        self.scenario.observe(pod);
        self.look(n);
    }

    /// Lets seconds pass; executors that are overdue are retired.
    fn seconds(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.scenario.pass(1_000);
            let scenario = &self.scenario;
            let overdue = self.waiting.overdue(
                |id| scenario.entry(id.get()),
                Some(scenario.now().tick),
                scenario.now().tick,
            );
            for (id, why) in overdue {
                let second = self.scenario.millis / 1_000;
                self.overdue.push((id.get(), second, format!("{why:?}")));
                self.scenario.tell(News::Retire {
                    ids: vec![id],
                    aim: TargetChange::Stay,
                    why,
                    how: LeaveMethod::Delete,
                });
                self.look(id.get());
            }
        }
    }

    fn who(&self) -> Vec<(u64, u64)> {
        self.overdue.iter().map(|(n, at, _)| (*n, *at)).collect()
    }
}

// spec: A-51, L-20
#[test]
fn a_reason_that_cannot_heal_ends_as_never_starts_after_stuck_after() {
    for reason in HOPELESS {
        let mut world = World::new(None);
        world.start(1);
        world.seconds(5);
        world.waits(1, reason, "secret \"db\" not found");
        world.seconds(100);
        assert_eq!(world.who(), [(1, 35)], "{reason}");
        let said = &world.overdue[0].2;
        assert!(
            said.starts_with("NeverStarts(30s") && said.contains("db"),
            "{said}"
        );
    }
}

// spec: A-51, L-20
#[test]
fn a_missing_image_has_five_minutes_or_the_pending_timeout() {
    for (timeout, at) in [(None, 310), (Some(600), 600), (Some(60), 60)] {
        let mut world = World::new(timeout);
        world.start(1);
        world.seconds(10);
        world.waits(1, "ErrImagePull", "manifest unknown");
        world.seconds(10);
        // The kubelet alternates between the two reasons.
        world.waits(1, "ImagePullBackOff", "Back-off pulling image");
        world.seconds(700);
        assert_eq!(world.who(), [(1, at)], "{timeout:?}");
        let said = &world.overdue[0].2;
        assert!(said.starts_with("PendingTimeout("), "{said}");
        assert!(
            said.contains("ImagePullBackOff: Back-off pulling image"),
            "{said}"
        );
    }
}

// spec: O-79
#[test]
fn a_pod_that_its_node_does_not_prepare_has_ten_minutes_and_a_reason_of_its_own() {
    for (timeout, at) in [(None, 610), (Some(900), 900), (Some(60), 60)] {
        let mut world = World::new(timeout);
        world.start(1);
        world.seconds(10);
        world.creating(1, true);
        world.seconds(1_000);
        assert_eq!(world.who(), [(1, at)], "{timeout:?}");
        let said = &world.overdue[0].2;
        let words = "ContainerCreating: its node has not mounted its volumes";
        assert!(
            said.starts_with("PendingTimeout(") && said.contains(words),
            "{said}"
        );
    }
    // It pulls an image.
    let mut prepared = World::new(None);
    prepared.start(1);
    prepared.creating(1, true);
    prepared.seconds(599);
    prepared.creating(1, false);
    prepared.seconds(10_000);
    assert_eq!(prepared.who(), []);
}

// spec: A-100
#[test]
fn an_init_container_that_does_not_finish_has_an_hour_and_is_named() {
    for (timeout, at) in [(None, 3_610), (Some(7_200), 7_200), (Some(60), 60)] {
        let mut world = World::new(timeout);
        world.start(1);
        world.seconds(10);
        let init = InitContainer {
            name: "fetch".into(),
            sidecar: false,
            restarts: 0,
        };
        let pod = Pod {
            scheduling: Scheduling::Bound,
            executor: ContainerState::Waiting {
                reason: Some("PodInitializing".into()),
                message: Some("init container fetch has not finished".into()),
            },
            init: Some(Arc::new(init)),
            ..world.scenario.pod(1)
        };
        world.scenario.observe(pod);
        world.look(1);
        world.seconds(8_000);
        assert_eq!(world.who(), [(1, at)], "{timeout:?}");
        let said = &world.overdue[0].2;
        assert!(said.starts_with("PendingTimeout("), "{said}");
        assert!(said.contains("init container fetch"), "{said}");
    }
}

// spec: A-50
#[test]
fn executors_are_retired_after_the_pending_timeout_and_by_default_never() {
    let mut world = World::new(Some(60));
    world.start(1);
    world.seconds(20);
    world.start(2);
    world.seconds(10);
    let pod = running(world.scenario.pod(2));
    world.scenario.observe(pod);
    world.look(2);
    world.seconds(100);
    assert_eq!(world.who(), [(1, 60)]);
    assert!(
        world.overdue[0].2.contains("unscheduled"),
        "{:?}",
        world.overdue
    );
    let mut patient = World::new(None);
    patient.start(1);
    patient.waits(1, "ContainerCreating", "");
    patient.seconds(10_000);
    assert_eq!((patient.who(), patient.waiting.next_at()), (vec![], None));
}

// spec: A-50
#[test]
fn a_gated_pod_waits_without_limit_and_its_time_begins_when_the_gate_is_removed() {
    let mut world = World::new(Some(60));
    world.start(1);
    let gated = |world: &mut World, scheduling| {
        let pod = Pod {
            scheduling,
            ..world.scenario.pod(1)
        };
        world.scenario.observe(pod);
        world.look(1);
    };
    gated(&mut world, Scheduling::Gated("gang".into()));
    world.seconds(1_000);
    assert_eq!(world.who(), []);
    gated(&mut world, Scheduling::Waiting(Some("no node".into())));
    world.seconds(100);
    assert_eq!(world.who(), [(1, 1_060)]);
    assert!(world.overdue[0].2.contains("no node"));
}

// spec: A-51
#[test]
fn a_recovered_executor_that_is_stuck_again_has_the_full_time_again() {
    let mut world = World::new(None);
    world.start(1);
    world.waits(1, "CreateContainerConfigError", "x");
    world.seconds(20);
    world.waits(1, "ContainerCreating", "x");
    assert_eq!(world.waiting.next_at(), None);
    world.seconds(20);
    world.waits(1, "CreateContainerConfigError", "x");
    world.seconds(29);
    assert_eq!(world.who(), []);
    world.seconds(1);
    assert_eq!(world.who(), [(1, 70)]);
    assert_eq!(world.waiting.next_at(), None, "named once");
    assert_eq!(at(70_000), world.scenario.now().tick);
}

/// The executor's container waits for a sidecar that failed so often.
fn behind(world: &mut World, restarts: u32, reason: &str) {
    let init = InitContainer {
        name: "proxy".into(),
        sidecar: true,
        restarts,
    };
    let pod = Pod {
        scheduling: Scheduling::Bound,
        init: Some(Arc::new(init)),
        executor: ContainerState::Waiting {
            reason: Some(reason.into()),
            message: Some("sidecar proxy: back-off".into()),
        },
        ..world.scenario.pod(1)
    };
    world.scenario.observe(pod);
    world.look(1);
}

// spec: A-100, L-20
#[test]
fn a_sidecar_that_fails_again_and_again_never_lets_it_start() {
    let mut world = World::new(None);
    world.start(1);
    behind(&mut world, 0, "PodInitializing");
    world.seconds(100);
    assert_eq!(world.who(), [], "it may take its time");
    // It runs in between, which heals nothing.
    for restarts in 1..4 {
        behind(&mut world, restarts, "CrashLoopBackOff");
        world.seconds(9);
        behind(&mut world, restarts, "PodInitializing");
        world.seconds(1);
    }
    behind(&mut world, 4, "CrashLoopBackOff");
    world.seconds(100);
    assert_eq!(world.who(), [(1, 130)]);
    let said = &world.overdue[0].2;
    assert!(
        said.starts_with("NeverStarts(30s") && said.contains("sidecar proxy"),
        "{said}"
    );
}

// spec, E-17
#[test]
fn a_restart_in_the_pod_is_no_pending_that_times_out() {
    let restarts = |world: &mut World, reason: &str| {
        let pod = Pod {
            executor: ContainerState::Waiting {
                reason: Some(reason.into()),
                message: None,
            },
            ..running(world.scenario.pod(1))
        };
        world.scenario.observe(pod);
        world.look(1);
    };
    let mut world = World::new(Some(60));
    world.start(1);
    let pod = running(world.scenario.pod(1));
    world.scenario.observe(pod);
    world.look(1);
    world.seconds(50);
    restarts(&mut world, "CrashLoopBackOff");
    world.seconds(1_000);
    assert_eq!(world.who(), []);
    // Kubernetes cannot start it any more.
    restarts(&mut world, "CreateContainerConfigError");
    world.seconds(29);
    assert_eq!(world.who(), []);
    world.seconds(1);
    assert_eq!(world.who(), [(1, 1_080)]);
}

// spec: K-6, A-51
#[test]
fn a_refused_root_user_is_reported_with_the_keys_that_change_it() {
    for said in [
        "container has runAsNonRoot and image will run as root (pod: \"a\", container: executor)",
        "container has runAsNonRoot and image has non-numeric user (engine), cannot verify user is non-root",
        "container's runAsUser breaks non-root policy (pod: \"a\", container: executor)",
    ] {
        let mut world = World::new(None);
        world.start(1);
        world.waits(1, "CreateContainerConfigError", said);
        world.seconds(30);
        let (_, _, why) = &world.overdue[0];
        for key in ["security.run_as_user", "security.run_as_non_root = false"] {
            assert!(why.contains(key), "{why}");
        }
    }
    let mut world = World::new(None);
    world.start(1);
    world.waits(1, "CreateContainerConfigError", "secret \"db\" not found");
    world.seconds(30);
    assert!(
        !world.overdue[0].2.contains("security."),
        "{:?}",
        world.overdue
    );
}

// spec: A-50
#[test]
fn an_executor_is_overdue_only_by_a_list_that_was_requested_after_its_time() {
    let mut world = World::new(Some(5));
    world.start(1);
    let began = world.scenario.now().tick;
    let entry = world.scenario.entry(1).cloned().unwrap();
    let later = began + Duration::from_secs(60);
    let mut overdue = |listed| world.waiting.overdue(|_| Some(&entry), listed, later);
    assert_eq!(overdue(None), []);
    assert_eq!(overdue(Some(began + Duration::from_secs(4))), []);
    let [(one, _)] = &overdue(Some(began + Duration::from_secs(6)))[..] else {
        panic!("nobody is overdue");
    };
    assert_eq!(*one, id(1));
}
