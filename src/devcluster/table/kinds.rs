//! All kinds but pods as rows.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{AGE, CREATED_AT, Column, NAME, NOTHING, age, or_nothing};
use crate::devcluster::object::{at, list, text};
use crate::devcluster::resource::Resource;

const NAMESPACES: [Column; 3] = [
    NAME,
    Column::text("Status", "The status of the namespace"),
    AGE,
];

const CONFIG_MAPS: [Column; 3] = [
    NAME,
    Column::text(
        "Data",
        "Data contains the configuration data. Each key must consist of alphanumeric characters, '-', '_' or '.'. \
         Values with non-UTF-8 byte sequences must use the BinaryData field. The keys stored in Data must not overlap \
         with the keys in the BinaryData field, this is enforced during validation process.",
    ),
    AGE,
];

const SECRETS: [Column; 4] = [
    NAME,
    Column::text(
        "Type",
        "Used to facilitate programmatic handling of secret data. More info: \
         https://kubernetes.io/docs/concepts/configuration/secret/#secret-types",
    ),
    Column::text(
        "Data",
        "Data contains the secret data. Each key must consist of alphanumeric characters, '-', '_' or '.'. The \
         serialized form of the secret data is a base64 encoded string, representing the arbitrary (possibly \
         non-string) data value here. Described in https://tools.ietf.org/html/rfc4648#section-4",
    ),
    AGE,
];

const SERVICES: [Column; 7] = [
    NAME,
    Column::text(
        "Type",
        "How the service is reached: ClusterIP, NodePort, LoadBalancer or ExternalName.",
    ),
    Column::text(
        "Cluster-IP",
        "The address of the service within the cluster.",
    ),
    Column::text(
        "External-IP",
        "The addresses of the service outside of the cluster.",
    ),
    Column::text(
        "Port(s)",
        "The list of ports that are exposed by this service.",
    ),
    AGE,
    Column::wide(
        "Selector",
        "The labels of the pods to which the service leads.",
    ),
];

const CLAIMS: [Column; 9] = [
    NAME,
    Column::text(
        "Status",
        "phase represents the current phase of PersistentVolumeClaim.",
    ),
    Column::text(
        "Volume",
        "volumeName is the binding reference to the PersistentVolume backing this claim.",
    ),
    Column::text(
        "Capacity",
        "capacity represents the actual resources of the underlying volume.",
    ),
    Column::text(
        "Access Modes",
        "accessModes contains the actual access modes the volume backing the PVC has.",
    ),
    Column::text("StorageClass", "StorageClass of the pvc"),
    Column::text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
    AGE,
    Column::wide(
        "VolumeMode",
        "volumeMode defines what type of volume is required by the claim.",
    ),
];

const LEASES: [Column; 3] = [
    NAME,
    Column::text(
        "Holder",
        "holderIdentity contains the identity of the holder of a current lease.",
    ),
    AGE,
];

const EVENTS: [Column; 10] = [
    Column::text(
        "Last Seen",
        "The time at which the most recent occurrence of this event was recorded.",
    ),
    Column::text(
        "Type",
        "Type of this event (Normal, Warning), new types could be added in the future",
    ),
    Column::text(
        "Reason",
        "This should be a short, machine understandable string that gives the reason for the transition into the \
         object's current status.",
    ),
    Column::text("Object", "The object that this event is about."),
    Column::wide(
        "Subobject",
        "The part of the object that this event is about.",
    ),
    Column::wide("Source", "The component reporting this event."),
    Column::text(
        "Message",
        "A human-readable description of the status of this operation.",
    ),
    Column::wide(
        "First Seen",
        "The time at which the event was first recorded.",
    ),
    Column::wide("Count", "The number of times this event has occurred."),
    Column {
        priority: 1,
        ..NAME
    },
];

