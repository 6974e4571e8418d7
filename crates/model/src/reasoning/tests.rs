//! The order in which sources of evidence decide the reason of an end.

mod containers;
mod words;

use super::*;
use crate::executor::{Bound, Gone, LeaveMethod, Leaving};
use crate::pod::{Deletion, Disruption, Phase};
use crate::testing::{ended, pending};
use crate::{Epoch, ExecutorId, Incarnation};

pub(super) fn tick(seconds: u64) -> Tick {
    Tick::after_start(Duration::from_secs(seconds))
}

pub(super) fn running() -> Pod {
    let executor = ContainerState::Running { started: None };
    Pod {
        phase: Phase::Running,
        executor,
        node: Some("n1".into()),
        ..pending("a", 1, "u", 1)
    }
}

pub(super) fn failed(exit_code: i32, reason: Option<&str>) -> Pod {
    let end = Termination {
        reason: reason.map(Arc::from),
        ..ended(exit_code)
    };
    Pod {
        phase: Phase::Failed,
        executor: ContainerState::Terminated(end),
        ..running()
    }
}

pub(super) fn entry(pod: Pod) -> Entry {
    let id = ExecutorId::new(1).unwrap();
    let mut entry = Entry::requested(
        id,
        "default".into(),
        Incarnation(1),
        tick(0),
        Epoch::default(),
    );
    entry.state = State::Bound(bound(pod));
    entry
}

fn bound(pod: Pod) -> Bound {
    let (epoch, running_since) = (Epoch::default(), Some(tick(10)));
    Bound {
        pod: Arc::new(pod),
        epoch,
        bound_at: 1,
        since: tick(0),
        running_since,
        absent: None,
    }
}

pub(super) fn gone(pod: Pod, how: GoneEvidence) -> Entry {
    let state = State::Gone(Gone {
        bound: Some(bound(pod)),
        how,
        at: tick(20),
    });
    Entry {
        state,
        ..entry(running())
    }
}

fn deleted_at(second: i64, grace: u64) -> Option<Deletion> {
    let deadline = jiff::Timestamp::from_second(second).ok();
    Some(Deletion {
        deadline,
        grace: Some(Duration::from_secs(grace)),
    })
}

fn class(entry: &Entry) -> LossClass {
    reason_of(entry).class
}

// spec: L-20, E-13
#[test]
fn each_class_that_a_pod_can_show_is_inferred() {
    let with_reason = |reason: &str| Pod {
        reason: Some(reason.into()),
        executor: ContainerState::Absent,
        ..failed(0, None)
    };
    let waiting = ContainerState::Waiting {
        reason: Some("ImagePullBackOff".into()),
        message: None,
    };
    let disrupted = |reason: &str| Pod {
        disruption: Some(Disruption {
            reason: reason.into(),
            message: None,
        }),
        ..failed(137, None)
    };
    let cases = [
        (entry(failed(3, Some("Error"))), LossClass::Exited),
        (entry(failed(137, Some("OOMKilled"))), LossClass::OomKilled),
        (
            entry(failed(128, Some("StartError"))),
            LossClass::StartFailed,
        ),
        (
            entry(Pod {
                executor: waiting,
                ..failed(0, None)
            }),
            LossClass::StartFailed,
        ),
        (
            entry(with_reason("UnexpectedAdmissionError")),
            LossClass::Rejected,
        ),
        (entry(with_reason("OutOfcpu")), LossClass::Rejected),
        (entry(with_reason("NodeAffinity")), LossClass::Rejected),
        (entry(with_reason("Evicted")), LossClass::Evicted),
        (entry(with_reason("NodeLost")), LossClass::NodeLost),
        (
            entry(disrupted("PreemptionByScheduler")),
            LossClass::Preempted,
        ),
        (
            entry(disrupted("DeletionByTaintManager")),
            LossClass::Disrupted,
        ),
        (
            gone(
                Pod {
                    deletion: deleted_at(100, 30),
                    ..running()
                },
                GoneEvidence::Deleted,
            ),
            LossClass::Deleted,
        ),
        (gone(running(), GoneEvidence::Missing), LossClass::Missing),
    ];
    for (entry, expected) in cases {
        assert_eq!(class(&entry), expected, "{entry:?}");
    }
}

