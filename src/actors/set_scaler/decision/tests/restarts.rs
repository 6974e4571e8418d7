//! Tests of containers that are started again in their pods (spec A-84).

use super::*;

fn restarted(count: u32, exit_code: i32) -> impl Fn(&mut Pod) {
    move |pod| {
        pod.restarts = Some(Arc::new(Restarts {
            count,
            last: Some(Termination {
                exit_code: Some(exit_code),
                reason: Some("Error".into()),
                message: None,
                started: None,
                finished: None,
            }),
        }));
    }
}

// spec: A-80, L-30, A-84
#[test]
fn a_container_restart_is_a_failure_with_the_reason_of_its_end() {
    let mut world = World::running(SetKind::StatefulSet, 2);
    world.pod(1, restarted(1, 3));
    let actions = world.decide();
    let [Action::Restarted(_, reason)] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert_eq!(
        (reason.class, reason.exit_code),
        (LossClass::Exited, Some(3))
    );
    world.pod(1, restarted(1, 3));
    assert_eq!(world.decide(), [], "told once");
    world.pod(1, restarted(2, 0));
    world.pod(2, restarted(1, 3));
    let actions = world.decide();
    assert!(
        !actions.iter().any(|a| matches!(a, Action::Spent(_))),
        "exactly at the limit"
    );
    world.pod(2, restarted(2, 3));
    let actions = world.decide();
    assert!(
        actions.iter().any(|a| matches!(a, Action::Spent(_))),
        "{actions:?}"
    );
}

// spec: A-84, L-40, L-41
#[test]
fn a_set_of_a_failed_profile_is_scaled_to_zero_until_it_is_reset() {
    let mut world = World::running_by(
        scaling_of(SetKind::StatefulSet, &[]),
        SetKind::StatefulSet,
        2,
    );
    world.pod(1, restarted(3, 3));
    let actions = world.decide();
    let spent = actions.into_iter().find_map(|action| match action {
        Action::Spent(Spent::Profile(profile, why)) => Some((profile, why)),
        _ => None,
    });
    let (profile, why) = spent.unwrap();
    world.scenario.tell(News::Failed { profile, why });
    let actions = world.decide();
    let retired = |action: &Action| matches!(action, Action::Retire(ids, ..) if ids.len() == 2);
    assert!(actions.iter().any(retired), "{actions:?}");
    world.retire(&actions);
    let actions = world.decide();
    assert!(actions.contains(&Action::Scale(seen(2), 0)), "{actions:?}");
    let now = world.scenario.now().tick;
    world.scaling.written("a-default", Ok(seen(0)), now);
    world.scenario.tell(News::Reset("default".into()));
    let actions = world.decide();
    assert!(actions.contains(&Action::Scale(seen(0), 2)), "{actions:?}");
}

// spec: A-80, L-30, A-84
#[test]
fn restarts_of_a_pod_before_it_got_its_id_are_not_counted_for_its_executor() {
    let mut world = World::running(SetKind::StatefulSet, 1);
    let unassigned = |count: u32| {
        move |pod: &mut Pod| {
            restarted(count, 3)(pod);
            let profile = Some("default".into());
            pod.identity = PodIdentity::UnassignedPod { profile };
        }
    };
    world.pod(2, unassigned(2));
    assert!(!world.tells_of_a_restart());
    // It crashes once more before the patch with its id is answered.
    world.pod(2, unassigned(3));
    world.pod(2, restarted(3, 3));
    assert!(world.tells_of_a_restart(), "since it was seen");
    world.pod(2, restarted(3, 3));
    assert!(!world.tells_of_a_restart());
}

// spec: A-80, L-30, S-13, A-84
#[test]
fn restarts_that_a_restored_server_forgot_are_not_counted_again() {
    let mut world = World::running(SetKind::StatefulSet, 2);
    world.pod(1, restarted(2, 3));
    assert!(world.tells_of_a_restart());
    for count in [1, 2] {
        world.pod(1, restarted(count, 3));
        assert!(!world.tells_of_a_restart(), "{count}");
    }
    world.pod(1, restarted(3, 3));
    assert!(world.tells_of_a_restart());
}

// spec: A-80, B-30, A-84
#[test]
fn a_leaving_executor_that_exits_is_killed_at_once() {
    let mut world = World::running(SetKind::Deployment, 3);
    world.registers(2);
    let why = LeaveReason::Decommissioned("somebody".into());
    let how = LeaveMethod::Drain { within: WITHIN };
    world.retire(&[Action::Retire(
        vec![id(2)],
        TargetChange::Stay,
        why.clone(),
        how,
    )]);
    world.decide();
    let now = world.scenario.now().tick;
    world.scaling.written("a-default", Ok(seen(4)), now);
    world.pod(2, restarted(1, 0));
    let grace = Duration::from_secs(1);
    let actions = world.decide();
    let killed = Action::Retire(
        vec![id(2)],
        TargetChange::Stay,
        why,
        LeaveMethod::Kill { grace },
    );
    assert_eq!(actions[0], killed);
}
