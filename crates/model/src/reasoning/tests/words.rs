//! The messages and the evidence of loss reasons (spec L-20).

use super::super::*;
use super::{entry, failed, gone, running, tick};
use crate::executor::{LeaveMethod, Leaving};
use crate::pod::{Disruption, Phase};
use crate::testing::ended;

fn said(entry: &Entry) -> String {
    reason_of(entry).message
}

fn with_reason(reason: &str, message: Option<&str>) -> Pod {
    Pod {
        reason: Some(reason.into()),
        message: message.map(Arc::from),
        executor: ContainerState::Absent,
        ..failed(0, None)
    }
}

// spec: L-20, L-21
#[test]
fn the_message_of_an_exit_has_its_code_the_codes_meaning_and_the_containers_message() {
    assert_eq!(said(&entry(failed(77, None))), "ended with exit 77");
    assert_eq!(
        said(&entry(failed(143, Some("Error")))),
        "ended with exit 143 (SIGTERM)"
    );
    let end = Termination {
        message: Some("disk full".into()),
        exit_code: None,
        ..ended(0)
    };
    let unclear = Pod {
        executor: ContainerState::Terminated(end),
        ..failed(0, None)
    };
    assert_eq!(
        said(&entry(unclear)),
        "ended with an unknown exit code: disk full"
    );
}

// spec: L-20, E-13
#[test]
fn a_pod_that_failed_without_a_container_says_that_its_code_is_unknown() {
    let silent = Pod {
        executor: ContainerState::Absent,
        ..failed(0, None)
    };
    assert_eq!(said(&entry(silent)), "ended, exit code unknown");
    let late = entry(with_reason("DeadlineExceeded", Some("active too long")));
    assert_eq!(
        said(&late),
        "DeadlineExceeded: active too long, exit code unknown"
    );
    assert_eq!(reason_of(&late).class, LossClass::Exited);
}

// spec: L-20
#[test]
fn the_message_of_kubernetes_is_passed_on() {
    let evicted = entry(with_reason("Evicted", Some("low on memory")));
    assert_eq!(said(&evicted), "Evicted: low on memory");
    assert_eq!(said(&entry(with_reason("NodeLost", None))), "NodeLost");
    let preempted = Pod {
        disruption: Some(Disruption {
            reason: "PreemptionByScheduler".into(),
            message: Some("for another".into()),
        }),
        ..failed(137, None)
    };
    assert_eq!(
        said(&entry(preempted)),
        "PreemptionByScheduler: for another"
    );
    let killed = entry(failed(137, Some("OOMKilled")));
    assert_eq!(said(&killed), "killed for want of memory, exit 137");
    let waiting = |reason: Option<&str>| {
        entry(Pod {
            executor: ContainerState::Waiting {
                reason: reason.map(Arc::from),
                message: Some("no such image".into()),
            },
            ..failed(0, None)
        })
    };
    assert_eq!(
        said(&waiting(Some("ErrImagePull"))),
        "ErrImagePull: no such image"
    );
    assert_eq!(said(&waiting(None)), "never started: no such image");
}

// spec: L-20
#[test]
fn each_reason_of_a_pod_that_is_known_has_its_class() {
    let class = |reason: &str| reason_of(&entry(with_reason(reason, None))).class;
    for disrupted in ["Terminated", "NodeShutdown", "Shutdown"] {
        assert_eq!(class(disrupted), LossClass::Disrupted, "{disrupted}");
    }
    let rejected = [
        "UnexpectedAdmissionError",
        "NodeAffinity",
        "NodePorts",
        "TopologyAffinityError",
        "PodOSNotSupported",
        "VolumeAttachmentLimitExceeded",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
    ];
    for rejected in rejected {
        assert_eq!(class(rejected), LossClass::Rejected, "{rejected}");
    }
    assert_eq!(class("Outage"), LossClass::Exited);
    for start in ["StartError", "ContainerCannotRun", "CreateContainerError"] {
        let class = reason_of(&entry(failed(128, Some(start)))).class;
        assert_eq!(class, LossClass::StartFailed, "{start}");
    }
}

// spec: L-20
#[test]
fn a_start_that_its_node_broke_off_is_no_failure_and_one_that_cannot_succeed_is() {
    let class_of = |pod: Pod| reason_of(&entry(pod)).class;
    let own = |message: &str| {
        let mut pod = failed(128, Some("StartError"));
        let ContainerState::Terminated(end) = &mut pod.executor else {
            panic!("it has not ended: {pod:?}");
        };
        end.message = Some(message.into());
        class_of(pod)
    };
    let of_init_container = |message: &str| {
        class_of(Pod {
            executor: ContainerState::Waiting {
                reason: Some("StartError".into()),
                message: Some(
                    format!("init container fetch ended with exit 128: {message}").into(),
                ),
            },
            ..failed(0, None)
        })
    };
    for broken_off in [
        "failed to start containerd task \"5\": context canceled",
        "failed to create containerd task: context deadline exceeded",
    ] {
        assert_eq!(own(broken_off), LossClass::Disrupted);
        assert_eq!(of_init_container(broken_off), LossClass::Disrupted);
    }
    let missing = "exec: \"context canceled\": executable file not found in $PATH";
    assert_eq!(own(missing), LossClass::StartFailed);
    assert_eq!(of_init_container(missing), LossClass::StartFailed);
}

