//! Tests that the rights which `boatswain manifests` prints are enough, and that each missing one is named.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::api::{Api, Grace};
use super::asking::Asked;
use super::cluster::Cluster;
use super::driver::Driver;
use super::process::{boatswain, until};
use super::talking::free_address;
use super::users::{User, limited};

const PROFILE: &str = r#"
[app]
name = "t"
[profiles.default]
executors = 2
image = "registry.example/none:1"
command = ["sleep", "infinity"]
[poll]
interval = "1s"
[log]
format = "json"
[shutdown]
on_signal = "end"
"#;

const MANY_FEATURES: &str = r#"
[[profiles.default.claims]]
name = "work"
mount_path = "/work"
size = "1Gi"
owner = "application"
[tls]
generate = true
[backend]
listen = "ADDRESS"
service_selector = { driver = "t" }
"#;

const LEASE: &str = "[ha]\nlease = true\n";

/// A cluster that enforces RBAC, and a driver in it that has the printed Role and nothing else.
struct Limited {
    user: User,
    cluster: Cluster,
    config: PathBuf,
    rules: Vec<Value>,
    _directory: tempfile::TempDir,
}

impl Limited {
    fn start(config: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.toml");
        let config = config.replace("ADDRESS", &free_address().replace("127.0.0.1", "0.0.0.0"));
        fs::write(&file, config).unwrap();
        let (role, of_cluster) = printed_roles(&file);
        let rules = role["rules"].as_array().unwrap().clone();
        let (cluster, user) = limited("driver", &rules, of_cluster)?;
        Some(Self {
            user,
            cluster,
            config: file,
            rules,
            _directory: directory,
        })
    }

    fn command(&self, command: &str) -> Command {
        let mut program = boatswain();
        let namespace = format!("cluster.namespace={}", self.cluster.api.namespace);
        program
            .args([command, "--config"])
            .arg(&self.config)
            .args(["--set", &namespace])
            .env("KUBECONFIG", &self.user.kubeconfig);
        program
    }

    fn drive(&self) -> Driver {
        Driver::run(&mut self.command("run"), &[], &self.cluster.file("driver"))
    }

    fn check(&self) -> Output {
        self.command("check").arg("--cluster").output().unwrap()
    }

    fn set_rules(&mut self, rules: &[Value]) {
        self.user.set_rules(&self.cluster, rules);
    }

    /// The same with what a driver needs that runs in no pod, as here: none but itself deletes its record (O-11).
    fn start_outside_a_pod(more: &str) -> Option<Self> {
        let mut limited = Self::start(&format!("{PROFILE}{more}"))?;
        let record = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"]});
        let rules = [&limited.rules[..], &[record]].concat();
        limited.set_rules(&rules);
        Some(limited)
    }
}

/// The Role of the manifests, and what grants rights outside its namespace.
fn printed_roles(config: &Path) -> (Value, Vec<Value>) {
    let mut command = boatswain();
    command.args(["manifests", "--image", "boatswain:1"]);
    command.args(["--namespace", "default", "--config"]);
    let printed = command.arg(config).output().unwrap();
    assert!(printed.status.success(), "{printed:?}");
    let text = String::from_utf8(printed.stdout).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
    let is_of = |object: &Value, kind: &str| object["kind"] == kind;
    let role = objects.iter().find(|object| is_of(object, "Role"));
    let of_cluster = |object: &&Value| object["kind"].as_str().unwrap().starts_with("Cluster");
    let of_cluster = objects.iter().filter(of_cluster).cloned();
    (role.unwrap().clone(), of_cluster.collect())
}

