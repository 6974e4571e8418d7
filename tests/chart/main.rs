//! The Helm chart against `boatswain manifests`: for the same configuration both print the same objects.
//!
//! The chart is rendered by Helm 4 (`helm`) and by Helm 3 (`helm3`). What is missing of them is not tested, which is
//! said, and fails in CI; `scripts/cluster build` builds both.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod options;
mod schema;
#[path = "../support/untested.rs"]
mod untested;

use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

/// That of the chart's own values.
const IMAGE: &str = concat!("boatswain:", env!("CARGO_PKG_VERSION"));

/// A version of Helm.
#[derive(Clone, Copy)]
struct Helm(&'static str);

impl Helm {
    /// Those of this machine; what is missing is said.
    fn all() -> Vec<Self> {
        let mut all = vec!["helm", "helm3"];
        all.retain(|program| untested::has(program));
        all.into_iter().map(Self).collect()
    }

    fn render(self, values: &Value) -> Output {
        self.render_as("driver", "jobs", values)
    }

    fn render_as(self, release: &str, namespace: &str, values: &Value) -> Output {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("values.json");
        std::fs::write(&file, values.to_string()).unwrap();
        let mut render = Command::new(self.0);
        render.args([
            "template",
            release,
            "deploy/chart",
            "--namespace",
            namespace,
        ]);
        // A Helm that was built by `go build` takes itself for one of an old Kubernetes.
        render.args(["--kube-version", "1.36"]);
        render.arg("--values").arg(&file).output().unwrap()
    }

    fn rendered(self, values: &Value) -> Vec<Value> {
        objects_of(self.render(values))
    }

    /// The objects of a release.
    fn objects(self, values: &Value) -> Vec<Value> {
        let mut objects = self.rendered(values);
        objects.retain(|object| hook(object).is_null());
        objects
    }

    /// The objects that Helm creates for a while, of this hook.
    fn hooks(self, name: &str, values: &Value) -> Vec<Value> {
        let mut objects = self.rendered(values);
        objects.retain(|object| hook(object) == name);
        objects
    }
}

fn objects_of(rendered: Output) -> Vec<Value> {
    assert!(rendered.status.success(), "{rendered:?}");
    serde_saphyr::from_multiple(&String::from_utf8(rendered.stdout).unwrap()).unwrap()
}

fn hook(object: &Value) -> &Value {
    &object["metadata"]["annotations"]["helm.sh/hook"]
}

/// What the command prints for the configuration file that the chart has written.
fn printed(objects: &[Value], kind: &str, options: &[&str]) -> Vec<Value> {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("boatswain.toml");
    let toml = &of_kind(objects, "ConfigMap")["data"]["boatswain.toml"];
    std::fs::write(&file, toml.as_str().unwrap()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_boatswain"));
    command.args(["manifests", "--kind", kind, "--name", "driver"]);
    command.args(["--namespace", "jobs", "--image", IMAGE, "--config"]);
    let printed = command.arg(file).args(options).output().unwrap();
    assert!(printed.status.success(), "{printed:?}");
    serde_saphyr::from_multiple(&String::from_utf8(printed.stdout).unwrap()).unwrap()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    objects
        .iter()
        .find(|object| object["kind"] == kind)
        .unwrap()
}

fn plain() -> Value {
    json!({"app": {"name": "etl"}, "profiles": {"default": {"executors": 2, "image": "busybox:1.36"}}})
}

fn with(section: &str, values: Value) -> Value {
    let mut config = plain();
    config[section] = values;
    config
}

/// Configurations in which each feature that has rights, ports or volumes is on at least once.
fn configurations() -> Vec<(&'static str, Value)> {
    let mut sessions = with(
        "backend",
        json!({
            "listen": "0.0.0.0:7078", "service_selector": {"driver": "etl"},
        }),
    );
    sessions["tls"] = json!({"generate": true});
    sessions["metrics"] = json!({"listen": "[::]:9090"});
    sessions["probes"] = json!({"listen": "0.0.0.0:9091"});
    let mut claims = with(
        "profiles",
        json!({"default": {
            "executors": 2,
            "image": "busybox:1.36",
            "env": {"A": "quotes \" and <lines>\n", "B": ""},
            "claims": [{"name": "data", "mount_path": "/data", "size": "1Gi"}],
        }}),
    );
    claims["api"] = json!({"listen": "127.0.0.1:8080", "token_file": "/etc/secret/tokens"});
    claims["shutdown"] = json!({"on_signal": "end"});
    let mut certificate = with(
        "tls",
        json!({
            "certificate_file": "/etc/tls/tls.crt", "key_file": "/etc/tls/tls.key",
        }),
    );
    certificate["backend"] = json!({"listen": "0.0.0.0:7078", "url": "https://etl.jobs:7078"});
    certificate["executors"] = json!({"pod_name_prefix": "other"});
    certificate["ha"] = json!({"lease": true});
    certificate["api"]["evidence"] = json!(true);
    for (key, value) in [
        ("memory_limit", json!("1Gi")),
        ("memory_max", json!("2Gi")),
        ("memory_in_place", json!(true)),
    ] {
        certificate["profiles"]["default"][key] = value;
    }
    let mut gang = with("scheduling", json!({"gang": "volcano"}));
    gang["profiles"]["default"]["min_executors"] = json!(2);
    gang["profiles"]["default"]["min_available"] = json!(1);
    let mut kubernetes = gang.clone();
    kubernetes["scheduling"]["gang"] = json!("kubernetes");
    let mut flag = gang.clone();
    flag["scheduling"]["gang"] = json!(true);
    let queue = json!({"queue": "kueue", "queue_name": "team"});
    let mut unset = with("metrics", Value::Null);
    unset["profiles"]["default"]["cpu"] = Value::Null;
    unset["profiles"]["other"] = Value::Null;
    vec![
        ("job", plain()),
        ("job", with("scheduling", queue)),
        ("job", with("nodes", json!({"watch": true}))),
        ("deployment", with("ha", json!({"lease": true}))),
        ("statefulset", sessions),
        ("job", claims),
        ("statefulset", certificate),
        ("job", gang),
        ("job", kubernetes),
        ("job", flag),
        ("job", unset),
        (
            "deployment",
            with("allocation", json!({"strategy": "statefulset"})),
        ),
        (
            "deployment",
            with("allocation", json!({"strategy": "deployment"})),
        ),
    ]
}

/// Leaves out what Helm's conventions add, and the checksum, whose input differs.
fn normalized(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"] = json!({"name": object["metadata"]["name"]});
    for place in [
        "/spec/podSelector/matchLabels",
        "/spec/selector/matchLabels",
        "/spec/template/metadata/labels",
    ] {
        if let Some(labels) = object.pointer_mut(place).and_then(Value::as_object_mut) {
            labels.retain(|key, _| !key.starts_with("app.kubernetes.io/"));
        }
    }
    if let Some(annotations) = object.pointer_mut("/spec/template/metadata/annotations") {
        *annotations = Value::Null;
    }
    if let Some(container) = object.pointer_mut("/spec/template/spec/containers/0") {
        container.as_object_mut().unwrap().remove("imagePullPolicy");
    }
    object
}

// spec: O-51, O-74, O-136
#[test]
fn the_chart_and_the_command_print_the_same_objects() {
    for helm in Helm::all() {
        for (kind, config) in configurations() {
            let values = json!({
                "config": config, "kind": kind, "fullnameOverride": "driver", "networkPolicy": {"enabled": true},
            });
            let chart = helm.objects(&values);
            let printed = printed(&chart, kind, &["--network-policy"]);
            assert_eq!(chart.len(), printed.len(), "{config}");
            for object in &printed {
                let of_chart = of_kind(&chart, object["kind"].as_str().unwrap());
                assert_eq!(normalized(of_chart), normalized(object), "{config}");
            }
        }
    }
}

// spec: K-7, O-136
#[test]
fn rights_are_for_the_names_that_the_driver_makes() {
    let long = "a".repeat(39);
    let names = [
        "etl",
        "My_App",
        "3-body",
        "-sales--etl-",
        "Nightly ETL (eu)",
        "x \u{65e5}\u{672c} \\ \"q\"",
        "a-very-long-name-that-would-not-fit-into-a-label",
        &long[1..],
        long.as_str(),
    ];
    for helm in Helm::all() {
        for name in names {
            let mut config = with("tls", json!({"generate": true}));
            config["app"] = json!({"name": name});
            config["backend"] = json!({"listen": "0.0.0.0:7078", "url": "https://etl.jobs:7078"});
            config["ha"] = json!({"lease": true});
            let values = json!({"config": config, "fullnameOverride": "driver"});
            let chart = helm.objects(&values);
            let printed = printed(&chart, "deployment", &[]);
            assert_eq!(
                of_kind(&chart, "Role")["rules"],
                of_kind(&printed, "Role")["rules"],
                "{name}"
            );
        }
    }
}

// spec: O-51
#[test]
fn the_charts_own_values_are_those_of_a_deployment_that_runs() {
    for helm in Helm::all() {
        let objects = helm.objects(&json!({}));
        let printed = printed(&objects, "deployment", &[]);
        assert_eq!(objects.len(), printed.len());
        let driver = of_kind(&objects, "Deployment");
        assert_eq!(driver["metadata"]["name"], "driver-boatswain");
    }
}
