//! From a profile to an executor's pod, in the JSON that is sent (spec K-1 to K-4, K-7).
//!
//! All that is the same for every executor of a profile is rendered once; for executor N only its number is put in.

mod avoidance;
mod mounts;
mod parts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use thiserror::Error;

use parts::Parts;

use super::claims::ClaimSpec;
use super::labels::{EXECUTOR_ROLE, LabelScheme, is_label_value, to_label_value};
use super::names::{MAX_PREFIX, is_prefix};
use super::quantity::cpu_text;
use super::record::record_name;
use crate::model::failures::Avoid;
use crate::model::ids::pod_name;
use crate::model::{AppId, ExecutorId, Incarnation, PodUid, ProfileName};
use crate::secret::seal::Key;

/// The executor container's name (spec K-2).
pub const EXECUTOR_CONTAINER: &str = "executor";

/// What all of boatswain's own environment variables begin with; a profile may not set such (spec K-4).
pub const OWNED_ENV_PREFIX: &str = "BOATSWAIN_";

/// A shape of executor (spec K-5, as far as it goes).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProfileSpec {
    /// The image.
    pub image: String,
    /// Instead of the image's entry point; empty for that one.
    pub command: Vec<String>,
    /// Instead of the image's arguments; empty for those.
    pub args: Vec<String>,
    /// Environment variables; they may refer to boatswain's own as `$(BOATSWAIN_…)`.
    pub env: BTreeMap<String, String>,
    /// Thousandths of a core that are reserved.
    pub cpu_request_millis: Option<u64>,
    /// Thousandths of a core that it gets at most.
    pub cpu_limit_millis: Option<u64>,
    /// Bytes that are reserved.
    pub memory_request_bytes: Option<u64>,
    /// Bytes that it gets at most.
    pub memory_limit_bytes: Option<u64>,
    /// The labels that a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// The taints that it may run in spite of.
    pub tolerations: Vec<Toleration>,
    /// The claims on volumes that each of its executors has (spec K-10).
    pub claims: Vec<ClaimSpec>,
    /// How long it may take to end; `None` for the cluster's default.
    pub termination_grace: Option<Duration>,
}

/// A taint that is tolerated; empty parts match anything, as in Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Toleration {
    /// The taint's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `Equal` or `Exists`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The taint's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The taint's effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// How long a `NoExecute` taint is tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// What is the same for every executor of this incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Common {
    /// The application.
    pub app_id: AppId,
    /// Its name, for people.
    pub app_name: String,
    /// The executors' namespace.
    pub namespace: String,
    /// What the pods' names begin with.
    pub prefix: String,
    /// Whose label keys are written.
    pub labels: LabelScheme,
    /// This start of the driver.
    pub incarnation: Incarnation,
    /// The application record, which owns every executor (spec K-2).
    pub record_uid: PodUid,
    /// Where executors reach the driver, where they are to.
    pub driver_url: Option<String>,
    /// How executors prove to it who they are, where they are to.
    pub token: Option<TokenSource>,
    /// Where the agent's program is, where executors are processes of this machine (spec O-60).
    pub agent: Option<String>,
    /// Where the application's ConfigMap is mounted, where there is one (spec K-8).
    pub config_map: Option<String>,
    /// The nodes that executors are to avoid (spec L-32).
    pub avoid: Avoid,
}

/// What an executor proves with who it is (spec O-50).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// A text in its environment, sealed with this key.
    Sealed(Key),
    /// A file with a token that Kubernetes binds to the pod, for this audience.
    Projected {
        /// For whom.
        audience: String,
    },
}

/// Where a pod's token is mounted.
const TOKEN_DIRECTORY: &str = "/var/run/secrets/boatswain.dev";

/// So long a pod's token lasts; Kubernetes writes a new one long before that.
const TOKEN_SECONDS: u64 = 3_600;

/// Why no pods can be made of this.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// The prefix is no DNS label, or too long.
    #[error(
        "prefix {0:?} is no DNS label of at most {MAX_PREFIX} characters (a-z, 0-9 and -, beginning with a letter)"
    )]
    Prefix(String),
    /// A value that becomes a label cannot be one.
    #[error(
        "{what} {value:?} cannot be a label: at most 63 letters, digits, '-', '_' and '.' are allowed, a letter or digit first and last"
    )]
    Label {
        /// What it is.
        what: &'static str,
        /// The value.
        value: String,
    },
    /// A profile sets an environment variable that is boatswain's.
    #[error("profile {profile}: env {name} is boatswain's own")]
    OwnedEnv {
        /// Which profile.
        profile: ProfileName,
        /// Which variable.
        name: String,
    },
    /// A request is above its limit.
    #[error("profile {profile}: the {resource} request is above the limit")]
    RequestAboveLimit {
        /// Which profile.
        profile: ProfileName,
        /// Of what.
        resource: &'static str,
    },
}

