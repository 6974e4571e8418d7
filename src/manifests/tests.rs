use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;

const PLAIN: &str = "[profiles.default]\nexecutors = 1\nimage = \"busybox\"\n";

fn options(kind: WorkloadKind) -> Options {
    Options {
        kind,
        name: "driver".to_owned(),
        namespace: None,
        image: "boatswain:1".to_owned(),
        sets: Vec::new(),
        priority_class: None,
        do_not_disrupt: false,
        network_policy: false,
        pod_monitor: false,
        generate_secrets: false,
    }
}

fn config(text: &str) -> Config {
    Config::from_toml(text, "test.toml", [], &[]).unwrap()
}

fn printed(text: &str, kind: WorkloadKind) -> Vec<Value> {
    manifests(&config(text), text, &options(kind)).unwrap()
}

fn refused(text: &str, options: &Options) -> String {
    manifests(&config(text), text, options)
        .unwrap_err()
        .to_string()
}

fn resources(text: &str, kind: WorkloadKind) -> Vec<&'static str> {
    rights::needed(&config(text), Some(kind))
        .map(|rule| rule.resource)
        .collect()
}

/// Whether Kubernetes' own type has every field of the object.
fn is_typed<T: DeserializeOwned + Serialize>(object: &Value) {
    let typed: T = serde_json::from_value(object.clone()).unwrap();
    assert_eq!(&serde_json::to_value(typed).unwrap(), object);
}

// spec: O-51
#[test]
fn each_object_has_only_fields_of_its_type() {
    let secrets =
        format!("{PLAIN}[api]\nlisten = \"127.0.0.1:8080\"\ntoken_file = \"/etc/s/tokens\"\n");
    for text in [PLAIN, &secrets] {
        for kind in [
            WorkloadKind::Job,
            WorkloadKind::Deployment,
            WorkloadKind::Statefulset,
        ] {
            let objects = printed(text, kind);
            is_typed::<ServiceAccount>(&objects[0]);
            is_typed::<Role>(&objects[1]);
            is_typed::<RoleBinding>(&objects[2]);
            is_typed::<ConfigMap>(&objects[3]);
            match kind {
                WorkloadKind::Job => is_typed::<Job>(&objects[4]),
                WorkloadKind::Deployment => is_typed::<Deployment>(&objects[4]),
                WorkloadKind::Statefulset => is_typed::<StatefulSet>(&objects[4]),
            }
        }
    }
}

