//! From a profile to an executor's pod, in the JSON that is sent (spec K-1 to K-7).
//!
//! A pod is made of the profile's template, then of the profile's own fields (`merge`), then of what is secure where nobody
//! says otherwise (`secure`), and of what is boatswain's own (`owned`). All that is the same for every executor of a
//! profile is rendered once; for executor N only its number and its token are put in.

mod avoidance;
pub mod gangs;
mod merge;
mod mounts;
mod owned;
mod parts;
mod secure;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use thiserror::Error;

use parts::Parts;

use super::claims::ClaimSpec;
use super::labels::{LabelScheme, is_label_value, to_label_value};
use super::names::{MAX_PREFIX, is_prefix};
use super::record::record_name;
use crate::model::failures::Avoid;
use crate::model::ids::pod_name;
use crate::model::{AppId, ExecutorId, Incarnation, PodUid, ProfileName};
use crate::secret::seal::Key;

/// The executor container's name (spec K-2).
pub const EXECUTOR_CONTAINER: &str = "executor";

/// What all of boatswain's own environment variables begin with; a profile may not set such (spec K-4).
pub const OWNED_ENV_PREFIX: &str = "BOATSWAIN_";

/// A shape of executor (spec K-1, K-5), in the words of the API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProfileSpec {
    /// What a pod is before all that follows: `metadata` and `spec` of a template, in which the executor's container is
    /// called `executor`.
    pub base: Value,
    /// Labels beside boatswain's own.
    pub labels: BTreeMap<String, String>,
    /// Annotations beside boatswain's own.
    pub annotations: BTreeMap<String, String>,
    /// Fields of the pod's spec.
    pub pod: Map<String, Value>,
    /// Fields of the executor's container; its environment may refer to boatswain's own as `$(BOATSWAIN_…)`.
    pub container: Map<String, Value>,
    /// Topology spread constraints that have no selector: it is this application's executors of the profile that are
    /// spread.
    pub spread: Vec<Value>,
    /// The bytes that the executor is told it may use; `None`: its limit, or what is reserved for it.
    pub memory_bytes: Option<u64>,
    /// The claims on volumes that each of its executors has (spec K-10).
    pub claims: Vec<ClaimSpec>,
    /// How long it may take to end; `None` for what the base says, or the cluster's default.
    pub termination_grace: Option<Duration>,
    /// How its gang is scheduled, where a scheduler is told of that (spec A-82).
    pub gang: Option<gangs::GangMark>,
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
    /// A request is above its limit, once the template and the profile are put together.
    #[error("profile {profile}: the {resource} request, {request}, is above the limit, {limit}")]
    RequestAboveLimit {
        /// Which profile.
        profile: ProfileName,
        /// Of what.
        resource: String,
        /// What is asked for.
        request: String,
        /// What is granted at most.
        limit: String,
    },
    /// A profile has claims, but all pods of a deployment are alike (spec A-80).
    #[error(
        "profile {profile}: all pods of a deployment would share its claims; set allocation.strategy = \"statefulset\", or \"direct\""
    )]
    Claims {
        /// Which profile.
        profile: ProfileName,
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
            check_label("profile name", name.as_str())?;
            check_env(name, spec)?;
            let shape = merge::shape(spec);
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

/// What was only looked for in a document is left out of it again.
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

/// An executor of which a pod is made.
struct Executor<'a> {
    profile: &'a ProfileName,
    spec: &'a ProfileSpec,
    /// Its number, or what stands for it.
    id: &'a str,
    /// Its token, or what stands for it.
    token: &'a str,
}

#[cfg(test)]
mod tests;