// spec: L-20
#[test]
fn each_mark_of_the_driver_has_a_message() {
    let marked = |why: LeaveReason| {
        let mut entry = entry(running());
        entry.leaving = Some(Leaving {
            why,
            how: LeaveMethod::Delete,
            since: tick(1),
        });
        let reason = reason_of(&entry);
        (reason.class, reason.message)
    };
    assert_eq!(
        marked(LeaveReason::ScaledDown),
        (
            LossClass::ScaledDown,
            "more executors than wanted".to_owned()
        )
    );
    assert_eq!(
        marked(LeaveReason::ApplicationEnded),
        (LossClass::Killed, "the application ended".to_owned())
    );
    let (class, message) = marked(LeaveReason::Mislabelled("a/b".into()));
    assert_eq!(class, LossClass::Mislabelled);
    assert!(message.ends_with("ours: a/b"), "{message}");
}

// spec: L-3
#[test]
fn an_executor_that_nobody_waits_for_has_the_reason_for_which_it_was_deleted() {
    let mut entry = entry(running());
    entry.leaving = Some(Leaving {
        why: LeaveReason::ApplicationEnded,
        how: LeaveMethod::Delete,
        since: tick(1),
    });
    let reason = reason_of_an_unawaited(&entry);
    assert_eq!((reason.class, reason.failure), (LossClass::Killed, false));
    assert_eq!(
        reason.message,
        "the application ended; deleted, its end was not waited for"
    );
}

// spec: L-1, L-4, L-20
#[test]
fn how_the_driver_learned_of_the_end_decides_if_the_pod_shows_no_reason() {
    let of = |how: GoneEvidence| {
        let reason = reason_of(&gone(running(), how));
        (reason.class, reason.message)
    };
    for deleted in [
        GoneEvidence::Deleted,
        GoneEvidence::DeleteFoundNothing,
        GoneEvidence::Kept,
    ] {
        assert_eq!(of(deleted).0, LossClass::Deleted);
    }
    for missing in [
        GoneEvidence::Missing,
        GoneEvidence::NoLongerListed,
        GoneEvidence::RelabelledAfterEnd,
    ] {
        assert_eq!(of(missing).0, LossClass::Missing);
    }
    let refused = of(GoneEvidence::NotCreated("quota".into()));
    assert_eq!(refused, (LossClass::NotCreated, "quota".to_owned()));
    let lost = of(GoneEvidence::LostBeforeStart);
    assert_eq!(
        lost,
        (LossClass::Lost, "it ended while no driver ran".to_owned())
    );
}

// spec: L-20
#[test]
fn the_evidence_is_what_the_pod_showed() {
    let pod = Pod {
        disruption: Some(Disruption {
            reason: "DeletionByTaintManager".into(),
            message: None,
        }),
        ..with_reason("Evicted", Some("m"))
    };
    let evidence = reason_of(&entry(pod)).evidence;
    assert_eq!(evidence.node.as_deref(), Some("n1"));
    assert_eq!(evidence.pod_reason.as_deref(), Some("Evicted"));
    assert_eq!(evidence.pod_message.as_deref(), Some("m"));
    assert_eq!(
        evidence.disruption.as_deref(),
        Some("DeletionByTaintManager")
    );
    assert_eq!(evidence.container, None);

    let container = |pod| reason_of(&entry(pod)).evidence.container;
    assert_eq!(container(running()).as_deref(), Some("running"));
    assert_eq!(
        container(failed(3, Some("Error"))).as_deref(),
        Some("terminated: Error, exit 3")
    );
    assert_eq!(
        container(failed(3, None)).as_deref(),
        Some("terminated: no reason given, exit 3")
    );
    let waiting = ContainerState::Waiting {
        reason: Some("ErrImagePull".into()),
        message: None,
    };
    let waiting = Pod {
        phase: Phase::Pending,
        executor: waiting,
        ..running()
    };
    assert_eq!(container(waiting).as_deref(), Some("waiting: ErrImagePull"));
}

// spec: A-30
#[test]
fn early_ends_by_disruptions_are_interruptions_and_those_by_the_driver_are_none() {
    let crashed = entry(failed(3, None));
    let early = |class| ended_early(&crashed, class, tick(11), Duration::from_secs(60));
    for class in [
        LossClass::Exited,
        LossClass::OomKilled,
        LossClass::StartFailed,
        LossClass::Mislabelled,
    ] {
        assert_eq!(early(class), Some(EarlyEnd::ByItself), "{class:?}");
    }
    for class in [
        LossClass::Rejected,
        LossClass::Evicted,
        LossClass::Preempted,
        LossClass::Disrupted,
        LossClass::NodeLost,
        LossClass::Missing,
        LossClass::Abandoned,
        LossClass::Deleted,
    ] {
        assert_eq!(early(class), Some(EarlyEnd::Interrupted), "{class:?}");
    }
    for class in [
        LossClass::Killed,
        LossClass::Decommissioned,
        LossClass::ScaledDown,
        LossClass::NotCreated,
        LossClass::Lost,
    ] {
        assert_eq!(early(class), None, "{class:?}");
    }
    let mut asks = crashed.clone();
    asks.leaving = Some(Leaving {
        why: LeaveReason::AskedToGo("itself: spot notice".into()),
        how: LeaveMethod::Delete,
        since: tick(11),
    });
    let early = |entry: &Entry, class| ended_early(entry, class, tick(11), Duration::from_secs(60));
    let interrupted = Some(EarlyEnd::Interrupted);
    assert_eq!(early(&asks, LossClass::Decommissioned), interrupted);
    let mut queued = asks;
    queued.leaving.as_mut().unwrap().why = LeaveReason::QuotaLost("Preempted: for another".into());
    assert_eq!(early(&queued, LossClass::Preempted), None, "spec A-93");
}
