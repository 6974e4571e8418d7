use super::*;
use crate::ProfileSpec;
use crate::pod_template::queued;

fn status(conditions: &[(&str, &str, &str)], admission: Value) -> Value {
    let condition = |(kind, status, reason): &(&str, &str, &str)| json!({"type": kind, "status": status, "reason": reason, "message": "so"});
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    json!({"conditions": conditions, "admission": admission})
}

fn assigned(count: u32) -> Value {
    let assignment =
        json!({"name": "main", "count": count, "flavors": {"cpu": "spot", "memory": "spot"}});
    json!({"clusterQueue": "all", "podSetAssignments": [assignment]})
}

// spec
#[test]
fn conditions_say_what_may_be_used_of_a_block() {
    let admitted = BlockState::Admitted {
        pods: 3,
        flavors: BTreeSet::from(["spot".to_owned()]),
        placement: None,
    };
    let reserved = ("QuotaReserved", "True", "QuotaReserved");
    let is_admitted = ("Admitted", "True", "Admitted");
    for (conditions, admission, expected, why) in [
        (vec![], Value::Null, BlockState::Queued, NOT_LOOKED_AT),
        (
            vec![("QuotaReserved", "False", "Pending")],
            Value::Null,
            BlockState::Queued,
            "Pending: so",
        ),
        (
            vec![reserved],
            assigned(3),
            BlockState::Reserved(3),
            "QuotaReserved: so",
        ),
        (
            vec![reserved, is_admitted],
            assigned(3),
            admitted.clone(),
            "Admitted: so",
        ),
        (
            vec![reserved, is_admitted, ("Evicted", "False", "QuotaReserved")],
            assigned(3),
            admitted,
            "Admitted: so",
        ),
        (
            vec![reserved, is_admitted, ("Evicted", "True", "Preempted")],
            assigned(3),
            BlockState::Evicted,
            "Preempted: so",
        ),
        (
            vec![
                ("QuotaReserved", "False", "Pending"),
                ("Evicted", "True", "Preempted"),
            ],
            Value::Null,
            BlockState::Queued,
            "Pending: so",
        ),
        (
            vec![reserved, is_admitted, ("Finished", "True", "Succeeded")],
            assigned(3),
            BlockState::Evicted,
            "Succeeded: so",
        ),
    ] {
        let read = state(&status(&conditions, admission), 5);
        assert_eq!(read, (expected, why.into()), "{conditions:?}");
    }
    let without_count = json!({"podSetAssignments": [{"name": "main"}]});
    let status = status(&[reserved], without_count);
    assert_eq!(state(&status, 5).0, BlockState::Reserved(5));
}

// spec
#[test]
fn a_workload_is_read_as_it_was_written() {
    let spec = ProfileSpec::default();
    let pods = queued(&spec, None);
    let queue = Queue {
        name: "team".to_owned(),
        priority: Some(-5),
    };
    let (app_id, record) = ("etl-1".into(), "r1".into());
    let place = Place {
        prefix: "etl",
        app_id: &app_id,
        labels: LabelScheme::Boatswain,
        record: &record,
    };
    let mut written = workload(&queue, place, (2, &"gpu".into()), &pods, (7, 3));
    assert_eq!(written["metadata"]["name"], "etl-gpu-2");
    assert_eq!(written["spec"]["queueName"], "team");
    assert_eq!(written["spec"]["priority"], -5);
    assert_eq!(written["spec"]["podSets"][0]["minCount"], 3);
    assert_eq!(
        written["metadata"]["ownerReferences"][0]["controller"],
        true
    );
    written["metadata"]["uid"] = "u1".into();
    written["metadata"]["resourceVersion"] = "9".into();
    written["status"] = json!({"reclaimablePods": reclaimable(4)});
    let read = |value: &Value| read(&value.to_string(), LabelScheme::Boatswain, "etl-app");
    let block = read(&written).unwrap().unwrap();
    assert_eq!((block.number, block.profile.as_str()), (2, "gpu"));
    assert_eq!((block.count, block.reclaimed), (7, 4));
    assert_eq!(block.owner.as_ref(), Some(&record));
    assert_eq!(block.hash, pods.hash);
    assert!(block.active && !block.deleting);
    written["spec"]["active"] = false.into();
    assert!(!read(&written).unwrap().unwrap().active);
    written["metadata"]["labels"] = json!({});
    assert_eq!(read(&written), Ok(None), "not a block");
    written["metadata"]["uid"] = Value::Null;
    assert!(read(&written).is_err());
}

