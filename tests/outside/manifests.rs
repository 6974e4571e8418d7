//! Tests that an API server accepts what `boatswain manifests` prints, with no field that it does not know.

use std::fs;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::cluster::Cluster;
use super::process::boatswain;

const PROFILE: &str = "
[profiles.default]
executors = 1
image = \"registry.example/none:1\"
command = [\"sleep\", \"infinity\"]
";

/// What is added to the profile's keys, and the driver's workload.
const CONFIGURATIONS: &[(&str, &str)] = &[
    ("", "job"),
    ("[ha]\nlease = true\n", "deployment"),
    (
        "
[ha]
lease = true
[backend]
listen = \"0.0.0.0:7078\"
plain_http = true
service_selector = { driver = \"t\" }
",
        "deployment",
    ),
    ("[allocation]\nstrategy = \"statefulset\"\n", "statefulset"),
    (
        "
[[profiles.default.claims]]
name = \"work\"
mount_path = \"/work\"
size = \"1Gi\"
owner = \"application\"
[backend]
listen = \"0.0.0.0:7078\"
key_file = \"/etc/boatswain-secrets/key\"
service_selector = { driver = \"t\" }
[tls]
certificate_file = \"/etc/boatswain-tls/tls.crt\"
key_file = \"/etc/boatswain-tls/tls.key\"
[metrics]
listen = \"0.0.0.0:9090\"
[probes]
listen = \"0.0.0.0:9091\"
",
        "deployment",
    ),
    (
        "min_executors = 1\n[scheduling]\ngang = \"volcano\"\n",
        "job",
    ),
    (
        "min_executors = 1\n[scheduling]\ngang = \"kubernetes\"\n",
        "job",
    ),
    (
        "[agent]\ninject = \"init\"\nimage = \"boatswain:1\"\n[tls]\ngenerate = true\n[backend]\nlisten = \"0.0.0.0:7078\"\nservice_selector = { driver = \"t\" }\n",
        "statefulset",
    ),
];

fn printed(config: &str, kind: &str) -> Vec<Value> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), config).unwrap();
    let mut command = boatswain();
    command.args([
        "manifests",
        "--image",
        "boatswain:1",
        "--kind",
        kind,
        "--network-policy",
        "--generate-secrets",
    ]);
    let output = command.arg("--config").arg(file.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_saphyr::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap()
}

fn is_typed<T: DeserializeOwned + Serialize>(object: &Value) {
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(&serde_json::to_value(typed).unwrap(), object);
}

fn plural(kind: &str) -> String {
    let name = kind.to_lowercase();
    match name.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{name}s"),
    }
}

// spec: O-51, O-74, O-75
#[test]
fn each_printed_object_is_accepted_by_strict_validation() {
    let cluster = Cluster::any();
    for (more, kind) in CONFIGURATIONS {
        for object in printed(&format!("{PROFILE}{more}"), kind) {
            let name = object["kind"].as_str().unwrap();
            // The embedded cluster does not serve these: no field may be lost in Kubernetes' own types.
            match name {
                _ if cluster.is_real() => {}
                "Job" => {
                    is_typed::<Job>(&object);
                    continue;
                }
                "PodDisruptionBudget" => {
                    is_typed::<PodDisruptionBudget>(&object);
                    continue;
                }
                "NetworkPolicy" => {
                    is_typed::<NetworkPolicy>(&object);
                    continue;
                }
                _ => {}
            }
            let version = object["apiVersion"].as_str().unwrap();
            let root = if version == "v1" { "/api" } else { "/apis" };
            let path = format!(
                "{root}/{version}/namespaces/{}/{}?fieldValidation=Strict&dryRun=All",
                cluster.api.namespace,
                plural(name)
            );
            let answer = cluster.api.call("POST", &path, Some(&object));
            assert!(answer.is_ok(), "{name} with {more:?}: {answer:?}");
        }
    }
}
