//! Tests releases of the Helm chart, by Helm 4 and Helm 3.

use std::collections::BTreeMap;
use std::process::{Command, Output};

use serde_json::{Value, json};

use super::driver::InPod;
use super::place::{IMAGE, Place, config};
use super::process::until;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/chart");

struct Release<'a> {
    helm: &'a str,
    place: &'a Place,
    kind: &'a str,
}

impl Release<'_> {
    /// The release `t`: what Helm says of this command.
    fn tried(&self, command: &str, arguments: &[&str]) -> Output {
        let mut helm = Command::new(self.helm);
        helm.args([command, "t", "--namespace", self.place.name()]);
        helm.args(arguments).output().unwrap()
    }

    fn done(&self, command: &str, arguments: &[&str]) {
        let output = self.tried(command, arguments);
        assert!(
            output.status.success(),
            "{} {command}: {output:?}",
            self.helm
        );
    }

    /// The chart's arguments, with another pod of the driver and another configuration for each level.
    fn chart(&self, level: &str) -> Vec<String> {
        let mut of_driver: Value = toml::from_str(&config(2)).unwrap();
        of_driver["log"] = json!({"level": level});
        of_driver["probes"] = json!({"listen": "0.0.0.0:7080"});
        let (image, tag) = IMAGE.split_once(':').unwrap();
        let image = json!({"repository": image, "tag": tag});
        let mut values =
            json!({"config": of_driver, "image": image, "fullnameOverride": "boatswain"});
        if !self.kind.is_empty() {
            values["kind"] = self.kind.into();
        }
        let file = self.place.file("values.json");
        std::fs::write(&file, values.to_string()).unwrap();
        let file = file.to_str().unwrap();
        [CHART, "--values", file, "--wait", "--timeout", "2m"]
            .map(str::to_owned)
            .into()
    }

    /// The executors, as soon as another pod than this one of the driver has adopted them.
    fn handed_over(&self, from: &Value) -> BTreeMap<String, Value> {
        let driver = InPod::new(self.place);
        until("another driver has adopted", || {
            let now = driver.pod();
            let log = driver.log_of(now["metadata"]["name"].as_str().unwrap());
            let adopted = log.lines("executors adopted");
            let all = adopted.first().is_some_and(|line| line["found"] == 2);
            (uid(&now) != uid(from) && all).then_some(())
        });
        self.executors()
    }

    /// The uids of executors by their names.
    fn executors(&self) -> BTreeMap<String, Value> {
        self.place.run(2);
        let pods = self.place.executors().into_iter();
        pods.map(|pod| (pod["metadata"]["name"].to_string(), uid(&pod)))
            .collect()
    }
}

fn uid(pod: &Value) -> Value {
    pod["metadata"]["uid"].clone()
}

fn words(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// An upgrade and a rollback of a release of this kind, or of the chart's own.
fn lives(helm: &str, kind: &str) {
    let place = Place::new("release");
    let release = Release {
        helm,
        place: &place,
        kind,
    };
    release.done("install", &words(&release.chart("info")));
    let (executors, mut driver) = (release.executors(), InPod::new(&place).pod());
    release.done("upgrade", &words(&release.chart("debug")));
    assert_eq!(release.handed_over(&driver), executors, "upgraded");
    driver = InPod::new(&place).pod();
    release.done("rollback", &["1", "--wait", "--timeout", "2m"]);
    assert_eq!(release.handed_over(&driver), executors, "rolled back");
    release.done("uninstall", &["--wait", "--timeout", "2m"]);
    place.nothing_is_left();
}

// spec: O-10, O-11
#[test]
fn a_release_by_helm_4_is_upgraded_and_rolled_back_without_loss_and_uninstalled_as_a_whole() {
    for kind in ["", "statefulset"] {
        lives("helm", kind);
    }
}

// spec: O-10, O-11
#[test]
fn a_release_by_helm_3_is_upgraded_and_rolled_back_without_loss_and_uninstalled_as_a_whole() {
    for kind in ["", "statefulset"] {
        lives("helm3", kind);
    }
}

// spec: O-11
#[test]
fn a_refused_upgrade_of_a_job_disturbs_nothing() {
    for helm in ["helm", "helm3"] {
        let place = Place::new("release");
        let release = Release {
            helm,
            place: &place,
            kind: "job",
        };
        release.done("install", &words(&release.chart("info")));
        let (executors, driver) = (release.executors(), InPod::new(&place).pod());
        let refused = release.tried("upgrade", &words(&release.chart("debug")));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("immutable"), "{helm}: {refused:?}");
        assert_eq!(uid(&InPod::new(&place).pod()), uid(&driver), "its pod");
        assert_eq!(release.executors(), executors);
        release.done("uninstall", &["--wait", "--timeout", "2m"]);
        place.nothing_is_left();
    }
}

#[test]
fn the_chart_is_as_helm_wants_charts() {
    for helm in ["helm", "helm3"] {
        let lint = [helm, "lint", "--strict", "--kube-version", "1.36", CHART];
        let output = Command::new(lint[0]).args(&lint[1..]).output().unwrap();
        assert!(output.status.success(), "{helm}: {output:?}");
    }
}
