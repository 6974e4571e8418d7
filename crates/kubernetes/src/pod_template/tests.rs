use serde_json::Value;

use super::*;

mod injection;
mod memory;

pub(super) fn common() -> Common {
    Common {
        app_id: "etl-7f3a".into(),
        app_name: "Nightly ETL".to_owned(),
        namespace: "jobs".to_owned(),
        prefix: "etl".to_owned(),
        labels: LabelScheme::Boatswain,
        incarnation: Incarnation(3),
        record_uid: "record-uid".into(),
        driver_url: Some("http://driver:7070".to_owned()),
        token: None,
        agent: None,
        injection: None,
        protects: false,
        ca_file: None,
        config_map: None,
        avoid: Avoid::default(),
        preferred: Default::default(),
    }
}

fn fields(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn profile() -> ProfileSpec {
    ProfileSpec {
        container: fields(json!({
            "image": "busybox:1.36",
            "command": ["sleep"],
            "args": ["60"],
            "env": [{"name": "MODE", "value": "batch"}],
            "resources": {
                "requests": {"cpu": "500m", "memory": "1073741824"},
                "limits": {"cpu": "1500m"},
            },
        })),
        ..ProfileSpec::default()
    }
}

fn template(common: &Common, spec: ProfileSpec) -> Result<Template, TemplateError> {
    Template::new(common, &BTreeMap::from([("default".into(), spec)]))
}

fn pod(id: u64, common: &Common, spec: ProfileSpec) -> Value {
    let template = template(common, spec).unwrap();
    let body = template
        .pod(&"default".into(), ExecutorId::new(id).unwrap())
        .unwrap();
    serde_json::from_slice(&body.json).unwrap()
}

// spec: L-42
#[test]
fn where_busy_executors_are_protected_a_new_one_is() {
    let common = Common {
        protects: true,
        ..common()
    };
    let annotations = &pod(7, &common, profile())["metadata"]["annotations"];
    assert_eq!(annotations["karpenter.sh/do-not-disrupt"], "true");
    let safe = &annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"];
    assert_eq!(safe, "false");
}

// spec: K-2
#[test]
fn a_pod_has_the_fields_that_boatswain_owns() {
    let pod = pod(7, &common(), profile());
    assert_eq!(pod["metadata"]["name"], "etl-exec-7");
    assert_eq!(pod["metadata"]["namespace"], "jobs");
    assert_eq!(pod["spec"]["restartPolicy"], "Never");
    assert_eq!(pod["spec"]["containers"][0]["name"], "executor");
    let owner = &pod["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"]),
        (&json!("ConfigMap"), &json!("etl-app"))
    );
    assert_eq!(
        (&owner["uid"], &owner["controller"]),
        (&json!("record-uid"), &json!(true))
    );
}

// spec: K-3
#[test]
fn a_pod_bears_the_labels_of_its_scheme() {
    let boatswain = &pod(7, &common(), profile())["metadata"]["labels"];
    for (key, value) in [
        ("boatswain.dev/app-id", "etl-7f3a"),
        ("boatswain.dev/role", "executor"),
        ("boatswain.dev/executor-id", "7"),
        ("boatswain.dev/profile", "default"),
        ("boatswain.dev/incarnation", "3"),
        ("app.kubernetes.io/name", "Nightly-ETL"),
        ("app.kubernetes.io/instance", "etl-7f3a"),
        ("app.kubernetes.io/component", "executor"),
        ("app.kubernetes.io/managed-by", "boatswain"),
        ("app.kubernetes.io/version", env!("CARGO_PKG_VERSION")),
    ] {
        assert_eq!(boatswain[key], value, "{key}");
    }
    let common = Common {
        labels: LabelScheme::Spark,
        ..common()
    };
    let spark = &pod(7, &common, profile())["metadata"]["labels"];
    assert_eq!(spark["spark-app-selector"], "etl-7f3a");
    assert_eq!(spark["spark-role"], "executor");
    assert_eq!(spark["spark-exec-id"], "7");
    assert_eq!(spark["boatswain.dev/app-id"], Value::Null);
}

// spec: K-4
#[test]
fn the_environment_identifies_the_executor() {
    let pod = pod(7, &common(), profile());
    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let var = |name: &str| env.iter().find(|var| var["name"] == name).unwrap();
    for (name, value) in [
        ("BOATSWAIN_APP_ID", "etl-7f3a"),
        ("BOATSWAIN_EXECUTOR_ID", "7"),
        ("BOATSWAIN_PROFILE", "default"),
        ("BOATSWAIN_DRIVER_URL", "http://driver:7070"),
        ("BOATSWAIN_CORES", "2"),
        ("BOATSWAIN_MEMORY_BYTES", "1073741824"),
        ("MODE", "batch"),
    ] {
        assert_eq!(var(name)["value"], value, "{name}");
    }
    for (name, path) in [
        ("BOATSWAIN_POD_NAME", "metadata.name"),
        ("BOATSWAIN_POD_UID", "metadata.uid"),
        ("BOATSWAIN_POD_IP", "status.podIP"),
    ] {
        assert_eq!(var(name)["valueFrom"]["fieldRef"]["fieldPath"], path);
    }
    assert_eq!(
        env.last().unwrap()["name"],
        "MODE",
        "so that it may refer to the others"
    );
}

