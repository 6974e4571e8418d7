use super::*;
use crate::model::news::{News, Outcome};
use crate::testing::{Scenario, at};

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

fn with_ttls(ttls: &[(&str, &str)]) -> Profiles {
    let described = |(name, ttl): &(&str, &str)| {
        let described = serde_json::json!({"executors": 1, "ttl": ttl});
        (ProfileName::from(*name), described)
    };
    Profiles::new(
        Box::new(|_, _| Err(Vec::new())),
        Box::new(|_, _| None),
        Known {
            added: ttls.iter().map(described).collect(),
            configured: ["default".into()].into(),
            ..Known::default()
        },
    )
}

// spec: B-69
#[test]
fn a_profile_that_no_request_renews_for_its_ttl_is_silent_until_it_is_removed() {
    let mut profiles = with_ttls(&[("a", "5s"), ("b", "1h")]);
    let silent = |profiles: &mut Profiles, second: u64| {
        let silent = profiles.silent(at(second * 1_000));
        silent.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
    };
    for second in 0..5 {
        assert_eq!(silent(&mut profiles, second), []);
    }
    profiles.renew(
        [&"a".into(), &"default".into(), &"unknown".into()],
        at(4_500),
    );
    for second in 5..10 {
        assert_eq!(silent(&mut profiles, second), []);
    }
    assert_eq!(silent(&mut profiles, 10), ["a".into()]);
    assert_eq!(
        silent(&mut profiles, 11),
        ["a".into()],
        "it was not removed"
    );
    profiles.remove(&"a".into()).unwrap();
    assert_eq!(silent(&mut profiles, 12), []);
}

// spec: B-69
#[test]
fn time_in_which_the_process_stood_still_is_no_silence() {
    let mut profiles = with_ttls(&[("a", "1m")]);
    for second in 0..50 {
        assert_eq!(profiles.silent(at(second * 1_000)), []);
    }
    assert_eq!(profiles.silent(at(3_600_000)), []);
    assert_eq!(profiles.silent(at(3_609_000)), []);
    assert_eq!(profiles.silent(at(3_611_000)).len(), 1);
}
