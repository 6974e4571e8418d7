//! The labels of spares that were promoted.

use super::*;

fn promotes(manager: &mut Manager) -> bool {
    let (batch, now) = (manager.scenario.batch(), manager.scenario.now());
    let actions = manager.pending_actions.decide(&batch, now);
    actions.iter().any(|action| {
        matches!(action, Action::Call(Subject::Promotion(_), PodCall::Promote { profile, .. }) if profile.as_str() == "default")
    })
}

// spec: A-118, L-11
#[test]
fn the_label_of_a_promoted_spare_is_changed_until_its_pod_shows_it() {
    let mut manager = Manager::new();
    let profile = "default-spares".into();
    manager.scenario.requested(1, Outcome::Sent { profile });
    manager.scenario.created(1);
    manager.scenario.runs(1);
    assert!(!promotes(&mut manager));
    manager.scenario.tell(News::Promote(vec![id(1)]));
    assert!(promotes(&mut manager));
    assert!(!promotes(&mut manager), "it is in flight");
    let now = manager.scenario.now().tick;
    (manager.pending_actions).answered(&Subject::Promotion(id(1)), false, now);
    manager.scenario.pass(2_000);
    assert!(promotes(&mut manager), "it failed");
    let mut pod = running(manager.scenario.pod(1));
    if let PodIdentity::Executor { profile, .. } = &mut pod.identity {
        *profile = Some("default".into());
    }
    manager.scenario.observe(pod);
    let now = manager.scenario.now().tick;
    (manager.pending_actions).answered(&Subject::Promotion(id(1)), true, now);
    manager.scenario.pass(60_000);
    assert!(!promotes(&mut manager));
}
