//! Sets that others deleted without their pods, and profiles that have left the configuration.

use super::*;

// spec: A-103
#[test]
fn a_set_that_was_deleted_without_its_pods_is_created_again_even_if_none_is_wanted() {
    let mut world = World::running(SetKind::Deployment, 3);
    world.target(0);
    world.decide();
    world.scenario.pass(30_000);
    assert_eq!(world.decide(), [Action::Look]);
    let now = world.scenario.now().tick;
    world.scaling.looked(Some(Vec::new()), now);
    assert_eq!(world.decide(), [Action::Create("default".into(), 0)]);

    let mut none = World::new(SetKind::Deployment, 0);
    none.decide();
    let now = none.scenario.now().tick;
    none.scaling.looked(Some(Vec::new()), now);
    assert_eq!(none.decide(), [], "it has no executors");
}

// spec: A-103
#[test]
fn the_pods_of_a_lost_deployment_are_ended_although_the_profile_has_left_the_configuration() {
    let mut world = World::new(SetKind::Deployment, 0);
    world.scaling.hashes.clear();
    world.pod(1, |_| {});
    assert_eq!(world.decide(), [Action::Look]);
    let now = world.scenario.now().tick;
    world.scaling.looked(Some(Vec::new()), now);
    assert_eq!(world.decide(), [Action::Create("default".into(), 0)]);
}

// spec: A-103
#[test]
fn the_set_of_a_profile_that_has_left_the_configuration_is_never_made_larger() {
    let mut world = World::running(SetKind::Deployment, 2);
    world.scaling.hashes.clear();
    world.registers(1);
    world.target(0);
    let now = world.scenario.now().tick;
    let empty = SetSeen {
        template: None,
        ..seen(0)
    };
    world.scaling.looked(Some(vec![empty]), now);
    // One that drains counts, where the profile has a template.
    world.retire(&[Action::Retire(
        vec![id(1)],
        TargetChange::Stay,
        LeaveReason::ScaledDown,
        LeaveMethod::Drain { within: WITHIN },
    )]);
    assert_eq!(world.decide(), []);
}

// spec: A-103, O-11
#[test]
fn a_replica_set_that_goes_on_making_pods_at_the_end_gets_its_deployment_again() {
    let mut world = World::running(SetKind::Deployment, 3);
    world.scaling.end();
    assert_eq!(world.decide(), [Action::Look]);
    let now = world.scenario.now().tick;
    world.scaling.looked(Some(Vec::new()), now);
    assert_eq!(world.decide(), [], "its executors are deleted one by one");
    world.pod(4, |pod| {
        pod.identity = PodIdentity::UnassignedPod {
            profile: Some("default".into()),
        };
    });
    assert_eq!(world.decide(), [Action::Create("default".into(), 0)]);
}
