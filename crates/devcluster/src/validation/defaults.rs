//! Defaulting: sets the fields that a real server sets if a client omits them.

use serde_json::{Value, json};

use crate::objects::kinds;
use crate::objects::object::{at, list, number, set, text};
use crate::objects::quantity;
use crate::objects::resource::Resource;

pub fn fill(resource: Resource, object: &mut Value) {
    match resource {
        Resource::Pods => {
            pod(object);
            default(object, &["spec", "enableServiceLinks"], true.into());
        }
        Resource::Services => service(object),
        Resource::Namespaces => namespace(object),
        Resource::PersistentVolumeClaims => {
            default(object, &["spec", "volumeMode"], "Filesystem".into());
            let (one, other) = ("dataSource", "dataSourceRef");
            for (field, from) in [(one, other), (other, one)] {
                if let Some(source) = at(object, &["spec", from]).cloned() {
                    default(object, &["spec", field], source);
                }
            }
        }
        other => kinds::fill(other, object),
    }
}

/// Sets the defaults of admission plugins; no field manager owns them.
pub fn admit(resource: Resource, object: &mut Value) {
    if let (Resource::Pods, Some(spec)) = (resource, object.get_mut("spec")) {
        default(spec, &["priority"], 0.into());
        default(spec, &["preemptionPolicy"], "PreemptLowerPriority".into());
        tolerations(spec);
    }
}

/// The initial status of an object, if its kind has one.
pub fn first_status(resource: Resource, object: &Value) -> Option<Value> {
    match resource {
        Resource::Pods => Some(json!({"phase": "Pending", "qosClass": quality_of_service(object)})),
        Resource::Namespaces => Some(json!({"phase": "Active"})),
        Resource::Services => Some(json!({"loadBalancer": {}})),
        Resource::PersistentVolumeClaims => Some(json!({"phase": "Pending"})),
        Resource::ResourceQuotas => Some(json!({})),
        Resource::Deployments => Some(json!({})),
        Resource::ReplicaSets | Resource::StatefulSets => Some(json!({"replicas": 0})),
        Resource::PodDisruptionBudgets => Some(json!({
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "disruptionsAllowed": 0,
            "expectedPods": 0,
        })),
        _ => None,
    }
}

pub(crate) fn default(object: &mut Value, path: &[&str], value: Value) {
    if at(object, path).is_none() {
        set(object, path, value);
    }
}

fn items<'a>(object: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> + use<'a> {
    object
        .get_mut(name)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// Sets the defaults of a pod or a pod template.
pub(crate) fn pod(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec") else {
        return;
    };
    default(spec, &["restartPolicy"], "Always".into());
    default(spec, &["dnsPolicy"], "ClusterFirst".into());
    default(spec, &["terminationGracePeriodSeconds"], 30.into());
    if number(spec, &["terminationGracePeriodSeconds"]).is_some_and(|grace| grace < 0) {
        set(spec, &["terminationGracePeriodSeconds"], 1.into());
    }
    for (field, from) in ACCOUNTS {
        if let Some(account) = spec.get(from).cloned() {
            default(spec, &[field], account);
        }
    }
    requests(spec);
    default(spec, &["schedulerName"], "default-scheduler".into());
    default(spec, &["securityContext"], json!({}));
    for kind in ["initContainers", "containers"] {
        items(spec, kind).for_each(container);
    }
    items(spec, "volumes").for_each(volume);
}

/// The two names of one field.
const ACCOUNTS: [(&str, &str); 2] = [
    ("serviceAccountName", "serviceAccount"),
    ("serviceAccount", "serviceAccountName"),
];

/// By default as much is requested as is allowed.
fn requests(of: &mut Value) {
    for (name, amount) in at(of, &["resources", "limits"])
        .and_then(Value::as_object)
        .cloned()
        .into_iter()
        .flatten()
    {
        default(of, &["resources", "requests", &name], amount);
    }
}

