//! What the admission plugins of a real server do with a new object: service accounts and their tokens, classes, ranges.

use serde_json::{Value, json};

use super::limit_ranges;
use super::write::WriteContext;
use crate::api::status::ApiError;
use crate::objects::object::{Key, at, list, number, set, text, text_or};
use crate::objects::resource::Resource;
use crate::storage::store::State;
use crate::validation::defaults::default;

/// Keeps a claim for as long as a pod uses it.
pub(crate) const PROTECTION: &str = "kubernetes.io/pvc-protection";

/// Where containers find the service account's token.
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The priority classes that every cluster has.
const CLASSES: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

pub(super) fn admit(
    state: &State,
    key: &Key,
    object: &mut Value,
    context: &mut WriteContext<'_>,
) -> Result<(), ApiError> {
    match key.resource {
        Resource::Pods => {
            limit_ranges::fill(state, key, object);
            service_account(state, key, object, context)?;
            classes(key, object)?;
            limit_ranges::check(state, key, object)
        }
        Resource::PersistentVolumeClaims => {
            let mut finalizers = list(object, &["metadata", "finalizers"]).to_vec();
            if !finalizers.iter().any(|f| f == PROTECTION) {
                finalizers.push(PROTECTION.into());
                set(object, &["metadata", "finalizers"], finalizers.into());
            }
            limit_ranges::check(state, key, object)
        }
        _ => Ok(()),
    }
}

fn service_account(
    state: &State,
    key: &Key,
    pod: &mut Value,
    context: &mut WriteContext<'_>,
) -> Result<(), ApiError> {
    let name = text_or(pod, &["spec", "serviceAccountName"], "default").to_owned();
    let account = state.get(&Key::new(Resource::ServiceAccounts, &key.namespace, &name));
    // The controller makes that of a new namespace a moment later.
    if account.is_none() && !(name == "default" && context.has_controllers) {
        let why = format!(
            "error looking up service account {}/{name}: serviceaccount \"{name}\" not found",
            key.namespace
        );
        return Err(key.forbidden(&why));
    }
    let account = account.map_or(&Value::Null, |account| account.value());
    for field in ["serviceAccountName", "serviceAccount"] {
        set(pod, &["spec", field], name.as_str().into());
    }
    if let Some(secrets) = account.get("imagePullSecrets") {
        default(pod, &["spec", "imagePullSecrets"], secrets.clone());
    }
    let may_mount = at(pod, &["spec", "automountServiceAccountToken"])
        .or_else(|| account.get("automountServiceAccountToken"));
    if may_mount != Some(&Value::Bool(false)) {
        mount_token(pod, context);
    }
    Ok(())
}

/// Mounts a token where no container has a mount of its own.
fn mount_token(pod: &mut Value, context: &mut WriteContext<'_>) {
    let is_there = |container: &Value| {
        let mut mounts = list(container, &["volumeMounts"]).iter();
        mounts.any(|mount| text(mount, &["mountPath"]) == TOKEN_PATH)
    };
    let mut volume = None;
    for kind in ["initContainers", "containers"] {
        let containers = at(pod, &["spec", kind]).and_then(Value::as_array).cloned();
        let mut containers = containers.unwrap_or_default();
        for container in containers
            .iter_mut()
            .filter(|container| !is_there(container))
        {
            let name = volume.get_or_insert_with(|| context.ids.name("kube-api-access-"));
            let mut mounts = list(container, &["volumeMounts"]).to_vec();
            mounts.push(json!({"name": name, "mountPath": TOKEN_PATH, "readOnly": true}));
            set(container, &["volumeMounts"], mounts.into());
        }
        if !containers.is_empty() {
            set(pod, &["spec", kind], containers.into());
        }
    }
    let Some(name) = volume else {
        return;
    };
    let namespace = json!({"apiVersion": "v1", "fieldPath": "metadata.namespace"});
    let mut volumes = list(pod, &["spec", "volumes"]).to_vec();
    volumes.push(json!({"name": name, "projected": {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3_607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": namespace}]}},
    ]}}));
    set(pod, &["spec", "volumes"], volumes.into());
}

fn classes(key: &Key, pod: &mut Value) -> Result<(), ApiError> {
    let class = text(pod, &["spec", "priorityClassName"]).to_owned();
    let known = CLASSES.iter().find(|(name, _)| *name == class);
    let priority = match (known, class.as_str()) {
        (Some((_, priority)), _) => *priority,
        (None, "") => 0,
        (None, class) => {
            let why = format!("no PriorityClass with name {class} was found");
            return Err(key.forbidden(&why));
        }
    };
    let computed = "must not be provided in pod spec; priority admission controller computed";
    let of_class = "from the given PriorityClass name";
    if let Some(given) = number(pod, &["spec", "priority"]).filter(|given| *given != priority) {
        let why =
            format!("the integer value of priority ({given}) {computed} {priority} {of_class}");
        return Err(key.forbidden(&why));
    }
    let preemption = "PreemptLowerPriority";
    let given = text_or(pod, &["spec", "preemptionPolicy"], preemption);
    if given != preemption {
        let why = format!(
            "the string value of PreemptionPolicy ({given}) {computed} {preemption} {of_class}"
        );
        return Err(key.forbidden(&why));
    }
    set(pod, &["spec", "priority"], priority.into());
    let runtime = text(pod, &["spec", "runtimeClassName"]);
    if !runtime.is_empty() {
        let why = format!("pod rejected: RuntimeClass \"{runtime}\" not found");
        return Err(key.forbidden(&why));
    }
    if at(pod, &["spec", "overhead"]).is_some() {
        let why =
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        return Err(key.forbidden(why));
    }
    Ok(())
}
