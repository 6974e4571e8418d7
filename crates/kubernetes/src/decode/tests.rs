//! Pods as real clusters report them, and malformed pods.

mod lost_containers;
mod restarts;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use boatswain_model::PodState;
use boatswain_model::pod::ContainerState;

const REAL: &str = include_str!("../../../../benches/fixtures/pod.json");

fn reader() -> PodReader {
    PodReader {
        app_id: "etl-7f3a".into(),
        prefix: "etl".into(),
        record: "etl-app".into(),
        labels: LabelScheme::Boatswain,
        container: "executor".into(),
        check_all_containers: false,
        of_sets: false,
    }
}

fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut pod: Value = serde_json::from_str(REAL).unwrap();
    change(&mut pod);
    pod.to_string()
}

fn read(json: &str) -> Pod {
    match reader().read(json) {
        Sighting::Read(pod) => (*pod).clone(),
        Sighting::Unreadable(part) => panic!("unreadable: {part:?}"),
    }
}

fn unreadable(json: &str) -> Unreadable {
    match reader().read(json) {
        Sighting::Unreadable(part) => part,
        Sighting::Read(pod) => panic!("read: {pod:?}"),
    }
}

fn identity(change: impl FnOnce(&mut Value)) -> PodIdentity {
    read(&changed(change)).identity
}

// spec: E-1, E-14
#[test]
fn a_real_pod_is_read_as_what_it_is() {
    let pod = read(REAL);
    assert_eq!(
        pod.identity,
        PodIdentity::Executor {
            id: ExecutorId::new(42).unwrap(),
            profile: Some("default".into()),
            incarnation: Some(Incarnation(3)),
        }
    );
    assert_eq!(pod.state(), PodState::Running);
    assert_eq!(pod.version, ResourceVersion::from(81_734));
    assert_eq!(pod.node.as_deref(), Some("worker-7"));
    assert_eq!(pod.scheduling, Scheduling::Bound);
    assert_eq!(pod.deletion_cost, -5);
    assert_eq!(
        pod.owner,
        Some("0b1f6f1e-6f83-4a4b-9a53-2f1b7a4f1c11".into())
    );
    let started = "2026-03-01T10:15:32Z".parse().ok();
    assert_eq!(pod.executor, ContainerState::Running { started });
}

// spec: B-68, B-53
#[test]
fn the_addresses_of_the_pod_and_of_its_node_are_read() {
    let pod = read(&changed(|pod| {
        pod["status"]["podIP"] = "10.0.3.17".into();
        pod["status"]["hostIP"] = "fd00::4".into();
    }));
    let addresses = [pod.ip, pod.host_ip].map(|ip| ip.unwrap().to_string());
    assert_eq!(addresses, ["10.0.3.17", "fd00::4"]);
    let none = read(&changed(|pod| pod["status"]["hostIP"] = "none".into()));
    assert_eq!(none.host_ip, None);
}

// spec: E-1, K-3
#[test]
fn a_pod_without_one_of_our_labels_is_foreign_and_the_label_is_named() {
    let keys = LabelScheme::Boatswain.keys();
    for (key, value) in [
        (keys.app_id, json!("another")),
        (keys.app_id, Value::Null),
        (keys.role, json!("driver")),
        (keys.inactive, json!("true")),
    ] {
        let foreign = identity(|pod| pod["metadata"]["labels"][key] = value.clone());
        assert_eq!(
            foreign,
            PodIdentity::Foreign { label: key.into() },
            "{value}"
        );
    }
    let bare = identity(|pod| pod["metadata"]["labels"] = Value::Null);
    assert_eq!(
        bare,
        PodIdentity::Foreign {
            label: keys.app_id.into()
        }
    );
    let awake = identity(|pod| pod["metadata"]["labels"][keys.inactive] = json!("false"));
    assert!(awake.executor().is_some());
}