/// Everything that executors' pods are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    prefix: Arc<str>,
    app_id: AppId,
    key: Option<Key>,
    profiles: BTreeMap<ProfileName, Parts>,
}

/// A pod to be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodBody {
    /// Its name.
    pub name: Arc<str>,
    /// All of it.
    pub json: Bytes,
}

impl Template {
    /// Renders all profiles.
    ///
    /// # Errors
    /// Where the API server would refuse the pods for a reason that can be told beforehand.
    pub fn new(
        common: &Common,
        profiles: &BTreeMap<ProfileName, ProfileSpec>,
    ) -> Result<Self, TemplateError> {
        if !is_prefix(&common.prefix) {
            return Err(TemplateError::Prefix(common.prefix.clone()));
        }
        check_label("application id", common.app_id.as_str())?;
        let mut rendered = BTreeMap::new();
        for (name, spec) in profiles {
            check_profile(name, spec)?;
            let parts = Parts::of(|id, token| pod_json(common, name, spec, id, token));
            rendered.insert(name.clone(), parts);
        }
        Ok(Self {
            prefix: Arc::from(common.prefix.as_str()),
            app_id: common.app_id.clone(),
            key: match &common.token {
                Some(TokenSource::Sealed(key)) => Some(key.clone()),
                Some(TokenSource::Projected { .. }) | None => None,
            },
            profiles: rendered,
        })
    }

    /// The pod of executor `id`; `None` where there is no such profile.
    pub fn pod(&self, profile: &ProfileName, id: ExecutorId) -> Option<PodBody> {
        let parts = self.profiles.get(profile)?;
        Some(PodBody {
            name: Arc::from(pod_name(&self.prefix, id)),
            json: Bytes::from(parts.fill(id, || {
                let token = self.key.as_ref().map(|key| key.token(&self.app_id, id));
                token.unwrap_or_default()
            })),
        })
    }
}

fn check_label(what: &'static str, value: &str) -> Result<(), TemplateError> {
    if !value.is_empty() && is_label_value(value) {
        return Ok(());
    }
    let value = value.to_owned();
    Err(TemplateError::Label { what, value })
}

fn check_profile(name: &ProfileName, spec: &ProfileSpec) -> Result<(), TemplateError> {
    check_label("profile name", name.as_str())?;
    if let Some(owned) = spec
        .env
        .keys()
        .find(|key| key.starts_with(OWNED_ENV_PREFIX))
    {
        return Err(TemplateError::OwnedEnv {
            profile: name.clone(),
            name: owned.clone(),
        });
    }
    let above = |request: Option<u64>, limit: Option<u64>| {
        request
            .zip(limit)
            .is_some_and(|(request, limit)| request > limit)
    };
    let resource = if above(spec.cpu_request_millis, spec.cpu_limit_millis) {
        "cpu"
    } else if above(spec.memory_request_bytes, spec.memory_limit_bytes) {
        "memory"
    } else {
        return Ok(());
    };
    Err(TemplateError::RequestAboveLimit {
        profile: name.clone(),
        resource,
    })
}

fn pod_json(
    common: &Common,
    profile: &ProfileName,
    spec: &ProfileSpec,
    id: &str,
    token: &str,
) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("{}-exec-{id}", common.prefix),
            "namespace": common.namespace,
            "labels": labels(common, profile, id),
            "ownerReferences": [owner_reference(&common.prefix, &common.record_uid)],
        },
        "spec": pod_spec(common, profile, spec, id, token),
    })
}

/// The owner of every executor: the application record (spec K-2).
///
/// A controller, so that no other one adopts the pod and `kubectl drain` does not stop at it; it does not block the
/// record's deletion, which would need a right more.
pub fn owner_reference(prefix: &str, record_uid: &PodUid) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": record_name(prefix),
        "uid": record_uid.as_str(),
        "controller": true,
        "blockOwnerDeletion": false,
    })
}

fn labels(common: &Common, profile: &ProfileName, id: &str) -> Value {
    let keys = common.labels.keys();
    let mut labels = recommended_labels(&common.app_id, &common.app_name, "executor");
    for (key, value) in [
        (keys.app_id, common.app_id.as_str()),
        (keys.role, EXECUTOR_ROLE),
        (keys.executor_id, id),
        (keys.profile, profile.as_str()),
        (keys.incarnation, &common.incarnation.to_string()),
    ] {
        labels.insert(key.to_owned(), value.into());
    }
    Value::Object(labels)
}

