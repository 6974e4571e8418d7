//! Builds an executor pod's JSON from its profile (spec K-1 to K-7).
//!
//! A pod is the template, overlaid with the profile's own fields (`merge`), the secure defaults (`secure`) and the
//! fields that boatswain owns (`owned`). Each profile is rendered once; per executor, only the id and the token are
//! inserted.

mod avoidance;
pub mod gangs;
mod injection;
mod merge;
mod mounts;
mod owned;
mod parts;
mod secure;
mod wishes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use thiserror::Error;

use injection::NoCommand;
pub use injection::{InjectedBy, Injection};
use parts::Parts;
pub use wishes::overridden;

use super::claims::ClaimSpec;
use super::labels::{LabelScheme, is_label_value, to_label_value};
use super::record::record_name;
use super::set_template::hash;
use super::workloads::QueuedPods;
use crate::secret::seal::Key;
use boatswain_model::failures::{Avoid, Growth};
use boatswain_model::ids::pod_name;
use boatswain_model::{AppId, ExecutorId, Incarnation, PodUid, ProfileName};

/// The executor container's name (spec K-2).
pub const EXECUTOR_CONTAINER: &str = "executor";

/// The image without a configured one: the embedded cluster runs the command without an image.
pub const NO_IMAGE: &str = "none";

/// The name prefix of boatswain's own environment variables; a profile must not set such a variable (spec K-4).
pub const OWNED_ENV_PREFIX: &str = "BOATSWAIN_";

/// A profile (spec K-1, K-5), in the API's terms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProfileSpec {
    /// The template: a pod's `metadata` and `spec`, in which the executor container is named `executor`.
    pub base: Value,
    /// Labels in addition to boatswain's own.
    pub labels: BTreeMap<String, String>,
    /// Annotations in addition to boatswain's own.
    pub annotations: BTreeMap<String, String>,
    pub pod: Map<String, Value>,
    /// Fields of the executor container. Its environment may refer to boatswain's own variables as `$(BOATSWAIN_…)`.
    pub container: Map<String, Value>,
    /// Topology spread constraints without a selector; the application's executors of the profile are selected.
    pub spread: Vec<Value>,
    /// The memory that the executor is told it may use, in bytes; `None` for the container's limit, else its request.
    pub memory_bytes: Option<u64>,
    /// The volume claims of each executor.
    pub claims: Vec<ClaimSpec>,
    /// The termination grace period; `None` for the template's, else the cluster's default.
    pub termination_grace: Option<Duration>,
    /// The profile's gang, if a gang scheduler is configured.
    pub gang: Option<gangs::GangMark>,
    /// How the executors' memory grows after `OomKilled`; `None`: it does not.
    pub growth: Option<Growth>,
}

impl ProfileSpec {
    /// The same with this memory limit, in bytes, and with a request that grows as much (spec L-43).
    #[must_use]
    pub fn with_memory_limit(mut self, limit: u64) -> Self {
        let Some(growth) = self.growth else {
            return self;
        };
        let scaled = |bytes| grown_request(bytes, growth.from, limit);
        self.memory_bytes = self.memory_bytes.map(scaled);
        let resources = self.container.entry("resources").or_insert(json!({}));
        let request = resources["requests"]["memory"].as_str();
        let request = request.and_then(|bytes| bytes.parse().ok());
        if let Some(request) = request {
            resources["requests"]["memory"] = scaled(request).to_string().into();
        }
        resources["limits"]["memory"] = limit.to_string().into();
        self
    }

    /// The executor container without what boatswain adds to it.
    pub fn executor_container(&self) -> Value {
        let mut pod = merge::shape(self);
        merge::executor(&mut pod["spec"]).take()
    }
}

/// The request that has the same share of a grown limit, all in bytes (spec L-43, L-44).
pub(crate) fn grown_request(request: u64, limit_before: u64, limit: u64) -> u64 {
    let grown = u128::from(request) * u128::from(limit) / u128::from(limit_before.max(1));
    u64::try_from(grown).unwrap_or(u64::MAX).min(limit)
}