// spec: K-5
#[test]
fn a_pod_has_the_fields_of_its_profile() {
    let spec = ProfileSpec {
        pod: fields(json!({"nodeSelector": {"disk": "ssd"}, "priorityClassName": "low"})),
        spread: vec![json!({"topologyKey": "zone", "maxSkew": 1})],
        termination_grace: Some(Duration::from_millis(1_500)),
        ..profile()
    };
    let pod = &pod(7, &common(), spec)["spec"];
    assert_eq!(pod["nodeSelector"], json!({"disk": "ssd"}));
    assert_eq!(pod["priorityClassName"], "low");
    assert_eq!(pod["terminationGracePeriodSeconds"], 2);
    let selector = json!({"matchLabels": {
        "boatswain.dev/app-id": "etl-7f3a", "boatswain.dev/profile": "default",
    }});
    let spread = json!([{"topologyKey": "zone", "maxSkew": 1, "labelSelector": selector}]);
    assert_eq!(pod["topologySpreadConstraints"], spread);
    let plain = &self::pod(7, &common(), ProfileSpec::default())["spec"];
    assert_eq!(plain["containers"][0].get("resources"), None);
    assert_eq!(plain.get("terminationGracePeriodSeconds"), None);
}

// spec: K-4, K-5
#[test]
fn the_memory_variable_is_the_profiles_own_value() {
    let spec = ProfileSpec {
        memory_bytes: Some(1_000_000),
        ..profile()
    };
    let pod = pod(7, &common(), spec);
    let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
    let told = env
        .iter()
        .find(|var| var["name"] == "BOATSWAIN_MEMORY_BYTES");
    assert_eq!(told.unwrap()["value"], "1000000");
}

fn base() -> Value {
    json!({
        "metadata": {"labels": {"team": "data", "tier": "low"}, "annotations": {"a": "template"}},
        "spec": {
            "nodeSelector": {"disk": "hdd", "zone": "a"},
            "priorityClassName": "high",
            "securityContext": {"runAsUser": 7},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "volumes": [{"name": "spill", "emptyDir": {}}, {"name": "data", "hostPath": {"path": "/a"}}],
            "initContainers": [{"name": "first", "image": "first:1"}],
            "containers": [
                {"name": "proxy", "image": "proxy:1"},
                {
                    "name": "executor",
                    "image": "template:1",
                    "env": [{"name": "MODE", "value": "template"}, {"name": "TZ", "value": "UTC"}],
                    "resources": {"limits": {"cpu": "4", "memory": "8Gi"}},
                    "volumeMounts": [{"name": "spill", "mountPath": "/spill"}],
                    "lifecycle": {"postStart": {"exec": {"command": ["a"]}}},
                },
            ],
        },
    })
}