const NODES: [Column; 10] = [
    NAME,
    Column::text("Status", "The status of the node"),
    Column::text("Roles", "The roles of the node"),
    AGE,
    Column::text("Version", "Kubelet Version reported by the node."),
    Column::wide("Internal-IP", "The node's address within the cluster."),
    Column::wide("External-IP", "The node's address outside of the cluster."),
    Column::wide(
        "OS-Image",
        "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).",
    ),
    Column::wide(
        "Kernel-Version",
        "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
    ),
    Column::wide(
        "Container-Runtime",
        "ContainerRuntime Version reported by the node through runtime remote API (e.g. containerd://1.4.2).",
    ),
];

const QUOTAS: [Column; 4] = [
    NAME,
    Column::text(
        "Request",
        "Request represents a minimum amount of cpu/memory that a container may consume.",
    ),
    Column::text(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the \
         node.",
    ),
    AGE,
];

const SERVICE_ACCOUNTS: [Column; 3] = [
    NAME,
    Column::text(
        "Secrets",
        "Secrets is a list of the secrets in the same namespace that pods may use.",
    ),
    AGE,
];

const ROLES: [Column; 2] = [NAME, CREATED_AT];

const BINDINGS: [Column; 6] = [
    NAME,
    Column::text("Role", "The role that is given."),
    AGE,
    Column::wide("Users", "Users in the roleBinding"),
    Column::wide("Groups", "Groups in the roleBinding"),
    Column::wide("ServiceAccounts", "ServiceAccounts in the roleBinding"),
];

pub(super) fn columns(resource: Resource) -> &'static [Column] {
    match resource {
        Resource::Namespaces => &NAMESPACES,
        Resource::ConfigMaps => &CONFIG_MAPS,
        Resource::Secrets => &SECRETS,
        Resource::Services => &SERVICES,
        Resource::PersistentVolumeClaims => &CLAIMS,
        Resource::Leases => &LEASES,
        Resource::Events => &EVENTS,
        Resource::Nodes => &NODES,
        Resource::ResourceQuotas => &QUOTAS,
        Resource::ServiceAccounts => &SERVICE_ACCOUNTS,
        Resource::RoleBindings | Resource::ClusterRoleBindings => &BINDINGS,
        Resource::Pods | Resource::Roles | Resource::ClusterRoles => &ROLES,
    }
}

pub(super) fn cells(resource: Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    let field = |path: &[&str]| Value::from(text(object, path));
    let count = |name: &str| match object.get(name) {
        Some(Value::Object(fields)) => fields.len(),
        Some(Value::Array(items)) => items.len(),
        _ => 0,
    };
    let name = field(&["metadata", "name"]);
    let age: Value = age(object, now).into();
    match resource {
        Resource::Namespaces => vec![name, field(&["status", "phase"]), age],
        Resource::ConfigMaps => vec![name, (count("data") + count("binaryData")).into(), age],
        Resource::Secrets => vec![name, field(&["type"]), count("data").into(), age],
        Resource::Services => service(object, name, age),
        Resource::PersistentVolumeClaims => claim(object, name, age),
        Resource::Leases => vec![name, field(&["spec", "holderIdentity"]), age],
        Resource::Events => event(object, name, now),
        Resource::Nodes => node(object, name, age),
        Resource::ResourceQuotas => {
            let [requests, limits] = quota(object);
            vec![name, requests.into(), limits.into(), age]
        }
        Resource::ServiceAccounts => vec![name, count("secrets").into(), age],
        Resource::RoleBindings | Resource::ClusterRoleBindings => binding(object, name, age),
        Resource::Pods | Resource::Roles | Resource::ClusterRoles => {
            vec![name, field(&["metadata", "creationTimestamp"])]
        }
    }
}

fn join<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.collect();
    or_nothing(&words.join(",")).to_owned()
}

fn labels(object: &Value, path: &[&str]) -> String {
    let each = at(object, path).and_then(Value::as_object);
    let pairs: Vec<String> = each
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    join(pairs.iter().map(String::as_str))
}

