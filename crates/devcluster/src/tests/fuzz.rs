//! Arbitrary input: each request gets a valid answer, and none breaks the server.

use super::*;
use crate::fuzzing::requests;
use proptest::prelude::*;

fn methods() -> impl Strategy<Value = Method> {
    prop::sample::select(vec![
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::DELETE,
        Method::HEAD,
    ])
}

fn paths() -> impl Strategy<Value = String> {
    let segment = prop::sample::select(vec![
        "api",
        "apis",
        "v1",
        "namespaces",
        "default",
        "none",
        "pods",
        "configmaps",
        "a",
        "status",
        "binding",
        "eviction",
        "watch",
        "coordination.k8s.io",
        "leases",
        "services",
        "%2f",
        "%zz",
        "..",
        "",
        "readyz",
        "version",
    ]);
    let known = prop::sample::select(vec![
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/pods/a",
        "/api/v1/namespaces/default/pods/a/status",
        "/api/v1/namespaces/default/pods/a/binding",
        "/api/v1/namespaces/default/pods/a/eviction",
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces",
        "/api/v1/namespaces/default",
        "/apis/coordination.k8s.io/v1/namespaces/default/leases/a",
        "/api/v1/namespaces/default/services",
        "/api/v1/namespaces/default/persistentvolumeclaims",
    ]);
    prop_oneof![
        known.prop_map(str::to_owned),
        prop::collection::vec(segment, 0..8)
            .prop_map(|segments| format!("/{}", segments.join("/"))),
    ]
}

fn queries() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "labelSelector",
        "fieldSelector",
        "limit",
        "continue",
        "resourceVersionMatch",
        "timeout",
        "timeoutSeconds",
        "dryRun",
        "gracePeriodSeconds",
        "propagationPolicy",
        "orphanDependents",
        "fieldValidation",
        "fieldManager",
        "force",
    ]);
    let value = prop_oneof![
        "[a-z0-9=,!()%]{0,12}",
        Just("All".to_owned()),
        Just("1".to_owned()),
        Just("-1".to_owned())
    ];
    prop::collection::vec((name, value), 0..4).prop_map(|pairs| {
        pairs
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
            .join("&")
    })
}

/// JSON that resembles objects often enough to get past decoding.
fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-zA-Z0-9./_-]{0,8}".prop_map(Value::from),
        Just(json!("a")),
    ];
    let field = prop::sample::select(vec![
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "uid",
        "spec",
        "containers",
        "image",
        "env",
        "resources",
        "limits",
        "cpu",
        "status",
        "phase",
        "conditions",
        "data",
        "kind",
        "apiVersion",
        "target",
        "op",
        "path",
        "value",
        "from",
        "preconditions",
        "dryRun",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "terminationGracePeriodSeconds",
        "volumes",
        "ports",
        "tolerations",
        "$patch",
        "$retainKeys",
        "$setElementOrder/containers",
        "$deleteFromPrimitiveList/finalizers",
    ]);
    leaf.prop_recursive(5, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(field.clone(), inner, 0..6)
                .prop_map(|fields| fields.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..64),
        json_values().prop_map(|value| value.to_string().into_bytes()),
        // Changes of an otherwise valid object.
        (
            prop::sample::select(vec!["metadata", "spec", "status", "kind", "data"]),
            json_values()
        )
            .prop_map(|(field, value)| {
                let mut pod = pod("b");
                pod[field] = value;
                pod.to_string().into_bytes()
            }),
    ]
}

fn content_types() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "application/json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        "",
    ])
}

/// A request in the form of HTTP/1.1.
fn written(method: &Method, target: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("{method} {target}\ncontent-type: {content_type}\n\n");
    [head.as_bytes(), body].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_request_breaks_the_server(
        all in prop::collection::vec((methods(), paths(), queries(), content_types(), bodies()), 1..16),
    ) {
        let pod = pod("a").to_string();
        let mut sent = vec![written(&Method::POST, &pods(""), "application/json", pod.as_bytes())];
        for (method, path, query, content_type, body) in &all {
            let target = format!("{path}?{query}&fieldManager=fuzz");
            sent.push(written(method, &target, content_type, body));
        }
        requests(&sent.join(&b"\n%\n"[..]));
    }
}
