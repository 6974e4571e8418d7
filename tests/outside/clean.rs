//! Tests `boatswain clean` on what killed drivers leave behind.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::driver::{Driver, RECORD};
use super::process::{boatswain, until};
use super::talking::free_address;
use super::users::limited;

const CONFIG: &str = r#"
[app]
name = "t"
id = "t-1"
[profiles.default]
executors = 2
image = "registry.example/none:1"
command = ["sleep", "infinity"]
min_available = 1
[log]
format = "json"
"#;

const CLAIMS: &str = r#"
[[profiles.default.claims]]
name = "work"
mount_path = "/work"
size = "1Gi"
owner = "application"
"#;

const SESSIONS: &str = r#"
[tls]
generate = true
[backend]
listen = "ADDRESS"
service_selector = { driver = "t" }
"#;

const LEASE: &str = r#"
[cluster]
request_timeout = "1s"
[ha]
lease = true
lease_duration = "5s"
renew_deadline = "3s"
retry_period = "1s"
"#;

/// Everything that a driver makes, as kind and plural's path.
const KINDS: [&str; 9] = [
    "/api/v1/namespaces/NS/pods",
    "/api/v1/namespaces/NS/persistentvolumeclaims",
    "/api/v1/namespaces/NS/services",
    "/api/v1/namespaces/NS/secrets",
    "/apis/apps/v1/namespaces/NS/statefulsets",
    "/apis/apps/v1/namespaces/NS/deployments",
    "/apis/apps/v1/namespaces/NS/replicasets",
    "/apis/policy/v1/namespaces/NS/poddisruptionbudgets",
    "/apis/coordination.k8s.io/v1/namespaces/NS/leases",
];

/// Kind and name of each object in the namespace but those that any cluster has.
fn objects(cluster: &Cluster) -> Vec<String> {
    let mut all = Vec::new();
    for path in KINDS
        .into_iter()
        .chain(["/api/v1/namespaces/NS/configmaps"])
    {
        let path = path.replace("NS", &cluster.api.namespace);
        let list = cluster.api.call("GET", &path, None).unwrap();
        let kind = list["kind"].as_str().unwrap().trim_end_matches("List");
        for item in list["items"].as_array().unwrap() {
            let name = item["metadata"]["name"].as_str().unwrap();
            if !matches!(name, "kube-root-ca.crt" | "kubernetes") {
                all.push(format!("{kind} {name}"));
            }
        }
    }
    all
}

fn drive(cluster: &Cluster, more: &str) -> Driver {
    let address = free_address().replace("127.0.0.1", "0.0.0.0");
    let config = cluster.directory.path().join("config.toml");
    fs::write(
        &config,
        format!("{CONFIG}{more}").replace("ADDRESS", &address),
    )
    .unwrap();
    let mut command = boatswain();
    command.args(["run", "--config"]).arg(config);
    command.env("KUBECONFIG", &cluster.kubeconfig);
    let namespace = format!("cluster.namespace={}", cluster.api.namespace);
    Driver::run(&mut command, &[&namespace], &cluster.file("driver"))
}

/// A driver that was killed after it had made two executors.
fn killed(cluster: &Cluster, more: &str) {
    let mut driver = drive(cluster, more);
    cluster.settles(2);
    driver.kill();
}

fn clean_as(cluster: &Cluster, kubeconfig: &Path, more: &[&str]) -> Output {
    let mut command = boatswain();
    command.args([
        "clean",
        "--app",
        "t-1",
        "--namespace",
        &cluster.api.namespace,
    ]);
    command.arg("--kubeconfig").arg(kubeconfig).args(more);
    command.stdin(std::process::Stdio::null()).output().unwrap()
}