// spec: L-20
#[test]
fn each_reason_says_whether_it_is_a_failure_and_whether_the_application_caused_it() {
    let told = |pod| {
        let reason = reason_of(&entry(pod));
        (reason.by_application, reason.failure, reason.exit_code)
    };
    assert_eq!(told(failed(3, None)), (true, true, Some(3)));
    let done = Pod {
        phase: Phase::Succeeded,
        ..failed(0, None)
    };
    assert_eq!(told(done), (true, false, Some(0)));
    let evicted = Pod {
        reason: Some("Evicted".into()),
        ..failed(137, None)
    };
    assert_eq!(told(evicted), (false, false, Some(137)));
    let unknown = Pod {
        executor: ContainerState::Absent,
        ..failed(0, None)
    };
    assert_eq!(
        told(unknown),
        (true, true, None),
        "an exit code is never invented"
    );
}

// spec: L-20
#[test]
fn out_of_memory_is_inferred_from_the_containers_reason_and_never_from_a_text() {
    let talk = Pod {
        message: Some("OOM OOMKilled OutOfMemory".into()),
        ..failed(137, Some("Error"))
    };
    assert_eq!(class(&entry(talk)), LossClass::Exited);
}

// spec: L-13
#[test]
fn the_drivers_own_mark_decides_first_and_then_each_source_before_the_next() {
    let everything = Pod {
        disruption: Some(Disruption {
            reason: "DeletionByTaintManager".into(),
            message: None,
        }),
        reason: Some("Evicted".into()),
        deletion: deleted_at(100, 0),
        ..failed(137, Some("OOMKilled"))
    };
    let mut all = entry(everything.clone());
    all.leaving = Some(Leaving {
        why: LeaveReason::ScaledDown,
        how: LeaveMethod::Delete,
        since: tick(1),
    });
    assert_eq!(class(&all), LossClass::ScaledDown);
    let quota_lost = LeaveReason::QuotaLost("Preempted: for another".into());
    all.leaving.as_mut().unwrap().why = quota_lost;
    assert_eq!(class(&all), LossClass::Preempted, "spec A-93");
    all.leaving = None;
    assert_eq!(class(&all), LossClass::Disrupted);
    let no_disruption = Pod {
        disruption: None,
        ..everything
    };
    assert_eq!(class(&entry(no_disruption.clone())), LossClass::Evicted);
    let no_reason = Pod {
        reason: None,
        ..no_disruption
    };
    assert_eq!(class(&entry(no_reason.clone())), LossClass::OomKilled);
    let plain = Pod {
        executor: failed(137, Some("Error")).executor,
        ..no_reason
    };
    assert_eq!(class(&entry(plain.clone())), LossClass::Deleted);
    assert_eq!(
        class(&entry(Pod {
            deletion: None,
            ..plain
        })),
        LossClass::Exited
    );
}

// spec: L-13
#[test]
fn an_executor_that_ended_before_the_delete_request_is_exited_and_not_deleted() {
    let ended_at = |second: i64| {
        let finished = jiff::Timestamp::from_second(second).ok();
        let end = Termination {
            finished,
            ..ended(143)
        };
        let executor = ContainerState::Terminated(end);
        class(&entry(Pod {
            executor,
            deletion: deleted_at(130, 30),
            ..failed(143, None)
        }))
    };
    assert_eq!(ended_at(99), LossClass::Exited);
    assert_eq!(
        ended_at(100),
        LossClass::Deleted,
        "asked for at 100, with 30 s of grace"
    );
    assert_eq!(ended_at(110), LossClass::Deleted);
}

