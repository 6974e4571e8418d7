use serde_json::json;

use super::*;
use crate::testing::config;

fn shown(text: &str) -> (String, Vec<Value>) {
    let yaml = dry_run(&config(text)).unwrap();
    let documents = serde_saphyr::from_multiple(&yaml).unwrap();
    (yaml, documents)
}

const TWO: &str = r#"
        app = { id = "etl-1", name = "etl" }
        cluster.namespace = "jobs"
        [profiles.default]
        image = "engine:1"
        command = ["/bin/sh", "-c"]
        args = ['''
trap 'exit 0' TERM
while true; do sleep 1 & wait $!; done
''']
        cpu = "500m"
        memory = "512Mi"
        env = { A = "on", B = "1e3", C = "0o17", D = "~", E = "1:30", F = "y", G = "", H = " x: #\t\u0007" }
        [profiles.large]
        image = "engine:1"
        executors = 1
        tolerations = [{ key = "dedicated", value = "batch", effect = "NoSchedule" }]
    "#;

/// Keys for what executors mount and how they find the driver.
const MOUNTED: &str = r#"
        [[profiles.large.claims]]
        name = "data"
        mount_path = "/data"
        size = "10Gi"
        [backend]
        listen = "0.0.0.0:7078"
        plain_http = true
        service_selector = { app = "driver" }
    "#;

fn mounted() -> String {
    let properties = "name = \"etl\", properties = { mode = \"batch\" }";
    format!("{TWO}{MOUNTED}").replace("name = \"etl\"", properties)
}

// spec: K-8, K-9, K-10
#[test]
fn a_dry_run_shows_what_executors_mount_and_how_they_find_the_driver() {
    let (_, shown) = shown(&mounted());
    let named: Vec<String> = (shown.iter())
        .map(|d| format!("{} {}", d["kind"], d["metadata"]["name"]).replace('"', ""))
        .collect();
    assert_eq!(
        named,
        [
            "ConfigMap etl-app",
            "ConfigMap etl-executor",
            "Service etl-driver",
            "Pod etl-exec-1",
            "Pod etl-exec-2",
            "Pod etl-exec-3",
            "PersistentVolumeClaim etl-exec-3-data",
        ]
    );
    let of = |n: usize, path: &str| shown[n].pointer(path).cloned().unwrap_or_default();
    assert!(
        shown
            .iter()
            .all(|d| d["metadata"].get("ownerReferences").is_none())
    );
    assert_eq!(of(6, "/spec/resources/requests/storage"), "10737418240");
    let env = of(3, "/spec/containers/0/env");
    let url = (env.as_array().into_iter().flatten())
        .find(|variable| variable["name"] == "BOATSWAIN_DRIVER_URL");
    assert_eq!(url.unwrap()["value"], "http://etl-driver.jobs.svc:7078");
}

// spec: K-4, K-8, O-53
#[test]
fn with_tls_executors_find_the_ca_in_their_config_map() {
    let text = mounted().replace("plain_http = true", "");
    let (_, shown) = shown(&format!("{text}\n[tls]\ngenerate = true"));
    let of = |kind: &str| {
        shown
            .iter()
            .find(|document| document["kind"] == kind)
            .unwrap()
    };
    let mut maps = shown.iter().rev();
    let map = maps
        .find(|document| document["kind"] == "ConfigMap")
        .unwrap();
    assert!(map["data"]["ca.crt"].is_string(), "{map}");
    let env = of("Pod")["spec"]["containers"][0]["env"].clone();
    let value = |name: &str| {
        let mut env = env.as_array().into_iter().flatten();
        env.find(|variable| variable["name"] == name).unwrap()["value"].clone()
    };
    assert_eq!(value("BOATSWAIN_CA_FILE"), "/etc/boatswain/ca.crt");
    assert_eq!(
        value("BOATSWAIN_DRIVER_URL"),
        "https://etl-driver.jobs.svc:7078"
    );
}

// spec: A-90, O-4
#[test]
fn a_dry_run_shows_what_is_queued_first_where_a_queue_admits_executors() {
    let queue = "[scheduling]\nqueue = \"kueue\"\nqueue_name = \"team\"\n";
    let (yaml, shown) = shown(&format!("{TWO}{queue}"));
    assert!(yaml.contains("once Kueue has admitted"), "{yaml}");
    let workloads = shown.iter().filter(|one| one["kind"] == "Workload");
    let workloads: Vec<_> = workloads
        .map(|one| {
            (
                &one["metadata"]["name"],
                &one["spec"]["podSets"][0]["count"],
            )
        })
        .collect();
    let expected = json!([["etl-default-1", 2], ["etl-large-2", 1]]);
    assert_eq!(json!(workloads), expected);
    assert!(shown.iter().all(|one| one["kind"] != "Pod"));
}