fn clean(cluster: &Cluster, more: &[&str]) -> Output {
    clean_as(cluster, &cluster.kubeconfig, more)
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// Terminating objects go by themselves.
fn becomes(cluster: &Cluster, expected: &[&str]) {
    let mut last = Vec::new();
    until(&format!("{expected:?} is all that is left"), || {
        let now = objects(cluster);
        let fits = now == expected;
        if now != last {
            eprintln!("there is {now:?}");
            last = now;
        }
        fits.then_some(())
    });
}

// spec: O-33, O-102
#[test]
fn everything_that_an_application_left_is_listed_and_deleted_and_nothing_else() {
    let cluster = Cluster::any();
    killed(&cluster, &format!("{CLAIMS}{SESSIONS}"));
    cluster.api.create_config_map("other-app", &json!({}));
    let before = objects(&cluster);

    let listed = clean(&cluster, &[]);
    let (stdout, stderr) = said(&listed);
    assert_eq!(listed.status.code(), Some(0), "{stderr}");
    let mut lines: Vec<&str> = stdout.lines().skip(1).map(str::trim).collect();
    assert_eq!(lines.last(), Some(&"ConfigMap t-executor"));
    lines.sort_unstable();
    let mut expected = before.clone();
    expected.retain(|object| object != "ConfigMap other-app");
    expected.sort_unstable();
    assert_eq!(lines, expected);
    for kind in [
        "Pod t-exec-1",
        "PersistentVolumeClaim",
        "Service t-driver",
        "Secret t-tls",
        "PodDisruptionBudget t-default",
        "ConfigMap t-app",
    ] {
        assert!(stdout.contains(kind), "{kind} in {stdout}");
    }
    assert!(
        stderr.contains("nothing was deleted; to delete this, add --yes"),
        "{stderr}"
    );
    assert_eq!(objects(&cluster), before);

    let deleted = clean(&cluster, &["--yes"]);
    let (stdout, stderr) = said(&deleted);
    assert_eq!(deleted.status.code(), Some(0), "{stderr}");
    assert!(stdout.ends_with("objects deleted\n"), "{stdout}");
    becomes(&cluster, &["ConfigMap other-app"]);

    let nothing = clean(&cluster, &["--yes"]);
    let (_, stderr) = said(&nothing);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(
        stderr.starts_with("nothing of application t-1 was found\nno application t-1 has a record"),
        "{stderr}"
    );
}

fn listed(cluster: &Cluster, more: &[&str]) -> Output {
    let mut command = boatswain();
    command
        .args(["list", "--kubeconfig"])
        .arg(&cluster.kubeconfig);
    command.args(more).output().unwrap()
}

// spec: O-137, O-33, O-86
#[test]
fn applications_are_listed_and_known_by_their_names() {
    let cluster = Cluster::any();
    let namespace = &*cluster.api.namespace;
    let none = listed(&cluster, &["--namespace", namespace]);
    assert_eq!(said(&none).0, "no applications\n");
    killed(&cluster, "");
    let here = listed(&cluster, &["--namespace", namespace]);
    let (stdout, stderr) = said(&here);
    assert_eq!(here.status.code(), Some(0), "{stderr}");
    let row: Vec<&str> = stdout.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..3], ["t", "t-1", "2"], "{stdout}");
    assert!(
        stdout.ends_with("its driver is outside a pod\n"),
        "{stdout}"
    );
    let everywhere = listed(&cluster, &["--all-namespaces", "-o", "json"]);
    let answer: Value = serde_json::from_slice(&everywhere.stdout).unwrap();
    let all = answer["applications"].as_array().unwrap();
    let ours = all
        .iter()
        .find(|one| one["namespace"] == namespace)
        .unwrap();
    assert_eq!(
        (&ours["id"], &ours["executors"]),
        (&json!("t-1"), &json!(2))
    );

    let named = |app: &str| {
        let mut command = boatswain();
        command.args(["clean", "--namespace", namespace, "--app", app]);
        command.arg("--kubeconfig").arg(&cluster.kubeconfig);
        command.stdin(std::process::Stdio::null()).output().unwrap()
    };
    let by_name = named("t");
    assert_eq!(said(&by_name).0, said(&named("t-1")).0);
    assert_eq!(by_name.status.code(), Some(0));
    for wrong in ["u", "no id"] {
        let refused = named(wrong);
        let (_, stderr) = said(&refused);
        assert_eq!(refused.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains("; there is t-1 (t)\n"), "{stderr}");
    }
    let mut status = boatswain();
    status.args([
        "status",
        "--namespace",
        namespace,
        "--app",
        "u",
        "--kubeconfig",
    ]);
    let refused = status.arg(&cluster.kubeconfig).output().unwrap();
    let (_, stderr) = said(&refused);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.starts_with("no application u has a record"),
        "{stderr}"
    );
}

fn sets_are_deleted_with_their_pods(strategy: &str) {
    let cluster = Cluster::any();
    let claims = if strategy == "statefulset" {
        CLAIMS
    } else {
        ""
    };
    killed(
        &cluster,
        &format!(
            "{claims}[allocation]\nstrategy = \"{strategy}\"\n[executors]\nlabels = \"spark\"\n"
        ),
    );
    cluster.api.create_pod(&json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "spark", "labels": {"spark-app-selector": "t-1", "spark-role": "driver"}},
        "spec": {"containers": [{"name": "c", "image": "registry.example/none:1"}]},
    }));
    let deleted = clean(&cluster, &["--yes"]);
    let (stdout, stderr) = said(&deleted);
    assert_eq!(deleted.status.code(), Some(0), "{stdout}{stderr}");
    becomes(&cluster, &["Pod spark"]);
}

// spec: O-102
#[test]
fn a_stateful_set_with_sparks_labels_is_deleted_with_its_pods_but_spark_is_not() {
    sets_are_deleted_with_their_pods("statefulset");
}