// spec: K-1
#[test]
fn a_profile_overrides_the_template_and_named_lists_are_combined() {
    let mut spec = ProfileSpec {
        base: base(),
        labels: BTreeMap::from([("tier".to_owned(), "high".to_owned())]),
        annotations: BTreeMap::from([("b".to_owned(), "profile".to_owned())]),
        pod: fields(json!({
            "nodeSelector": {"disk": "ssd"},
            "priorityClassName": "low",
            "tolerations": [{"key": "gpu", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}],
            "volumes": [{"name": "data", "hostPath": {"path": "/b"}}, {"name": "keys", "secret": {"secretName": "k"}}],
        })),
        ..profile()
    };
    let mounts = json!([{"name": "keys", "mountPath": "/keys"}]);
    spec.container.insert("volumeMounts".to_owned(), mounts);
    let pre_stop = json!({"preStop": {"exec": {"command": ["b"]}}});
    spec.container.insert("lifecycle".to_owned(), pre_stop);
    let pod = pod(7, &common(), spec);
    let metadata = &pod["metadata"];
    assert_eq!(
        (&metadata["labels"]["team"], &metadata["labels"]["tier"]),
        (&json!("data"), &json!("high"))
    );
    assert_eq!(metadata["labels"]["boatswain.dev/executor-id"], "7");
    assert_eq!(
        metadata["annotations"],
        json!({"a": "template", "b": "profile"})
    );
    let spec = &pod["spec"];
    assert_eq!(spec["nodeSelector"], json!({"disk": "ssd", "zone": "a"}));
    assert_eq!(spec["priorityClassName"], "low");
    assert_eq!(spec["securityContext"]["runAsUser"], 7);
    assert_eq!(
        spec["tolerations"],
        json!([{"key": "gpu", "operator": "Exists"}, {"key": "spot", "operator": "Exists"}])
    );
    assert_eq!(
        spec["volumes"],
        json!([
            {"name": "spill", "emptyDir": {}},
            {"name": "data", "hostPath": {"path": "/b"}},
            {"name": "keys", "secret": {"secretName": "k"}},
        ])
    );
    assert_eq!(spec["initContainers"][0]["image"], "first:1");
    assert_eq!(spec["containers"][0]["name"], "proxy");
    let executor = &spec["containers"][1];
    assert_eq!(executor["image"], "busybox:1.36", "the profile's wins");
    let env: Vec<(&str, &str)> = (executor["env"].as_array().unwrap().iter())
        .filter(|var| !var["name"].as_str().unwrap().starts_with("BOATSWAIN_"))
        .map(|var| {
            (
                var["name"].as_str().unwrap(),
                var["value"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(env, [("MODE", "batch"), ("TZ", "UTC")]);
    assert_eq!(
        executor["resources"],
        json!({
            "requests": {"cpu": "500m", "memory": "1073741824"},
            "limits": {"cpu": "1500m", "memory": "8Gi"},
        })
    );
    assert_eq!(executor["volumeMounts"].as_array().unwrap().len(), 2);
    assert_eq!(
        executor["lifecycle"],
        json!({"postStart": {"exec": {"command": ["a"]}}, "preStop": {"exec": {"command": ["b"]}}})
    );
}

// spec: K-1, K-2
#[test]
fn a_template_without_a_container_for_the_executor_gets_one() {
    let spec = ProfileSpec {
        base: json!({"spec": {"hostNetwork": true}}),
        ..profile()
    };
    let pod = pod(7, &common(), spec);
    assert_eq!(pod["spec"]["hostNetwork"], true);
    assert_eq!(pod["spec"]["containers"][0]["image"], "busybox:1.36");
}

// spec: K-1
#[test]
fn a_profiles_pod_security_context_overrides_the_templates_containers() {
    let own = json!({"runAsUser": 0, "runAsGroup": 5, "runAsNonRoot": false, "readOnlyRootFilesystem": true});
    let containers = json!([
        {"name": "executor", "securityContext": own},
        {"name": "other", "securityContext": {"runAsUser": 7}},
    ]);
    let spec = ProfileSpec {
        base: json!({"spec": {"containers": containers}}),
        pod: fields(json!({"securityContext": {"runAsUser": 1000, "runAsNonRoot": true}})),
        ..profile()
    };
    let spec = pod(7, &common(), spec)["spec"].clone();
    assert_eq!(spec["securityContext"]["runAsUser"], 1000);
    let context = &spec["containers"][0]["securityContext"];
    for field in ["runAsUser", "runAsNonRoot"] {
        assert_eq!(context[field], Value::Null, "{field}");
    }
    assert_eq!(
        context["runAsGroup"], 5,
        "of which the profile says nothing"
    );
    assert_eq!(context["readOnlyRootFilesystem"], true);
    let other = &spec["containers"][1]["securityContext"];
    assert_eq!(
        other["runAsUser"], 7,
        "only the executor's is the profile's"
    );
}

// spec: K-1, A-11
#[test]
fn only_the_id_differs_whatever_texts_a_profile_has() {
    let args = json!(["@0@", "@1@@", "@0", "0@", "7", "\u{0}\"\\"]);
    let mut spec = profile();
    spec.container.insert("args".to_owned(), args.clone());
    let pod_of = |id| pod(id, &common(), spec.clone());
    assert_eq!(pod_of(7)["spec"]["containers"][0]["args"], args);
    let seven = pod_of(7).to_string();
    let other = pod_of(9_223_372_036_854_775_807).to_string();
    assert_eq!(
        seven
            .replace("etl-exec-7", "etl-exec-9223372036854775807")
            .replace(
                "executor-id\":\"7\"",
                "executor-id\":\"9223372036854775807\""
            )
            .replace(
                "EXECUTOR_ID\",\"value\":\"7\"",
                "EXECUTOR_ID\",\"value\":\"9223372036854775807\""
            ),
        other
    );
    let template = template(&common(), profile()).unwrap();
    assert_eq!(template.pod(&"another".into(), ExecutorId::FIRST), None);
}

// spec: K-1, K-4, K-5
#[test]
fn what_the_api_server_would_refuse_is_refused_here() {
    for bad in ["", "no spaces", "-x", &"x".repeat(64)] {
        let common = Common {
            app_id: bad.into(),
            ..common()
        };
        let refused = template(&common, profile()).unwrap_err();
        assert!(matches!(refused, TemplateError::Label { .. }), "{bad}");
    }
    let mut owned = profile();
    let env = json!([{"name": "BOATSWAIN_APP_ID", "value": "mine"}]);
    owned.container.insert("env".to_owned(), env);
    assert_eq!(
        template(&common(), owned).unwrap_err().to_string(),
        "profile default: env BOATSWAIN_APP_ID is boatswain's own"
    );
    // The template's limit, and the profile's request.
    let above = ProfileSpec {
        base: json!({"spec": {"containers": [{"name": "executor", "resources": {"limits": {"memory": "1G"}}}]}}),
        ..profile()
    };
    assert_eq!(
        template(&common(), above).unwrap_err().to_string(),
        "profile default: the memory request, 1073741824, is above the limit, 1G"
    );
}

// spec: K-15
#[test]
fn the_end_of_a_failed_programs_output_is_wanted_in_its_status_unless_the_template_says_otherwise()
{
    let policy = |spec| {
        let pod = pod(7, &common(), spec);
        pod["spec"]["containers"][0]["terminationMessagePolicy"].clone()
    };
    assert_eq!(policy(profile()), "FallbackToLogsOnError");
    let container = json!({"name": "executor", "terminationMessagePolicy": "File"});
    let of_file = ProfileSpec {
        base: json!({"spec": {"containers": [container]}}),
        ..profile()
    };
    assert_eq!(policy(of_file), "File");
}

// spec: K-5
#[test]
fn a_request_above_its_limit_is_refused_whatever_their_units() {
    let units = ["", "k", "M", "G", "T", "P", "E"].windows(2);
    let binary = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"].windows(2);
    for pair in units.chain(binary) {
        let (request, limit) = (format!("1{}", pair[1]), format!("2{}", pair[0]));
        let resources = json!({"requests": {"memory": request}, "limits": {"memory": limit}});
        let container = json!({"name": "sidecar", "resources": resources});
        let above = ProfileSpec {
            base: json!({"spec": {"containers": [container]}}),
            ..profile()
        };
        assert_eq!(
            template(&common(), above).unwrap_err().to_string(),
            format!("profile default: the memory request, {request}, is above the limit, {limit}")
        );
    }
}

fn with_a_claim() -> ProfileSpec {
    ProfileSpec {
        claims: vec![ClaimSpec {
            template: boatswain_model::claims::ClaimTemplate {
                volume: "data".into(),
                shape: boatswain_model::claims::ClaimShape {
                    bytes: 1 << 30,
                    ..Default::default()
                },
                owner: boatswain_model::claims::ClaimOwner::Application,
                labels: BTreeMap::new(),
                annotations: BTreeMap::new(),
            },
            mount_path: "/data".to_owned(),
        }],
        ..profile()
    }
}

// spec: K-8, K-10
#[test]
fn a_pod_mounts_the_application_s_map_and_claims_of_its_own() {
    let common = Common {
        config_map: Some("/etc/boatswain".to_owned()),
        token: Some(TokenSource::Projected {
            audience: "a".to_owned(),
        }),
        ..common()
    };
    let pod = pod(7, &common, with_a_claim());
    let volumes = pod["spec"]["volumes"].as_array().unwrap();
    let names: Vec<_> = volumes.iter().map(|volume| &volume["name"]).collect();
    assert_eq!(names, ["boatswain-token", "boatswain-config", "data"]);
    assert_eq!(volumes[1]["configMap"]["name"], "etl-executor");
    let claim = &volumes[2]["persistentVolumeClaim"]["claimName"];
    assert_eq!(claim, "etl-exec-7-data");
    let mounts = &pod["spec"]["containers"][0]["volumeMounts"];
    assert_eq!(mounts[1]["mountPath"], "/etc/boatswain");
    assert_eq!(mounts[1]["readOnly"], true);
    assert_eq!(mounts[2], json!({"name": "data", "mountPath": "/data"}));
}

// spec: A-60
#[test]
fn a_reused_claim_is_mounted_instead_of_a_new_one() {
    let template = template(&common(), with_a_claim()).unwrap();
    let body = || template.pod(&"default".into(), ExecutorId::FIRST).unwrap();
    let left = boatswain_model::claims::PodClaim {
        volume: "data".into(),
        name: "etl-exec-3-data".into(),
    };
    let given: Value = serde_json::from_slice(&body().with_claims(&[left]).json).unwrap();
    let mut expected: Value = serde_json::from_slice(&body().json).unwrap();
    expected["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] = "etl-exec-3-data".into();
    assert_eq!(given, expected, "and nothing else is another");
    assert_eq!(body().with_claims(&[]), body());
}
