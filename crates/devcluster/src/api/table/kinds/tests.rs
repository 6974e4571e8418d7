use serde_json::json;

use super::*;
use crate::api::table::{cells, columns};
use crate::objects::resource::Resource;

fn row(resource: Resource, object: Value) -> Vec<String> {
    let now = "2026-01-01T00:01:00Z".parse().expect("a time");
    let cells = cells(resource, &object, now);
    assert_eq!(cells.len(), columns(resource).len());
    let plain = |v: Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    cells.into_iter().map(plain).collect()
}

fn meta(fields: Value) -> Value {
    let mut object = fields;
    object["metadata"] = json!({"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"});
    object
}

#[test]
fn each_kind_has_as_many_cells_as_columns() {
    for resource in Resource::ALL {
        row(resource, meta(json!({})));
    }
}

#[test]
fn a_node_shows_whether_it_is_ready_and_schedulable() {
    let node = |spec: Value, ready: &str| {
        row(Resource::Nodes, meta(json!({"spec": spec, "status": {"conditions": [{"type": "Ready", "status": ready}]}})))[1]
            .clone()
    };
    assert_eq!(node(json!({}), "True"), "Ready");
    assert_eq!(
        node(json!({"unschedulable": true}), "True"),
        "Ready,SchedulingDisabled"
    );
    assert_eq!(node(json!({}), "Unknown"), "NotReady");
}

#[test]
fn an_event_shows_its_count_and_age() {
    let shown = row(
        Resource::Events,
        meta(json!({
            "type": "Normal", "reason": "Started", "message": " it runs \n", "count": 3,
            "involvedObject": {"kind": "Pod", "name": "a"},
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:50Z",
            "source": {"component": "kubelet", "host": "n"},
        })),
    );
    assert_eq!(
        shown,
        [
            "10s",
            "Normal",
            "Started",
            "pod/a",
            "",
            "kubelet, n",
            "it runs",
            "60s",
            "3",
            "x"
        ]
    );
}