// spec: O-51
#[test]
fn each_feature_adds_its_rights_and_no_other() {
    let base = ["pods", "configmaps", "events"];
    let fixed = format!("{PLAIN}[shutdown]\non_signal = \"end\"\n");
    assert_eq!(resources(&fixed, WorkloadKind::Job), base);
    assert_eq!(
        resources(&fixed, WorkloadKind::Deployment),
        [&base[..], &["replicasets"]].concat()
    );
    // With `auto` the driver reads its controller.
    for (kind, read) in [
        (WorkloadKind::Job, &["jobs"][..]),
        (WorkloadKind::Deployment, &["deployments", "replicasets"]),
        (WorkloadKind::Statefulset, &["statefulsets"]),
    ] {
        assert_eq!(resources(PLAIN, kind), [&base[..], read].concat());
    }
    let evidence = format!("{fixed}[api]\nevidence = true\n");
    assert_eq!(
        resources(&evidence, WorkloadKind::Job),
        [&base[..], &["events", "pods/log"]].concat()
    );
    let base = ["pods", "configmaps", "events", "jobs"];
    let with = |more: &[&'static str]| [&base[..], more].concat();
    let service = format!(
        "{PLAIN}[backend]\nlisten = \"0.0.0.0:7078\"\nplain_http = true\nservice_selector = {{ driver = \"etl\" }}\n"
    );
    assert_eq!(resources(&service, WorkloadKind::Job), with(&["services"]));
    let sets = format!("{PLAIN}[allocation]\nstrategy = \"statefulset\"\n");
    assert_eq!(
        resources(&sets, WorkloadKind::Job),
        with(&["statefulsets", "statefulsets/scale"])
    );
    let sets = format!("{PLAIN}[allocation]\nstrategy = \"deployment\"\n");
    assert_eq!(
        resources(&sets, WorkloadKind::Job),
        with(&["deployments", "deployments/scale"])
    );
    let gang = format!("{PLAIN}min_executors = 1\n[scheduling]\ngang = \"volcano\"\n");
    assert_eq!(resources(&gang, WorkloadKind::Job), with(&["podgroups"]));
    let gang = gang.replace("volcano", "kubernetes");
    assert_eq!(resources(&gang, WorkloadKind::Job), with(&["podgroups"]));
    let queue = format!("{PLAIN}[scheduling]\nqueue = \"kueue\"\nqueue_name = \"team\"\n");
    assert_eq!(
        resources(&queue, WorkloadKind::Job),
        with(&["workloads", "workloads/status", "resourceflavors"])
    );
    let budget = format!("{PLAIN}min_available = 1\n");
    assert_eq!(
        resources(&budget, WorkloadKind::Job),
        with(&["poddisruptionbudgets"])
    );
    let sessions =
        "[backend]\nlisten = \"0.0.0.0:7078\"\nplain_http = true\nurl = \"http://etl:7078\"\n";
    let grows = "memory_limit = \"1Gi\"\nmemory_max = \"2Gi\"\nmemory_in_place = true\n";
    assert_eq!(
        resources(&format!("{PLAIN}{grows}{sessions}"), WorkloadKind::Job),
        ["pods", "configmaps", "events", "pods/resize", "jobs"]
    );
}

// spec: O-51, O-108
#[test]
fn no_driver_in_a_pod_may_delete_the_record_and_none_with_sets_create_pods() {
    let has = |text: &str, kind: Option<WorkloadKind>, verb: &str, resource: &str| {
        let mut rights = rights::one_by_one(&config(text), kind).into_iter();
        rights.any(|right| (right.verb, right.resource) == (verb, resource))
    };
    let sets = format!("{PLAIN}[allocation]\nstrategy = \"statefulset\"\n");
    assert!(has(PLAIN, Some(WorkloadKind::Job), "create", "pods"));
    assert!(!has(&sets, Some(WorkloadKind::Job), "create", "pods"));
    assert!(has(&sets, Some(WorkloadKind::Job), "delete", "pods"));
    let in_pod = format!("{PLAIN}[driver]\npod_name = \"driver-0\"\n");
    let lease = format!("{PLAIN}[ha]\nlease = true\n");
    for (text, kind, deletes) in [
        (PLAIN, None, true),
        (PLAIN, Some(WorkloadKind::Job), false),
        (&in_pod, None, false),
        (&lease, None, false),
    ] {
        assert_eq!(has(text, kind, "delete", "configmaps"), deletes, "{text}");
    }
}

// spec: O-51
#[test]
fn the_documentation_lists_the_rules_of_all_features() {
    let page = include_str!("../../docs/kubernetes.md");
    let section = page.split("\n## Rights\n").nth(1).unwrap();
    let role = section.split("```").nth(1).unwrap();
    let role: Value = serde_saphyr::from_str(role.strip_prefix("yaml").unwrap()).unwrap();
    assert_eq!(role["rules"], json!(rights::all("boatswain", false)));
    let role = section.split("```").nth(3).unwrap();
    let role: Value = serde_saphyr::from_str(role.strip_prefix("yaml").unwrap()).unwrap();
    assert_eq!(role["rules"], json!(rights::all("boatswain", true)));
}

// spec: O-33
#[test]
fn what_a_driver_may_create_is_cleaned_up_with_the_documented_rights() {
    use crate::kubernetes::leftovers::{LEASE, LISTED};
    let page = include_str!("../../docs/kubernetes.md");
    let section = page.split("\n### Rights to clean up\n").nth(1).unwrap();
    let role = section.split("```").nth(1).unwrap();
    let role: Value = serde_saphyr::from_str(role.strip_prefix("yaml").unwrap()).unwrap();
    let documented = role["rules"].as_array().unwrap();
    let contains = |list: &Value, wanted: &str| {
        let mut words = list.as_array().unwrap().iter();
        words.any(|word| word == wanted)
    };
    let kinds: Vec<_> = LISTED.into_iter().chain([LEASE]).collect();
    for kind in &kinds {
        let mut fit = documented.iter().filter(|rule| {
            contains(&rule["apiGroups"], kind.group) && contains(&rule["resources"], kind.resource)
        });
        let verbs = &fit.next().unwrap()["verbs"];
        let look = if *kind == LEASE { "get" } else { "list" };
        for verb in [look, "delete"] {
            assert!(contains(verbs, verb), "{verb} {}", kind.resource);
        }
    }
    for rule in rights::all("boatswain", false) {
        let resource = rule["resources"][0].as_str().unwrap();
        // Kubernetes Events go by themselves.
        if contains(&rule["verbs"], "create") && resource != "events" {
            let known = kinds.iter().any(|kind| kind.resource == resource);
            assert!(known, "{resource} is created, and not cleaned up");
        }
    }
}

// spec: C-8
#[test]
fn a_right_is_shown_with_the_rule_that_grants_it() {
    let lease = config(&format!("{PLAIN}[ha]\nlease = true\n"));
    let rights = rights::one_by_one(&lease, Some(WorkloadKind::Job));
    let right = rights.last().unwrap();
    assert_eq!(right.to_string(), "update leases boatswain-driver");
    assert_eq!(
        right.rule(),
        "{apiGroups: [\"coordination.k8s.io\"], resources: [\"leases\"], resourceNames: [\"boatswain-driver\"], \
         verbs: [\"update\"]}"
    );
}

// spec: O-51, O-109
#[test]
fn the_pod_is_killed_later_than_the_driver_ends_and_is_found_by_its_service() {
    let text = format!(
        "{PLAIN}[shutdown]\ngrace = \"50s\"\n[backend]\nlisten = \"0.0.0.0:7078\"\n\
         plain_http = true\nservice_selector = {{ driver = \"etl\" }}\n"
    );
    let objects = printed(&text, WorkloadKind::Deployment);
    let template = &objects[4]["spec"]["template"];
    assert_eq!(template["spec"]["terminationGracePeriodSeconds"], 60);
    assert_eq!(template["metadata"]["labels"]["driver"], "etl");
    assert_eq!(objects[4]["spec"]["strategy"]["type"], "Recreate");
    assert_eq!(
        objects[4]["spec"]["selector"]["matchLabels"],
        template["metadata"]["labels"]
    );
}

// spec: O-51, A-90
#[test]
fn a_queue_needs_a_right_outside_the_namespace_which_the_account_gets_by_name() {
    let text = format!("{PLAIN}[scheduling]\nqueue = \"kueue\"\nqueue_name = \"team\"\n");
    assert!(refused(&text, &options(WorkloadKind::Job)).contains("--namespace"));
    let with = Options {
        namespace: Some("jobs".to_owned()),
        ..options(WorkloadKind::Job)
    };
    let objects = manifests(&config(&text), &text, &with).unwrap();
    let [.., role, binding] = &objects[..] else {
        panic!("{objects:?}");
    };
    is_typed::<ClusterRole>(role);
    is_typed::<ClusterRoleBinding>(binding);
    let rule = json!({"apiGroups": ["kueue.x-k8s.io"], "resources": ["resourceflavors"], "verbs": ["get"]});
    assert_eq!(role["rules"], json!([rule]));
    assert_eq!(binding["roleRef"]["name"], role["metadata"]["name"]);
    assert_eq!(role["metadata"]["name"], "driver-jobs");
    assert_eq!(binding["subjects"][0]["namespace"], "jobs");
    let of_role = objects[1]["rules"].to_string();
    assert!(!of_role.contains("resourceflavors"), "{of_role}");
}

// spec: O-51
#[test]
fn a_changed_configuration_changes_the_pod() {
    let checksum = |text: &str| {
        let objects = printed(text, WorkloadKind::Job);
        objects[4]["spec"]["template"]["metadata"]["annotations"]["checksum/config"].clone()
    };
    assert_ne!(checksum(PLAIN), checksum(&format!("{PLAIN}cpu = \"1\"\n")));
}

// spec: O-51
#[test]
fn secrets_are_mounted_and_not_printed() {
    let text =
        format!("{PLAIN}[api]\nlisten = \"127.0.0.1:8080\"\ntoken_file = \"/etc/s/tokens\"\n");
    let objects = printed(&text, WorkloadKind::Job);
    assert!(objects.iter().all(|object| object["kind"] != "Secret"));
    let pod = &objects[4]["spec"]["template"]["spec"];
    assert_eq!(
        pod["containers"][0]["volumeMounts"][1]["mountPath"],
        "/etc/s"
    );
    assert_eq!(pod["volumes"][1]["secret"]["secretName"], "driver-secrets");
    let commands = secrets_to_create(&config(&text), &options(WorkloadKind::Job));
    assert_eq!(
        commands,
        ["kubectl create secret generic driver-secrets --from-file=tokens"]
    );
    let commands = secrets_to_create(&config(PLAIN), &options(WorkloadKind::Job));
    assert_eq!(commands, [""; 0]);
}

// spec: O-75
#[test]
fn each_secret_file_but_a_certificates_gets_a_value_of_its_own() {
    let text = format!(
        "{PLAIN}[api]\nlisten = \"127.0.0.1:8080\"\ntoken_file = \"/etc/s/tokens\"\n\
         [backend]\nlisten = \"127.0.0.1:7078\"\nkey_file = \"/etc/s/key\"\n\
         [tls]\ncertificate_file = \"/etc/c/tls.crt\"\nkey_file = \"/etc/c/tls.key\"\n"
    );
    let options = Options {
        namespace: Some("jobs".to_owned()),
        generate_secrets: true,
        ..options(WorkloadKind::Job)
    };
    let mut n = 0;
    let mut make = || {
        n += 1;
        Ok::<_, std::convert::Infallible>(format!("value-{n}"))
    };
    let secret = generated_secret(&config(&text), &options, &mut make);
    let secret = secret.unwrap().unwrap();
    is_typed::<k8s_openapi::api::core::v1::Secret>(&secret);
    assert_eq!(
        secret["metadata"],
        json!({
            "name": "driver-secrets", "namespace": "jobs",
            "labels": {"app.kubernetes.io/name": "driver"},
        })
    );
    assert_eq!(
        secret["data"],
        json!({"tokens": STANDARD.encode("value-1"), "key": STANDARD.encode("value-2")})
    );
    let commands = secrets_to_create(&config(&text), &options);
    assert_eq!(
        commands,
        [
            "kubectl create secret generic driver-certificate --from-file=tls.crt --from-file=tls.key"
        ]
    );
    let none = generated_secret(&config(PLAIN), &options, &mut make);
    assert_eq!(none, Ok(None));
}

// spec: O-51, O-53, O-59
#[test]
fn the_certificate_has_a_secret_of_its_own_and_the_kubelet_a_port() {
    let text = format!(
        "{PLAIN}[backend]\nlisten = \"127.0.0.1:7078\"\n[tls]\ncertificate_file = \"/etc/c/tls.crt\"\nkey_file = \"/etc/c/tls.key\"\n\
         [metrics]\nlisten = \"0.0.0.0:9090\"\n[probes]\nlisten = \"0.0.0.0:9091\"\n"
    );
    let objects = printed(&text, WorkloadKind::Deployment);
    let pod = &objects[4]["spec"]["template"]["spec"];
    let secret = &pod["volumes"][1]["secret"];
    assert_eq!(secret["secretName"], "driver-certificate");
    let container = &pod["containers"][0];
    assert_eq!(
        container["ports"],
        json!([
            {"name": "metrics", "containerPort": 9090},
            {"name": "probes", "containerPort": 9091},
        ])
    );
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "probes"}});
    assert_eq!(container["readinessProbe"], probe("/readyz"));
    assert_eq!(container["livenessProbe"], probe("/healthz"));
}

