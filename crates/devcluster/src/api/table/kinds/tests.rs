use super::*;

fn row(resource: Resource, object: Value) -> Vec<String> {
    let now = "2026-01-01T00:01:00Z".parse().expect("a time");
    let cells = cells(resource, &object, now);
    assert_eq!(cells.len(), crate::api::table::columns(resource).len());
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
        if resource != Resource::Pods {
            row(resource, meta(json!({})));
        }
    }
}

#[test]
fn a_service_shows_its_addresses_and_ports() {
    let service =
        |spec: Value| row(Resource::Services, meta(json!({"spec": spec})))[1..6].join(" ");
    assert_eq!(
        service(
            json!({"type": "ClusterIP", "clusterIP": "None", "ports": [{"port": 7078, "protocol": "TCP"}]})
        ),
        "ClusterIP None <none> 7078/TCP 60s"
    );
    assert_eq!(
        service(json!({"type": "LoadBalancer", "clusterIP": "10.96.0.1",
            "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]})),
        "LoadBalancer 10.96.0.1 <pending> 80:30080/TCP,53/UDP 60s"
    );
    assert_eq!(
        service(json!({"type": "ExternalName", "externalName": "a.b"})),
        "ExternalName <none> a.b <none> 60s"
    );
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

#[test]
fn a_quota_shows_used_and_hard_amounts() {
    let shown = row(
        Resource::ResourceQuotas,
        meta(json!({"status": {"hard": {"pods": "2", "limits.cpu": "1"}, "used": {"pods": "1"}}})),
    );
    assert_eq!(shown, ["x", "pods: 1/2", "limits.cpu: 0/1", "60s"]);
}

#[test]
fn a_claim_shows_its_capacity_once_it_is_bound() {
    let mut claim = meta(json!({
        "spec": {"volumeMode": "Filesystem"},
        "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}, "accessModes": ["ReadOnlyMany", "ReadWriteOnce"]},
    }));
    assert_eq!(
        row(Resource::PersistentVolumeClaims, claim.clone())[1..5],
        ["Bound", "", "", ""]
    );
    claim["spec"]["volumeName"] = json!("v");
    assert_eq!(
        row(Resource::PersistentVolumeClaims, claim)[1..5],
        ["Bound", "v", "1Gi", "RWO,ROX"]
    );
}
