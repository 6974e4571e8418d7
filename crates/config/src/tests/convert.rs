//! Tests of the conversion of Spark's configuration.

use super::mistakes::{assert_is, given};
use super::*;
use serde_json::Value as Json;

fn convert(text: &str) -> String {
    crate::spark::convert(text).unwrap_or_else(|why| panic!("{why}"))
}

// spec: C-7, K-5
#[test]
fn a_spark_defaults_conf_becomes_a_configuration_that_can_be_used() {
    let conf = given("spark/spark-defaults.conf");
    let keys = conf
        .lines()
        .filter(|line| line.starts_with("spark.kubernetes."));
    assert!(keys.count() >= 60);
    let toml = convert(&conf);
    assert_is(&toml, "spark/converted.expected");
    let config = read(&toml).unwrap();
    assert_eq!(config.cluster.namespace.as_deref(), Some("analytics"));
    assert_eq!(config.profiles["default"].executors, 20);
    assert_eq!(config.poll.interval, Duration::from_secs(45));
    // Every key is mentioned.
    for line in conf.lines().filter(|line| line.starts_with("spark.")) {
        let key = line.split([' ', '=', ':', '\t']).next().unwrap();
        assert!(toml.contains(key), "{key} in\n{toml}");
    }
}

fn executors(config: &Config) -> Vec<u32> {
    let profiles = config.profiles.values();
    profiles.map(|profile| profile.executors).collect()
}

// spec: C-7
#[test]
fn what_boatswain_would_refuse_is_named_and_the_rest_is_used() {
    let toml = convert(
        "spark.kubernetes.container.image engine:1\n\
         spark.kubernetes.namespace Not_A_Namespace\n\
         spark.kubernetes.allocation.batch.size 0\n\
         spark.kubernetes.allocation.batch.delay soon\n\
         spark.executor.cores 4\n\
         spark.kubernetes.executor.limit.cores 2\n\
         spark.app.name ${user}\n\
         spark.executor.instances 3",
    );
    let config = read(&toml).unwrap_or_else(|error| panic!("{error}\n{toml}"));
    assert_eq!(executors(&config), [3]);
    assert_eq!(config.cluster.namespace, None);
    for part in [
        "#   spark.kubernetes.namespace: cluster.namespace: found \"Not_A_Namespace\"",
        "#   spark.kubernetes.allocation.batch.size: allocation.batch_size: found 0",
        "#   spark.kubernetes.allocation.batch.delay: \"soon\" is not a duration",
        "#   spark.executor.cores: profiles.default.cpu: found 4, above cpu_limit",
        "#   spark.app.name: refers to another value",
    ] {
        assert!(toml.contains(part), "{part} in\n{toml}");
    }
}

// spec: C-7, A-80
#[test]
fn the_allocator_of_pods_becomes_the_strategy_if_boatswain_has_it() {
    let of = |allocator: &str| {
        let toml = convert(&format!(
            "spark.kubernetes.container.image engine:1\n\
             spark.kubernetes.allocation.batch.size 50\n\
             spark.kubernetes.allocation.pods.allocator {allocator}"
        ));
        let config = read(&toml).unwrap_or_else(|error| panic!("{error}\n{toml}"));
        (config.allocation, toml)
    };
    let (allocation, toml) = of("direct");
    assert_eq!(allocation.strategy, Strategy::Direct);
    assert_eq!(allocation.batch_size, 50);
    assert!(toml.contains("strategy = \"direct\"  # spark.kubernetes.allocation.pods.allocator"));
    for (allocator, strategy) in [
        ("statefulset", Strategy::StatefulSet),
        ("deployment", Strategy::Deployment),
    ] {
        let (allocation, toml) = of(allocator);
        assert_eq!(allocation.strategy, strategy);
        assert!(
            toml.contains(
                "#   spark.kubernetes.allocation.batch.size: allocation.batch_size: found, but"
            ),
            "{toml}"
        );
    }
    let (allocation, toml) = of("org.example.Allocator");
    assert_eq!(
        (allocation.strategy, allocation.batch_size),
        (Strategy::Direct, 50)
    );
    let named = "#   spark.kubernetes.allocation.pods.allocator: allocation.strategy: found \"org.example.Allocator\"";
    assert!(toml.contains(named), "{toml}");
}

