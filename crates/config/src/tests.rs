//! Tests of reading the configuration, from a file's text to a [`Config`].

mod changes;
mod claims;
mod convert;
mod effective;
mod files;
mod gangs;
mod listeners;
mod memory;
mod mistakes;
mod overrides;
mod pods;
mod pools;
mod refusals;
mod schema;
mod spares;
mod templates;

use std::fmt;
use std::time::Duration;

use super::*;

/// The shortest complete file.
const LEAST: &str = "[profiles.default]\nimage = \"engine:1\"\n";

fn read(text: &str) -> Result<Config, ConfigError> {
    Config::from_toml(text, "a.toml", [], &[])
}

/// Reads [`LEAST`] with this text before it.
fn with(text: &str) -> Result<Config, ConfigError> {
    read(&format!("{text}\n{LEAST}"))
}

/// Reads [`LEAST`] with this text added to its profile.
fn with_profile(text: &str) -> Result<Config, ConfigError> {
    read(&format!("{LEAST}{text}"))
}

/// The overrides from the environment and from the command line.
fn overrides(env: &[(&str, &str)], sets: &[&str]) -> (Vec<(String, String)>, Vec<String>) {
    let env = env
        .iter()
        .map(|(name, raw)| ((*name).to_owned(), (*raw).to_owned()));
    let sets = sets.iter().map(|set| (*set).to_owned());
    (env.collect(), sets.collect())
}

fn overridden(env: &[(&str, &str)], sets: &[&str]) -> Result<Config, ConfigError> {
    let (env, sets) = overrides(env, sets);
    Config::from_toml(LEAST, "a.toml", env, &sets)
}

/// The error message with which a file is refused.
fn refused(text: &str) -> String {
    match read(text) {
        Ok(_) => panic!("accepted:\n{text}"),
        Err(error) => error.to_string(),
    }
}

/// The keys of all mistakes, in the order in which they are reported.
fn keys(error: &ConfigError) -> Vec<&str> {
    error.mistakes.iter().map(|m| m.key.as_str()).collect()
}

/// Asserts that exactly one mistake was found, with this key and this text in the message. Returns
/// the message.
fn assert_refused<T: fmt::Debug>(
    read: Result<T, ConfigError>,
    text: &str,
    key: &str,
    part: &str,
) -> String {
    let error = read.expect_err(text);
    let message = error.to_string();
    assert_eq!(keys(&error), [key], "{text}\n{message}");
    assert!(message.contains(part), "{text}\n{message}");
    message
}

// spec: C-1
#[test]
fn every_key_has_a_default_but_the_image() {
    let config = read(LEAST).unwrap();
    let mut expected = Config::default();
    expected.profiles.get_mut("default").unwrap().image = Some("engine:1".to_owned());
    assert_eq!(config, expected);
    assert_eq!(
        refused(""),
        "a.toml: profiles.default.image: missing, and a Kubernetes cluster needs one\n  \
         name an image, or set profiles.default.executors = 0"
    );
}

// spec: C-1
#[test]
fn durations_and_sizes_are_written_as_people_and_kubernetes_write_them() {
    let text = r#"
        allocation = { cancel_delay = "1h 30m", stuck_after = "1500ms" }
        [profiles.default]
        image = "engine:1"
        cpu = 0.5
        cpu_limit = 2
        memory = "512Mi"
        memory_limit = "2Gi"
    "#;
    let config = read(text).unwrap();
    assert_eq!(config.allocation.cancel_delay, Duration::from_secs(5400));
    assert_eq!(config.allocation.stuck_after, Duration::from_millis(1500));
    let profile = &config.profiles["default"];
    assert_eq!(profile.cpu.as_ref().unwrap().millis(), 500);
    assert_eq!(profile.cpu_limit.as_ref().unwrap().to_string(), "2");
    assert_eq!(profile.memory.as_ref().unwrap().bytes(), 512 << 20);
}

// spec: K-5
#[test]
fn a_profile_is_read_whole() {
    let text = r#"
        [profiles.large]
        executors = 7
        image = "engine:1"
        command = ["engine"]
        args = ["--verbose", ""]
        env = { LANG = "C.UTF-8" }
        node_selector = { "kubernetes.io/arch" = "arm64" }
        termination_grace = "2m"
        [[profiles.large.tolerations]]
        key = "dedicated"
        value = "batch"
        effect = "NoSchedule"
        [[profiles.large.tolerations]]
        operator = "Exists"
        effect = "NoExecute"
        tolerate_for = "5m"
        [profiles.default]
        executors = 0
    "#;
    let config = read(text).unwrap();
    let expected = Profile {
        executors: 7,
        image: Some("engine:1".to_owned()),
        command: vec!["engine".to_owned()],
        args: vec!["--verbose".to_owned(), String::new()],
        env: BTreeMap::from([("LANG".to_owned(), EnvValue::Text("C.UTF-8".to_owned()))]),
        node_selector: BTreeMap::from([("kubernetes.io/arch".to_owned(), "arm64".to_owned())]),
        termination_grace: Duration::from_secs(120),
        tolerations: vec![
            Toleration {
                key: Some("dedicated".to_owned()),
                value: Some("batch".to_owned()),
                effect: Some(TaintEffect::NoSchedule),
                ..Toleration::default()
            },
            Toleration {
                operator: TolerationOperator::Exists,
                effect: Some(TaintEffect::NoExecute),
                tolerate_for: Some(Duration::from_secs(300)),
                ..Toleration::default()
            },
        ],
        ..Profile::default()
    };
    assert_eq!(config.profiles["large"], expected);
    assert_eq!(TolerationOperator::Exists.as_str(), "Exists");
    assert_eq!(TaintEffect::NoExecute.as_str(), "NoExecute");
}

#[test]
fn the_default_profile_always_exists() {
    let text = "[cluster]\nmode = \"embedded\"\n[embedded]\nnode = \"simulated\"\n[profiles.other]";
    let config = read(text).unwrap();
    let names: Vec<&str> = config.profiles.keys().map(ProfileName::as_str).collect();
    assert_eq!(names, ["default", "other"]);
}

// spec: W-6
#[test]
fn watch_and_poll_cannot_both_be_off() {
    let text = "watch.enabled = false\npoll.enabled = false";
    let message = with(text).unwrap_err().to_string();
    assert!(
        message.starts_with("a.toml:2:16: poll.enabled: found false, and watch."),
        "{message}"
    );
    assert!(with("watch.enabled = false").is_ok());
    assert!(with("poll.enabled = false").is_ok());
}

// spec: A-14
#[test]
fn the_creation_timeout_is_never_below_twice_the_request_timeout() {
    let config = with("cluster.request_timeout = \"40s\"").unwrap();
    assert_eq!(config.allocation.creation_timeout, Duration::from_secs(80));
}

// spec: K-7
#[test]
fn the_prefix_is_the_one_given_or_made_from_the_name() {
    let prefix = |text| with(text).unwrap().pod_name_prefix();
    assert_eq!(prefix("app.name = \"nightly-etl\""), "nightly-etl");
    assert_eq!(
        prefix("app.name = \"日本\"\nexecutors.pod_name_prefix = \"jp\""),
        "jp"
    );
}
