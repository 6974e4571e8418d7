//! Tests of what an entry keeps of its pod when that ends.

use super::*;

// spec: L-39
#[test]
fn a_pod_that_was_evicted_stays_so_if_a_later_status_lacks_the_condition() {
    let see = |entry: &Entry, pod: Pod| {
        next(
            entry,
            &EntryNews::Seen(&Arc::new(pod), Authority::Event),
            &here(),
        )
        .unwrap()
    };
    let disruption = crate::pod::Disruption {
        reason: "EvictionByEvictionAPI".into(),
        message: None,
    };
    let evicted = Pod {
        disruption: Some(disruption),
        ..Pod::clone(&pod("Running", 6))
    };
    let entry = see(&entry_in("Running"), evicted);
    let deleted = Pod::clone(&pod("Terminating", NEWER));
    let entry = see(&entry, deleted);
    let class = crate::reasoning::reason_of(&entry).class;
    assert_eq!(class, crate::LossClass::Disrupted);
    let runs = see(&entry_in("Running"), Pod::clone(&pod("Running", NEWER)));
    assert_eq!(runs.pod().unwrap().disruption, None);
}

// spec: L-20, E-10, L-39
#[test]
fn a_pod_that_ends_without_having_run_keeps_the_reason_that_it_waited_for() {
    let waits = |reason: Option<&str>, version: u64, phase| {
        let mut pod = Pod::clone(&pod("Pending", version));
        pod.phase = phase;
        pod.executor = crate::pod::ContainerState::Waiting {
            reason: reason.map(Arc::from),
            message: None,
        };
        Arc::new(pod)
    };
    let see = |entry: &Entry, pod| next(entry, &EntryNews::Seen(&pod, Authority::Event), &here());
    let waits_first = waits(Some("ErrImagePull"), 6, Phase::Pending);
    let entry = see(&entry_in("Pending"), waits_first).unwrap();
    let entry = see(&entry, waits(None, NEWER, Phase::Failed)).unwrap();
    let reason = crate::reasoning::reason_of(&entry);
    assert_eq!((reason.exit_code, &*reason.message), (None, "ErrImagePull"));
}