// spec: O-102
#[test]
fn a_deployment_with_sparks_labels_is_deleted_with_its_pods_but_spark_is_not() {
    sets_are_deleted_with_their_pods("deployment");
}

// spec: O-103
#[test]
fn nothing_is_deleted_while_a_driver_renews_the_lease() {
    let cluster = Cluster::any();
    let mut driver = drive(&cluster, LEASE);
    cluster.settles(2);
    let refused = clean(&cluster, &["--yes"]);
    let (_, stderr) = said(&refused);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("holds the lease and renews it"), "{stderr}");
    cluster.converges(2);
    assert!(driver.is_alive());

    driver.kill();
    let deleted = clean(&cluster, &["--yes"]);
    let (_, stderr) = said(&deleted);
    assert_eq!(deleted.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("within 5 s"), "{stderr}");
    becomes(&cluster, &[]);
}

// spec: O-103
#[test]
fn nothing_is_deleted_while_the_pod_of_the_records_holder_runs_unless_forced() {
    let cluster = Cluster::any();
    killed(&cluster, "");
    cluster.api.create_pod(&json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "driver-0"},
        "spec": {"containers": [{"name": "c", "image": "registry.example/none:1"}]},
    }));
    cluster.converges(3);
    let pods = cluster.api.pods();
    let uid = &pods.iter().find(|pod| pod.name == "driver-0").unwrap().uid;
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "driver-0", "uid": uid});
    cluster.api.own_config_map(RECORD, &owner);
    cluster
        .api
        .patch_config_map(RECORD, &json!({"holder-pod": format!("driver-0/{uid}")}));

    let refused = clean(&cluster, &["--yes"]);
    let (_, stderr) = said(&refused);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("pod driver-0, which holds the record, runs"),
        "{stderr}"
    );
    assert!(
        stderr.contains("the record belongs to Pod driver-0, which may start a driver again"),
        "{stderr}"
    );
    cluster.converges(3);

    let forced = clean(&cluster, &["--yes", "--force"]);
    assert_eq!(forced.status.code(), Some(0), "{forced:?}");
    becomes(&cluster, &["Pod driver-0"]);
}

/// The rules for this command in the documentation.
fn documented_rules() -> Vec<Value> {
    let page = include_str!("../../docs/kubernetes.md");
    let section = page.split("\n### Rights to clean up\n").nth(1).unwrap();
    let role = section.split("```").nth(1).unwrap();
    let role: Value = serde_saphyr::from_str(role.strip_prefix("yaml").unwrap()).unwrap();
    role["rules"].as_array().unwrap().clone()
}

// spec: O-33
#[test]
fn the_documented_rights_are_enough() {
    let Some((cluster, operator)) = limited("operator", &documented_rules(), Vec::new()) else {
        return;
    };
    killed(&cluster, &format!("{CLAIMS}{LEASE}"));
    let deleted = clean_as(&cluster, &operator.kubeconfig, &["--yes"]);
    assert_eq!(deleted.status.code(), Some(0), "{deleted:?}");
    becomes(&cluster, &[]);
}

// spec: O-33
#[test]
fn what_may_not_be_seen_or_deleted_is_named_and_the_record_stays() {
    let mut rules = documented_rules();
    for rule in &mut rules {
        let resources = rule["resources"].as_array_mut().unwrap();
        resources.retain(|resource| !matches!(resource.as_str(), Some("services" | "secrets")));
    }
    rules.push(json!({"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}));
    let Some((cluster, operator)) = limited("operator", &rules, Vec::new()) else {
        return;
    };
    killed(&cluster, SESSIONS);
    let deleted = clean_as(&cluster, &operator.kubeconfig, &["--yes"]);
    let (_, stderr) = said(&deleted);
    assert_eq!(deleted.status.code(), Some(77), "{stderr}");
    for part in [
        "not looked for: secrets: ",
        "may not list secrets in namespace NAMESPACE",
        "left: Service t-driver: ",
        "may not delete services in namespace NAMESPACE",
        "left: ConfigMap t-app: ",
    ] {
        let part = part.replace("NAMESPACE", &cluster.api.namespace);
        assert!(stderr.contains(&part), "{part} in {stderr}");
    }
    becomes(
        &cluster,
        &["Service t-driver", "Secret t-tls", "ConfigMap t-app"],
    );
}

// spec: O-33, O-2
#[test]
fn a_cluster_that_does_not_answer_is_exit_code_69() {
    let Some(mut cluster) = Cluster::own() else {
        return;
    };
    cluster.kill();
    let output = clean(&cluster, &[]);
    assert_eq!(output.status.code(), Some(69), "{output:?}");
}
