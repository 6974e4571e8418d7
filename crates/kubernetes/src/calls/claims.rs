//! API calls on PersistentVolumeClaims (spec K-10, A-60, A-61).

use bytes::Bytes;
use http::Method;
use serde_json::{Value, json};

use super::Calls;
use super::pods::{is_another, is_missing, kind_is};
use super::transport::{self, Call, JSON, MERGE_PATCH, OBJECT_LIMIT, Query, Rejection, garbage};
use crate::claims::read_claim;
use crate::refusal::Failure;
use boatswain_model::claims::Claim;

const CLAIMS: &str = "persistentvolumeclaims";

impl Calls {
    /// Lists all claims of the application, in their most recent state. A claim that cannot be decoded is left out, but
    /// the list fails if one of its pages does.
    pub async fn list_claims(&self) -> Result<Vec<Claim>, Failure> {
        let reader = &self.at.reader;
        let selector = format!("{}={}", reader.labels.keys().app_id, reader.app_id);
        let path = self.core_path(CLAIMS, None);
        let read = |item: &str| Ok(self.read(item).ok());
        self.list_all(&path, "PersistentVolumeClaimList", &selector, read)
            .await
    }

    /// Gets a claim; `None` if the API server reports that it does not exist. Any other 404 is an error.
    pub async fn get_claim(&self, name: &str) -> Result<Option<Claim>, Failure> {
        let call = self.claim_call(Method::GET, Some(name), Query::default(), None);
        match self.claim(call).await {
            Ok(claim) => Ok(Some(claim)),
            Err(rejection) if is_missing(&rejection, CLAIMS, name) => Ok(None),
            Err(rejection) => Err(rejection.failure),
        }
    }

    /// Creates a claim; fails with [`crate::FailureKind::AlreadyExists`] if the name is taken.
    pub async fn create_claim(&self, claim: &Value) -> Result<Claim, Failure> {
        let body = Some((JSON, Bytes::from(claim.to_string())));
        let call = self.claim_call(Method::POST, None, self.write_query(), body);
        self.claim(call).await.map_err(|r| r.failure)
    }

    /// Makes `owner` the claim's only owner. A missing claim is not an error, but another one of the same name is.
    pub async fn give_claim(&self, claim: &Claim, owner: &Value) -> Result<(), Failure> {
        let patch = json!({"metadata": {"uid": &*claim.uid, "ownerReferences": [owner]}});
        let body = Some((MERGE_PATCH, Bytes::from(patch.to_string())));
        let call = self.claim_call(Method::PATCH, Some(&claim.name), self.write_query(), body);
        match self.claim(call).await {
            Ok(_) => Ok(()),
            Err(rejection) if is_missing(&rejection, CLAIMS, &claim.name) => Ok(()),
            Err(rejection) => Err(rejection.failure),
        }
    }

    /// Deletes a claim, with its uid as a precondition. A claim that no longer exists is not an error.
    pub async fn delete_claim(&self, claim: &Claim) -> Result<(), Failure> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": &*claim.uid},
        });
        let body = Some((JSON, Bytes::from(options.to_string())));
        let call = self.claim_call(Method::DELETE, Some(&claim.name), self.write_query(), body);
        match self.answer(&self.clients().deletes, call).await {
            Ok(_) => Ok(()),
            Err(rejection)
                if is_missing(&rejection, CLAIMS, &claim.name) || is_another(&rejection) =>
            {
                Ok(())
            }
            Err(rejection) => Err(rejection.failure),
        }
    }

    fn claim_call(
        &self,
        method: Method,
        name: Option<&str>,
        query: Query,
        body: Option<(&'static str, Bytes)>,
    ) -> Call {
        Call {
            method,
            path: self.core_path(CLAIMS, name),
            query,
            body,
            limit: OBJECT_LIMIT,
        }
    }

    async fn claim(&self, call: Call) -> Result<Claim, Rejection> {
        let place = call.place();
        let body = self.answer(&self.clients().creates, call).await?;
        let text = transport::text(&body);
        kind_is(&text, "PersistentVolumeClaim")
            .and_then(|()| self.read(&text))
            .map_err(|why| garbage(&place, &why).into())
    }

    fn read(&self, json: &str) -> Result<Claim, String> {
        let reader = &self.at.reader;
        read_claim(json, reader.labels, &reader.app_id, &reader.prefix)
    }
}
