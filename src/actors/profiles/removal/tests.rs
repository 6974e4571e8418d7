use super::*;
use crate::testing::Scenario;

// spec: B-57
#[test]
fn a_removal_is_over_when_no_executor_of_the_profile_is_left_in_the_ledger() {
    let mut scenario = Scenario::new(&[("default", 1), ("large", 1)]);
    let profile = || "large".into();
    let profiles = BTreeSet::from([profile()]);
    scenario.requested(1, crate::model::news::Outcome::Sent { profile: profile() });
    scenario.tell(News::Remove(profile()));
    assert_eq!(
        over(&profiles, scenario.current()),
        None,
        "its outcome is unknown"
    );
    scenario.created(1);
    scenario.runs(1);
    scenario.exits(1, 0);
    scenario.goes(1);
    assert_eq!(
        over(&profiles, scenario.current()),
        None,
        "its end is not reported"
    );
    scenario.report(1);
    scenario.batch();
    scenario.release();
    assert_eq!(over(&profiles, scenario.current()), Some(profile()));
    let unread = Snapshot::default();
    assert_eq!(
        over(&profiles, &unread),
        None,
        "nothing is known before adoption"
    );
}
