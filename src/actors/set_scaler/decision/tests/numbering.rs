//! Executor ids of a set's pods.

use super::*;

// spec: A-80, B-1, A-83, E-4
#[test]
fn an_unassigned_pod_gets_the_next_id_and_does_not_count_before() {
    let mut world = World::running(SetKind::StatefulSet, 2);
    world.target(3);
    world.decide();
    let now = world.scenario.now().tick;
    world.scaling.written("a-default", Ok(seen(3)), now);
    let profile = Some("default".into());
    world.pod(3, |pod| {
        pod.identity = PodIdentity::UnassignedPod { profile }
    });
    assert_eq!(world.scenario.current().counts(&"default".into()).live(), 2);
    let actions = world.decide();
    let [
        Action::Number {
            id: given, name, ..
        },
    ] = &actions[..]
    else {
        panic!("{actions:?}");
    };
    assert_eq!((*given, &**name), (id(3), "a-default-2"));
    assert_eq!(world.decide(), [], "one call at a time");
    world.pod(3, |_| {});
    assert_eq!(world.scenario.current().counts(&"default".into()).live(), 3);
    assert!(world.scenario.current().unassigned.is_empty());
    assert_eq!(world.decide(), []);
}

// spec: A-80, I-2, I-8, A-83
#[test]
fn an_id_whose_pod_is_gone_is_ended_once_no_call_can_assign_it() {
    let mut world = World::running(SetKind::StatefulSet, 1);
    let profile = Some("default".into());
    world.pod(9, |pod| {
        pod.identity = PodIdentity::UnassignedPod { profile }
    });
    let taken = world.decide();
    assert!(matches!(taken[..], [Action::Number { .. }]), "{taken:?}");
    let now = world.scenario.now().tick;
    world.scaling.numbered(&"u9".into(), false, now);
    world.version += 1;
    let pod = Arc::new(pending("a", 9, "u9", world.version));
    let (pod, epoch) = (Sighting::Read(pod), Epoch::default());
    world.scenario.tell(News::Deleted { pod, epoch });
    let unused = |world: &mut World| {
        let actions = world.decide();
        actions.into_iter().find(|a| matches!(a, Action::Unused(_)))
    };
    assert_eq!(unused(&mut world), None, "the call may still change it");
    world.scenario.pass(60_000);
    let ids = vec![id(2)];
    assert_eq!(unused(&mut world), Some(Action::Unused(ids.clone())));
    assert_eq!(unused(&mut world), None, "said once");
    world.scenario.tell(News::Unused { ids });
    assert!(world.scenario.current().ended.contains(id(2)));
    world.scenario.tell(News::Unused { ids: vec![id(1)] });
    assert!(!world.scenario.current().ended.contains(id(1)), "it lives");
}
