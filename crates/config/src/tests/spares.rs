//! Spares: the profile of a profile's spares.

use super::changes::changes;
use super::*;

const SESSIONS: &str = "[backend]\nlisten = \"127.0.0.1:0\"\n";

// spec: A-117
#[test]
fn spares_are_executors_of_a_profile_that_is_like_the_other_one() {
    let keys = "executors = 5\nspares = 2\nmin_executors = 1\nmemory = \"1Gi\"\n";
    let config = read(&format!("{LEAST}{keys}{SESSIONS}")).unwrap();
    let (all, spares) = (
        &config.profiles["default"],
        &config.profiles["default-spares"],
    );
    assert_eq!((all.executors, all.spares), (5, 2));
    assert_eq!(
        (spares.executors, spares.spares, spares.min_executors),
        (2, 0, 0)
    );
    assert_eq!((&spares.image, &spares.memory), (&all.image, &all.memory));
    let config = read(&format!("{LEAST}executors = 5\n{SESSIONS}")).unwrap();
    assert_eq!(config.profiles.len(), 1);
}

// spec: A-117, C-2
#[test]
fn spares_are_refused_where_none_can_be_told_to_begin_or_pods_are_not_boatswains_own() {
    let spares = "spares = 1\nmin_executors = 1\n";
    for (text, said) in [
        (String::new(), "without sessions none can be told to begin"),
        (
            format!("{SESSIONS}[allocation]\nstrategy = \"statefulset\""),
            "whose pods have to be boatswain's own",
        ),
        (
            format!("{SESSIONS}[scheduling]\ngang = true"),
            "and a gang has none",
        ),
    ] {
        let text = refused(&format!("{LEAST}{spares}{text}"));
        assert!(text.contains(said), "{text}");
    }
    let text = refused(&format!("{LEAST}[profiles.default-spares]\nimage = \"a\""));
    assert!(text.contains("set profiles.default.spares"), "{text}");
}

// spec: A-117, C-6
#[test]
fn spares_come_change_and_go_while_the_driver_runs() {
    let with = |n: u32| format!("spares = {n}\n{SESSIONS}");
    let targets = |before: u32, after: u32| {
        let changes = changes(&with(before), &with(after));
        assert!(changes.at_next_start.is_empty(), "{changes:?}");
        assert_eq!(changes.reading.config.profiles["default"].spares, after);
        let added: Vec<String> = changes.added.iter().map(ToString::to_string).collect();
        let targets = changes.targets.into_iter();
        let targets: Vec<_> = targets.map(|(name, n)| (name.to_string(), n)).collect();
        (added, targets)
    };
    let name = || "default-spares".to_owned();
    assert_eq!(targets(1, 3), (vec![], vec![(name(), 3)]));
    assert_eq!(targets(1, 0), (vec![], vec![(name(), 0)]));
    assert_eq!(targets(0, 2), (vec![name()], vec![]));
}