// spec: O-4
#[test]
fn a_dry_run_shows_the_record_and_each_executor() {
    let (yaml, mut shown) = shown(TWO);
    let expected = documents(&config(TWO), 7, 1).unwrap();
    // These differ between starts.
    for key in ["holder", "origin"] {
        shown[0]["data"][key] = "0000000000000001".into();
    }
    assert_eq!(shown, expected, "what is read back is what was meant");
    let names: Vec<&str> = shown
        .iter()
        .filter_map(|d| d["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names, ["etl-app", "etl-exec-1", "etl-exec-2", "etl-exec-3"]);
    assert_eq!(
        shown[3]["metadata"]["labels"]["boatswain.dev/profile"],
        "large"
    );
    assert_eq!(shown[1]["metadata"]["namespace"], "jobs");
    // kubectl reads YAML 1.1, in which `on` and `y` are flags and 1:30 is 90.
    for text in ["on", "1e3", "0o17", "~", "1:30", "y", ""] {
        let is_quoted = ["'", "\""].iter().any(|quote| {
            let shown = format!("value: {quote}{text}{quote}\n");
            yaml.contains(&shown)
        });
        assert!(is_quoted, "{text} in\n{yaml}");
    }
}

// spec: A-80
#[test]
fn a_dry_run_shows_the_set_where_sets_make_the_pods() {
    let text = TWO.replace(
        "[profiles.default]",
        "[allocation]\nstrategy = \"statefulset\"\n[profiles.default]",
    );
    let (_, shown) = shown(&text);
    let kinds: Vec<&str> = shown.iter().filter_map(|d| d["kind"].as_str()).collect();
    assert_eq!(kinds, ["ConfigMap", "StatefulSet", "StatefulSet"]);
    assert_eq!(shown[1]["metadata"]["name"], "etl-default");
    assert_eq!(shown[1]["spec"]["replicas"], 2);
    assert_eq!(shown[1]["metadata"].get("ownerReferences"), None);
}

// spec: O-4
#[test]
fn a_dry_run_requests_one_round_shared_evenly() {
    let most = format!("allocation.batch_size = 2\n{TWO}");
    let (_, shown) = shown(&most);
    let profiles: Vec<&str> = shown[1..]
        .iter()
        .filter_map(|d| d["metadata"]["labels"]["boatswain.dev/profile"].as_str())
        .collect();
    assert_eq!(profiles, ["default", "large"]);
}

#[test]
fn an_unset_namespace_is_left_to_kubectl() {
    let (_, shown) = shown("[profiles.default]\nimage = \"engine:1\"");
    assert_eq!(shown.len(), 3);
    assert!(
        shown
            .iter()
            .all(|d| d["metadata"].get("namespace").is_none())
    );
}

// spec: O-4
#[tokio::test]
async fn the_objects_of_a_dry_run_pass_strict_validation() {
    use devcluster;
    use tower::ServiceExt;
    let cluster = devcluster::start(devcluster::Options::default());
    let (_, mut shown) = shown(&mounted().replace("\"jobs\"", "\"default\""));
    for inject in ["init", "image"] {
        let (_, injected) = self::shown(&format!(
            "agent = {{ inject = \"{inject}\", image = \"boatswain:1\" }}\napp.name = \"{inject}\"\n\
             [profiles.default]\nimage = \"engine:1\"\ncommand = [\"worker\"]\n\
             [backend]\nlisten = \"127.0.0.1:7078\"\n[cluster]\nnamespace = \"default\"",
        ));
        shown.extend(injected);
    }
    for document in shown {
        let resource = match document["kind"].as_str() {
            Some("Pod") => "pods",
            Some("PersistentVolumeClaim") => "persistentvolumeclaims",
            Some("Service") => "services",
            _ => "configmaps",
        };
        let request = http::Request::post(format!(
            "/api/v1/namespaces/default/{resource}?fieldValidation=Strict"
        ))
        .header("content-type", "application/json")
        .body(axum::body::Body::from(document.to_string()))
        .unwrap();
        let answer = cluster.router().oneshot(request).await.unwrap();
        let status = answer.status();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20)
            .await
            .unwrap();
        assert_eq!(status, 201, "{}", String::from_utf8_lossy(&body));
    }
    cluster.shutdown().await;
}

// spec: K-1, K-6, C-4
#[test]
fn check_says_what_of_a_template_is_not_used_and_whose_wishes_are_not_met_and_no_secret() {
    let directory = tempfile::tempdir().unwrap();
    let template = "metadata: {name: a, annotations: {hook: 'https://hooks.slack.com/services/hunter2'}}\n\
                    spec: {initContainers: [{name: own, command: [chown, /data]}], containers: [{name: executor, \
                    args: [--password, hunter2], env: [{name: DB_PASSWORD, value: hunter2}]}]}";
    std::fs::write(directory.path().join("base.yaml"), template).unwrap();
    let file = directory.path().join("a.toml");
    let text = "[profiles.default]\nimage = \"a\"\ntemplate = \"base.yaml\"";
    std::fs::write(&file, text).unwrap();
    let (config, _) = Config::explain(&file, [], &[]).unwrap();
    let shown = shapes(&config).unwrap();
    for part in [
        "\n# Note: metadata.name \"a\" is not used",
        "\n# Warning: container own: it runs chown",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    assert!(!shown.contains("hunter2"), "{shown}");
}
