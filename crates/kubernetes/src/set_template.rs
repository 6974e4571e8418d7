//! Builds the set that makes a profile's executor pods (spec A-80).
//!
//! The pods of a set share one template. It omits what differs between pods (the executor id, the incarnation) and what
//! changes with each release of this program, because a changed template replaces all pods.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::calls::{SetKind, SetSeen};
use super::claims::claim_spec;
use super::labels::{EXECUTOR_ROLE, SET_ROLE, TEMPLATE_HASH};
use super::pod_template::{
    Common, EXECUTOR_CONTAINER, ProfileSpec, Template, TemplateError, owner_reference,
};
use boatswain_model::claims::{ClaimOwner, ClaimTemplate};
use boatswain_model::{ExecutorId, PodUid, ProfileName};

/// The variable with the executor's id. An executor in a set's pod receives its id when it registers instead.
const EXECUTOR_ID: &str = "BOATSWAIN_EXECUTOR_ID";

pub fn set_name(prefix: &str, profile: &ProfileName) -> String {
    format!("{prefix}-{profile}")
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sets {
    kind: SetKind,
    common: Common,
    profiles: BTreeMap<ProfileName, Rendered>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rendered {
    template: Value,
    /// The claim templates; a Deployment has none.
    claims: Vec<Value>,
    retention: Value,
    hash: String,
}

impl Sets {
    /// Renders the sets of these profiles. Fails as [`Template::new`].
    pub fn new(
        kind: SetKind,
        common: Common,
        profiles: &BTreeMap<ProfileName, ProfileSpec>,
    ) -> Result<Self, TemplateError> {
        let mut sets = Self {
            kind,
            common,
            profiles: BTreeMap::new(),
        };
        for (name, spec) in profiles {
            sets.add_profile(name.clone(), spec.clone())?;
        }
        Ok(sets)
    }

    /// Adds or replaces a profile. If its pods cannot be built, nothing changes.
    pub fn add_profile(
        &mut self,
        name: ProfileName,
        spec: ProfileSpec,
    ) -> Result<(), TemplateError> {
        if self.kind == SetKind::Deployment && !spec.claims.is_empty() {
            return Err(TemplateError::Claims { profile: name });
        }
        if spec.growth.is_some() {
            return Err(TemplateError::Grows { profile: name });
        }
        let claims = claim_templates(&spec);
        let retention = retention(&spec);
        let one = BTreeMap::from([(name.clone(), spec)]);
        let pods = Template::new(&self.common, &one)?;
        let pod = pods.pod(&name, ExecutorId::FIRST);
        let pod = pod.and_then(|pod| serde_json::from_slice(&pod.json).ok());
        let template = self.template(pod.unwrap_or_default(), &claims);
        let hash = hash(&json!([template, claims]).to_string());
        let rendered = Rendered {
            template,
            claims,
            retention,
            hash,
        };
        self.profiles.insert(name, rendered);
        Ok(())
    }

    /// Forgets a removed profile (spec B-57).
    pub fn remove_profile(&mut self, name: &ProfileName) {
        self.profiles.remove(name);
    }

    pub fn kind(&self) -> SetKind {
        self.kind
    }

    pub fn prefix(&self) -> &str {
        &self.common.prefix
    }

    /// The hash of a profile's template; `None` if the profile does not exist.
    pub fn hash(&self, profile: &ProfileName) -> Option<&str> {
        self.profiles.get(profile).map(|set| set.hash.as_str())
    }

    /// Builds a profile's set, owned by this record. A profile that does not exist can have an empty Deployment, which
    /// takes over what is left of an earlier one; `None`: another set of such a profile.
    pub fn set(&self, profile: &ProfileName, replicas: u32, record: &PodUid) -> Option<Value> {
        let empty;
        let rendered = match self.profiles.get(profile) {
            Some(rendered) => rendered,
            None if self.kind == SetKind::Deployment && replicas == 0 => {
                empty = self.empty(profile);
                &empty
            }
            None => return None,
        };
        let keys = self.common.labels.keys();
        let selector = self.selector(profile);
        let mut labels = selector.clone();
        labels.insert(keys.role.to_owned(), SET_ROLE.into());
        let mut spec = json!({
            "replicas": replicas,
            "selector": {"matchLabels": selector},
            "template": rendered.template,
        });
        if self.kind == SetKind::StatefulSet {
            // Executors start independently.
            spec["podManagementPolicy"] = "Parallel".into();
            spec["serviceName"] = self.common.prefix.as_str().into();
            if !rendered.claims.is_empty() {
                spec["volumeClaimTemplates"] = rendered.claims.clone().into();
                spec["persistentVolumeClaimRetentionPolicy"] = rendered.retention.clone();
            }
        }
        Some(json!({
            "apiVersion": "apps/v1",
            "kind": self.kind.kind(),
            "metadata": {
                "name": set_name(&self.common.prefix, profile),
                "namespace": self.common.namespace,
                "labels": labels,
                "annotations": {TEMPLATE_HASH: rendered.hash},
                "ownerReferences": [owner_reference(&self.common.prefix, record)],
            },
            "spec": spec,
        }))
    }

    /// A template of which no pod is made.
    fn empty(&self, profile: &ProfileName) -> Rendered {
        let container = json!({"name": EXECUTOR_CONTAINER, "image": "none"});
        Rendered {
            template: json!({
                "metadata": {"labels": self.selector(profile)},
                "spec": {"containers": [container]},
            }),
            claims: Vec::new(),
            retention: Value::Null,
            hash: String::new(),
        }
    }

    /// Builds the JSON patch that updates the set's template and owner, with its uid as a precondition. Without a
    /// template of the profile only the owner is updated.
    pub fn patch(&self, profile: &ProfileName, seen: &SetSeen, record: &PodUid) -> Value {
        let owner = owner_reference(&self.common.prefix, record);
        let mut patch = vec![
            json!({"op": "test", "path": "/metadata/uid", "value": seen.uid.as_str()}),
            json!({"op": "add", "path": "/metadata/ownerReferences", "value": [owner]}),
        ];
        let Some(rendered) = self.profiles.get(profile) else {
            return patch.into();
        };
        let said = match seen.template {
            Some(_) => json!({
                "op": "add",
                "path": format!("/metadata/annotations/{}", TEMPLATE_HASH.replace('/', "~1")),
                "value": rendered.hash,
            }),
            None => json!({
                "op": "add",
                "path": "/metadata/annotations",
                "value": {TEMPLATE_HASH: rendered.hash},
            }),
        };
        patch.push(json!({"op": "replace", "path": "/spec/template", "value": rendered.template}));
        patch.push(said);
        patch.into()
    }

    /// Builds the merge patch that assigns an executor id to a pod, with the pod's uid and version as preconditions.
    pub fn number_patch(&self, id: ExecutorId, uid: &PodUid, version: &str) -> Value {
        let keys = self.common.labels.keys();
        json!({"metadata": {
            "uid": uid.as_str(),
            "resourceVersion": version,
            "labels": {
                keys.executor_id: id.to_string(),
                keys.incarnation: self.common.incarnation.to_string(),
            },
        }})
    }

    fn selector(&self, profile: &ProfileName) -> Map<String, Value> {
        let keys = self.common.labels.keys();
        let app = self.common.app_id.as_str();
        [
            (keys.app_id, app),
            (keys.role, EXECUTOR_ROLE),
            (keys.profile, profile.as_str()),
        ]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value.into()))
        .collect()
    }

    /// Removes from a pod what is specific to one executor, and the volumes that the set's claim templates provide.
    fn template(&self, mut pod: Value, claims: &[Value]) -> Value {
        let keys = self.common.labels.keys();
        let mut labels = pod["metadata"]["labels"].take();
        if let Some(labels) = labels.as_object_mut() {
            for own in [
                keys.executor_id,
                keys.incarnation,
                "app.kubernetes.io/version",
            ] {
                labels.remove(own);
            }
        }
        let annotations = pod["metadata"]["annotations"].take();
        let mut spec = pod["spec"].take();
        spec["restartPolicy"] = "Always".into();
        if let Some(volumes) = spec["volumes"].as_array_mut() {
            let claimed = |volume: &Value| {
                let mut claims = claims.iter();
                claims.any(|claim| claim["metadata"]["name"] == volume["name"])
            };
            volumes.retain(|volume| !claimed(volume));
            if volumes.is_empty() {
                spec["volumes"].take();
            }
        }
        let containers = spec["containers"].as_array_mut();
        for container in containers.into_iter().flatten() {
            if let Some(env) = container["env"].as_array_mut() {
                env.retain(|variable| variable["name"] != EXECUTOR_ID);
            }
        }
        if let Some(fields) = spec.as_object_mut() {
            fields.retain(|_, value| !value.is_null());
        }
        let mut template = json!({"metadata": {"labels": labels}, "spec": spec});
        if !annotations.is_null() {
            template["metadata"]["annotations"] = annotations;
        }
        template
    }
}

/// The claim templates of a profile's set (spec A-102). The set adds the labels of its selector.
fn claim_templates(spec: &ProfileSpec) -> Vec<Value> {
    let claims = spec.claims.iter();
    claims
        .map(|claim| {
            let ClaimTemplate {
                volume,
                shape,
                owner: _,
                labels,
                annotations,
            } = &claim.template;
            let mut metadata = json!({"name": **volume});
            for (key, texts) in [("labels", labels), ("annotations", annotations)] {
                if !texts.is_empty() {
                    metadata[key] = json!(texts);
                }
            }
            json!({
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata,
                "spec": claim_spec(shape),
            })
        })
        .collect()
}

/// The claim retention policy: a claim owned by the application outlasts its pod, but not the application.
fn retention(spec: &ProfileSpec) -> Value {
    let owners = spec.claims.iter().map(|claim| claim.template.owner);
    let scaled = match owners
        .into_iter()
        .any(|owner| owner == ClaimOwner::Application)
    {
        true => "Retain",
        false => "Delete",
    };
    json!({"whenDeleted": "Delete", "whenScaled": scaled})
}

/// FNV-1a in hexadecimal; it is the same on every machine.
pub(super) fn hash(text: &str) -> String {
    let hash = text.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests;