/// The labels that Kubernetes recommends (spec K-3).
pub fn recommended_labels(app_id: &AppId, app_name: &str, component: &str) -> Map<String, Value> {
    let mut labels = Map::new();
    for (key, value) in [
        ("app.kubernetes.io/name", to_label_value(app_name)),
        (
            "app.kubernetes.io/instance",
            to_label_value(app_id.as_str()),
        ),
        ("app.kubernetes.io/component", component.to_owned()),
        ("app.kubernetes.io/managed-by", "boatswain".to_owned()),
        (
            "app.kubernetes.io/version",
            env!("CARGO_PKG_VERSION").to_owned(),
        ),
    ] {
        labels.insert(key.to_owned(), value.into());
    }
    labels
}

fn pod_spec(
    common: &Common,
    profile: &ProfileName,
    spec: &ProfileSpec,
    id: &str,
    token: &str,
) -> Value {
    let mut container = json!({
        "name": EXECUTOR_CONTAINER,
        "image": spec.image,
        "env": env(common, profile, spec, id, token),
    });
    let audience = match &common.token {
        Some(TokenSource::Projected { audience }) => Some(audience),
        Some(TokenSource::Sealed(_)) | None => None,
    };
    if audience.is_some() {
        let mount =
            json!({"name": "boatswain-token", "mountPath": TOKEN_DIRECTORY, "readOnly": true});
        container["volumeMounts"] = json!([mount]);
    }
    if !spec.command.is_empty() {
        container["command"] = json!(spec.command);
    }
    if !spec.args.is_empty() {
        container["args"] = json!(spec.args);
    }
    let resources = resources(spec);
    if !resources.is_empty() {
        container["resources"] = Value::Object(resources);
    }
    let mut pod = json!({"restartPolicy": "Never", "containers": [container]});
    if let Some(audience) = audience {
        let token = json!({
            "path": "token",
            "audience": audience,
            "expirationSeconds": TOKEN_SECONDS,
        });
        pod["volumes"] = json!([{
            "name": "boatswain-token",
            "projected": {"sources": [{"serviceAccountToken": token}]},
        }]);
    }
    if !spec.node_selector.is_empty() {
        pod["nodeSelector"] = json!(spec.node_selector);
    }
    if !spec.tolerations.is_empty() {
        pod["tolerations"] = json!(spec.tolerations);
    }
    if let Some(grace) = spec.termination_grace {
        // Kubernetes counts whole seconds; a part of one is given in full.
        let seconds = grace.as_secs() + u64::from(grace.subsec_nanos() > 0);
        pod["terminationGracePeriodSeconds"] = seconds.into();
    }
    mounts::mount(&mut pod, common, spec, id);
    avoidance::avoid(&mut pod, &common.avoid);
    pod
}

fn resources(spec: &ProfileSpec) -> Map<String, Value> {
    let amounts = |cpu: Option<u64>, memory: Option<u64>| {
        let mut amounts = Map::new();
        if let Some(millis) = cpu {
            amounts.insert("cpu".to_owned(), cpu_text(millis).into());
        }
        if let Some(bytes) = memory {
            amounts.insert("memory".to_owned(), bytes.to_string().into());
        }
        amounts
    };
    [
        (
            "requests",
            amounts(spec.cpu_request_millis, spec.memory_request_bytes),
        ),
        (
            "limits",
            amounts(spec.cpu_limit_millis, spec.memory_limit_bytes),
        ),
    ]
    .into_iter()
    .filter(|(_, amounts)| !amounts.is_empty())
    .map(|(kind, amounts)| (kind.to_owned(), Value::Object(amounts)))
    .collect()
}

/// boatswain's own variables come first, so that the profile's may refer to them (spec K-4).
fn env(common: &Common, profile: &ProfileName, spec: &ProfileSpec, id: &str, token: &str) -> Value {
    let plain = |name: &str, value: &str| json!({"name": name, "value": value});
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}});
    let mut env = vec![
        plain("BOATSWAIN_APP_ID", common.app_id.as_str()),
        plain("BOATSWAIN_EXECUTOR_ID", id),
        plain("BOATSWAIN_PROFILE", profile.as_str()),
        field("BOATSWAIN_POD_NAME", "metadata.name"),
        field("BOATSWAIN_POD_UID", "metadata.uid"),
        field("BOATSWAIN_POD_IP", "status.podIP"),
    ];
    if let Some(url) = &common.driver_url {
        env.push(plain("BOATSWAIN_DRIVER_URL", url));
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
    // What it can use at most; whole cores, for that is what threads are counted in.
    if let Some(millis) = spec.cpu_limit_millis.or(spec.cpu_request_millis) {
        let cores = millis.div_ceil(1000).to_string();
        env.push(plain("BOATSWAIN_CORES", &cores));
    }
    if let Some(bytes) = spec.memory_limit_bytes.or(spec.memory_request_bytes) {
        env.push(plain("BOATSWAIN_MEMORY_BYTES", &bytes.to_string()));
    }
    env.extend(spec.env.iter().map(|(name, value)| plain(name, value)));
    Value::Array(env)
}

#[cfg(test)]
mod tests;
