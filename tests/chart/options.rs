//! What the chart's values add to the objects of `boatswain manifests`, and what they refuse.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::{Helm, objects_of, of_kind, plain, with};

/// A configuration whose API other pods reach.
fn served() -> Value {
    let mut config = with(
        "api",
        json!({
            "listen": "0.0.0.0:7117", "token_file": "/etc/boatswain-secrets/tokens", "plain_http": true,
        }),
    );
    config["metrics"] = json!({"listen": "0.0.0.0:9090"});
    config["ha"] = json!({"lease": true});
    config
}

fn kinds(objects: &[Value]) -> BTreeSet<&str> {
    let kinds = objects.iter().map(|object| object["kind"].as_str());
    kinds.map(Option::unwrap).collect()
}

/// Whether the selector finds a pod with these labels.
fn finds(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.as_object().unwrap();
    wanted.iter().all(|(key, value)| &labels[key] == value)
}

// spec: O-136
#[test]
fn a_budget_and_a_monitor_find_the_drivers_pods() {
    for helm in Helm::all() {
        let objects = helm.objects(&json!({
            "config": served(),
            "metrics": {"podMonitor": {"enabled": true, "labels": {"release": "p"}}},
        }));
        let selector = &of_kind(&objects, "Deployment")["spec"]["selector"];
        for kind in ["PodDisruptionBudget", "PodMonitor"] {
            let found = &of_kind(&objects, kind)["spec"]["selector"];
            assert_eq!(found, selector, "{kind}");
        }
        let monitor = of_kind(&objects, "PodMonitor");
        assert_eq!(monitor["metadata"]["labels"]["release"], "p");
        let endpoint = json!([{"port": "metrics", "path": "/metrics", "interval": "30s"}]);
        assert_eq!(monitor["spec"]["podMetricsEndpoints"], endpoint);
    }
}

// spec: O-136
#[test]
fn a_policy_limits_who_calls_and_what_is_called_where_the_values_say_so() {
    let peers = json!([{"namespaceSelector": {}}]);
    for helm in Helm::all() {
        let policy = |values: Value| {
            let objects = helm.objects(&json!({"config": served(), "networkPolicy": values}));
            of_kind(&objects, "NetworkPolicy")["spec"].clone()
        };
        let limited = policy(json!({"enabled": true, "apiFrom": peers, "egress": []}));
        assert_eq!(limited["policyTypes"], json!(["Ingress"]));
        assert_eq!(limited["egress"], Value::Null);
        let api = json!({"ports": [{"protocol": "TCP", "port": 7117}], "from": peers});
        assert_eq!(limited["ingress"][0], api);
        let other = policy(json!({"enabled": true, "egress": [{"to": peers}]}));
        assert_eq!(other["egress"], json!([{"to": peers}]));
    }
}

// spec: O-136
#[test]
fn a_service_an_ingress_and_a_route_lead_to_the_active_drivers_api() {
    for helm in Helm::all() {
        let objects = helm.objects(&json!({
            "config": served(),
            "service": {"enabled": true, "port": 80},
            "ingress": {
                "enabled": true, "className": "public",
                "hosts": [{"host": "etl.example.com", "paths": [{"path": "/", "pathType": "Prefix"}]}],
            },
            "httpRoute": {"enabled": true, "parentRefs": [{"name": "gateway"}]},
        }));
        let service = of_kind(&objects, "Service");
        let name = &service["metadata"]["name"];
        let pod = &of_kind(&objects, "Deployment")["spec"]["template"]["metadata"]["labels"];
        let mut active = pod.clone();
        active["boatswain.dev/active"] = "true".into();
        let selector = &service["spec"]["selector"];
        assert!(
            finds(selector, &active) && !finds(selector, pod),
            "{service}"
        );
        let port = json!([{"name": "api", "port": 80, "targetPort": 7117, "appProtocol": "http"}]);
        assert_eq!(service["spec"]["ports"], port);
        let ingress = &of_kind(&objects, "Ingress")["spec"];
        let backend = json!({"service": {"name": name, "port": {"name": "api"}}});
        assert_eq!(ingress["rules"][0]["http"]["paths"][0]["backend"], backend);
        assert_eq!(ingress["ingressClassName"], "public");
        let route = &of_kind(&objects, "HTTPRoute")["spec"]["rules"][0];
        assert_eq!(route["backendRefs"], json!([{"name": name, "port": 80}]));
        assert_eq!(route["matches"][0]["path"]["value"], "/");
    }
}

