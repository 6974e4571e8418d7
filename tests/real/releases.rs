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
    /// Besides those that each release of a test has.
    values: &'a Value,
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
        let values = json!({
            "config": of_driver,
            "image": {"repository": image, "tag": tag},
            "fullnameOverride": "boatswain",
            "test": {"image": IMAGE},
        });
        let file = |name, values: &Value| {
            let file = self.place.file(name);
            std::fs::write(&file, values.to_string()).unwrap();
            file.to_str().unwrap().to_owned()
        };
        let (all, own) = (file("all.json", &values), file("own.json", self.values));
        let words = [
            CHART,
            "--values",
            &all,
            "--values",
            &own,
            "--wait",
            "--timeout",
            "10m",
        ];
        words.map(str::to_owned).into()
    }

    /// The executors, as soon as another pod of the driver than these has adopted them.
    fn handed_over(&self, from: &[Value]) -> BTreeMap<String, Value> {
        let driver = InPod::new(self.place);
        until("another driver has adopted", || {
            let mut pods = driver.pods();
            pods.retain(|pod| !from.contains(&uid(pod)));
            let adopted = |pod: &Value| {
                let log = driver.log_of(pod["metadata"]["name"].as_str().unwrap());
                let lines = log.lines("executors adopted");
                lines.first().is_some_and(|line| line["found"] == 2)
            };
            pods.iter().any(adopted).then_some(())
        });
        self.executors()
    }

    /// The uids of the driver's pods.
    fn drivers(&self) -> Vec<Value> {
        InPod::new(self.place).pods().iter().map(uid).collect()
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

/// Installs, upgrades, rolls back, tests and uninstalls a release with these values, beside these objects.
fn lives(helm: &str, values: &Value, objects: &[Value]) {
    let place = Place::new("release");
    if !objects.is_empty() {
        place.apply(objects);
    }
    let release = Release {
        helm,
        place: &place,
        values,
    };
    release.done("install", &words(&release.chart("info")));
    let (executors, mut drivers) = (release.executors(), release.drivers());
    release.done("upgrade", &words(&release.chart("debug")));
    assert_eq!(release.handed_over(&drivers), executors, "upgraded");
    drivers = release.drivers();
    release.done("rollback", &["1", "--wait", "--timeout", "10m"]);
    assert_eq!(release.handed_over(&drivers), executors, "rolled back");
    release.done("test", &["--timeout", "10m"]);
    release.done("uninstall", &["--wait", "--timeout", "10m"]);
    place.nothing_is_left();
}

// spec: O-10, O-11
#[test]
fn a_release_by_helm_4_is_upgraded_and_rolled_back_without_loss_and_uninstalled_as_a_whole() {
    for values in [json!({}), json!({"kind": "statefulset"})] {
        lives("helm", &values, &[]);
    }
}

// spec: O-10, O-11
#[test]
fn a_release_by_helm_3_is_upgraded_and_rolled_back_without_loss_and_uninstalled_as_a_whole() {
    for values in [json!({}), json!({"kind": "statefulset"})] {
        lives("helm3", &values, &[]);
    }
}

// spec: O-32
#[test]
fn a_release_of_two_drivers_with_a_lease_is_upgraded_without_loss() {
    lives("helm", &json!({"config": {"ha": {"lease": true}}}), &[]);
}

#[test]
fn a_release_runs_as_users_that_the_namespace_prescribes() {
    let user = 1_000_680_000;
    let values = json!({
        "podSecurityContext": {"runAsUser": user, "runAsGroup": 0, "fsGroup": user},
        "config": {"profiles": {"default": {"security": {"run_as_user": user}}}},
    });
    lives("helm", &values, &[]);
}

#[test]
fn a_release_is_checked_before_it_begins_and_reads_pod_templates_from_a_volume() {
    let template = json!({"spec": {"tolerations": [{"key": "spot", "operator": "Exists"}]}});
    let templates = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "templates"},
        "data": {"executor.yaml": template.to_string()},
    });
    let values = json!({
        "check": {"enabled": true},
        "config": {"profiles": {"default": {"template": "/templates/executor.yaml"}}},
        "extraVolumes": [{"name": "templates", "configMap": {"name": "templates"}}],
        "extraVolumeMounts": [{"name": "templates", "mountPath": "/templates", "readOnly": true}],
    });
    lives("helm", &values, &[templates]);
}

#[test]
fn a_release_serves_its_api_by_the_token_of_a_secret_behind_network_policies() {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine"},
        "stringData": {"token": "0123456789abcdef0123456789abcdef"},
    });
    let values = json!({
        "config": {"api": {
            "listen": "0.0.0.0:7117", "token_file": "/etc/boatswain-secrets/token", "plain_http": true,
        }},
        "secret": {"existingSecret": "mine"},
        "service": {"enabled": true},
        "networkPolicy": {"enabled": true},
    });
    lives("helm", &values, &[secret]);
}

#[test]
fn a_release_is_watched_by_the_objects_of_the_prometheus_operator() {
    let programs = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .find(|folder| folder.join("monitoring-crds").is_dir())
        .expect("scripts/cluster build monitoring");
    for kind in ["podmonitors", "prometheusrules"] {
        let name = format!("{kind}.monitoring.coreos.com");
        let file = programs.join(format!("monitoring-crds/monitoring.coreos.com_{kind}.yaml"));
        for arguments in [
            &["apply", "--server-side", "-f", file.to_str().unwrap()][..],
            &["wait", "--for=condition=established", "crd", &name],
        ] {
            let output = Command::new("kubectl").args(arguments).output().unwrap();
            assert!(output.status.success(), "{arguments:?}: {output:?}");
        }
    }
    let values = json!({
        "config": {"metrics": {"listen": "0.0.0.0:9090"}},
        "metrics": {
            "podMonitor": {"enabled": true},
            "prometheusRule": {"enabled": true},
            "dashboard": {"enabled": true},
        },
    });
    lives("helm", &values, &[]);
}

// spec: O-11
#[test]
fn a_refused_upgrade_of_a_job_disturbs_nothing() {
    for helm in ["helm", "helm3"] {
        let place = Place::new("release");
        let release = Release {
            helm,
            place: &place,
            values: &json!({"kind": "job"}),
        };
        release.done("install", &words(&release.chart("info")));
        let (executors, driver) = (release.executors(), InPod::new(&place).pod());
        let refused = release.tried("upgrade", &words(&release.chart("debug")));
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("immutable"), "{helm}: {refused:?}");
        assert_eq!(uid(&InPod::new(&place).pod()), uid(&driver), "its pod");
        assert_eq!(release.executors(), executors);
        release.done("test", &["--timeout", "10m"]);
        release.done("uninstall", &["--wait", "--timeout", "10m"]);
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
