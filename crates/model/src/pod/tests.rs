//! The state of a pod.

use super::*;
use crate::testing::{ended, pending};

fn deletion() -> Option<Deletion> {
    Some(Deletion {
        deadline: None,
        grace: None,
    })
}

// spec: E-11
#[test]
fn phases_compare_without_case_and_a_finished_pod_stays_finished_while_it_is_deleted() {
    assert_eq!(Phase::parse("RUNNING"), Phase::Running);
    assert_eq!(Phase::parse("succeeded"), Phase::Succeeded);
    let with = |phase, deletion| {
        Pod {
            phase,
            deletion,
            ..pending("a", 1, "u", 1)
        }
        .state()
    };
    assert_eq!(with(Phase::Failed, deletion()), PodState::Failed);
    assert_eq!(with(Phase::Succeeded, deletion()), PodState::Succeeded);
    assert_eq!(with(Phase::Running, deletion()), PodState::Terminating);
    assert_eq!(with(Phase::Pending, deletion()), PodState::Terminating);
    assert_eq!(with(Phase::parse("Hibernating"), None), PodState::Odd);
    assert_eq!(
        with(Phase::parse("Hibernating"), deletion()),
        PodState::Terminating
    );
}

// spec: E-12, E-13
#[test]
fn the_executor_containers_end_decides_and_a_sidecars_only_if_configured() {
    let running = Pod {
        phase: Phase::Running,
        ..pending("a", 1, "u", 1)
    };
    let with = |executor, failed_sidecar| Pod {
        executor,
        failed_sidecar: Option::map(failed_sidecar, |end| {
            let name = Arc::from("proxy");
            Arc::new(FailedSidecar { name, end })
        }),
        ..running.clone()
    };
    let up = ContainerState::Running { started: None };

    let done = with(ContainerState::Terminated(ended(0)), None);
    assert_eq!(
        (done.state(), done.exit_code()),
        (PodState::Succeeded, Some(0))
    );
    let crashed = with(ContainerState::Terminated(ended(3)), None);
    assert_eq!(
        (crashed.state(), crashed.exit_code()),
        (PodState::Failed, Some(3))
    );
    let alive = with(up.clone(), None);
    assert_eq!(
        (alive.state(), alive.exit_code()),
        (PodState::Running, None)
    );
    let sidecar = with(up, Some(ended(9)));
    assert_eq!(
        (sidecar.state(), sidecar.exit_code()),
        (PodState::Failed, Some(9))
    );
    let both = with(ContainerState::Terminated(ended(3)), Some(ended(9)));
    assert_eq!(
        both.exit_code(),
        Some(3),
        "the executor's own code is preferred"
    );
}

// spec: E-14
#[test]
fn texts_are_cut_so_that_an_executor_stays_small() {
    assert_eq!(&*cut("short"), "short");
    let long = cut(&"ü".repeat(10_000));
    assert!(long.len() <= MAX_TEXT_BYTES && long.ends_with('…'));
    assert!(
        size_of::<Pod>() + 6 * MAX_TEXT_BYTES / 2 <= 1_288,
        "{}",
        size_of::<Pod>()
    );
}

// spec: L-20
#[test]
fn what_a_pod_waited_for_is_kept_when_it_ends_without_having_run() {
    let waiting = |reason: Option<&str>| ContainerState::Waiting {
        reason: reason.map(Arc::from),
        message: None,
    };
    let with = |executor, deletion, phase| {
        Arc::new(Pod {
            executor,
            deletion,
            phase,
            ..pending("a", 1, "u", 1)
        })
    };
    let kept = |pod: &Arc<Pod>, earlier| {
        let earlier = with(earlier, None, Phase::Pending);
        pod.keeping_evidence(&earlier).executor.clone()
    };
    let waited = waiting(Some("ErrImageNeverPull"));
    // A kubelet's steps when such a pod is deleted: the reason goes first.
    for forgotten in [
        waiting(Some("ContainerCreating")),
        waiting(Some("PodInitializing")),
        waiting(None),
    ] {
        let deleted = with(forgotten.clone(), deletion(), Phase::Pending);
        assert_eq!(kept(&deleted, waited.clone()), waited);
        let failed = with(forgotten.clone(), None, Phase::Failed);
        assert_eq!(kept(&failed, waited.clone()), waited);
        let goes_on = with(forgotten.clone(), None, Phase::Pending);
        assert_eq!(kept(&goes_on, waited.clone()), forgotten, "it was mended");
        assert_eq!(
            kept(&deleted, waiting(Some("ContainerCreating"))),
            forgotten
        );
    }
    for newer in [
        waiting(Some("ErrImagePull")),
        ContainerState::Running { started: None },
        ContainerState::Terminated(ended(3)),
        ContainerState::Absent,
    ] {
        let deleted = with(newer.clone(), deletion(), Phase::Pending);
        assert_eq!(kept(&deleted, waited.clone()), newer);
    }
}
