//! The fields of a pod that boatswain owns (spec K-2 to K-4).

use serde_json::{Map, Value, json};

use super::{
    Common, Executor, TokenSource, avoidance, gangs, merge, mounts, owner_reference,
    recommended_labels, whole_seconds,
};
use crate::labels::{EXECUTOR_ROLE, PROTECTION};

const TOKEN_DIRECTORY: &str = "/var/run/secrets/boatswain.dev";

/// The token's lifetime. Kubernetes renews it well before it expires.
const TOKEN_SECONDS: u64 = 3_600;

const TOKEN_VOLUME: &str = "boatswain-token";

/// Completes the merged `shape` with the fields that boatswain owns.
pub(super) fn pod(common: &Common, executor: &Executor<'_>, shape: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {}});
    for part in ["metadata", "spec"] {
        if shape[part].is_object() {
            pod[part] = shape[part].clone();
        }
    }
    let Executor { id, .. } = executor;
    let metadata = &mut pod["metadata"];
    metadata["name"] = format!("{}-exec-{id}", common.prefix).into();
    metadata["namespace"] = common.namespace.as_str().into();
    metadata["ownerReferences"] = json!([owner_reference(&common.prefix, &common.record_uid)]);
    for (key, value) in labels(common, executor) {
        metadata["labels"][key] = value;
    }
    for (key, value) in PROTECTION.iter().filter(|_| common.protects) {
        metadata["annotations"][*key] = (*value).into();
    }
    let spec = &mut pod["spec"];
    spec["restartPolicy"] = "Never".into();
    if let Some(grace) = executor.spec.termination_grace {
        spec["terminationGracePeriodSeconds"] = whole_seconds(grace).into();
    }
    spread(common, executor, spec);
    let container = merge::executor(spec);
    container["env"] = env(common, executor, container);
    if container["terminationMessagePolicy"].is_null() {
        container["terminationMessagePolicy"] = "FallbackToLogsOnError".into();
    }
    if let Some(TokenSource::Projected { audience }) = &common.token {
        let mount = json!({"name": TOKEN_VOLUME, "mountPath": TOKEN_DIRECTORY, "readOnly": true});
        mounts::push(&mut container["volumeMounts"], mount);
        let token = json!({
            "path": "token",
            "audience": audience,
            "expirationSeconds": TOKEN_SECONDS,
        });
        let sources = json!([{"serviceAccountToken": token}]);
        let volume = json!({"name": TOKEN_VOLUME, "projected": {"sources": sources}});
        mounts::push(&mut spec["volumes"], volume);
    }
    mounts::mount(spec, common, executor.spec, id);
    avoidance::avoid(spec, &common.avoid);
    if let Some(nodes) = common.preferred.get(executor.profile) {
        avoidance::prefer(spec, nodes);
    }
    if let Some(gang) = &executor.spec.gang {
        gangs::mark(&mut pod, common, executor.profile, gang);
    }
    super::without_nulls(&mut pod);
    pod
}

fn spread(common: &Common, executor: &Executor<'_>, spec: &mut Value) {
    if executor.spec.spread.is_empty() {
        return;
    }
    let keys = common.labels.keys();
    let mut labels = Map::new();
    labels.insert(keys.app_id.to_owned(), common.app_id.as_str().into());
    labels.insert(keys.profile.to_owned(), executor.profile.as_str().into());
    let constraints = executor.spec.spread.iter().map(|constraint| {
        let mut constraint = constraint.clone();
        constraint["labelSelector"] = json!({"matchLabels": labels});
        constraint
    });
    spec["topologySpreadConstraints"] = Value::Array(constraints.collect());
}

fn labels(common: &Common, executor: &Executor<'_>) -> Map<String, Value> {
    let keys = common.labels.keys();
    let mut labels = recommended_labels(&common.app_id, &common.app_name, "executor");
    for (key, value) in [
        (keys.app_id, common.app_id.as_str()),
        (keys.role, EXECUTOR_ROLE),
        (keys.executor_id, executor.id),
        (keys.profile, executor.profile.as_str()),
        (keys.incarnation, &common.incarnation.to_string()),
    ] {
        labels.insert(key.to_owned(), value.into());
    }
    labels
}

/// boatswain's own variables come first, so that others can refer to them (spec K-4).
fn env(common: &Common, executor: &Executor<'_>, container: &Value) -> Value {
    let Executor {
        profile,
        spec,
        id,
        token,
    } = executor;
    let plain = |name: &str, value: &str| json!({"name": name, "value": value});
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}});
    let spare_of = profile.spares_of();
    let mut env = vec![
        plain("BOATSWAIN_APP_ID", common.app_id.as_str()),
        plain("BOATSWAIN_EXECUTOR_ID", id),
        plain(
            "BOATSWAIN_PROFILE",
            spare_of.as_ref().unwrap_or(profile).as_str(),
        ),
        field("BOATSWAIN_POD_NAME", "metadata.name"),
        field("BOATSWAIN_POD_UID", "metadata.uid"),
        field("BOATSWAIN_POD_IP", "status.podIP"),
    ];
    if let Some(url) = &common.driver_url {
        env.push(plain("BOATSWAIN_DRIVER_URL", url));
    }
    if let Some(file) = &common.ca_file {
        env.push(plain("BOATSWAIN_CA_FILE", file));
    }
    if spare_of.is_some() {
        env.push(plain("BOATSWAIN_SPARE", "true"));
    }
    match &common.token {
        Some(TokenSource::Sealed(_)) => env.push(plain("BOATSWAIN_TOKEN", token)),
        Some(TokenSource::Projected { .. }) => {
            let file = format!("{TOKEN_DIRECTORY}/token");
            env.push(plain("BOATSWAIN_TOKEN_FILE", &file));
        }
        None => {}
    }
    if let Some(agent) = &common.agent {
        env.push(plain("BOATSWAIN_AGENT", agent));
    }
    let (cpu, memory) = merge::amounts(container);
    // Threads are counted in whole cores; round up.
    if let Some(millis) = cpu {
        let cores = millis.div_ceil(1000).to_string();
        env.push(plain("BOATSWAIN_CORES", &cores));
    }
    if let Some(bytes) = spec.memory_bytes.or(memory) {
        env.push(plain("BOATSWAIN_MEMORY_BYTES", &bytes.to_string()));
    }
    env.extend(container["env"].as_array().into_iter().flatten().cloned());
    Value::Array(env)
}
