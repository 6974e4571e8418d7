//! Reads the driver's own pod and the controllers above it: at its start (spec K-2, O-34), and when it is asked to stop
//! (spec O-66).

use http::Method;
use serde::{Deserialize, Serialize};

use super::Calls;
use super::pods::{is_missing, kind_is};
use super::transport::{self, Call, OBJECT_LIMIT, Query, garbage, path};
use crate::refusal::Failure;

/// A reference to an object, as in `ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
}

/// The kinds of controllers that the driver reads. Each keeps pods running by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControllerKind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    Job,
}

/// A pod, or a controller of pods.
#[derive(Debug, Clone, PartialEq)]
pub struct Controlled {
    pub uid: String,
    pub controller: Option<Reference>,
    /// Whether it is a pod that runs and is not being deleted.
    pub runs: bool,
    /// Whether it is being deleted.
    pub is_deleted: bool,
    /// The types of the conditions that are true.
    pub conditions: Vec<String>,
    pub spec: ControlledSpec,
    /// The pods of a Job that have failed.
    pub failed: i64,
}

/// The fields of `spec`, whichever the kind has.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControlledSpec {
    /// Of a pod.
    pub restart_policy: Option<String>,
    /// Of a Deployment, ReplicaSet or StatefulSet; the server's default is 1.
    pub replicas: Option<i64>,
    /// Of a Job; the server's default is 1.
    pub parallelism: Option<i64>,
    /// Of a Job.
    pub suspend: Option<bool>,
    /// Of a Job; the server's default is 6.
    pub backoff_limit: Option<i64>,
    /// Of a Job.
    pub pod_failure_policy: Option<serde::de::IgnoredAny>,
}

impl ControllerKind {
    /// `None` for kinds that the driver does not know.
    pub fn of(reference: &Reference) -> Option<Self> {
        let group = reference.api_version.split_once('/')?.0;
        let all = [
            Self::Deployment,
            Self::ReplicaSet,
            Self::StatefulSet,
            Self::Job,
        ];
        all.into_iter().find(|kind| {
            let (of_group, name, _) = kind.names();
            (of_group, name) == (group, reference.kind.as_str())
        })
    }

    /// The API group, the kind and the resource.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Deployment => ("apps", "Deployment", "deployments"),
            Self::ReplicaSet => ("apps", "ReplicaSet", "replicasets"),
            Self::StatefulSet => ("apps", "StatefulSet", "statefulsets"),
            Self::Job => ("batch", "Job", "jobs"),
        }
    }
}

impl Controlled {
    pub fn has_condition(&self, kind: &str) -> bool {
        self.conditions.iter().any(|condition| condition == kind)
    }
}

impl Calls {
    /// Gets a pod; `None` if the API server reports no such pod. Any other 404 is an error.
    pub async fn controller_of_pod(&self, name: &str) -> Result<Option<Controlled>, Failure> {
        self.controller_of_pod_in(self.namespace(), name).await
    }

    /// The same for a pod of this namespace.
    pub async fn controller_of_pod_in(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Controlled>, Failure> {
        let path = path(&["api", "v1", "namespaces", namespace, "pods", name]);
        self.controlled(path, "Pod", "pods", name).await
    }

    /// Gets a controller; as [`Calls::controller_of_pod`].
    pub async fn controller(
        &self,
        kind: ControllerKind,
        name: &str,
    ) -> Result<Option<Controlled>, Failure> {
        let (group, kind, resource) = kind.names();
        let namespace = self.namespace();
        let path = path(&["apis", group, "v1", "namespaces", namespace, resource, name]);
        self.controlled(path, kind, resource, name).await
    }

    async fn controlled(
        &self,
        path: String,
        kind: &str,
        resource: &str,
        name: &str,
    ) -> Result<Option<Controlled>, Failure> {
        let call = Call {
            method: Method::GET,
            path,
            query: Query::default(),
            body: None,
            limit: OBJECT_LIMIT,
        };
        let place = call.place();
        match self.answer(&self.clients().reads, call).await {
            Ok(body) => {
                let text = transport::text(&body);
                let read = kind_is(&text, kind).and_then(|()| read(&text));
                read.map(Some).map_err(|why| garbage(&place, &why))
            }
            Err(rejection) if is_missing(&rejection, resource, name) => Ok(None),
            Err(rejection) => Err(rejection.failure),
        }
    }
}

fn read(json: &str) -> Result<Controlled, String> {
    #[derive(Deserialize)]
    struct Wire {
        metadata: Meta,
        spec: Option<ControlledSpec>,
        status: Option<Status>,
    }
    #[derive(Default, Deserialize)]
    struct Status {
        phase: Option<String>,
        conditions: Option<Vec<Condition>>,
        failed: Option<i64>,
    }
    #[derive(Deserialize)]
    struct Condition {
        r#type: String,
        status: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Meta {
        uid: String,
        owner_references: Option<Vec<Owner>>,
        deletion_timestamp: Option<String>,
    }
    #[derive(Deserialize)]
    struct Owner {
        #[serde(flatten)]
        reference: Reference,
        controller: Option<bool>,
    }
    let wire: Wire = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let owners = wire.metadata.owner_references.unwrap_or_default();
    let controller = owners
        .into_iter()
        .find(|owner| owner.controller == Some(true));
    let is_deleted = wire.metadata.deletion_timestamp.is_some();
    let status = wire.status.unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default().into_iter();
    Ok(Controlled {
        runs: status.phase.as_deref() == Some("Running") && !is_deleted,
        uid: wire.metadata.uid,
        controller: controller.map(|owner| owner.reference),
        is_deleted,
        conditions: (conditions.filter(|condition| condition.status == "True"))
            .map(|condition| condition.r#type)
            .collect(),
        spec: wire.spec.unwrap_or_default(),
        failed: status.failed.unwrap_or_default(),
    })
}