// spec: C-7
#[test]
fn every_key_of_spark_4_3_is_converted_or_left_out_with_a_reason() {
    // The keys of a release; a key that ends in a dot has any suffix.
    for key in given("spark/keys-4.3.txt").lines() {
        let key = match key.ends_with('.') {
            true => format!("{key}x"),
            false => key.to_owned(),
        };
        let toml = convert(&format!("{key} 1"));
        let explained = format!("#   {key}: ");
        let of = |line: &str| line.ends_with(&format!("# {key}")) || line.starts_with(&explained);
        assert!(toml.lines().any(of), "{key}\n{toml}");
        assert!(!toml.contains("not known here"), "{key}\n{toml}");
    }
}

// spec: C-7, K-10
#[test]
fn on_demand_claims_become_claims_of_the_profile() {
    let of = |more: &str| {
        let toml = convert(&format!(
            "spark.kubernetes.container.image engine:1\n\
             spark.kubernetes.executor.volumes.persistentVolumeClaim.data.mount.path /data\n\
             spark.kubernetes.executor.volumes.persistentVolumeClaim.data.options.claimName OnDemand\n\
             spark.kubernetes.executor.volumes.persistentVolumeClaim.data.options.storageClass fast\n\
             spark.kubernetes.executor.volumes.persistentVolumeClaim.data.options.sizeLimit 10Gi\n\
             {more}"
        ));
        let config = read(&toml).unwrap_or_else(|error| panic!("{error}\n{toml}"));
        let profile = config.profiles["default"].clone();
        assert_eq!(profile.volumes.len(), 0, "{toml}");
        (profile.claims, toml)
    };
    let expected = Claim {
        name: "data".into(),
        mount_path: "/data".into(),
        size: "10Gi".parse().unwrap(),
        storage_class: Some("fast".into()),
        volume_attributes_class: None,
        data_source: None,
        access_modes: [AccessMode::ReadWriteOncePod].into(),
        owner: ClaimOwner::Application,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    };
    assert_eq!(of("").0, std::slice::from_ref(&expected));
    let (claims, toml) = of("spark.kubernetes.driver.ownPersistentVolumeClaim false\n\
         spark.kubernetes.legacy.useReadWriteOnceAccessMode true\n\
         spark.kubernetes.executor.volumes.persistentVolumeClaim.data.mount.readOnly false\n\
         spark.kubernetes.executor.volumes.persistentVolumeClaim.data.label.team etl");
    let other = Claim {
        access_modes: [AccessMode::ReadWriteOnce].into(),
        owner: ClaimOwner::Executor,
        labels: [("team".to_owned(), "etl".to_owned())].into(),
        ..expected
    };
    assert_eq!(claims, [other]);
    let lines = [
        ", spark.kubernetes.driver.ownPersistentVolumeClaim, spark.kubernetes.legacy.useReadWriteOnceAccessMode\n",
    ];
    for line in lines {
        assert!(toml.contains(line), "{line} in\n{toml}");
    }
    let (claims, toml) =
        of("spark.kubernetes.executor.volumes.persistentVolumeClaim.data.mount.subPath x");
    assert_eq!(claims, []);
    assert!(
        toml.contains(": a claim has no key for mount.subPath"),
        "{toml}"
    );
}

// spec: C-7, A-5
#[test]
fn the_newest_keys_of_spark_are_converted() {
    let toml = convert(
        "spark.kubernetes.container.image engine:1\n\
         spark.kubernetes.allocation.maximum 700\n\
         spark.kubernetes.securityContext.allowPrivilegeEscalation false\n\
         spark.kubernetes.executor.securityContext.allowPrivilegeEscalation true\n\
         spark.dynamicAllocation.executorIdleTimeout 90s",
    );
    let config = read(&toml).unwrap_or_else(|error| panic!("{error}\n{toml}"));
    assert_eq!(config.app.max_executors, Some(700));
    let security = &config.profiles["default"].security;
    assert_eq!(security.privilege_escalation, Some(true));
    // Spark keeps a surplus pending executor for that long, too.
    let idle = Duration::from_secs(90);
    assert_eq!(config.allocation.cancel_delay, idle);
    assert_eq!(config.autoscaling.idle_timeout, idle);
}