// spec: O-51, O-32
#[test]
fn with_the_lease_a_second_driver_stands_by() {
    let text = format!("{PLAIN}[ha]\nlease = true\n");
    let objects = printed(&text, WorkloadKind::Deployment);
    let rules = objects[1]["rules"].as_array().unwrap();
    let of_one = (rules.iter())
        .find(|rule| rule["resourceNames"].is_array())
        .unwrap();
    assert_eq!(of_one["resourceNames"], json!(["boatswain-driver"]));
    assert_eq!(of_one["verbs"], json!(["get", "watch", "update"]));
    let spec = &objects[4]["spec"];
    assert_eq!(spec["replicas"], 2);
    assert_eq!(spec["strategy"]["type"], "RollingUpdate");
    let generated =
        format!("{PLAIN}[backend]\nlisten = \"127.0.0.1:7078\"\n[tls]\ngenerate = true\n");
    assert_eq!(
        resources(&generated, WorkloadKind::Job),
        ["pods", "configmaps", "events", "jobs", "secrets", "secrets"]
    );
}

// spec: O-51
#[test]
fn a_configuration_that_cannot_run_in_a_pod_is_refused() {
    let job = options(WorkloadKind::Job);
    let outside = format!("{PLAIN}[cluster]\ncontext = \"mine\"\n");
    assert!(refused(&outside, &job).contains("leave them out"));
    let relative = format!("{PLAIN}[api]\nlisten = \"127.0.0.1:8080\"\ntoken_file = \"tokens\"\n");
    assert!(refused(&relative, &job).contains("absolute"));
    let elsewhere = Options {
        namespace: Some("b".to_owned()),
        ..options(WorkloadKind::Job)
    };
    let text = format!("{PLAIN}[cluster]\nnamespace = \"a\"\n");
    assert!(refused(&text, &elsewhere).contains("leave one of them out"));
}