// spec: A-105
#[test]
fn all_pods_of_a_block_or_none_need_no_least() {
    let pods = queued(&ProfileSpec::default(), None);
    assert_eq!(pod_sets(&pods, (3, 3))[0]["minCount"], Value::Null);
    assert_eq!(pod_sets(&pods, (3, 0))[0]["minCount"], 1);
    assert_eq!(pod_sets(&pods, (u32::MAX, 1))[0]["count"], i32::MAX);
}

// spec: A-105
#[test]
fn a_workload_tells_what_pods_request_and_nothing_secret_of_them() {
    let resources = json!({"requests": {"cpu": "2"}});
    let secret = json!([{"name": "PASSWORD", "value": "secret"}]);
    let container = [("resources", &resources), ("env", &secret)];
    let container = container.map(|(field, value)| (field.to_owned(), value.clone()));
    let sidecar = json!({"name": "side", "restartPolicy": "Always", "args": ["secret"]});
    let spec = ProfileSpec {
        base: json!({"spec": {"initContainers": [sidecar]}}),
        pod: [("nodeSelector".to_owned(), json!({"disk": "ssd"}))]
            .into_iter()
            .collect(),
        container: container.into_iter().collect(),
        ..ProfileSpec::default()
    };
    let pods = queued(&spec, None);
    let expected = json!({"spec": {
        "containers": [{"name": "executor", "resources": resources}],
        "initContainers": [{"name": "side", "restartPolicy": "Always"}],
        "nodeSelector": {"disk": "ssd"},
    }});
    assert_eq!(pods.template, expected);
    let larger = ProfileSpec {
        container: [("resources".to_owned(), json!({"requests": {"cpu": "3"}}))]
            .into_iter()
            .collect(),
        ..spec.clone()
    };
    assert_ne!(queued(&larger, None).hash, pods.hash);
    let renamed = ProfileSpec {
        labels: [("team".to_owned(), "a".to_owned())].into(),
        ..spec
    };
    assert_eq!(
        queued(&renamed, None).hash,
        pods.hash,
        "the quota is for the same"
    );
}

// spec: A-91
#[test]
fn a_pod_of_a_block_bears_its_number_and_goes_to_the_nodes_of_its_flavors() {
    let mut placement = Placement::default();
    let toleration = json!({"key": "spot", "operator": "Exists"});
    for flavor in [
        json!({"spec": {"nodeLabels": {"pool": "spot"}, "tolerations": [toleration]}}),
        json!({"spec": {"nodeLabels": {"gpu": "a100"}}}),
        json!({}),
    ] {
        placement.add(&flavor);
    }
    let own = json!({"key": "own", "operator": "Exists"});
    let pod = json!({
        "metadata": {"labels": {"a": "b"}},
        "spec": {"nodeSelector": {"disk": "ssd"}, "tolerations": [own]},
    });
    let pod = PodBody {
        name: "etl-exec-1".into(),
        json: Bytes::from(pod.to_string()),
    };
    let placed: Value = serde_json::from_slice(&pod.in_block(3, &placement).json).unwrap();
    let expected = json!({
        "metadata": {"labels": {"a": "b", "boatswain.dev/block": "3"}},
        "spec": {
            "nodeSelector": {"disk": "ssd", "pool": "spot", "gpu": "a100"},
            "tolerations": [own, toleration],
        },
    });
    assert_eq!(placed, expected);
}