// spec: C-7
#[test]
fn without_an_image_the_file_says_that_one_is_to_be_named() {
    let toml = convert("spark.executor.instances 3");
    assert!(
        toml.contains("# Still to be written by hand:\n#   profiles.default.image:"),
        "{toml}"
    );
    assert!(
        toml.contains("executors = 3  # spark.executor.instances"),
        "{toml}"
    );
}

// spec: C-7
#[test]
fn a_name_of_which_toml_would_not_take_a_character_is_named_and_the_rest_can_be_used() {
    for odd in [
        "\\u0000", "\\u0011", "\\u007f", "\\u0301", "]", "[0]", "\\n", "\"", "'", "\\\\",
    ] {
        let toml = convert(&format!(
            "spark.kubernetes.container.image e:1\nspark.executorEnv.A{odd}B 1\nspark.executor.instances 3"
        ));
        let config = read(&toml).unwrap_or_else(|error| panic!("{odd}: {error}\n{toml}"));
        assert_eq!(executors(&config), [3]);
        assert!(
            toml.contains("not a name that Kubernetes accepts"),
            "{toml}"
        );
    }
}

// spec: C-7
#[test]
fn a_property_whose_value_is_json_is_a_property_and_no_command() {
    for value in ["{}|", "{}", "[1]; x", "{\"a\": 1}"] {
        let toml = convert(&format!(
            "spark.executor.instances = 3\nspark.app.id = {value}\n"
        ));
        assert!(toml.contains("executors = 3"), "{value}: {toml}");
    }
}

proptest::proptest! {
    // spec: C-7
    #[test]
    fn whatever_the_values_are_what_is_written_can_be_used(values in proptest::collection::vec("\\PC{0,12}|[0-9]{1,12}[a-z]?|true|a-b", 12)) {
        let keys = [
            "spark.app.id", "spark.app.name", "spark.executor.memory", "spark.executor.cores",
            "spark.executorEnv.A\\ b", "spark.kubernetes.node.selector.x/y", "spark.executor.instances",
            "spark.kubernetes.executor.apiPollingInterval", "spark.kubernetes.executor.enableApiWatcher",
            "spark.kubernetes.executor.enableApiPolling", "spark.kubernetes.executor.limit.cores",
            "spark.kubernetes.allocation.executor.timeout",
        ];
        let lines = keys.iter().zip(&values).map(|(key, value)| format!("{key} = {value}\n"));
        let conf: String = std::iter::once("spark.kubernetes.container.image = e:1\n".to_owned()).chain(lines).collect();
        let toml = convert(&conf);
        proptest::prop_assert!(read(&toml).is_ok(), "{conf}\n{toml}");
    }
}

/// The files of this kind, by name.
fn files(kind: &str) -> Vec<(String, String)> {
    let directory = format!("{}/src/tests/spark/{kind}", env!("CARGO_MANIFEST_DIR"));
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let mut files: Vec<(String, String)> = entries
        .map(|entry| {
            (
                entry.path().display().to_string(),
                std::fs::read_to_string(entry.path()).unwrap(),
            )
        })
        .collect();
    files.sort();
    assert!(files.len() >= 10, "{kind}: {}", files.len());
    files
}

/// Whether what is written can be used, but for an image.
fn assert_usable(toml: &str, file: &str) {
    let Err(error) = read(toml) else {
        return;
    };
    let keys: Vec<&str> = error.mistakes.iter().map(|mistake| &*mistake.key).collect();
    assert_eq!(keys, ["profiles.default.image"], "{file}: {error}\n{toml}");
}