/// The settings common to all executors of an incarnation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Common {
    pub app_id: AppId,
    /// For display.
    pub app_name: String,
    pub namespace: String,
    pub prefix: String,
    pub labels: LabelScheme,
    pub incarnation: Incarnation,
    /// The uid of the application record, which owns every executor.
    pub record_uid: PodUid,
    /// The URL at which executors reach the driver, if they are to connect to it.
    pub driver_url: Option<String>,
    /// The path of the CA that executors trust the driver by, if it is not one of their image's.
    pub ca_file: Option<String>,
    /// How executors authenticate to the driver, if they are to.
    pub token: Option<TokenSource>,
    /// The path of the agent's program, if executors are processes of this machine.
    pub agent: Option<String>,
    /// How the agent's program gets into executors' containers; `None`: not at all.
    pub injection: Option<Injection>,
    /// Whether autoscalers leave new executors' nodes alone.
    pub protects: bool,
    /// The mount path of the application's ConfigMap, if there is one.
    pub config_map: Option<String>,
    /// The nodes that new executors avoid.
    pub avoid: Avoid,
    /// The nodes that new executors of each profile prefer.
    pub preferred: BTreeMap<ProfileName, NodeWeights>,
}

/// How much each of these nodes is preferred to the others.
pub type NodeWeights = BTreeMap<Arc<str>, u32>;

/// How an executor authenticates (spec O-112).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// A token in an environment variable, signed with this key.
    Sealed(Key),
    /// A file with a service account token that Kubernetes binds to the pod, for this audience.
    Projected { audience: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    #[error(
        "{what} {value:?} cannot be a label: at most 63 letters, digits, '-', '_' and '.' are allowed, a letter or digit first and last"
    )]
    Label {
        /// The setting that the value comes from.
        what: &'static str,
        value: String,
    },
    /// A profile sets an environment variable that boatswain owns.
    #[error("profile {profile}: env {name} is boatswain's own")]
    OwnedEnv { profile: ProfileName, name: String },
    /// The merged template and profile have a request above its limit.
    #[error("profile {profile}: the {resource} request, {request}, is above the limit, {limit}")]
    RequestAboveLimit {
        profile: ProfileName,
        resource: String,
        request: String,
        limit: String,
    },
    /// A profile without a command, which the agent would run.
    #[error(
        "profile {profile}: with agent.inject the agent runs the executor's command, and the image's own is unknown: set command"
    )]
    Command { profile: ProfileName },
    /// A profile has claims, but all pods of a Deployment share one template.
    #[error(
        "profile {profile}: all pods of a deployment would share its claims; set allocation.strategy = \"statefulset\", or \"direct\""
    )]
    Claims { profile: ProfileName },
    /// A profile whose memory grows, where all pods are of one size.
    #[error(
        "profile {profile}: memory_max needs allocation.strategy = \"direct\" and no scheduling.queue; remove it"
    )]
    Grows { profile: ProfileName },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    prefix: Arc<str>,
    app_id: AppId,
    key: Option<Key>,
    profiles: BTreeMap<ProfileName, Parts>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodBody {
    pub name: Arc<str>,
    pub json: Bytes,
}