// spec: E-2
#[test]
fn a_pod_without_a_readable_id_or_under_another_name_is_an_unrecognised_pod() {
    let keys = LabelScheme::Boatswain.keys();
    let huge = "9".repeat(3_000_000);
    for id in [
        "-1",
        "0x7",
        "",
        "042",
        " 42",
        "9223372036854775808",
        huge.as_str(),
    ] {
        let found = identity(|pod| pod["metadata"]["labels"][keys.executor_id] = json!(id));
        let PodIdentity::Unrecognised { why } = found else {
            panic!("{id:.20}: {found:?}");
        };
        assert!(why.len() <= boatswain_model::pod::MAX_TEXT_BYTES);
    }
    let missing = identity(|pod| pod["metadata"]["labels"][keys.executor_id] = Value::Null);
    assert!(matches!(missing, PodIdentity::Unrecognised { .. }));
    for name in [
        "etl-exec-43",
        "etl-exec-042",
        "other-exec-42",
        "etl-exec-42-x",
    ] {
        let found = identity(|pod| pod["metadata"]["name"] = json!(name));
        assert!(matches!(found, PodIdentity::Unrecognised { .. }), "{name}");
    }
}

// spec: K-3
#[test]
fn with_sparks_labels_sparks_keys_are_read() {
    let spark = PodReader {
        labels: LabelScheme::Spark,
        ..reader()
    };
    let json = changed(|pod| {
        pod["metadata"]["labels"] = json!({
            "spark-app-selector": "etl-7f3a", "spark-role": "executor", "spark-exec-id": "42",
            "spark-exec-resourceprofile-id": "0",
        });
    });
    let Sighting::Read(pod) = spark.read(&json) else {
        panic!("unreadable");
    };
    assert_eq!(pod.identity.executor(), ExecutorId::new(42));
}

// spec: E-12, E-13
#[test]
fn the_executor_container_is_found_by_name_else_it_is_the_first() {
    let ended = |code: i64| json!({"terminated": {"exitCode": code}});
    let running = json!({"running": {}});
    let with = |statuses: Value| {
        read(&changed(|pod| {
            pod["status"]["containerStatuses"] = statuses
        }))
    };
    // Kubelets sort by name, so the executor's status may not come first.
    let pod = with(json!([
        {"name": "a-proxy", "state": running},
        {"name": "executor", "state": ended(3)},
    ]));
    assert_eq!((pod.state(), pod.exit_code()), (PodState::Failed, Some(3)));
    let pod = with(json!([{"name": "a-proxy", "state": ended(3)}]));
    assert_eq!(
        pod.executor,
        ContainerState::Absent,
        "another one's state is not its"
    );
    let unassigned = read(&changed(|pod| {
        pod["spec"]["containers"] = json!([{"name": "main"}, {"name": "a-proxy"}]);
        pod["status"]["containerStatuses"] = json!([
            {"name": "a-proxy", "state": running},
            {"name": "main", "state": ended(0)},
        ]);
    }));
    assert_eq!(unassigned.state(), PodState::Succeeded);
}

// spec: E-12
#[test]
fn other_containers_decide_only_where_asked_for_and_nothing_restarts() {
    let strict = PodReader {
        check_all_containers: true,
        ..reader()
    };
    let json = |policy: &str| {
        changed(|pod| {
            pod["spec"]["restartPolicy"] = json!(policy);
            pod["status"]["containerStatuses"] = json!([
                {"name": "a-proxy", "state": {"terminated": {"exitCode": 9, "reason": "Error"}}},
                {"name": "executor", "state": {"running": {}}},
            ]);
        })
    };
    let failed = |reader: &PodReader, policy| match reader.read(&json(policy)) {
        Sighting::Read(pod) => pod.failed_sidecar.is_some(),
        Sighting::Unreadable(part) => panic!("{part:?}"),
    };
    assert!(failed(&strict, "Never"));
    assert!(!failed(&strict, "OnFailure"));
    assert!(!failed(&reader(), "Never"));
}

