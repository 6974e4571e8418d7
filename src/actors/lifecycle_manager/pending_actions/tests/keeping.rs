//! Pods that are kept (spec O-77).

use super::*;
use crate::actors::lifecycle_manager::kept::KeptPod;

fn keeping(which: Which, most: usize) -> Policy {
    Policy {
        which,
        most,
        longest: Duration::from_secs(200),
    }
}

impl Manager {
    /// The executor exits, and the call for its pod is answered.
    fn ends(&mut self, n: u64, code: i32) -> Vec<Call> {
        self.start(n);
        self.rounds();
        self.scenario.exits(n, code);
        let calls = self.rounds();
        self.answer(true);
        let uid = format!("u{n}").as_str().into();
        match calls[..] {
            [Call::Label(_), ..] => self.scenario.tell(News::Inactive { id: id(n), uid }),
            _ => self.scenario.goes(n),
        }
        calls
    }
}

// spec: O-77, L-2
#[test]
fn only_pods_of_failures_are_kept_and_the_oldest_is_deleted_when_there_are_too_many() {
    let settings = PodRules {
        keep: keeping(Which::Failed, 1),
        ..settings()
    };
    let mut manager = Manager::with(settings, Scenario::new(&[("default", 9)]));
    assert_eq!(manager.rounds(), [Call::ListKept]);
    manager.answer(true);
    assert_eq!(manager.ends(1, 0), [Call::Delete("u1")]);
    assert_eq!(manager.ends(2, 3), [Call::Label(2)]);
    assert_eq!(manager.seconds(1), []);
    let calls = manager.ends(3, 3);
    assert_eq!(calls, [Call::Label(3), Call::Delete("u2")]);
    manager.answer(false);
    assert_eq!(manager.seconds(1), [(2, Call::Delete("u2"))]);
    manager.answer(true);
    assert_eq!(manager.seconds(198), []);
    assert_eq!(manager.seconds(1), [(201, Call::Delete("u3"))]);
    manager.answer(true);
    assert_eq!(manager.seconds(90), []);
    assert_eq!(manager.pending_actions.outstanding(), 0);
}

// spec: O-101
#[test]
fn pods_that_earlier_drivers_kept_are_asked_for_until_there_is_an_answer() {
    let settings = PodRules {
        keep: keeping(Which::All, 0),
        ..settings()
    };
    let mut manager = Manager::with(settings, Scenario::new(&[("default", 9)]));
    assert_eq!(manager.rounds(), [Call::ListKept]);
    manager.answer(false);
    assert_eq!(manager.seconds(2), [(1, Call::ListKept)]);
    let pod = KeptPod {
        uid: "old".into(),
        name: "etl-exec-1".into(),
        since: manager.scenario.now().wall,
        executor: None,
    };
    let now = manager.scenario.now();
    manager.pending_actions.inherit_kept(vec![pod], now);
    manager.answer(true);
    assert_eq!(manager.rounds(), [Call::Delete("old")]);
}

// spec: O-101
#[test]
fn a_kept_pod_that_a_restored_server_shows_again_is_found_within_five_minutes() {
    let settings = PodRules {
        keep: keeping(Which::All, 0),
        ..settings()
    };
    let mut manager = Manager::with(settings, Scenario::new(&[("default", 9)]));
    assert_eq!(manager.rounds(), [Call::ListKept]);
    manager.answer(true);
    assert_eq!(manager.seconds(299), []);
    assert_eq!(manager.seconds(1), [(300, Call::ListKept)]);
}

// spec: O-101
#[test]
fn a_kept_pod_whose_executor_runs_on_a_restored_server_is_deleted_at_once() {
    let settings = PodRules {
        keep: keeping(Which::All, 9),
        ..settings()
    };
    let mut manager = Manager::with(settings, Scenario::new(&[("default", 9)]));
    assert_eq!(manager.rounds(), [Call::ListKept]);
    let pod = KeptPod {
        uid: "revived".into(),
        name: "etl-exec-1".into(),
        since: manager.scenario.now().wall,
        executor: None,
    };
    let now = manager.scenario.now().tick;
    manager.pending_actions.delete_living(vec![pod], now);
    manager.answer(true);
    assert_eq!(manager.rounds(), [Call::Delete("revived")]);
}

// spec: C-6, O-101
#[test]
fn a_driver_that_begins_to_keep_pods_asks_for_those_of_earlier_drivers() {
    let mut manager = Manager::with(settings(), Scenario::new(&[("default", 9)]));
    assert_eq!(manager.rounds(), []);
    manager.pending_actions.keep_by(keeping(Which::Failed, 9));
    assert_eq!(manager.rounds(), [Call::ListKept]);
}

// spec: L-2, E-9
#[test]
fn a_kept_pod_is_labelled_once_and_never_read_again() {
    let settings = PodRules {
        keep: keeping(Which::All, 100),
        ..settings()
    };
    let mut manager = Manager::with(settings, Scenario::new(&[("default", 9)]));
    assert_eq!(manager.rounds(), [Call::ListKept]);
    manager.answer(true);
    manager.start(1);
    manager.scenario.exits(1, 0);
    assert_eq!(manager.rounds(), [Call::Label(1)]);
    manager.answer(false);
    assert_eq!(manager.seconds(1), [(1, Call::Label(1))]);
    let uid = "u1".into();
    manager.scenario.tell(News::Inactive { id: id(1), uid });
    manager.answer(true);
    let kept = manager.scenario.pod(1);
    assert_eq!(manager.seconds(10), []);
    assert!(manager.scenario.entry(1).is_none());
    manager.scenario.observe(kept);
    assert_eq!(manager.seconds(60), []);
    assert_eq!(manager.reported, [(1, LossClass::Exited)]);
    assert!(manager.corrected.is_empty(), "{:?}", manager.corrected);
}