// spec: O-136
#[test]
fn the_secret_is_generated_or_one_that_exists() {
    for helm in Helm::all() {
        let generated = || helm.objects(&json!({"config": served(), "secret": {"create": true}}));
        let (one, two) = (generated(), generated());
        let (secret, other) = (of_kind(&one, "Secret"), of_kind(&two, "Secret"));
        let mounted = |objects: &[Value]| {
            let pod = &of_kind(objects, "Deployment")["spec"]["template"]["spec"];
            pod["volumes"][1]["secret"]["secretName"].clone()
        };
        assert_eq!(mounted(&one), secret["metadata"]["name"]);
        // 48 random letters and digits in Base64.
        assert_eq!(secret["data"]["tokens"].as_str().unwrap().len(), 64);
        assert_ne!(secret["data"]["tokens"], other["data"]["tokens"]);
        let named =
            helm.objects(&json!({"config": served(), "secret": {"existingSecret": "mine"}}));
        assert_eq!(mounted(&named), "mine");
        assert!(!kinds(&named).contains("Secret"));
    }
}

// spec: O-136
#[test]
fn the_pod_has_what_the_values_add_and_a_cluster_may_choose_its_user() {
    let digest = format!("sha256:{}", "0f".repeat(32));
    let volume = json!({"name": "templates", "configMap": {"name": "templates"}});
    let mount = json!({"name": "templates", "mountPath": "/etc/templates"});
    let from = json!({"secretRef": {"name": "more"}});
    for helm in Helm::all() {
        let objects = helm.objects(&json!({
            "config": served(),
            "image": {"repository": "registry.example/boatswain", "tag": "7", "digest": digest},
            "commonLabels": {"team": "data"},
            "podAnnotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
            "extraEnv": [{"name": "A", "value": "b"}],
            "extraEnvFrom": [from],
            "extraVolumes": [volume],
            "extraVolumeMounts": [mount],
            "podSecurityContext": {"runAsUser": null, "runAsGroup": null},
            "securityContext": {"readOnlyRootFilesystem": false},
            "priorityClassName": "high",
        }));
        for object in &objects {
            assert_eq!(object["metadata"]["labels"]["team"], "data", "{object}");
        }
        let driver = &of_kind(&objects, "Deployment")["spec"];
        assert_eq!(driver["selector"]["matchLabels"]["team"], Value::Null);
        let pod = &driver["template"];
        assert_eq!(pod["metadata"]["labels"]["team"], "data");
        assert_eq!(pod["metadata"]["annotations"].as_object().unwrap().len(), 2);
        let pod = &pod["spec"];
        let security = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        assert_eq!(pod["securityContext"], security);
        assert_eq!(pod["priorityClassName"], "high");
        assert_eq!(pod["volumes"][2], volume);
        let container = &pod["containers"][0];
        assert_eq!(
            container["image"],
            format!("registry.example/boatswain@{digest}")
        );
        assert_eq!(container["env"][1]["name"], "A");
        assert_eq!(container["envFrom"], json!([from]));
        assert_eq!(container["volumeMounts"][2], mount);
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], false);
        assert_eq!(security["allowPrivilegeEscalation"], false);
    }
}

// spec: O-136
#[test]
fn hooks_check_the_configuration_and_test_the_release_beside_the_drivers_pods() {
    for helm in Helm::all() {
        let values = json!({"config": served(), "check": {"enabled": true}});
        let objects = helm.objects(&values);
        let checks = helm.hooks("pre-install,pre-upgrade", &values);
        let tests = helm.hooks("test", &values);
        assert_eq!(kinds(&checks), BTreeSet::from(["ConfigMap", "Job"]));
        assert_eq!(kinds(&tests), BTreeSet::from(["Pod", "Service"]));
        assert_eq!(file(&checks), file(&objects));
        let check = &of_kind(&checks, "Job")["spec"]["template"];
        assert_eq!(check["spec"]["containers"][0]["args"][0], "check");
        let test = of_kind(&tests, "Pod");
        let selector = &of_kind(&objects, "Deployment")["spec"]["selector"]["matchLabels"];
        for pod in [check, test] {
            assert!(!finds(selector, &pod["metadata"]["labels"]), "{pod}");
        }
        assert_eq!(&of_kind(&tests, "Service")["spec"]["selector"], selector);
        assert!(asks(test).contains(":7080/readyz"), "{test}");

        let without = |config: Value| {
            let values = json!({"config": config, "fullnameOverride": "driver"});
            helm.hooks("test", &values)
        };
        let mut served = served();
        served["probes"] = json!({"listen": null});
        let tests = without(served);
        let url = "http://driver-test.jobs.svc:7117/readyz";
        assert!(asks(of_kind(&tests, "Pod")).contains(url));
        let mut silent = plain();
        silent["probes"] = json!({"listen": "127.0.0.1:7080"});
        assert!(without(silent).is_empty());
    }
}

