//! spec: the documentation of server-side apply in Kubernetes, value by value.

use super::*;
use crate::objects::schema;
use proptest::prelude::*;
use serde_json::json;

fn pod(containers: Value) -> Value {
    json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": containers, "nodeSelector": {"a": "b"}}})
}

#[test]
fn the_fields_of_a_pod_use_the_keys_of_its_lists() {
    let pod = pod(
        json!([{"name": "c", "image": "i", "args": ["a"], "resources": {},
        "ports": [{"containerPort": 80}]}]),
    );
    let want = json!({
        "f:metadata": {"f:labels": {"f:app": {}}},
        "f:spec": {"f:nodeSelector": {}, "f:containers": {"k:{\"name\":\"c\"}": {
            ".": {}, "f:name": {}, "f:image": {}, "f:args": {}, "f:resources": {},
            "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
        }}},
    });
    assert_eq!(fields(schema::of("Pod"), &pod).to_value(), want);
}

#[test]
fn a_difference_includes_new_parents_of_a_field() {
    let old = json!({"metadata": {}, "data": {"kept": "1", "changed": "1", "gone": "1"}});
    let new = json!({"metadata": {"labels": {"a": "b"}}, "data": {"kept": "1", "changed": "2"}});
    let difference = compare(schema::of("ConfigMap"), &old, &new);
    let added = json!({"f:metadata": {"f:labels": {".": {}, "f:a": {}}}});
    assert_eq!(difference.added.to_value(), added);
    assert_eq!(difference.modified.paths(), [".data.changed"]);
    assert_eq!(difference.removed.paths(), [".data.gone"]);
}

#[test]
fn merged_lists_have_the_order_of_the_configuration() {
    let shape = schema::of("Pod").field("spec").field("containers");
    let names = |names: &[&str]| -> Value { names.iter().map(|n| json!({"name": n})).collect() };
    for (live, config, want) in [
        (vec!["a", "b"], vec!["c"], vec!["a", "b", "c"]),
        (vec!["a", "b"], vec!["b", "a"], vec!["b", "a"]),
        (vec!["a", "x", "b"], vec!["b", "a"], vec!["x", "b", "a"]),
        (vec!["a", "b"], vec!["z", "a"], vec!["z", "a", "b"]),
    ] {
        assert_eq!(
            merge(shape, &names(&live), &names(&config)),
            names(&want),
            "{live:?} {config:?}"
        );
    }
}

#[test]
fn items_with_equal_keys_are_mistakes() {
    let twice = pod(json!([{"name": "c"}, {"name": "c"}]));
    assert_eq!(
        mistakes(schema::of("Pod"), &twice),
        [".spec.containers: duplicate entries for key [name=\"c\"]"]
    );
    let nameless = pod(json!([{"image": "c"}]));
    assert_eq!(
        mistakes(schema::of("Pod"), &nameless),
        [
            ".spec.containers: element 0: associative list with keys has an element that omits key field \"name\" (and doesn't have default value)"
        ]
    );
}

fn some_pods() -> impl Strategy<Value = Value> {
    let container = (
        prop::sample::select(vec!["a", "b", "c"]),
        prop::option::of("[xy]"),
    )
        .prop_map(|(name, image)| match image {
            Some(image) => json!({"name": name, "image": image}),
            None => json!({"name": name}),
        });
    (
        prop::collection::vec(container, 0..4),
        prop::option::of("[xy]"),
    )
        .prop_map(|(containers, label)| {
            let mut seen = BTreeSet::new();
            let containers: Vec<Value> = containers
                .into_iter()
                .filter(|c| seen.insert(c["name"].to_string()))
                .collect();
            let mut pod = json!({"spec": {"containers": containers}});
            if let Some(label) = label {
                pod["metadata"] = json!({"labels": {"l": label}});
            }
            pod
        })
}

proptest! {
    #[test]
    fn a_merge_contains_every_configured_field(live in some_pods(), config in some_pods()) {
        let shape = schema::of("Pod");
        let merged = merge(shape, &live, &config);
        prop_assert!(fields(shape, &config).minus(&fields(shape, &merged)).is_empty());
        prop_assert_eq!(merge(shape, &merged, &config), merged.clone());
        let difference = compare(shape, &config, &merged);
        prop_assert!(difference.removed.is_empty());
        prop_assert!(difference.modified.is_empty());
    }

    #[test]
    fn removed_fields_are_gone(pod in some_pods(), other in some_pods()) {
        let shape = schema::of("Pod");
        let left = without(shape, &pod, &fields(shape, &other));
        let mut still = fields(shape, &left).and(&fields(shape, &other));
        // Their parents may remain, empty.
        still.cut(&["f:spec"]);
        still.cut(&["f:metadata"]);
        prop_assert!(still.is_empty());
    }
}