// spec: A-30
#[test]
fn an_end_is_early_if_the_executor_ended_before_it_was_stable_or_before_it_ran() {
    let stable = Duration::from_secs(60);
    let how = |entry: &Entry, second| ended_early(entry, class(entry), tick(second), stable);
    let early = |entry: &Entry, second| how(entry, second) == Some(EarlyEnd::ByItself);
    let interrupted = Some(EarlyEnd::Interrupted);
    let crashed = entry(failed(3, None));
    assert!(early(&crashed, 69), "it ran from second 10 on");
    assert!(!early(&crashed, 70));
    let done = entry(Pod {
        phase: Phase::Succeeded,
        ..failed(0, None)
    });
    assert!(early(&done, 20), "with whatever exit code");
    let evicted = entry(Pod {
        reason: Some("Evicted".into()),
        ..failed(137, None)
    });
    assert_eq!(how(&evicted, 20), interrupted);
    assert_eq!(how(&evicted, 70), None);
    let deletion = deleted_at(100, 30);
    let deleted = gone(
        Pod {
            deletion,
            ..running()
        },
        GoneEvidence::Deleted,
    );
    assert_eq!(how(&deleted, 20), interrupted, "deleted while it ran");
    let mut never_ran = gone(
        Pod {
            deletion,
            ..pending("a", 1, "u", 1)
        },
        GoneEvidence::Deleted,
    );
    if let State::Gone(Gone {
        bound: Some(bound), ..
    }) = &mut never_ran.state
    {
        bound.running_since = None;
    }
    assert!(early(&never_ran, 20), "deleted before it ever ran");
}

// spec: A-30
#[test]
fn the_running_time_of_an_adopted_executor_is_by_the_nodes_clock() {
    let end = Termination {
        started: jiff::Timestamp::from_second(0).ok(),
        finished: jiff::Timestamp::from_second(7_200).ok(),
        ..ended(3)
    };
    let old = entry(Pod {
        executor: ContainerState::Terminated(end),
        ..failed(3, None)
    });
    assert_eq!(ran_for(&old, tick(11)), Some(Duration::from_secs(7_200)));
}

// spec: L-37
#[test]
fn a_reason_is_replaced_only_by_one_that_says_more() {
    use LossClass::*;
    for (class, than) in [
        (Disrupted, Exited),
        (Disrupted, Deleted),
        (Evicted, OomKilled),
        (OomKilled, Exited),
        (Exited, Missing),
        (Deleted, Missing),
        (Disrupted, Stuck),
    ] {
        assert!(says_more(class, than), "{class} says more than {than}");
        assert!(!says_more(than, class), "{than} says less than {class}");
    }
    for (one, other) in [
        (Exited, Deleted),
        (StartFailed, Deleted),
        (Stuck, Deleted),
        (NodeLost, Disrupted),
        (Killed, ScaledDown),
        (Exited, Exited),
    ] {
        assert!(!says_more(one, other) && !says_more(other, one));
    }
}

// spec: O-31, A-30, L-20
#[test]
fn an_executor_that_was_terminating_when_it_was_found_counts_for_nothing() {
    let stable = Duration::from_secs(60);
    let found = |pod: Pod| Entry {
        adopted: true,
        found_terminating: true,
        ..entry(Pod {
            deletion: deleted_at(100, 30),
            ..pod
        })
    };
    let ends = [
        found(failed(143, Some("Error"))),
        found(failed(1, Some("OOMKilled"))),
        Entry {
            found_terminating: true,
            ..gone(pending("a", 1, "u", 1), GoneEvidence::Deleted)
        },
    ];
    for end in ends {
        let reason = reason_of(&end);
        assert_eq!(reason.class, LossClass::Deleted);
        assert!(!reason.failure && !reason.by_application);
        assert!(
            !reason.message.contains("someone else"),
            "{}",
            reason.message
        );
        assert_eq!(ended_early(&end, reason.class, tick(20), stable), None);
    }
    let evicted = found(Pod {
        reason: Some("Evicted".into()),
        ..failed(137, None)
    });
    assert_eq!(class(&evicted), LossClass::Evicted, "the cluster said why");
}
