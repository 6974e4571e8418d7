//! spec: the documentation of strategic merge patch in Kubernetes.

use serde_json::{Value, json};

use super::*;
use crate::objects::schema;

fn patched(mut target: Value, patch: Value) -> Result<Value, ApiError> {
    let (Some(object), Some(fields)) = (target.as_object_mut(), patch.as_object()) else {
        panic!("objects");
    };
    merge(schema::of("Pod"), object, fields)?;
    Ok(target)
}

fn spec(fields: Value) -> Value {
    json!({"spec": fields})
}

fn names(list: &Value) -> Vec<&str> {
    let items = list.as_array().expect("a list");
    items.iter().filter_map(|i| i["name"].as_str()).collect()
}

#[test]
fn containers_are_merged_by_name_and_new_ones_come_last() {
    let target =
        spec(json!({"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}));
    let patch =
        spec(json!({"containers": [{"name": "a", "image": "2"}, {"name": "c", "image": "1"}]}));
    let after = patched(target, patch).expect("patched");
    assert_eq!(names(&after["spec"]["containers"]), ["a", "b", "c"]);
    assert_eq!(after["spec"]["containers"][0]["image"], "2");
}

#[test]
fn each_list_has_the_merge_key_of_its_type() {
    for (list, key, other) in [
        ("volumes", "name", "emptyDir"),
        ("imagePullSecrets", "name", "x"),
        ("hostAliases", "ip", "hostnames"),
        ("topologySpreadConstraints", "topologyKey", "maxSkew"),
    ] {
        let target = spec(json!({list: [{key: "a", other: [1]}, {key: "b"}]}));
        let patch = spec(json!({list: [{key: "a", "new": 1}]}));
        let after = patched(target, patch).expect("patched");
        let want = json!([{key: "a", other: [1], "new": 1}, {key: "b"}]);
        assert_eq!(after["spec"][list], want, "{list}");
    }
    for (list, key) in [
        ("env", "name"),
        ("ports", "containerPort"),
        ("volumeMounts", "mountPath"),
        ("volumeDevices", "devicePath"),
    ] {
        let of = |items: Value| spec(json!({"containers": [{"name": "c", list: items}]}));
        let target = of(json!([{key: 1, "x": 1}, {key: 2}]));
        let after = patched(target, of(json!([{key: 1, "y": 2}]))).expect("patched");
        let want = json!([{key: 1, "x": 1, "y": 2}, {key: 2}]);
        assert_eq!(after["spec"]["containers"][0][list], want, "{list}");
    }
}

#[test]
fn lists_without_a_key_are_replaced() {
    for list in ["tolerations", "readinessGates"] {
        let target = spec(json!({list: [{"key": "a"}]}));
        let after = patched(target, spec(json!({list: [{"key": "b"}]}))).expect("patched");
        assert_eq!(after["spec"][list], json!([{"key": "b"}]), "{list}");
    }
    let args = |args: Value| spec(json!({"containers": [{"name": "c", "args": args}]}));
    let after = patched(args(json!(["a", "b"])), args(json!(["c"]))).expect("patched");
    assert_eq!(after["spec"]["containers"][0]["args"], json!(["c"]));
}

#[test]
fn finalizers_are_a_set_with_deletion_by_value() {
    let target = json!({"metadata": {"finalizers": ["x", "y"]}});
    let added = patched(
        target.clone(),
        json!({"metadata": {"finalizers": ["z", "x"]}}),
    );
    assert_eq!(
        added.expect("patched")["metadata"]["finalizers"],
        json!(["x", "y", "z"])
    );
    let gone = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x"]}});
    assert_eq!(
        patched(target, gone).expect("patched")["metadata"]["finalizers"],
        json!(["y"])
    );
}

#[test]
fn an_item_is_deleted_by_its_key_and_a_list_or_map_replaced_by_a_directive() {
    let target = spec(
        json!({"containers": [{"name": "a"}, {"name": "b"}], "securityContext": {"runAsUser": 1}}),
    );
    let delete = spec(json!({"containers": [{"name": "a", "$patch": "delete"}]}));
    let after = patched(target.clone(), delete).expect("patched");
    assert_eq!(names(&after["spec"]["containers"]), ["b"]);
    let replace = spec(json!({
        "containers": [{"$patch": "replace"}, {"name": "z"}],
        "securityContext": {"$patch": "replace", "fsGroup": 2},
    }));
    let after = patched(target.clone(), replace).expect("patched");
    let want = spec(json!({"containers": [{"name": "z"}], "securityContext": {"fsGroup": 2}}));
    assert_eq!(after, want);
    let cleared = spec(json!({"securityContext": {"$patch": "delete"}}));
    let after = patched(target, cleared).expect("patched");
    assert_eq!(after["spec"]["securityContext"], json!({}));
}

#[test]
fn only_retained_keys_stay_and_the_patch_may_set_no_others() {
    let target = spec(json!({"volumes": [{"name": "v", "emptyDir": {}}]}));
    let patch = |keys: Value| {
        spec(json!({"volumes": [{"name": "v", "hostPath": {"path": "/"}, "$retainKeys": keys}]}))
    };
    let after = patched(target.clone(), patch(json!(["name", "hostPath"]))).expect("patched");
    assert_eq!(
        after["spec"]["volumes"],
        json!([{"name": "v", "hostPath": {"path": "/"}}])
    );
    for wrong in [json!(["name"]), json!("name")] {
        let error = patched(target.clone(), patch(wrong)).expect_err("refused");
        assert_eq!(
            (error.code, error.message.as_str()),
            (400, "invalid patch format of retainKeys")
        );
    }
}

#[test]
fn what_sets_the_order_changes_nothing_else() {
    let target = spec(json!({"containers": [{"name": "a"}, {"name": "b"}]}));
    let patch = spec(json!({
        "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
        "containers": [{"name": "c"}],
    }));
    let after = patched(target, patch).expect("patched");
    assert_eq!(names(&after["spec"]["containers"]), ["a", "b", "c"]);
}

#[test]
fn new_fields_are_stored_without_directives() {
    let patch = spec(json!({
        "containers": [{"name": "a", "args": null}, {"name": "b", "$patch": "delete"}],
        "securityContext": {"$retainKeys": ["fsGroup"], "fsGroup": 1},
    }));
    let want = spec(json!({"containers": [{"name": "a"}], "securityContext": {"fsGroup": 1}}));
    assert_eq!(patched(json!({}), patch), Ok(want));
}

#[test]
fn items_without_their_key_and_unknown_directives_are_errors() {
    let target = spec(json!({"containers": [{"name": "a"}]}));
    for patch in [
        json!({"containers": [{"image": "x"}]}),
        json!({"containers": ["x"]}),
        json!({"containers": [{"$patch": "fly"}]}),
        json!({"containers": [{"$patch": "merge"}]}),
        json!({"containers": [{"$patch": "delete"}]}),
    ] {
        assert!(
            patched(target.clone(), spec(patch.clone())).is_err(),
            "{patch}"
        );
    }
    let directive = json!({"$patch": "fly"});
    assert!(patched(target, directive).is_err());
}