impl Template {
    /// Renders all profiles. Fails if the API server would certainly refuse the pods.
    pub fn new(
        common: &Common,
        profiles: &BTreeMap<ProfileName, ProfileSpec>,
    ) -> Result<Self, TemplateError> {
        check_label("application id", common.app_id.as_str())?;
        let mut rendered = BTreeMap::new();
        for (name, spec) in profiles {
            check_label("profile name", name.as_str())?;
            check_env(name, spec)?;
            let mut shape = merge::shape(spec);
            if let Some(injection) = &common.injection {
                injection::inject(&mut shape["spec"], injection, spec.termination_grace).map_err(
                    |NoCommand| {
                        let profile = name.clone();
                        TemplateError::Command { profile }
                    },
                )?;
            }
            merge::check_resources(&shape).map_err(|(resource, request, limit)| {
                TemplateError::RequestAboveLimit {
                    profile: name.clone(),
                    resource,
                    request,
                    limit,
                }
            })?;
            let parts = Parts::of(|id, token| {
                let executor = Executor {
                    profile: name,
                    spec,
                    id,
                    token,
                };
                owned::pod(common, &executor, shape.clone())
            });
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

    /// Builds the pod of executor `id`; `None` if the profile does not exist.
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

/// The `metadata` and `spec` of a pod that is no executor, but described as one. Its first container, or the template's
/// executor container, has this name.
///
/// # Errors
/// If a request is above its limit: the resource, the request and the limit.
pub fn plain(spec: &ProfileSpec, container: &str) -> Result<Value, (String, String, String)> {
    let mut shape = merge::shape(spec);
    merge::check_resources(&shape)?;
    merge::executor(&mut shape["spec"])["name"] = container.into();
    if let Some(grace) = spec.termination_grace {
        shape["spec"]["terminationGracePeriodSeconds"] = whole_seconds(grace).into();
    }
    without_nulls(&mut shape);
    Ok(shape)
}

/// Kubernetes counts a grace in whole seconds.
fn whole_seconds(grace: Duration) -> u64 {
    grace.as_secs() + u64::from(grace.subsec_nanos() > 0)
}

/// What a queue has to know of a profile's pods: what they request, and on which nodes they may run. Who may read a
/// Workload learns nothing else of them.
pub fn queued(spec: &ProfileSpec, injection: Option<&Injection>) -> QueuedPods {
    let mut shape = merge::shape(spec);
    if let Some(injection) = injection {
        // A profile without a command was refused before (spec O-65).
        let _ = injection::inject(&mut shape["spec"], injection, None);
    }
    let mut pod = keep(
        &shape["spec"],
        &[
            "affinity",
            "nodeSelector",
            "overhead",
            "priorityClassName",
            "resources",
            "runtimeClassName",
            "tolerations",
        ],
    );
    for kind in ["containers", "initContainers"] {
        let all = shape["spec"][kind].as_array();
        let of = |one| Value::Object(keep(one, &["name", "resources", "restartPolicy"]));
        if let Some(all) = all {
            pod.insert(kind.to_owned(), all.iter().map(of).collect());
        }
    }
    let template = json!({"spec": pod});
    QueuedPods {
        hash: hash(&template.to_string()).into(),
        template,
    }
}

fn keep(of: &Value, fields: &[&str]) -> Map<String, Value> {
    let kept = fields.iter().filter_map(|field| {
        let value = of.get(*field).filter(|value| !value.is_null())?;
        Some(((*field).to_owned(), value.clone()))
    });
    kept.collect()
}

fn check_label(what: &'static str, value: &str) -> Result<(), TemplateError> {
    if !value.is_empty() && is_label_value(value) {
        return Ok(());
    }
    let value = value.to_owned();
    Err(TemplateError::Label { what, value })
}

fn check_env(name: &ProfileName, spec: &ProfileSpec) -> Result<(), TemplateError> {
    let variables = spec.container.get("env").and_then(Value::as_array);
    let names = (variables.into_iter().flatten()).filter_map(|variable| variable["name"].as_str());
    match names
        .into_iter()
        .find(|name| name.starts_with(OWNED_ENV_PREFIX))
    {
        None => Ok(()),
        Some(owned) => Err(TemplateError::OwnedEnv {
            profile: name.clone(),
            name: owned.to_owned(),
        }),
    }
}

/// The owner reference to the application record, which owns every executor (spec K-2).
///
/// The record is the controller, so that no other controller adopts the pod and `kubectl drain` deletes it. It does not
/// block the record's deletion, which would require another permission.
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

/// Removes the nulls that indexing a JSON value inserts.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(without_nulls);
            fields.retain(|_, value| !value.is_null());
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

struct Executor<'a> {
    profile: &'a ProfileName,
    spec: &'a ProfileSpec,
    /// The executor's id, or a placeholder.
    id: &'a str,
    /// The executor's token, or a placeholder.
    token: &'a str,
}

#[cfg(test)]
mod tests;
