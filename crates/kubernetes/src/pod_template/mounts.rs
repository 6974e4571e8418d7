//! Mounts the application's ConfigMap (spec K-8) and the executor's claims (spec K-10).

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Common, PodBody, ProfileSpec, merge};
use crate::owned_resources::config_map_name;
use boatswain_model::claims::PodClaim;

const CONFIG: &str = "boatswain-config";

/// Adds the volumes and mounts to a pod's spec; `id` is the executor's id or a placeholder.
pub(super) fn mount(spec: &mut Value, common: &Common, profile: &ProfileSpec, id: &str) {
    if let Some(path) = &common.config_map {
        let name = config_map_name(&common.prefix);
        add(
            spec,
            json!({"name": CONFIG, "configMap": {"name": name}}),
            path,
            true,
        );
    }
    for claim in &profile.claims {
        let volume = &claim.template.volume;
        let name = format!("{}-exec-{id}-{volume}", common.prefix);
        let source = json!({"name": volume, "persistentVolumeClaim": {"claimName": name}});
        add(spec, source, &claim.mount_path, false);
    }
}

fn add(spec: &mut Value, volume: Value, path: &str, read_only: bool) {
    let mut mount = json!({"name": volume["name"], "mountPath": path});
    if read_only {
        mount["readOnly"] = true.into();
    }
    push(&mut merge::executor(spec)["volumeMounts"], mount);
    push(&mut spec["volumes"], volume);
}

pub(super) fn push(list: &mut Value, item: Value) {
    match list {
        Value::Array(items) => items.push(item),
        absent => *absent = json!([item]),
    }
}

impl PodBody {
    /// The same pod with these claims instead of its own (spec A-60).
    pub fn with_claims(self, claims: &[PodClaim]) -> Self {
        if claims.is_empty() {
            return self;
        }
        let Ok(mut pod) = serde_json::from_slice::<Value>(&self.json) else {
            return self;
        };
        for volume in (pod["spec"]["volumes"].as_array_mut())
            .into_iter()
            .flatten()
        {
            let claim = claims.iter().find(|claim| volume["name"] == *claim.volume);
            if let Some(claim) = claim {
                volume["persistentVolumeClaim"]["claimName"] =
                    Arc::clone(&claim.name).as_ref().into();
            }
        }
        Self {
            name: self.name,
            json: Bytes::from(pod.to_string()),
        }
    }
}