const LISTENING: &str = "[backend]\nlisten = \"0.0.0.0:7078\"\nplain_http = true\nurl = \"http://driver:7078\"\n\
    [metrics]\nlisten = \"0.0.0.0:9090\"\n[probes]\nlisten = \"127.0.0.1:8086\"\n";

// spec: O-74
#[test]
fn only_executors_reach_the_sessions_and_no_loopback_port_is_opened() {
    let text = format!("{PLAIN}{LISTENING}");
    let with = Options {
        network_policy: true,
        pod_monitor: true,
        ..options(WorkloadKind::Deployment)
    };
    let objects = manifests(&config(&text), &text, &with).unwrap();
    let policy = &objects[5];
    is_typed::<NetworkPolicy>(policy);
    let executors = json!([{"podSelector": {"matchLabels": {"boatswain.dev/role": "executor"}}}]);
    assert_eq!(
        policy["spec"]["ingress"],
        json!([
            {"from": executors, "ports": [{"protocol": "TCP", "port": 7078}]},
            {"ports": [{"protocol": "TCP", "port": 9090}]},
        ])
    );
    assert_eq!(
        policy["spec"]["podSelector"],
        objects[4]["spec"]["selector"]
    );
    let monitor = &objects[6];
    assert_eq!(monitor["kind"], "PodMonitor");
    let port = &objects[4]["spec"]["template"]["spec"]["containers"][0]["ports"][0];
    assert_eq!(
        monitor["spec"]["podMetricsEndpoints"][0]["port"],
        port["name"]
    );
}