fn service(service: &Value, name: Value, age: Value) -> Vec<Value> {
    let kind = text(service, &["spec", "type"]);
    let own = list(service, &["spec", "externalIPs"])
        .iter()
        .filter_map(Value::as_str);
    let outside = match kind {
        "ClusterIP" | "NodePort" => join(own),
        "LoadBalancer" => {
            let balancer = list(service, &["status", "loadBalancer", "ingress"]).iter();
            let addresses = balancer.map(|i| match text(i, &["ip"]) {
                "" => text(i, &["hostname"]),
                ip => ip,
            });
            let all: Vec<&str> = addresses.chain(own).collect();
            if all.is_empty() {
                "<pending>".to_owned()
            } else {
                all.join(",")
            }
        }
        "ExternalName" => text(service, &["spec", "externalName"]).to_owned(),
        _ => "<unknown>".to_owned(),
    };
    let ports: Vec<String> = list(service, &["spec", "ports"])
        .iter()
        .map(|port| {
            let number = |field: &str| port.get(field).and_then(Value::as_i64).unwrap_or(0);
            let protocol = text(port, &["protocol"]);
            match number("nodePort") {
                0 => format!("{}/{protocol}", number("port")),
                node => format!("{}:{node}/{protocol}", number("port")),
            }
        })
        .collect();
    vec![
        name,
        kind.into(),
        or_nothing(text(service, &["spec", "clusterIP"])).into(),
        outside.into(),
        join(ports.iter().map(String::as_str)).into(),
        age,
        labels(service, &["spec", "selector"]).into(),
    ]
}

fn claim(claim: &Value, name: Value, age: Value) -> Vec<Value> {
    let volume = text(claim, &["spec", "volumeName"]);
    let going = at(claim, &["metadata", "deletionTimestamp"]).is_some();
    let phase = if going {
        "Terminating"
    } else {
        text(claim, &["status", "phase"])
    };
    let (mut capacity, mut modes) = ("", String::new());
    if !volume.is_empty() {
        capacity = text(claim, &["status", "capacity", "storage"]);
        modes = access_modes(list(claim, &["status", "accessModes"]));
    }
    let or_unset = |path: &[&str]| match text(claim, path) {
        "" => "<unset>".to_owned(),
        text => text.to_owned(),
    };
    let annotation = "volume.beta.kubernetes.io/storage-class";
    let class = match text(claim, &["metadata", "annotations", annotation]) {
        "" => text(claim, &["spec", "storageClassName"]),
        class => class,
    };
    vec![
        name,
        phase.into(),
        volume.into(),
        capacity.into(),
        modes.into(),
        class.into(),
        or_unset(&["spec", "volumeAttributesClassName"]).into(),
        age,
        or_unset(&["spec", "volumeMode"]).into(),
    ]
}

fn access_modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let there = short
        .iter()
        .filter(|(mode, _)| modes.iter().any(|m| m == mode));
    there.map(|(_, s)| *s).collect::<Vec<_>>().join(",")
}

fn event(event: &Value, name: Value, now: Timestamp) -> Vec<Value> {
    let since = |path: &[&str]| super::age::since(text(event, path), now);
    let is = |path: &[&str]| !text(event, path).is_empty();
    let first = if is(&["firstTimestamp"]) {
        since(&["firstTimestamp"])
    } else {
        since(&["eventTime"])
    };
    let number = |path: &[&str]| at(event, path).and_then(Value::as_i64);
    let (last, count) = if event.get("series").is_some() {
        (
            since(&["series", "lastObservedTime"]),
            number(&["series", "count"]).unwrap_or(0),
        )
    } else {
        let last = if is(&["lastTimestamp"]) {
            since(&["lastTimestamp"])
        } else {
            first.clone()
        };
        (last, number(&["count"]).filter(|c| *c != 0).unwrap_or(1))
    };
    let about = text(event, &["involvedObject", "kind"]).to_lowercase();
    let about = match text(event, &["involvedObject", "name"]) {
        "" => about,
        named => format!("{about}/{named}"),
    };
    let source = match (
        text(event, &["source", "component"]),
        text(event, &["source", "host"]),
    ) {
        ("", _) => match (
            text(event, &["reportingComponent"]),
            text(event, &["reportingInstance"]),
        ) {
            (component, "") => component.to_owned(),
            (component, instance) => format!("{component}, {instance}"),
        },
        (component, "") => component.to_owned(),
        (component, host) => format!("{component}, {host}"),
    };
    vec![
        last.into(),
        text(event, &["type"]).into(),
        text(event, &["reason"]).into(),
        about.into(),
        text(event, &["involvedObject", "fieldPath"]).into(),
        source.into(),
        text(event, &["message"]).trim().into(),
        first.into(),
        count.into(),
        name,
    ]
}