/// By default a pod tolerates an unreachable node for five minutes.
fn tolerations(spec: &mut Value) {
    for taint in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let covers = |t: &Value| {
            let (key, effect) = (text(t, &["key"]), text(t, &["effect"]));
            (key == taint || (key.is_empty() && text(t, &["operator"]) == "Exists"))
                && (effect == "NoExecute" || effect.is_empty())
        };
        default(spec, &["tolerations"], json!([]));
        if let Some(list) = spec.get_mut("tolerations").and_then(Value::as_array_mut)
            && !list.iter().any(covers)
        {
            list.push(json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
}

/// An image that may change under its name is pulled each time.
fn pull_policy(image: &str) -> &'static str {
    let name = image.rsplit('/').next().unwrap_or_default();
    let floating =
        !image.contains('@') && name.split_once(':').is_none_or(|(_, tag)| tag == "latest");
    if floating { "Always" } else { "IfNotPresent" }
}

fn container(container: &mut Value) {
    let policy = pull_policy(text(container, &["image"]));
    default(container, &["imagePullPolicy"], policy.into());
    default(
        container,
        &["terminationMessagePath"],
        "/dev/termination-log".into(),
    );
    default(container, &["terminationMessagePolicy"], "File".into());
    default(container, &["resources"], json!({}));
    requests(container);
    for port in items(container, "ports") {
        default(port, &["protocol"], "TCP".into());
    }
    for variable in items(container, "env") {
        if let Some(source) = variable.get_mut("valueFrom") {
            downward(source);
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(kind) {
            default(probe, &["timeoutSeconds"], 1.into());
            default(probe, &["periodSeconds"], 10.into());
            default(probe, &["successThreshold"], 1.into());
            default(probe, &["failureThreshold"], 3.into());
            http_get(probe);
            if let Some(call) = probe.get_mut("grpc") {
                default(call, &["service"], "".into());
            }
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = container.pointer_mut(&format!("/lifecycle/{hook}")) {
            http_get(hook);
        }
    }
}

fn http_get(handler: &mut Value) {
    if let Some(get) = handler.get_mut("httpGet") {
        default(get, &["path"], "/".into());
        default(get, &["scheme"], "HTTP".into());
    }
}

/// What is shown of the pod, by a variable or in a file.
fn downward(source: &mut Value) {
    if let Some(field) = source.get_mut("fieldRef") {
        default(field, &["apiVersion"], "v1".into());
    }
    if let Some(amount) = source.get_mut("resourceFieldRef") {
        default(amount, &["divisor"], "0".into());
    }
}

fn volume(volume: &mut Value) {
    for kind in ["configMap", "secret", "downwardAPI", "projected"] {
        if let Some(source) = volume.get_mut(kind) {
            default(source, &["defaultMode"], 420.into());
        }
    }
    if let Some(path) = volume.get_mut("hostPath") {
        default(path, &["type"], "".into());
    }
    if let Some(image) = volume.get_mut("image") {
        let policy = pull_policy(text(image, &["reference"]));
        default(image, &["pullPolicy"], policy.into());
    }
    if let Some(claim) = volume.pointer_mut("/ephemeral/volumeClaimTemplate/spec") {
        default(claim, &["volumeMode"], "Filesystem".into());
        default(
            volume,
            &["ephemeral", "volumeClaimTemplate", "metadata"],
            json!({}),
        );
    }
    if let Some(files) = volume.get_mut("downwardAPI") {
        items(files, "items").for_each(downward);
    }
    for source in volume
        .get_mut("projected")
        .into_iter()
        .flat_map(|projected| items(projected, "sources"))
    {
        if let Some(token) = source.get_mut("serviceAccountToken") {
            default(token, &["expirationSeconds"], 3_600.into());
        }
        if let Some(files) = source.get_mut("downwardAPI") {
            items(files, "items").for_each(downward);
        }
    }
    if volume.as_object().is_some_and(|fields| fields.len() == 1) {
        set(volume, &["emptyDir"], json!({}));
    }
}

/// The QoS class of a pod, from the requests and limits of its containers.
pub(super) fn quality_of_service(pod: &Value) -> &'static str {
    let containers: Vec<&Value> = match at(pod, &["spec", "resources"]) {
        Some(_) => pod.get("spec").into_iter().collect(),
        None => ["containers", "initContainers"]
            .iter()
            .flat_map(|kind| list(pod, &["spec", kind]))
            .collect(),
    };
    let amount = |container: &Value, kind: &str, name: &str| {
        let amount = at(container, &["resources", kind, name]).and_then(Value::as_str)?;
        quantity::parse(amount).filter(|amount| *amount > 0)
    };
    let names = ["cpu", "memory"];
    let any = containers.iter().any(|c| {
        names
            .iter()
            .any(|n| amount(c, "requests", n).is_some() || amount(c, "limits", n).is_some())
    });
    let all_equal = containers.iter().all(|c| {
        names.iter().all(|n| {
            let limit = amount(c, "limits", n);
            limit.is_some() && limit == amount(c, "requests", n)
        })
    });
    match (any, all_equal) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

fn service(service: &mut Value) {
    let Some(spec) = service.get_mut("spec") else {
        return;
    };
    default(spec, &["type"], "ClusterIP".into());
    default(spec, &["sessionAffinity"], "None".into());
    for port in items(spec, "ports") {
        default(port, &["protocol"], "TCP".into());
        let number = port.get("port").cloned().unwrap_or_default();
        if port
            .get("targetPort")
            .is_none_or(|target| *target == 0 || *target == "")
        {
            set(port, &["targetPort"], number);
        }
    }
    if text(spec, &["type"]) != "ExternalName" {
        default(spec, &["internalTrafficPolicy"], "Cluster".into());
        default(spec, &["ipFamilies"], json!(["IPv4"]));
        default(spec, &["ipFamilyPolicy"], "SingleStack".into());
        if text(spec, &["clusterIP"]) == "None" {
            default(spec, &["clusterIPs"], json!(["None"]));
        }
    }
}

fn namespace(namespace: &mut Value) {
    let name = text(namespace, &["metadata", "name"]).to_owned();
    if !name.is_empty() {
        set(
            namespace,
            &["metadata", "labels", "kubernetes.io/metadata.name"],
            name.into(),
        );
    }
    default(namespace, &["spec", "finalizers"], json!(["kubernetes"]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quality(resources: &[Value]) -> &'static str {
        let containers: Vec<Value> = resources
            .iter()
            .map(|r| json!({"name": "c", "image": "i", "resources": r}))
            .collect();
        let mut pod = json!({"spec": {"containers": containers}});
        fill(Resource::Pods, &mut pod);
        quality_of_service(&pod)
    }

    #[test]
    fn the_qos_class_follows_from_requests_and_limits() {
        assert_eq!(quality(&[json!({})]), "BestEffort");
        assert_eq!(quality(&[json!({"requests": {"cpu": "1"}})]), "Burstable");
        assert_eq!(
            quality(&[json!({"limits": {"cpu": "1", "memory": "1Gi"}})]),
            "Guaranteed"
        );
        assert_eq!(
            quality(&[json!({"limits": {"cpu": "1", "memory": "1Gi"}}), json!({})]),
            "Burstable"
        );
    }

    #[test]
    fn an_image_without_a_fixed_tag_is_always_pulled() {
        for (image, policy) in [
            ("busybox", "Always"),
            ("busybox:latest", "Always"),
            ("registry:5000/busybox", "Always"),
            ("busybox:1.36", "IfNotPresent"),
            ("busybox@sha256:abc", "IfNotPresent"),
        ] {
            let mut pod = json!({"spec": {"containers": [{"name": "c", "image": image}]}});
            fill(Resource::Pods, &mut pod);
            assert_eq!(
                pod["spec"]["containers"][0]["imagePullPolicy"], policy,
                "{image}"
            );
        }
    }

    #[test]
    fn defaulting_is_idempotent() {
        let mut pod = json!({"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v"}]}});
        fill(Resource::Pods, &mut pod);
        let once = pod.clone();
        fill(Resource::Pods, &mut pod);
        assert_eq!(pod, once);
    }
}
