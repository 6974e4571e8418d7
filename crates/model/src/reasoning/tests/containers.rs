//! Ends of containers that never ran, were lost, were killed by a probe, or are not the executor's (spec L-20).

use super::super::*;
use super::{deleted_at, entry, failed, gone, running};
use crate::pod::{FailedSidecar, Phase, Restarts};
use crate::testing::ended;

fn told(pod: Pod) -> (LossClass, Option<i32>, bool, String) {
    let reason = reason_of(&entry(pod));
    (
        reason.class,
        reason.exit_code,
        reason.failure,
        reason.message,
    )
}

fn terminated(end: Termination) -> Pod {
    Pod {
        executor: ContainerState::Terminated(end),
        ..failed(0, None)
    }
}

fn waiting(reason: Option<&str>, message: Option<&str>) -> ContainerState {
    ContainerState::Waiting {
        reason: reason.map(Arc::from),
        message: message.map(Arc::from),
    }
}

// spec: L-20, E-13
#[test]
fn a_lost_container_is_a_disruption_with_an_unknown_code() {
    for reason in [STATUS_UNKNOWN, RUNTIME_UNKNOWN] {
        let lost = Termination {
            exit_code: None,
            reason: Some(reason.into()),
            ..ended(0)
        };
        let (class, code, failure, message) = told(terminated(lost));
        assert_eq!((class, code, failure), (LossClass::Disrupted, None, false));
        assert!(message.contains("lost its container"), "{message}");
    }
    let own = Termination {
        reason: Some(RUNTIME_UNKNOWN.into()),
        ..ended(3)
    };
    assert_eq!(told(terminated(own)).0, LossClass::Exited);
}

// spec: L-20, E-13
#[test]
fn a_pod_that_its_node_lost_before_the_program_began_is_no_failure() {
    let lost = "init container first ended with an unknown exit code";
    for state in [
        waiting(None, None),
        waiting(Some("PodInitializing"), None),
        waiting(Some("ContainerCreating"), None),
        waiting(Some(STATUS_UNKNOWN), Some(lost)),
    ] {
        let (class, code, failure, message) = told(Pod {
            executor: state,
            ..failed(0, None)
        });
        assert_eq!((class, code, failure), (LossClass::Disrupted, None, false));
        assert!(message.contains("before its program began"), "{message}");
    }
    for state in [
        waiting(
            Some("Error"),
            Some("init container fetch ended with exit 3"),
        ),
        waiting(Some("CreateContainerError"), None),
        waiting(None, Some("no such image")),
    ] {
        let pod = Pod {
            executor: state,
            ..failed(0, None)
        };
        assert_eq!(told(pod).0, LossClass::StartFailed);
    }
}

// spec: L-20
#[test]
fn a_pod_that_was_deleted_before_it_ran_says_what_it_waited_for() {
    let deleted = |executor| Pod {
        executor,
        deletion: deleted_at(100, 30),
        ..failed(0, None)
    };
    let (class, code, _, message) = told(deleted(waiting(
        Some("ErrImageNeverPull"),
        Some("it is not present"),
    )));
    assert_eq!((class, code), (LossClass::Deleted, None));
    let said = "its pod was deleted by someone else while it waited to run: ErrImageNeverPull: it is not present";
    assert_eq!(message, said);
    let plain = "its pod was deleted by someone else";
    assert_eq!(told(deleted(waiting(None, None))).3, plain);
    let pod = Pod {
        executor: waiting(Some("ErrImagePull"), None),
        ..running()
    };
    let unseen = reason_of(&gone(pod, GoneEvidence::DeleteFoundNothing)).message;
    assert_eq!(
        unseen,
        format!("{plain} while it waited to run: ErrImagePull")
    );
}

// spec: L-20, E-12
#[test]
fn another_container_that_failed_is_named_with_its_code() {
    let with = |end, executor| Pod {
        phase: Phase::Running,
        executor,
        failed_sidecar: Some(Arc::new(FailedSidecar {
            name: "log-shipper".into(),
            end,
        })),
        ..running()
    };
    let up = ContainerState::Running { started: None };
    let (class, code, failure, message) = told(with(ended(3), up.clone()));
    assert_eq!((class, code, failure), (LossClass::Exited, Some(3), true));
    assert_eq!(message, "container log-shipper ended with exit 3");
    let starved = Termination {
        reason: Some("OOMKilled".into()),
        ..ended(137)
    };
    let message = told(with(starved, up)).3;
    assert_eq!(
        message,
        "container log-shipper killed for want of memory, exit 137"
    );
    let own = told(with(ended(3), ContainerState::Terminated(ended(7)))).3;
    assert_eq!(own, "ended with exit 7", "the executor's own counts more");
}

fn probed(exit_code: i32, message: Option<&str>) -> Pod {
    let end = Termination {
        message: message.map(Arc::from),
        ..ended(exit_code)
    };
    Pod {
        probed: true,
        ..terminated(end)
    }
}

// spec: L-20
#[test]
fn a_probes_kill_is_a_failure_whatever_the_code() {
    for code in [0, 137, 143] {
        let (class, exit_code, failure, message) = told(probed(code, Some(UNORDERED)));
        assert_eq!(
            (class, exit_code, failure),
            (LossClass::ProbeFailed, Some(code), true)
        );
        assert!(message.contains("liveness or startup probe"), "{message}");
    }
    let without_probe = Pod {
        probed: false,
        ..probed(0, Some(UNORDERED))
    };
    assert!(!told(without_probe).2, "somebody sent it a signal");
    let deleted = Pod {
        deletion: deleted_at(100, 30),
        ..probed(0, Some(UNORDERED))
    };
    assert_eq!(told(deleted).0, LossClass::Deleted);
    for (reason, class) in [
        ("Evicted", LossClass::Evicted),
        ("Terminated", LossClass::Disrupted),
        ("DeadlineExceeded", LossClass::Exited),
    ] {
        let pod = Pod {
            reason: Some(reason.into()),
            ..probed(0, Some(UNORDERED))
        };
        assert_eq!(told(pod).0, class, "{reason}");
    }
}

// spec: L-20, L-21
#[test]
fn without_evidence_an_end_that_may_be_a_probes_says_so() {
    for code in [0, 137, 143] {
        let (class, _, failure, message) = told(probed(code, None));
        assert_eq!((class, failure), (LossClass::Exited, code != 0));
        assert!(
            message.ends_with("only the Events of its pod say so"),
            "{message}"
        );
        assert!(!message.contains("by itself"), "{message}");
    }
    assert_eq!(told(probed(3, None)).3, "ended with exit 3");
}

// spec: L-20, A-84
#[test]
fn a_deadline_of_the_pod_is_named_beside_the_exit() {
    let pod = Pod {
        reason: Some("DeadlineExceeded".into()),
        message: Some("active too long".into()),
        restarts: Some(Arc::new(Restarts {
            count: 1,
            last: None,
        })),
        ..failed(143, Some("Error"))
    };
    assert_eq!(
        told(pod).3,
        "DeadlineExceeded: active too long: ended with exit 143 (SIGTERM)"
    );
}
