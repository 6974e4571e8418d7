//! The arguments of spark-submit that mean the same as a SparkApplication (spec C-7).

use serde_json::{Map, Value as Json};

use super::super::source::{Source, scalar};
use super::super::submission::{DRIVER_PROFILE, EXECUTOR_PROFILE, as_the_drivers};
use super::super::{LeftOut, add_gathered, profile_of};
use super::{EXECUTOR, KIND, application, fields, first};

/// What spark-submit is called with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    pub words: Vec<String>,
    /// The SparkApplication's name.
    pub name: String,
    /// What is not taken over, and why.
    pub notes: Vec<String>,
}

const NONE: &str =
    "there is no SparkApplication in it\n  a spark-submit command runs as `boatswain spark-submit`";

/// The fields of `deps`, and the options with their items.
const DEPENDENCIES: &[(&str, &str)] = &[
    ("jars", "--jars"),
    ("files", "--files"),
    ("pyFiles", "--py-files"),
    ("packages", "--packages"),
    ("excludePackages", "--exclude-packages"),
    ("repositories", "--repositories"),
    ("archives", "--archives"),
];

/// Fields that are read here, or that say what is so anyway.
const READ: &[&str] = &[
    "spec.driver",
    "spec.deps",
    "spec.type",
    "spec.mode",
    "spec.sparkVersion",
    "spec.pythonVersion",
    "spec.mainClass",
    "spec.mainApplicationFile",
    "spec.arguments",
    "spec.proxyUser",
    "spec.timeToLiveSeconds",
];

/// Fields that have the operator start an application again.
const RETRIES: &[&str] = &["restartPolicy", "failureRetries", "retryInterval"];

/// The arguments for the first application of the documents, at this master.
///
/// # Errors
///
/// There is none.
pub(in crate::spark) fn arguments(documents: &[Json], master: &str) -> Result<Arguments, String> {
    let (document, scheduled) = first(documents).ok_or(NONE)?;
    let mut source = Source::of(KIND);
    application(document, scheduled, &mut source);
    let path = if scheduled { "/spec/template" } else { "/spec" };
    let none = Map::new();
    let spec = document
        .pointer(path)
        .and_then(Json::as_object)
        .unwrap_or(&none);

    let mut driver = Source::of(KIND);
    if let Some(given) = spec.get("driver").and_then(Json::as_object) {
        fields("spec.driver", given, EXECUTOR, spec, &mut driver);
    }
    let mut words = vec!["--master".to_owned(), master.to_owned()];
    let mut left = LeftOut::default();
    let drivers = driver
        .pairs
        .into_iter()
        .map(|(key, value)| (as_the_drivers(key), value));
    for (key, value) in source.pairs.into_iter().chain(drivers) {
        words.extend(["--conf".to_owned(), format!("{key}={value}")]);
    }
    for (key, made) in [
        (EXECUTOR_PROFILE, source.made),
        (DRIVER_PROFILE, driver.made),
    ] {
        let mut written = Vec::new();
        add_gathered(made, &mut written, &mut left);
        if !written.is_empty() {
            let profile = Json::Object(profile_of(&written));
            words.extend(["--conf".to_owned(), format!("{key}={profile}")]);
        }
    }
    program(spec, &mut words);
    let useless = source.useless.into_iter().filter(|note| !is_read(note));
    let again = RETRIES.iter().filter(|field| spec.contains_key(**field));
    let again = again.map(|field| format!("spec.{field}: an application is not started again"));
    let refused = source
        .refused
        .into_iter()
        .chain(driver.refused)
        .chain(left.refused);
    Ok(Arguments {
        words,
        name: document
            .pointer("/metadata/name")
            .and_then(scalar)
            .unwrap_or_default(),
        notes: refused.chain(useless).chain(again).collect(),
    })
}

fn is_read(note: &str) -> bool {
    let field = note
        .split(':')
        .next()
        .unwrap_or_default()
        .replacen("spec.template.", "spec.", 1);
    let retries = field
        .strip_prefix("spec.")
        .is_some_and(|field| RETRIES.contains(&field));
    retries || READ.contains(&field.as_str()) || field.starts_with("metadata.")
}