/// The driver brings its executors up, replaces one and ends, without a refusal.
fn lives_on_its_rights(more: &str) {
    let Some(limited) = Limited::start_outside_a_pod(more) else {
        return;
    };
    let mut driver = limited.drive();
    let cluster = &limited.cluster;
    let before = cluster.converges(2);
    let pod = cluster.api.pods()[0].name.clone();
    cluster.api.delete_pod(&pod, Grace::Own);
    until("its replacement runs", || {
        let pods = cluster.api.try_pods().ok()?;
        let new = pods.iter().any(|pod| !before.contains(&pod.uid));
        (new && pods.len() == 2).then_some(())
    });
    cluster.settles(2);
    driver.signal(Signal::TERM);
    let exit = until("the driver has ended", || driver.exit());
    assert_eq!(exit, 0, "{}", driver.stderr());
    until("its pods are gone", || {
        cluster.api.pods().is_empty().then_some(())
    });
    let refused: Vec<Value> = (cluster.writes().into_iter())
        .filter(|write| write["code"] == 403)
        .collect();
    assert_eq!(refused, [Value::Null; 0]);
    let log = driver.stderr();
    assert!(
        !log.contains("forbidden") && !log.contains("lacks a right"),
        "{log}"
    );
}

// spec: O-51, C-8
#[test]
fn a_driver_lives_on_the_rights_that_the_manifests_print() {
    lives_on_its_rights("");
}

// spec: O-51
#[test]
fn the_printed_rights_are_enough_for_claims_service_and_certificates() {
    lives_on_its_rights(MANY_FEATURES);
}

// spec: O-51
#[test]
fn the_printed_rights_are_enough_for_the_lease() {
    lives_on_its_rights(LEASE);
}

// spec: O-51
#[test]
fn the_printed_rights_are_enough_where_a_stateful_set_makes_the_pods() {
    lives_on_its_rights("[allocation]\nstrategy = \"statefulset\"\n");
}

// spec: O-51
#[test]
fn the_printed_rights_are_enough_where_a_deployment_makes_the_pods() {
    lives_on_its_rights("[allocation]\nstrategy = \"deployment\"\n");
}

