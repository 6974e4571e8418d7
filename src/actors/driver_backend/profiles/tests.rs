use super::*;
use crate::model::news::{News, Outcome};
use crate::testing::Scenario;

// spec: B-52
#[test]
fn a_removal_is_over_when_no_executor_of_the_profile_is_left_in_the_ledger() {
    let mut scenario = Scenario::new(&[("default", 1), ("large", 1)]);
    let profile = || ProfileName::from("large");
    let described = serde_json::json!({"executors": 1});
    let profiles = Profiles::new(
        Box::new(|_, _| Err(Vec::new())),
        Box::new(|_, _| None),
        Known {
            added: [(profile(), described.clone())].into(),
            removing: [profile()].into(),
            ..Known::default()
        },
    );
    scenario.requested(1, Outcome::Sent { profile: profile() });
    scenario.tell(News::Remove(profile()));
    let over = |scenario: &Scenario| profiles.over(scenario.current());
    assert_eq!(over(&scenario), None, "its outcome is unknown");
    scenario.created(1);
    scenario.runs(1);
    scenario.exits(1, 0);
    scenario.goes(1);
    assert_eq!(over(&scenario), None, "its end is not reported");
    scenario.report(1);
    scenario.batch();
    scenario.release();
    assert_eq!(over(&scenario), Some((profile(), Arc::new(described))));
    let unread = Snapshot::default();
    assert_eq!(
        profiles.over(&unread),
        None,
        "nothing is known before adoption"
    );
}
