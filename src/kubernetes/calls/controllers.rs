//! Finds an object's controller, and whether a pod runs. The driver does so at its start (spec K-2, O-34).

use http::Method;
use serde::{Deserialize, Serialize};

use super::Calls;
use super::pods::{is_missing, kind_is};
use super::transport::{self, Call, OBJECT_LIMIT, Query, garbage, path};
use crate::kubernetes::refusal::Failure;

/// A reference to an object, as in `ownerReferences`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controlled {
    pub uid: String,
    pub controller: Option<Reference>,
    /// Whether it is a pod that runs and is not being deleted.
    pub runs: bool,
}

impl Calls {
    /// Gets a pod's uid and controller; `None` if the API server reports no such pod. Any other 404 is an error.
    pub async fn controller_of_pod(&self, name: &str) -> Result<Option<Controlled>, Failure> {
        let path = self.core_path("pods", Some(name));
        self.controlled(path, "Pod", "pods", name).await
    }

    /// Gets a ReplicaSet's uid and controller; as [`Calls::controller_of_pod`].
    pub async fn controller_of_replica_set(
        &self,
        name: &str,
    ) -> Result<Option<Controlled>, Failure> {
        let namespace = self.namespace();
        let path = path(&[
            "apis",
            "apps",
            "v1",
            "namespaces",
            namespace,
            "replicasets",
            name,
        ]);
        self.controlled(path, "ReplicaSet", "replicasets", name)
            .await
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
        status: Option<Status>,
    }
    #[derive(Deserialize)]
    struct Status {
        phase: Option<String>,
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
    let phase = wire.status.and_then(|status| status.phase);
    Ok(Controlled {
        runs: phase.as_deref() == Some("Running") && wire.metadata.deletion_timestamp.is_none(),
        uid: wire.metadata.uid,
        controller: controller.map(|owner| owner.reference),
    })
}