/// Options that have no key, the program and its arguments.
fn program(spec: &Map<String, Json>, words: &mut Vec<String>) {
    let text = |field: &str| spec.get(field).and_then(scalar);
    let list = |value: Option<&Json>| -> Vec<String> {
        let items = value.and_then(Json::as_array).into_iter().flatten();
        items.filter_map(scalar).collect()
    };
    let dependencies = spec.get("deps");
    let dependencies = DEPENDENCIES.iter().map(|(field, option)| {
        (
            *option,
            list(dependencies.and_then(|deps| deps.get(*field))).join(","),
        )
    });
    let named = [
        ("--class", text("mainClass")),
        ("--proxy-user", text("proxyUser")),
    ];
    let named = named
        .into_iter()
        .filter_map(|(option, value)| Some((option, value?)));
    for (option, value) in named.chain(dependencies.filter(|(_, value)| !value.is_empty())) {
        words.extend([option.to_owned(), value]);
    }
    words.extend(text("mainApplicationFile"));
    words.extend(list(spec.get("arguments")));
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASTER: &str = "spark+boatswain+https://etl-driver.jobs.svc:7117";

    fn of(text: &str) -> Arguments {
        crate::spark::arguments(text, MASTER).unwrap()
    }

    fn has(arguments: &Arguments, pair: &str) -> bool {
        let mut pairs = arguments.words.windows(2);
        pairs.any(|words| words[0] == "--conf" && words[1] == pair)
    }

    // spec: C-7
    #[test]
    fn a_spark_application_is_a_submission_of_its_program() {
        let pi = of(include_str!("../../tests/spark/applications/pi.yaml"));
        assert_eq!(pi.words[..2], ["--master", MASTER]);
        for pair in [
            "spark.app.name=spark-pi",
            "spark.kubernetes.namespace=default",
            "spark.kubernetes.container.image=spark:3.5.3",
            "spark.kubernetes.driver.label.version=3.5.3",
            "spark.kubernetes.executor.label.version=3.5.3",
            "spark.driver.memory=512m",
            "spark.driver.cores=1",
            "spark.kubernetes.authenticate.driver.serviceAccountName=spark-operator-spark",
            "spark.executor.instances=1",
        ] {
            assert!(has(&pi, pair), "{pair}: {:?}", pi.words);
        }
        let program = [
            "--class",
            "org.apache.spark.examples.SparkPi",
            "local:///opt/spark/examples/jars/spark-examples.jar",
            "5000",
        ];
        assert!(
            pi.words.ends_with(&program.map(str::to_owned)),
            "{:?}",
            pi.words
        );
        assert_eq!(
            (&*pi.name, pi.notes.len()),
            ("spark-pi", 0),
            "{:?}",
            pi.notes
        );
    }

    // spec: C-7
    #[test]
    fn what_the_operator_does_to_pods_is_in_their_profiles() {
        let volumes = of(include_str!("../../tests/spark/applications/volumes.yaml"));
        let profile = |key: &str| -> Json {
            let start = format!("{key}=");
            let words = volumes
                .words
                .iter()
                .find_map(|word| word.strip_prefix(&start));
            serde_json::from_str(words.unwrap()).unwrap()
        };
        assert_eq!(profile(DRIVER_PROFILE)["volumes"][0]["mount_path"], "/x");
        let executors = profile(EXECUTOR_PROFILE);
        assert_eq!(executors["volumes"].as_array().unwrap().len(), 4);
        assert_eq!(executors["claims"][0]["size"], "50Gi");
        assert!(
            volumes.notes.iter().any(|note| note.contains("projected")),
            "{:?}",
            volumes.notes
        );
    }

    // spec: C-7
    #[test]
    fn what_no_submission_can_say_is_named() {
        let python = of(include_str!("../../tests/spark/applications/python.yaml"));
        assert_eq!(
            python.notes,
            ["spec.restartPolicy: an application is not started again"]
        );
        let sidecars = of(include_str!("../../tests/spark/applications/sidecars.yaml"));
        for field in [
            "spec.sparkConfigMap",
            "spec.executor.sidecars",
            "spec.executor.frobnicate",
            "spec.monitoring",
        ] {
            assert!(
                sidecars.notes.iter().any(|note| note.starts_with(field)),
                "{field}: {:?}",
                sidecars.notes
            );
        }
        assert!(sidecars.words.contains(&"--jars".to_owned()));
        assert!(crate::spark::arguments("kind: Pod\napiVersion: v1\n", MASTER).is_err());
    }
}
