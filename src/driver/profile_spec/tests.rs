//! Tests of the conversion from configuration keys to fields of pods.

use serde_json::json;

use super::*;
use crate::config::is_own_label;
use crate::driver::dry_run::template;
use crate::kubernetes::{Calls, CallsSpec, Clients, LabelScheme, PodBody};
use crate::model::{ExecutorId, Incarnation};
use crate::testing::{calls_spec, config};
use devcluster;

/// Every key about pods.
const EVERYTHING: &str = r#"
app = { id = "etl-1", name = "etl" }
[profiles.default]
image = "registry.example/engine:1"
pull_policy = "Always"
pull_secrets = ["registry"]
command = ["engine"]
args = ["-v"]
pre_stop = ["engine", "drain"]
labels = { team = "data" }
annotations = { "prometheus.io/scrape" = "true" }
cpu = "500m"
cpu_limit = "2"
memory = "1Gi"
memory_limit = "2Gi"
memory_overhead_factor = 0.1
memory_overhead_min = "384Mi"
ephemeral_storage = "1Gi"
ephemeral_storage_limit = "10Gi"
resources = { "nvidia.com/gpu" = 2 }
node_selector = { disk = "ssd" }
affinity = { nodeAffinity = { preferredDuringSchedulingIgnoredDuringExecution = [
    { weight = 1, preference = { matchExpressions = [{ key = "zone", operator = "In", values = ["a"] }] } },
] } }
topology_spread = [{ key = "topology.kubernetes.io/zone", max_skew = 2, uneven = "ScheduleAnyway" }]
tolerations = [{ key = "dedicated", effect = "NoExecute", value = "batch", tolerate_for = "5m" }]
priority_class = "low"
runtime_class = "gvisor"
scheduler_name = "volcano"
scheduling_gates = ["example.com/quota"]
service_account = "executor"
deletion_cost = -5
termination_grace = "1m"

[profiles.default.env]
PLAIN = "x"
FROM_SECRET = { secret = "keys", key = "token", optional = true }
FROM_MAP = { config_map = "settings", key = "mode" }
FROM_FIELD = { field = "status.hostIP" }
FROM_RESOURCE = { resource = "limits.memory" }

[[profiles.default.volumes]]
name = "spill"
mount_path = "/spill"
empty_dir = true
size_limit = "5Gi"
medium = "Memory"
[[profiles.default.volumes]]
name = "node"
mount_path = "/node"
host_path = "/var/lib/x"
host_path_type = "DirectoryOrCreate"
[[profiles.default.volumes]]
name = "data"
mount_path = "/data"
sub_path = "a/b"
claim = "shared"
read_only = true
[[profiles.default.volumes]]
name = "settings"
mount_path = "/etc/settings"
config_map = "settings"
[[profiles.default.volumes]]
name = "keys"
mount_path = "/etc/keys"
secret = "keys"
optional = true

[profiles.default.security]
run_as_user = 1000
run_as_group = 2000
fs_group = 3000
read_only_root = true
capabilities = ["NET_BIND_SERVICE"]
seccomp = "Localhost/executor.json"
service_account_token = true
"#;

fn body(text: &str) -> PodBody {
    let template = template(
        &config(text),
        "etl-1".into(),
        "etl".to_owned(),
        "default".to_owned(),
        Incarnation(1),
    );
    template
        .unwrap()
        .pod(&"default".into(), ExecutorId::FIRST)
        .unwrap()
}

fn pod(text: &str) -> Value {
    serde_json::from_slice(&body(text).json).unwrap()
}

// spec: K-5
#[test]
fn keys_for_the_program_are_fields_of_its_container() {
    let container = &pod(EVERYTHING)["spec"]["containers"][0];
    for (field, value) in [
        ("image", json!("registry.example/engine:1")),
        ("imagePullPolicy", json!("Always")),
        ("command", json!(["engine"])),
        ("args", json!(["-v"])),
        (
            "lifecycle",
            json!({"preStop": {"exec": {"command": ["engine", "drain"]}}}),
        ),
        (
            "resources",
            json!({
                "requests": {
                    "cpu": "500m",
                    "memory": ((1_u64 << 30) + (384 << 20)).to_string(),
                    "ephemeral-storage": (1_u64 << 30).to_string(),
                    "nvidia.com/gpu": "2",
                },
                "limits": {
                    "cpu": "2",
                    "memory": (2_u64 << 30).to_string(),
                    "ephemeral-storage": (10_u64 << 30).to_string(),
                    "nvidia.com/gpu": "2",
                },
            }),
        ),
        (
            "volumeMounts",
            json!([
                {"name": "spill", "mountPath": "/spill"},
                {"name": "node", "mountPath": "/node"},
                {"name": "data", "mountPath": "/data", "subPath": "a/b", "readOnly": true},
                {"name": "settings", "mountPath": "/etc/settings"},
                {"name": "keys", "mountPath": "/etc/keys"},
            ]),
        ),
        (
            "securityContext",
            json!({
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            }),
        ),
    ] {
        assert_eq!(container[field], value, "{field}");
    }
}