// spec: E-11, E-13
#[test]
fn malformed_statuses_are_read_as_far_as_possible() {
    let bare = read(&changed(|pod| pod["status"] = Value::Null));
    assert_eq!(
        (bare.state(), bare.phase),
        (PodState::Odd, Phase::Odd("".into()))
    );
    for code in [
        json!(99_999_999_999_i64),
        json!(-99_999_999_999_i64),
        Value::Null,
    ] {
        let pod = read(&changed(|pod| {
            pod["status"]["containerStatuses"][0]["state"] =
                json!({"terminated": {"exitCode": code, "reason": "OOMKilled"}});
        }));
        assert_eq!(
            (pod.state(), pod.exit_code()),
            (PodState::Failed, None),
            "never invented"
        );
    }
    let grace = read(&changed(|pod| {
        pod["metadata"]["deletionTimestamp"] = json!("soon");
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(-30);
    }));
    let unknown = Deletion {
        deadline: None,
        grace: None,
    };
    assert_eq!(
        (grace.state(), grace.deletion),
        (PodState::Terminating, Some(unknown))
    );
    let long = read(&changed(|pod| {
        pod["status"]["message"] = json!("x".repeat(1_000_000))
    }));
    assert!(long.message.is_some_and(|text| text.len() <= 256));
}

// spec: K-15
#[test]
fn of_what_a_failed_program_wrote_the_last_line_is_its_message_and_of_the_kubelets_words_all() {
    let message = |reason: &str, message: &str| {
        let pod = read(&changed(|pod| {
            pod["status"]["containerStatuses"][0]["state"] =
                json!({"terminated": {"exitCode": 1, "reason": reason, "message": message}});
        }));
        pod.termination().and_then(|end| end.message.clone())
    };
    let output = "Traceback:\n  line 3\r\nKeyError: 'x'\n\n";
    assert_eq!(message("Error", output).as_deref(), Some("KeyError: 'x'"));
    assert_eq!(message("Error", "\n \n"), None);
    let agent = |level: &str| format!(r#"{{"level":"{level}","module":"boatswain_agent::child"}}"#);
    let of_agent = format!("{output}{}\n", agent("info"));
    assert_eq!(
        message("Error", &of_agent).as_deref(),
        Some("KeyError: 'x'")
    );
    let error = agent("error");
    assert_eq!(message("Error", &error).as_deref(), Some(&*error));
    let refused = "cannot start:\nno such file";
    assert_eq!(message("StartError", refused).as_deref(), Some(refused));
}

// spec: A-40, A-50
#[test]
fn how_far_scheduling_has_come_is_read() {
    let pending = |change: &dyn Fn(&mut Value)| {
        read(&changed(|pod| {
            pod["spec"]["nodeName"] = Value::Null;
            pod["status"] = json!({"phase": "Pending"});
            change(pod);
        }))
        .scheduling
    };
    assert_eq!(pending(&|_| ()), Scheduling::Waiting(None));
    let gated = pending(&|pod| pod["spec"]["schedulingGates"] = json!([{"name": "gang"}]));
    assert_eq!(gated, Scheduling::Gated("gang".into()));
    let words = "0/3 nodes are available: 3 Insufficient cpu.";
    let unschedulable = pending(&|pod| {
        pod["status"]["conditions"] = json!([
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
        ]);
    });
    assert_eq!(unschedulable, Scheduling::Waiting(Some(words.into())));
}

// spec: O-79
#[test]
fn only_a_node_that_says_so_has_yet_to_prepare_the_pod() {
    let with = |condition: &str, status: &str| {
        let conditions = json!([{"type": condition, "status": status}]);
        read(&changed(|pod| pod["status"]["conditions"] = conditions)).awaits_node
    };
    assert!(with("PodReadyToStartContainers", "False"));
    assert!(!with("PodReadyToStartContainers", "True"));
    assert!(!with("Initialized", "False"));
}

// spec: L-20
#[test]
fn a_disruption_is_read_only_where_it_is_true() {
    let with = |status: &str| {
        read(&changed(|pod| {
            pod["status"]["conditions"] = json!([
                {"type": "DisruptionTarget", "status": status, "reason": "PreemptionByScheduler", "message": "m"}
            ]);
        }))
        .disruption
    };
    assert_eq!(
        with("True").map(|d| d.reason),
        Some("PreemptionByScheduler".into())
    );
    assert_eq!(with("False"), None);
}

// spec: S-15
#[test]
fn an_undecodable_pod_keeps_the_parts_that_can_be_decoded() {
    for (place, wrong) in [
        ("/metadata/labels", json!(["no", "map"])),
        ("/metadata/labels", json!({"k": 7})),
        ("/status", json!([])),
        ("/status/phase", json!(7)),
        ("/status/containerStatuses", json!({"name": "executor"})),
        ("/spec/containers", json!("executor")),
        ("/kind", json!("Secret")),
    ] {
        let json = changed(|pod| *pod.pointer_mut(place).unwrap() = wrong);
        let part = unreadable(&json);
        assert_eq!(part.name.as_deref(), Some("etl-exec-42"), "{place}");
        assert_eq!(part.version, Some(ResourceVersion::from(81_734)), "{place}");
        assert!(part.uid.is_some(), "{place}");
        let claimed = part.identity.as_ref().and_then(PodIdentity::executor);
        let labels_are_well = !place.ends_with("labels");
        assert_eq!(claimed.is_some(), labels_are_well, "{place}");
    }
    let phase = unreadable(&changed(|pod| pod["status"]["phase"] = json!(7)));
    assert!(phase.error.contains("status.phase"), "{}", phase.error);
}

// spec: S-10, S-15
#[test]
fn without_uid_name_or_version_a_pod_is_unreadable() {
    let without =
        |key: &str, value: Value| unreadable(&changed(|pod| pod["metadata"][key] = value));
    assert_eq!(without("uid", Value::Null).uid, None);
    assert_eq!(without("name", json!("")).name, None);
    assert_eq!(without("name", json!("n".repeat(1_000_000))).name, None);
    for version in [json!("abc"), json!("-1"), json!(""), Value::Null, json!(7)] {
        let part = without("resourceVersion", version);
        assert_eq!((part.version, part.name.is_some()), (None, true));
    }
    for text in [
        "",
        "null",
        "[]",
        "7",
        "{",
        "{}",
        "\"pod\"",
        r#"{"metadata":[]}"#,
    ] {
        assert_eq!(unreadable(text).name, None, "{text}");
    }
}

#[test]
fn deeply_nested_values_are_skipped() {
    let depth = 100_000;
    let nested = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let json = REAL.replacen("\"spec\":{", &format!("\"spec\":{{\"odd\":{nested},"), 1);
    assert_eq!(read(&json).identity.executor(), ExecutorId::new(42));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z]{1,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_place() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "/metadata",
        "/metadata/name",
        "/metadata/uid",
        "/metadata/labels",
        "/metadata/annotations",
        "/metadata/labels/boatswain.dev~1executor-id",
        "/metadata/ownerReferences",
        "/metadata/ownerReferences/0",
        "/metadata/creationTimestamp",
        "/spec",
        "/spec/nodeName",
        "/spec/containers/0",
        "/status",
        "/status/phase",
        "/status/conditions",
        "/status/conditions/0",
        "/status/containerStatuses/0",
        "/status/containerStatuses/0/state",
        "/status/containerStatuses/0/state/running",
    ])
}

