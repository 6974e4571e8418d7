//! Creates the application's single owned resources, and corrects them if they differ (spec K-8, K-9).

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::Calls;
use super::pods::is_missing;
use super::transport::{self, Call, JSON, OBJECT_LIMIT, Query, garbage};
use crate::kubernetes::owned_resources::{OwnedResource, is_as_wanted};
use crate::kubernetes::refusal::{Failure, Kind};

impl Calls {
    /// Ensures that an object exists as wanted, with this owner. If it already does, nothing is written, so the call
    /// can be repeated after a lost response. An object that an earlier owner of the same name left behind is taken
    /// over.
    ///
    /// # Errors
    /// [`Kind::Invalid`] if an object that is not ours has the name; [`Kind::Conflict`] if the object is being deleted.
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
        let app_id = self.at.reader.labels.keys().app_id;
        let label = |object: &Value| object["metadata"]["labels"][app_id].clone();
        // An application that starts right after another one with the same record name ended may find its objects: the
        // garbage collector may not have deleted them yet, and never deletes orphaned ones.
        let owners = there["metadata"]["ownerReferences"].as_array();
        let left_behind = match owners.map_or(&[][..], Vec::as_slice) {
            [] => label(&there).is_string(),
            owners => owners.iter().any(|other| is_namesake(other, owner)),
        };
        if label(&there) != label(&wanted) && !left_behind {
            let place = format!("{resource}/{name}");
            let why = "there is one that is not this application's: choose another executors.pod_name_prefix";
            return Err(Failure::new(Kind::Invalid, &format!("{place}: {why}")));
        }
        if there["metadata"]["deletionTimestamp"].is_string() {
            let why = format!("{resource}/{name} is being deleted");
            return Err(Failure::new(Kind::Conflict, &why));
        }
        if is_as_wanted(&there, &wanted) {
            return Ok(());
        }
        for key in ["uid", "resourceVersion"] {
            wanted["metadata"][key] = there["metadata"][key].clone();
        }
        self.write(Method::PUT, resource, Some(name), &wanted).await
    }

    async fn get_object(&self, resource: &str, name: &str) -> Result<Option<Value>, Failure> {
        let call = Call {
            method: Method::GET,
            path: self.core_path(resource, Some(name)),
            query: Query::default(),
            body: None,
            limit: OBJECT_LIMIT,
        };
        let place = call.place();
        match self.answer(&self.clients().reads, call).await {
            Ok(body) => serde_json::from_str(&transport::text(&body))
                .map(Some)
                .map_err(|error| garbage(&place, &error.to_string())),
            Err(rejection) if is_missing(&rejection, resource, name) => Ok(None),
            Err(rejection) => Err(rejection.failure),
        }
    }

    async fn write(
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

/// Whether the two owners have the same kind and name; their uids may differ.
fn is_namesake(other: &Value, owner: &Value) -> bool {
    other["kind"] == owner["kind"] && other["name"] == owner["name"]
}
