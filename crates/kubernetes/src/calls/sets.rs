//! API calls on the sets that make executor pods (spec A-80).

use std::fmt;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Calls;
use super::pods::{is_another, is_missing, kind_is};
use super::transport::{
    self, Call, JSON, JSON_PATCH, MERGE_PATCH, OBJECT_LIMIT, Rejection, garbage, path,
};
use crate::labels::{SET_ROLE, TEMPLATE_HASH};
use crate::refusal::Failure;
use crate::wire::{PlainMetaWire, record_among};
use boatswain_model::PodUid;

/// The kind of set that makes the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetKind {
    /// Pods with ordinals; the pod with the highest one is deleted first.
    StatefulSet,
    /// Pods without order; any may be deleted first.
    Deployment,
}

impl SetKind {
    pub fn kind(self) -> &'static str {
        match self {
            Self::StatefulSet => "StatefulSet",
            Self::Deployment => "Deployment",
        }
    }

    /// The plural in paths and Role rules.
    pub fn plural(self) -> &'static str {
        match self {
            Self::StatefulSet => "statefulsets",
            Self::Deployment => "deployments",
        }
    }
}

impl fmt::Display for SetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetSeen {
    pub name: String,
    /// The uid. `PodUid` is used for any object's uid.
    pub uid: PodUid,
    pub replicas: u32,
    /// The hash of the template, from the set's annotation.
    pub template: Option<String>,
    /// The uid of the application record, if it is among the owners.
    pub owner: Option<PodUid>,
    pub deleting: bool,
}

impl Calls {
    /// Lists the application's sets of a kind. Fails if any of them cannot be decoded.
    pub async fn list_sets(&self, kind: SetKind) -> Result<Vec<SetSeen>, Failure> {
        let keys = self.reader().labels.keys();
        let app = self.reader().app_id.as_str();
        let selector = format!("{}={app},{}={SET_ROLE}", keys.app_id, keys.role);
        let record = &self.reader().record;
        let read = |item: &str| {
            let set: SetWire = serde_json::from_str(item).map_err(|error| error.to_string())?;
            Ok(Some(set.read(record)))
        };
        let path = self.sets_path(kind, &[]);
        self.list_all(&path, &format!("{kind}List"), &selector, read)
            .await
    }

    /// Creates a set; fails with [`crate::FailureKind::AlreadyExists`] if the name is taken.
    pub async fn create_set(&self, kind: SetKind, set: &Value) -> Result<SetSeen, Failure> {
        let call = self.set_call(Method::POST, kind, &[], set);
        let answer = self.set(kind, call).await;
        answer.map_err(|rejection| rejection.failure)
    }

    /// Applies a JSON patch to a set; `None` if the API server reports no such set. Any other 404 is an error.
    pub async fn patch_set(
        &self,
        kind: SetKind,
        name: &str,
        json_patch: &Value,
    ) -> Result<Option<SetSeen>, Failure> {
        let mut call = self.set_call(Method::PATCH, kind, &[name], json_patch);
        call.body = Some((JSON_PATCH, Bytes::from(json_patch.to_string())));
        match self.set(kind, call).await {
            Ok(set) => Ok(Some(set)),
            Err(rejection) if is_missing(&rejection, kind.plural(), name) => Ok(None),
            Err(rejection) => Err(rejection.failure),
        }
    }

    /// Sets the number of replicas, with the uid as a precondition. Returns whether the set exists.
    pub async fn scale_set(
        &self,
        kind: SetKind,
        name: &str,
        uid: &PodUid,
        replicas: u32,
    ) -> Result<bool, Failure> {
        let scale = json!({"metadata": {"uid": uid.as_str()}, "spec": {"replicas": replicas}});
        let call = self.set_call(Method::PATCH, kind, &[name, "scale"], &scale);
        match self.answer(&self.clients().creates, call).await {
            Ok(_) => Ok(true),
            Err(rejection)
                if is_missing(&rejection, kind.plural(), name) || is_another(&rejection) =>
            {
                Ok(false)
            }
            Err(rejection) => Err(rejection.failure),
        }
    }

    /// Deletes a set and, in the background, its pods, with the uid as a precondition. A missing set is not an error,
    /// but a 404 or 409 that is not about this set is.
    pub async fn delete_set(&self, kind: SetKind, name: &str, uid: &PodUid) -> Result<(), Failure> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {"uid": uid.as_str()},
        });
        let call = self.set_call(Method::DELETE, kind, &[name], &options);
        match self.answer(&self.clients().deletes, call).await {
            Ok(_) => Ok(()),
            Err(rejection)
                if is_missing(&rejection, kind.plural(), name) || is_another(&rejection) =>
            {
                Ok(())
            }
            Err(rejection) => Err(rejection.failure),
        }
    }

    fn sets_path(&self, kind: SetKind, below: &[&str]) -> String {
        let namespace = self.namespace();
        let mut segments = vec!["apis", "apps", "v1", "namespaces", namespace, kind.plural()];
        segments.extend(below);
        path(&segments)
    }

    fn set_call(&self, method: Method, kind: SetKind, below: &[&str], body: &Value) -> Call {
        let media_type = if method == Method::PATCH {
            MERGE_PATCH
        } else {
            JSON
        };
        Call {
            method,
            path: self.sets_path(kind, below),
            query: self.write_query(),
            body: Some((media_type, Bytes::from(body.to_string()))),
            limit: OBJECT_LIMIT,
        }
    }

    async fn set(&self, kind: SetKind, call: Call) -> Result<SetSeen, Rejection> {
        let place = call.place();
        let body = self.answer(&self.clients().creates, call).await?;
        let text = transport::text(&body);
        let read = kind_is(&text, kind.kind()).and_then(|()| {
            serde_json::from_str::<SetWire>(&text).map_err(|error| error.to_string())
        });
        read.map(|set| set.read(&self.reader().record))
            .map_err(|why| garbage(&place, &why).into())
    }
}

#[derive(Deserialize)]
struct SetWire {
    metadata: PlainMetaWire,
    spec: Option<SpecWire>,
}

#[derive(Deserialize)]
struct SpecWire {
    replicas: Option<i64>,
}

impl SetWire {
    fn read(self, record: &str) -> SetSeen {
        let meta = self.metadata;
        let owners = meta.owner_references.unwrap_or_default();
        let replicas = self.spec.and_then(|spec| spec.replicas).unwrap_or(1);
        SetSeen {
            name: meta.name,
            uid: meta.uid.into(),
            replicas: u32::try_from(replicas).unwrap_or_default(),
            template: (meta.annotations).and_then(|mut pairs| pairs.remove(TEMPLATE_HASH)),
            owner: record_among(&owners, record).map(PodUid::from),
            deleting: meta.deletion_timestamp.is_some(),
        }
    }
}