proptest! {
    // spec: S-15
    #[test]
    fn any_value_in_a_field_gives_a_result(place in any_place(), value in any_json()) {
        let json = changed(|pod| *pod.pointer_mut(place).unwrap() = value);
        let _ = reader().read(&json);
    }

    #[test]
    fn any_text_is_decoded_without_a_panic(text in "\\PC{0,200}") {
        let _ = reader().read(&text);
    }

    #[test]
    fn a_truncated_pod_is_never_decoded(cut in 0usize..REAL.len() - 2) {
        let text = REAL.get(..cut).unwrap_or_default();
        prop_assert!(matches!(reader().read(text), Sighting::Unreadable(_)));
    }
}

// spec: A-60
#[test]
fn the_claims_that_a_pod_mentions_are_kept_and_its_other_volumes_are_not() {
    let volumes = json!([
        {"name": "token", "projected": {"sources": []}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "etl-exec-1-data"}},
        {"name": "odd", "persistentVolumeClaim": {"claimName": "x".repeat(300)}},
    ]);
    let json = json!({
        "metadata": {"name": "etl-exec-1", "uid": "u", "resourceVersion": "7"},
        "spec": {"volumes": volumes},
    });
    let claims = read(&json.to_string()).volume_claims.unwrap();
    let kept: Vec<_> = claims
        .iter()
        .map(|claim| (&*claim.volume, &*claim.name))
        .collect();
    assert_eq!(kept, [("data", "etl-exec-1-data")]);
}