fn node(node: &Value, name: Value, age: Value) -> Vec<Value> {
    let ready = list(node, &["status", "conditions"])
        .iter()
        .find(|c| text(c, &["type"]) == "Ready");
    let mut status = match ready.map(|c| text(c, &["status"])) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if at(node, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
        status.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = at(node, &["metadata", "labels"])
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str().filter(|v| !v.is_empty()),
            key => key
                .strip_prefix("node-role.kubernetes.io/")
                .filter(|r| !r.is_empty()),
        })
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        let found = list(node, &["status", "addresses"])
            .iter()
            .find(|a| text(a, &["type"]) == kind);
        found.map_or(NOTHING, |a| text(a, &["address"]))
    };
    let info = |field: &str| match text(node, &["status", "nodeInfo", field]) {
        "" => "<unknown>",
        text => text,
    };
    vec![
        name,
        status.into(),
        join(roles.into_iter()).into(),
        age,
        text(node, &["status", "nodeInfo", "kubeletVersion"]).into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage").into(),
        info("kernelVersion").into(),
        info("containerRuntimeVersion").into(),
    ]
}

/// What is used of what is granted, once for what is asked for and once for what is limited.
fn quota(quota: &Value) -> [String; 2] {
    let mut shown = [Vec::new(), Vec::new()];
    let hard = at(quota, &["status", "hard"]).and_then(Value::as_object);
    for (name, granted) in hard.into_iter().flatten() {
        let amount = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let used = at(quota, &["status", "used", name]).map_or_else(|| "0".to_owned(), amount);
        let line = format!("{name}: {used}/{}", amount(granted));
        let of = usize::from(name.starts_with("limits."));
        shown[of].push(line);
    }
    shown.map(|mut lines| {
        lines.sort_unstable();
        lines.join(", ")
    })
}

fn binding(binding: &Value, name: Value, age: Value) -> Vec<Value> {
    let role = format!(
        "{}/{}",
        text(binding, &["roleRef", "kind"]),
        text(binding, &["roleRef", "name"])
    );
    let of = |kind: &str| -> Value {
        let names: Vec<String> = list(binding, &["subjects"])
            .iter()
            .filter(|s| text(s, &["kind"]) == kind)
            .map(|s| match text(s, &["namespace"]) {
                "" => text(s, &["name"]).to_owned(),
                namespace => format!("{namespace}/{}", text(s, &["name"])),
            })
            .collect();
        json!(names.join(", "))
    };
    vec![
        name,
        role.into(),
        age,
        of("User"),
        of("Group"),
        of("ServiceAccount"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

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
            if resource != Resource::Pods {
                row(resource, meta(json!({})));
            }
        }
    }

    #[test]
    fn a_service_shows_where_it_is_reached() {
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
    fn a_node_shows_whether_it_takes_pods() {
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
    fn an_event_shows_how_often_and_since_when() {
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
    fn a_quota_shows_what_is_used_of_what_is_granted() {
        let shown = row(
            Resource::ResourceQuotas,
            meta(
                json!({"status": {"hard": {"pods": "2", "limits.cpu": "1"}, "used": {"pods": "1"}}}),
            ),
        );
        assert_eq!(shown, ["x", "pods: 1/2", "limits.cpu: 0/1", "60s"]);
    }

    #[test]
    fn a_claim_shows_its_size_once_it_is_bound() {
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
}