/// What a real API server has to know of Kueue's resources, of which it checks nothing here.
fn define_kueue(api: &Api) {
    let group = "kueue.x-k8s.io";
    for (kind, scope) in [("Workload", "Namespaced"), ("ResourceFlavor", "Cluster")] {
        let singular = kind.to_lowercase();
        let plural = format!("{singular}s");
        let version = json!({
            "name": "v1beta2", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        });
        let definition = json!({
            "metadata": {"name": format!("{plural}.{group}"), "annotations": {
                "api-approved.kubernetes.io": "unapproved, for a test",
            }},
            "spec": {
                "group": group, "scope": scope, "versions": [version],
                "names": {"kind": kind, "singular": singular, "plural": plural},
            },
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        api.call("POST", definitions, Some(&definition)).unwrap();
        until("it is served", || {
            let path = format!("/apis/{group}/v1beta2/{plural}");
            api.call("GET", &path, None).is_ok().then_some(())
        });
    }
}

// spec: O-51, A-90
#[test]
fn the_printed_rights_are_enough_for_a_queue() {
    let queue = "[scheduling]\nqueue = \"kueue\"\nqueue_name = \"team\"\n";
    let Some(limited) = Limited::start_outside_a_pod(queue) else {
        return;
    };
    let api = &limited.cluster.api;
    let kueue = "/apis/kueue.x-k8s.io/v1beta2";
    let flavor = json!({
        "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor",
        "metadata": {"name": "spot"}, "spec": {},
    });
    if limited.cluster.is_real() {
        define_kueue(api);
    }
    let flavors = format!("{kueue}/resourceflavors");
    api.call("POST", &flavors, Some(&flavor)).unwrap();
    let mut driver = limited.drive();
    // The test is Kueue.
    let admitted =
        |kind: &str| json!({"type": kind, "status": "True", "reason": "Admitted", "message": "so"});
    let admission = json!({
        "clusterQueue": "all",
        "podSetAssignments": [{"name": "main", "count": 2, "flavors": {"cpu": "spot"}}],
    });
    let conditions = ["QuotaReserved", "Admitted"].map(admitted);
    let status = json!({"status": {"admission": admission, "conditions": conditions}});
    let workload = format!(
        "{kueue}/namespaces/{}/workloads/t-default-1/status",
        api.namespace
    );
    until("its Workload is queued", || {
        api.call("PATCH", &workload, Some(&status)).ok().map(drop)
    });
    limited.cluster.converges(2);
    driver.signal(Signal::TERM);
    let exit = until("the driver has ended", || driver.exit());
    assert_eq!(exit, 0, "{}", driver.stderr());
    let log = driver.stderr();
    let refused = ["forbidden", "lacks a right", "degraded"];
    assert!(!refused.iter().any(|word| log.contains(word)), "{log}");
}

// spec: O-125
#[test]
fn an_explanation_names_the_rules_that_are_missing_for_its_evidence() {
    let evidence = "[api]\nevidence = true\n";
    let Some(mut limited) = Limited::start(&format!("{PROFILE}{evidence}")) else {
        return;
    };
    let cluster = &limited.cluster;
    let asked = Asked::of(cluster, |sets| {
        Driver::run(&mut limited.command("run"), sets, &cluster.file("driver"))
    });
    cluster.converges(2);
    let is_real = cluster.is_real();
    let namespace = cluster.api.namespace.clone();
    let missing = || {
        let output = asked.ask(&["explain", "1", "-o", "json"]);
        let explained: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        explained["evidence"]["missing"].as_array().cloned()
    };
    // A simulated node keeps no logs, and behind a fake one nobody answers.
    let no_log = if is_real { "log: " } else { "keeps logs" };
    until("nothing else is missing", || {
        let [log] = missing()?.try_into().ok()?;
        let said = log.as_str()?;
        (said.contains(no_log) && !said.contains("may not")).then_some(())
    });
    let rest = limited.rules[..3].to_vec();
    limited.set_rules(&rest);
    let name = &limited.user.name;
    let rule = |resource: &str, verb: &str| {
        format!(
            "{name} may not {verb} {resource} in namespace {namespace}; the rule that would allow it: \
             {{apiGroups: [\"\"], resources: [\"{resource}\"], verbs: [\"{verb}\"]}}"
        )
    };
    let wanted = [
        format!("warnings: {}", rule("events", "list")),
        format!("log: {}", rule("pods/log", "get")),
    ];
    until("both rules are named", || {
        (missing()? == wanted).then_some(())
    });
}

// spec: C-8, C-9
#[test]
fn each_missing_right_is_named_by_check_and_at_the_start() {
    names_each_missing_right(MANY_FEATURES);
}

// spec: C-8, C-9
#[test]
fn a_missing_right_on_the_lease_is_named_too() {
    names_each_missing_right(LEASE);
}

fn names_each_missing_right(more: &str) {
    let Some(mut limited) = Limited::start(&format!("{PROFILE}{more}")) else {
        return;
    };
    let all = limited.rules.clone();
    let complete = limited.check();
    assert_eq!(complete.status.code(), Some(0), "{complete:?}");
    for (n, taken) in all.iter().enumerate() {
        let mut rest = all.clone();
        rest.remove(n);
        limited.set_rules(&rest);

        let output = limited.check();
        assert_eq!(output.status.code(), Some(77), "{output:?}");
        let stdout = String::from_utf8(output.stdout).unwrap();
        let missing: Vec<&str> = (stdout.lines())
            .filter_map(|line| line.trim().strip_prefix("missing  "))
            .collect();
        let resource = taken["resources"][0].as_str().unwrap();
        let name = taken["resourceNames"][0].as_str();
        let name = name.map(|name| format!(" {name}")).unwrap_or_default();
        let expected: Vec<String> = (taken["verbs"].as_array().unwrap().iter())
            .map(|verb| format!("{} {resource}{name}", verb.as_str().unwrap()))
            .collect();
        assert_eq!(missing, expected, "{stdout}");

        let mut driver = limited.drive();
        let group = taken["apiGroups"][0].as_str().unwrap();
        let rule = format!("{{apiGroups: [{group:?}], resources: [{resource:?}]");
        // Either all that is missing, or what ended the start first.
        let escaped = rule.replace('"', "\\\"");
        until("the start names the missing rule", || {
            driver.stderr().contains(&escaped).then_some(())
        });
        driver.kill();
    }
}