// spec: C-7
#[test]
fn every_setting_of_a_properties_file_or_a_command_is_mentioned() {
    for (file, text) in [files("properties"), files("commands")].concat() {
        let toml = convert(&text);
        assert_usable(&toml, &file);
        let first = text.split("else\n").next().unwrap();
        let starts = first.match_indices("spark.").map(|(at, _)| at);
        let begins = |at: &usize| {
            !first[..*at].ends_with(|c: char| c.is_alphanumeric() || "./-".contains(c))
        };
        for at in starts.filter(begins) {
            let key = first[at..]
                .split(|c: char| c.is_whitespace() || "=:\"'".contains(c))
                .next()
                .unwrap();
            assert!(toml.contains(key), "{file}: {key}\n{toml}");
        }
    }
}

/// The paths of all values in a document, and the document without each.
fn without_each(document: &Json) -> Vec<(String, Json)> {
    fn paths(at: &str, value: &Json, all: &mut Vec<String>) {
        match value {
            Json::Object(fields) => {
                for (key, value) in fields {
                    paths(
                        &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")),
                        value,
                        all,
                    );
                }
            }
            Json::Array(items) => {
                for (n, item) in items.iter().enumerate() {
                    paths(&format!("{at}/{n}"), item, all);
                }
            }
            _ => all.push(at.to_owned()),
        }
    }
    let mut all = Vec::new();
    paths("", document, &mut all);
    let without = |path: String| {
        let mut document = document.clone();
        let (parent, last) = path.rsplit_once('/').unwrap();
        match document.pointer_mut(parent).unwrap() {
            Json::Object(fields) => {
                fields.remove(&last.replace("~1", "/"));
            }
            Json::Array(items) => {
                items.remove(last.parse().unwrap());
            }
            _ => unreachable!(),
        }
        (path, document)
    };
    all.into_iter().map(without).collect()
}

// spec: C-7
#[test]
fn every_value_of_emr_s_json_and_of_a_spark_application_changes_what_is_written_or_is_named() {
    for (file, text) in [files("emr"), files("applications")].concat() {
        let documents: Vec<Json> = match file.ends_with(".json") {
            true => vec![serde_json::from_str(&text).unwrap()],
            false => serde_saphyr::from_multiple(&text).unwrap(),
        };
        let kind = |document: &Json| document["kind"].as_str().unwrap_or("Spark").to_owned();
        let document = documents
            .into_iter()
            .find(|document| kind(document).contains("Spark"))
            .unwrap();
        assert_usable(&convert(&text), &file);
        let toml = convert(&document.to_string());
        for (path, other) in without_each(&document) {
            let keys: Vec<String> = path[1..]
                .split('/')
                .map(|key| key.replace("~1", "/"))
                .collect();
            // It is named itself, or as a part of something, such as all of `spec.driver`.
            let named = (1..=keys.len()).any(|n| {
                let (whole, own) = (keys[..n].join("."), &keys[keys.len() - 1]);
                toml.lines()
                    .filter_map(|line| line.strip_prefix("#   "))
                    .any(|line| {
                        let said = line.replace('[', ".").replace(']', "");
                        let said = said.trim_start_matches('.');
                        said.starts_with(&format!("{whole}:"))
                            || said.starts_with(&format!("{whole} "))
                            || said
                                .split(": ")
                                .next()
                                .is_some_and(|what| what.ends_with(own.as_str()))
                    })
            });
            let ignored = ["/kind", "/apiVersion", "Classification", "classification"];
            // The words of a command are another test's.
            let is_ignored =
                ignored.iter().any(|end| path.ends_with(end)) || path.contains("/Args/");
            let changes = crate::spark::convert(&other.to_string()).ok().as_ref() != Some(&toml);
            assert!(named || is_ignored || changes, "{file}: {path}\n{toml}");
        }
    }
}

// spec: C-7
#[test]
fn a_text_without_a_setting_of_spark_s_is_refused_with_what_can_be_read() {
    for text in [
        "",
        "# nothing\n",
        "{}",
        "[1]",
        "{",
        "kind: Pod\napiVersion: v1\n",
        "kind: [\napiVersion: v1\n",
        "a=1",
    ] {
        let why = crate::spark::convert(text).unwrap_err();
        assert!(why.contains("give a spark-defaults.conf"), "{why}");
    }
}