#[test]
fn names_that_yaml_takes_for_something_else_stay_names() {
    let values = json!({
        "config": served(),
        "fullnameOverride": "1e3",
        "nameOverride": "on",
        "serviceAccount": {"name": "0x1"},
        "service": {"enabled": true},
        "networkPolicy": {"enabled": true},
        "secret": {"create": true},
        "check": {"enabled": true},
        "metrics": {"podMonitor": {"enabled": true}, "dashboard": {"enabled": true}},
    });
    for helm in Helm::all() {
        for object in objects_of(helm.render_as("y", "123", &values)) {
            let metadata = &object["metadata"];
            assert!(metadata["namespace"].is_null() || metadata["namespace"] == "123");
            assert!(all_named(&object), "{object}");
        }
    }
}

/// Whether each name and each of Kubernetes' labels in there is a text.
fn all_named(value: &Value) -> bool {
    let is_name = |key: &str| {
        let names = [
            "name",
            "namespace",
            "serviceName",
            "serviceAccountName",
            "secretName",
        ];
        names.contains(&key) || key.starts_with("app.kubernetes.io/")
    };
    match value {
        Value::Object(map) => (map.iter())
            .all(|(key, value)| all_named(value) && (!is_name(key) || value.is_string())),
        Value::Array(list) => list.iter().all(all_named),
        _ => true,
    }
}

/// The configuration file.
fn file(objects: &[Value]) -> &Value {
    &of_kind(objects, "ConfigMap")["data"]
}

/// The command by which the test asks.
fn asks(pod: &Value) -> &str {
    let command = &pod["spec"]["containers"][0]["command"];
    command[2].as_str().unwrap()
}

// spec: O-136
#[test]
fn alerts_and_dashboard_are_those_of_the_charts_files() {
    let read = |name: &str| fs::read_to_string(format!("deploy/chart/files/{name}")).unwrap();
    let alerts = read("alerts.yaml").replace("job=~\".+\"", "job=\"jobs/driver\"");
    let alerts: Value = serde_saphyr::from_str(&alerts).unwrap();
    for helm in Helm::all() {
        let objects = |kind: &str| {
            helm.objects(&json!({
                "config": served(), "fullnameOverride": "driver", "kind": kind,
                "metrics": {
                    "podMonitor": {"enabled": true}, "prometheusRule": {"enabled": true},
                    "dashboard": {"enabled": true},
                },
            }))
        };
        let made = objects("deployment");
        assert_eq!(of_kind(&made, "PrometheusRule")["spec"], alerts);
        let dashboard = made.iter().find(|object| {
            let labels = &object["metadata"]["labels"];
            labels["grafana_dashboard"] == "1"
        });
        let text = dashboard.unwrap()["data"]["boatswain.json"].as_str();
        assert_eq!(text.unwrap().trim_end(), read("grafana.json").trim_end());
        // Nobody is to be told that a Job is over.
        let made = objects("job");
        let rules = &of_kind(&made, "PrometheusRule")["spec"]["groups"][0]["rules"];
        let all = &alerts["groups"][0]["rules"];
        assert_eq!(
            rules.as_array().unwrap(),
            &all.as_array().unwrap()[1..],
            "all but the first"
        );
    }
}

// spec: O-136
#[test]
fn what_cannot_be_is_refused() {
    let two = json!({
        "api": {"listen": "127.0.0.1:7117", "token_file": "/etc/one/tokens"}, "backend": {"key_file": "/etc/two/key"},
    });
    let token = json!({"api": {"token_file": "/etc/secret/tokens"}});
    for helm in Helm::all() {
        for (wrong, why) in [
            (
                json!({"metrics": {"podMonitor": {"enabled": true}}}),
                "config.metrics.listen",
            ),
            (
                json!({"metrics": {"prometheusRule": {"enabled": true}}}),
                "metrics.podMonitor.enabled",
            ),
            (json!({"config": {"app": "etl"}}), "/config/app"),
            (
                json!({"config": {"profiles": {"default": {"image_pull_policy": "Always"}}}}),
                "image_pull_policy",
            ),
            (
                json!({"config": {"app": {"name": "--"}}}),
                "config.executors.pod_name_prefix",
            ),
            (json!({"config": two}), "one directory"),
            (json!({"fullnameOverride": "etl-app"}), "fullnameOverride"),
            (json!({"service": {"enabled": true}}), "config.api.listen"),
            (json!({"ingress": {"enabled": true}}), "service.enabled"),
            (json!({"httpRoute": {"enabled": true}}), "service.enabled"),
            (json!({"secret": {"create": true}}), "config.api.token_file"),
            (
                json!({"config": token, "secret": {"create": true, "existingSecret": "a"}}),
                "set one of them",
            ),
        ] {
            let refused = helm.render(&wrong);
            assert!(!refused.status.success(), "{wrong}");
            let said = String::from_utf8(refused.stderr).unwrap();
            assert!(said.contains(why), "{said}");
        }
    }
}
