//! Tests of overrides from the environment and the command line.

use super::*;

// spec: C-3
#[test]
fn later_wins_file_environment_command_line() {
    let env = ("BOATSWAIN__POLL__INTERVAL", "10s");
    let seconds = |config: Result<Config, ConfigError>| config.unwrap().poll.interval.as_secs();
    assert_eq!(seconds(with("poll.interval = \"20s\"")), 20);
    assert_eq!(seconds(overridden(&[env], &[])), 10);
    assert_eq!(seconds(overridden(&[env], &["poll.interval=5s"])), 5);
    assert_eq!(
        seconds(overridden(
            &[env],
            &["poll.interval=5s", "poll.interval=6s"]
        )),
        6
    );
}

// spec: C-3
#[test]
fn an_override_is_toml_or_else_text() {
    let env = [
        ("BOATSWAIN__APP__NAME", "42"),
        ("BOATSWAIN__WATCH__ENABLED", "false"),
        ("BOATSWAIN__PROFILES__DEFAULT__EXECUTORS", "7"),
        ("BOATSWAIN__PROFILES__DEFAULT__ARGS", r#"["a", "b"]"#),
        ("BOATSWAIN__PROFILES__DEFAULT__CPU", "500m"),
        ("BOATSWAIN__CLUSTER__NAMESPACE", "\"jobs\""),
        ("BOATSWAIN_DRIVER_URL", "not an override"),
    ];
    let sets = [
        r#"profiles.default.node_selector."kubernetes.io/arch"=arm64"#,
        "profiles.default.env.EQUATION=a=b",
        "profiles.default.env.EMPTY=",
    ];
    let config = overridden(&env, &sets).unwrap();
    assert_eq!(config.app.name, "42");
    assert!(!config.watch.enabled);
    assert_eq!(config.cluster.namespace.as_deref(), Some("jobs"));
    let profile = &config.profiles["default"];
    assert_eq!(profile.executors, 7);
    assert_eq!(profile.args, ["a", "b"]);
    assert_eq!(profile.cpu.as_ref().unwrap().millis(), 500);
    assert_eq!(profile.node_selector["kubernetes.io/arch"], "arm64");
    let text = |text: &str| EnvValue::Text(text.to_owned());
    assert_eq!(profile.env["EQUATION"], text("a=b"));
    assert_eq!(profile.env["EMPTY"], text(""));
    assert_eq!(
        profile.image.as_deref(),
        Some("engine:1"),
        "what is not overridden stays"
    );
}

// spec: C-3
#[test]
fn a_mistake_in_an_override_names_the_override() {
    let message = |env: &[(&str, &str)], sets: &[&str]| {
        let error = overridden(env, sets).expect_err("a mistake");
        error.to_string()
    };
    assert_eq!(
        message(&[("BOATSWAIN__LIFECYCLE__KEEP_MOST", "many")], &[]),
        "BOATSWAIN__LIFECYCLE__KEEP_MOST: lifecycle.keep_most: found \"many\"\n  \
         allowed: a whole number from 1 to 10000"
    );
    let unknown = message(&[("BOATSWAIN__LIFECYCLE__KEEPMOST", "1")], &[]);
    assert!(
        unknown.starts_with(
            "BOATSWAIN__LIFECYCLE__KEEPMOST: lifecycle.keepmost: no such key\n  did you mean keep_most?"
        ),
        "{unknown}"
    );
    let set = message(&[], &["log.level=loud"]);
    assert!(
        set.starts_with("--set log.level: log.level: found \"loud\"\n"),
        "{set}"
    );
    let through_a_value = message(&[], &["log.level.x=1"]);
    assert!(
        through_a_value.contains("log.level: found a section"),
        "{through_a_value}"
    );
    for bad in [
        "log.level",
        "=1",
        "a..b=1",
        "a b=1",
        "a\nb=1",
        "\"a=1",
        ".a=1",
        "a=1\nb.c=2",
    ] {
        assert!(overridden(&[], &[bad]).is_err(), "{bad:?}");
    }
    for bad in [
        "BOATSWAIN__",
        "BOATSWAIN____A",
        "BOATSWAIN__A__",
        "BOATSWAIN__A",
    ] {
        assert!(overridden(&[(bad, "1")], &[]).is_err(), "{bad:?}");
    }
}

proptest::proptest! {
    #[test]
    fn no_file_and_no_override_panics(text in ".*", name in "BOATSWAIN__[A-Z_]{0,20}", raw in ".*", set in ".*") {
        // Accepted or refused, it does not panic.
        let _ = Config::from_toml(&text, "a.toml", [(name, raw.clone())], &[set, format!("app.name={raw}")]);
    }
}