// spec: O-74
#[test]
fn a_pod_monitor_without_metrics_or_with_tokens_is_refused() {
    let with = Options {
        pod_monitor: true,
        ..options(WorkloadKind::Job)
    };
    assert!(refused(PLAIN, &with).contains("needs metrics.listen"));
    let tokens = "[metrics]\nlisten = \"0.0.0.0:9090\"\ntoken_file = \"/etc/s/metrics\"\n";
    assert!(refused(&format!("{PLAIN}{tokens}"), &with).contains("by hand"));
}

// spec: O-74
#[test]
fn only_drivers_that_stand_by_have_a_disruption_budget() {
    let lease = format!("{PLAIN}[ha]\nlease = true\n");
    let objects = printed(&lease, WorkloadKind::Deployment);
    is_typed::<PodDisruptionBudget>(&objects[5]);
    assert_eq!(objects[5]["spec"]["maxUnavailable"], 1);
    assert_eq!(
        objects[5]["spec"]["selector"],
        objects[4]["spec"]["selector"]
    );
    assert_eq!(printed(&lease, WorkloadKind::Job).len(), 5);
    assert_eq!(printed(PLAIN, WorkloadKind::Deployment).len(), 5);
}

// spec: O-74
#[test]
fn the_pod_has_the_priority_and_the_protection_that_are_asked_for() {
    let with = Options {
        priority_class: Some("high".to_owned()),
        do_not_disrupt: true,
        ..options(WorkloadKind::Job)
    };
    let objects = manifests(&config(PLAIN), PLAIN, &with).unwrap();
    is_typed::<Job>(&objects[4]);
    let pod = &objects[4]["spec"]["template"];
    assert_eq!(pod["spec"]["priorityClassName"], "high");
    let annotations = &pod["metadata"]["annotations"];
    assert_eq!(
        annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"],
        "false"
    );
    assert_eq!(annotations["karpenter.sh/do-not-disrupt"], "true");
}