// spec: K-5
#[test]
fn the_other_keys_are_fields_of_the_pod() {
    let pod = pod(EVERYTHING);
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    assert_eq!(metadata["labels"]["team"], "data");
    assert_eq!(
        metadata["annotations"],
        json!({"prometheus.io/scrape": "true", "boatswain.dev/deletion-cost": "-5"})
    );
    for (field, value) in [
        ("imagePullSecrets", json!([{"name": "registry"}])),
        ("nodeSelector", json!({"disk": "ssd"})),
        ("priorityClassName", json!("low")),
        ("runtimeClassName", json!("gvisor")),
        ("schedulerName", json!("volcano")),
        ("schedulingGates", json!([{"name": "example.com/quota"}])),
        ("serviceAccountName", json!("executor")),
        ("automountServiceAccountToken", json!(true)),
        ("terminationGracePeriodSeconds", json!(60)),
        (
            "tolerations",
            json!([{
                "key": "dedicated", "operator": "Equal", "value": "batch", "effect": "NoExecute",
                "tolerationSeconds": 300,
            }]),
        ),
        (
            "volumes",
            json!([
                {"name": "spill", "emptyDir": {"sizeLimit": "5Gi", "medium": "Memory"}},
                {"name": "node", "hostPath": {"path": "/var/lib/x", "type": "DirectoryOrCreate"}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "shared", "readOnly": true}},
                {"name": "settings", "configMap": {"name": "settings"}},
                {"name": "keys", "secret": {"secretName": "keys", "optional": true}},
            ]),
        ),
        (
            "securityContext",
            json!({
                "runAsNonRoot": true,
                "runAsUser": 1000,
                "runAsGroup": 2000,
                "fsGroup": 3000,
                "seccompProfile": {"type": "Localhost", "localhostProfile": "executor.json"},
            }),
        ),
    ] {
        assert_eq!(spec[field], value, "{field}");
    }
    let spread = &spec["topologySpreadConstraints"][0];
    assert_eq!(spread["topologyKey"], "topology.kubernetes.io/zone");
    assert_eq!(
        (&spread["maxSkew"], &spread["whenUnsatisfiable"]),
        (&json!(2), &json!("ScheduleAnyway"))
    );
    assert_eq!(
        spread["labelSelector"]["matchLabels"]["boatswain.dev/app-id"],
        "etl-1"
    );
    let preferred =
        &spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"];
    assert_eq!(preferred[0]["weight"], 1);
}

// spec: K-4, K-5
#[test]
fn the_environment_comes_from_the_configured_sources() {
    let pod = pod(EVERYTHING);
    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let var = |name: &str| env.iter().find(|var| var["name"] == name).unwrap();
    assert_eq!(var("PLAIN")["value"], "x");
    for (name, from) in [
        (
            "FROM_SECRET",
            json!({"secretKeyRef": {"name": "keys", "key": "token", "optional": true}}),
        ),
        (
            "FROM_MAP",
            json!({"configMapKeyRef": {"name": "settings", "key": "mode"}}),
        ),
        (
            "FROM_FIELD",
            json!({"fieldRef": {"apiVersion": "v1", "fieldPath": "status.hostIP"}}),
        ),
        (
            "FROM_RESOURCE",
            json!({"resourceFieldRef": {"resource": "limits.memory"}}),
        ),
    ] {
        assert_eq!(var(name)["valueFrom"], from, "{name}");
    }
    assert_eq!(var("BOATSWAIN_CORES")["value"], "2");
    assert_eq!(
        var("BOATSWAIN_MEMORY_BYTES")["value"],
        (1_u64 << 30).to_string(),
        "without what comes on top"
    );
}

// spec: K-6
#[test]
fn a_profile_without_security_keys_gets_the_most_restricted_pods() {
    let pod = pod("[profiles.default]\nimage = \"a\"");
    let spec = &pod["spec"];
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(
        spec["securityContext"],
        json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}})
    );
    assert_eq!(
        spec["containers"][0]["securityContext"],
        json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
    );
}

