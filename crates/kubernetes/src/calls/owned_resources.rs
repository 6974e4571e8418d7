//! Creates the application's single owned resources, and corrects them if they differ (spec K-8, K-9).

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::Calls;
use super::transport::{Call, JSON, OBJECT_LIMIT, Query};
use crate::owned_resources::{OwnedResource, is_as_wanted};
use crate::refusal::{Failure, FailureKind};

const SECRETS: &str = "secrets";

impl Calls {
    /// Ensures that an object exists as wanted, with this owner. If it already does, nothing is written, so the call
    /// can be repeated after a lost response. An object that an earlier owner of the same name left behind is taken
    /// over.
    ///
    /// # Errors
    /// [`FailureKind::Invalid`] if an object that is not ours has the name; [`FailureKind::Conflict`] if the object is being deleted.
    pub async fn ensure(
        &self,
        owned_resource: &OwnedResource,
        owner: &Value,
    ) -> Result<(), Failure> {
        let OwnedResource {
            resource,
            name,
            json,
        } = owned_resource;
        let mut wanted = json.clone();
        wanted["metadata"]["ownerReferences"] = json!([owner]);
        let Some(there) = self.get_object(resource, name).await? else {
            return self.write(Method::POST, resource, None, &wanted).await;
        };
        if !self.is_this_applications(&there, &wanted) && !self.is_left_behind(&there, owner) {
            return Err(foreign(resource, name));
        }
        if there["metadata"]["deletionTimestamp"].is_string() {
            let why = format!("{resource}/{name} is being deleted");
            return Err(Failure::new(FailureKind::Conflict, &why));
        }
        if is_as_wanted(&there, &wanted) {
            return Ok(());
        }
        for key in ["uid", "resourceVersion"] {
            wanted["metadata"][key] = there["metadata"][key].clone();
        }
        self.write(Method::PUT, resource, Some(name), &wanted).await
    }

    /// Gets a Secret; `None` if there is none.
    ///
    /// # Errors
    /// [`FailureKind::Conflict`] if it is being deleted.
    pub async fn get_secret(&self, name: &str) -> Result<Option<Value>, Failure> {
        let secret = self.get_object(SECRETS, name).await?;
        match secret {
            Some(secret) if secret["metadata"]["deletionTimestamp"].is_string() => {
                let why = format!("{SECRETS}/{name} is being deleted");
                Err(Failure::new(FailureKind::Conflict, &why))
            }
            secret => Ok(secret),
        }
    }

    /// Creates a Secret with this owner or, if one was read before, replaces it in that version.
    ///
    /// # Errors
    /// [`FailureKind::AlreadyExists`] or [`FailureKind::Conflict`] if another driver was faster; [`FailureKind::Invalid`] if an object that
    /// is not ours has the name.
    pub async fn put_secret(
        &self,
        secret: &OwnedResource,
        there: Option<&Value>,
        owner: &Value,
    ) -> Result<(), Failure> {
        let mut wanted = secret.json.clone();
        wanted["metadata"]["ownerReferences"] = json!([owner]);
        let Some(there) = there else {
            return self.write(Method::POST, SECRETS, None, &wanted).await;
        };
        if !self.is_this_applications(there, &wanted) && !self.is_left_behind(there, owner) {
            return Err(foreign(SECRETS, &secret.name));
        }
        for key in ["uid", "resourceVersion"] {
            wanted["metadata"][key] = there["metadata"][key].clone();
        }
        self.write(Method::PUT, SECRETS, Some(&secret.name), &wanted)
            .await
    }

    /// Whether two objects have the same application's label.
    fn is_this_applications(&self, there: &Value, wanted: &Value) -> bool {
        let app_id = self.at.reader.labels.keys().app_id;
        there["metadata"]["labels"][app_id] == wanted["metadata"]["labels"][app_id]
    }

    /// Whether an earlier application with the same record name has left the object. The garbage collector may not have
    /// deleted it yet, and never deletes orphaned ones.
    fn is_left_behind(&self, there: &Value, owner: &Value) -> bool {
        let owners = there["metadata"]["ownerReferences"].as_array();
        match owners.map_or(&[][..], Vec::as_slice) {
            [] => {
                let app_id = self.at.reader.labels.keys().app_id;
                there["metadata"]["labels"][app_id].is_string()
            }
            owners => owners.iter().any(|other| is_namesake(other, owner)),
        }
    }

    /// Gets an object of the core group; `None` if there is none.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn get_object(&self, resource: &str, name: &str) -> Result<Option<Value>, Failure> {
        let call = Call {
            method: Method::GET,
            path: self.core_path(resource, Some(name)),
            query: Query::default(),
            body: None,
            limit: OBJECT_LIMIT,
        };
        self.read_if_there(call, resource, name).await
    }

    pub(super) async fn write(
        &self,
        method: Method,
        resource: &str,
        name: Option<&str>,
        object: &Value,
    ) -> Result<(), Failure> {
        let call = Call {
            method,
            path: self.core_path(resource, name),
            query: self.write_query(),
            body: Some((JSON, Bytes::from(object.to_string()))),
            limit: OBJECT_LIMIT,
        };
        let answered = self.answer(&self.clients().reads, call).await;
        answered.map(drop).map_err(|rejection| rejection.failure)
    }
}

fn foreign(resource: &str, name: &str) -> Failure {
    let why =
        "there is one that is not this application's: choose another executors.pod_name_prefix";
    Failure::new(FailureKind::Invalid, &format!("{resource}/{name}: {why}"))
}

/// Whether the two owners have the same kind and name; their uids may differ.
fn is_namesake(other: &Value, owner: &Value) -> bool {
    other["kind"] == owner["kind"] && other["name"] == owner["name"]
}