// spec: K-6
#[test]
fn a_profile_can_override_each_security_default() {
    let text = "[profiles.default]\nimage = \"a\"\n[profiles.default.security]\nrun_as_non_root = false\n\
                privilege_escalation = true\ndrop_capabilities = false\nseccomp = \"Unconfined\"\n\
                service_account_token = true";
    let spec = &pod(text)["spec"];
    assert_eq!(spec["automountServiceAccountToken"], true);
    assert_eq!(
        spec["securityContext"],
        json!({"runAsNonRoot": false, "seccompProfile": {"type": "Unconfined"}})
    );
    assert_eq!(
        spec["containers"][0]["securityContext"],
        json!({"allowPrivilegeEscalation": true, "capabilities": {"drop": []}})
    );
    let privileged = "[profiles.default]\nimage = \"a\"\nsecurity = { privileged = true }";
    let context = &pod(privileged)["spec"]["containers"][0]["securityContext"];
    assert_eq!(context, &json!({"privileged": true}));
}

// spec: K-2, K-3
#[test]
fn a_pods_own_labels_are_the_reserved_ones() {
    for (scheme, said) in [
        (LabelScheme::Boatswain, config::Labels::Boatswain),
        (LabelScheme::Spark, config::Labels::Spark),
    ] {
        let keys = scheme.keys();
        for key in [
            keys.app_id,
            keys.role,
            keys.executor_id,
            keys.profile,
            keys.incarnation,
            keys.inactive,
        ] {
            assert!(is_own_label(key, said), "{key}");
        }
    }
    let pod = pod("[profiles.default]\nimage = \"a\"");
    for key in pod["metadata"]["labels"].as_object().unwrap().keys() {
        assert!(is_own_label(key, config::Labels::Boatswain), "{key}");
    }
    assert!(!is_own_label("spark-role", config::Labels::Boatswain));
    assert!(!is_own_label(
        "app.kubernetes.io/part-of",
        config::Labels::Boatswain
    ));
}

// spec: K-5, K-6
#[tokio::test]
async fn a_pod_with_everything_set_is_accepted_and_one_with_nothing_has_the_secure_defaults() {
    let cluster = devcluster::start(devcluster::Options::default());
    let clients = Clients::in_process(cluster.router(), "default");
    let spec = CallsSpec {
        app_id: "etl-1".into(),
        prefix: "etl".to_owned(),
        ..calls_spec()
    };
    let calls = Calls::new(clients.clone(), spec);
    let account = json!({"metadata": {"name": "executor"}}).to_string();
    let request = http::Request::post("/api/v1/namespaces/default/serviceaccounts")
        .header("content-type", "application/json")
        .body(account.into_bytes().into())
        .unwrap();
    clients.reads.send(request).await.unwrap();
    let mut kept = Vec::new();
    // The embedded cluster has no classes but the system's.
    let everything = EVERYTHING
        .replace("\"low\"", "\"system-cluster-critical\"")
        .replace("runtime_class = \"gvisor\"", "");
    for text in [&everything, "[profiles.default]\nimage = \"a\""] {
        let mut body = body(text);
        // The owner's uid is known once the record exists.
        let mut pod: Value = serde_json::from_slice(&body.json).unwrap();
        pod["metadata"]["ownerReferences"][0]["uid"] = "u-1".into();
        body.json = serde_json::to_vec(&pod).unwrap().into();
        calls
            .create_pod(&body)
            .await
            .unwrap_or_else(|failure| panic!("{failure:?}"));
        let path = format!("/api/v1/namespaces/default/pods/{}", body.name);
        let request = http::Request::get(&path)
            .body(kube::client::Body::empty())
            .unwrap();
        let response = clients.reads.send(request).await.unwrap();
        let bytes = http_body_util::BodyExt::collect(response.into_body())
            .await
            .unwrap()
            .to_bytes();
        kept.push(serde_json::from_slice::<Value>(&bytes).unwrap());
        let request = http::Request::delete(format!("{path}?gracePeriodSeconds=0"));
        let request = request.body(kube::client::Body::empty()).unwrap();
        clients.reads.send(request).await.unwrap();
    }
    let volumes = kept[0]["spec"]["volumes"].as_array().unwrap();
    assert_eq!(volumes.len(), 6, "with the mounted token");
    assert_eq!(kept[1]["spec"]["automountServiceAccountToken"], false);
    assert_eq!(kept[1]["spec"]["securityContext"]["runAsNonRoot"], true);
    let context = &kept[1]["spec"]["containers"][0]["securityContext"];
    assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
    cluster.shutdown().await;
}
