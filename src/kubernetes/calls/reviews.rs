//! The API call that asks whether the driver has a right (spec C-8).

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::json;

use super::Calls;
use super::transport::{Call, JSON, OBJECT_LIMIT, Query, path};
use crate::kubernetes::refusal::{Failure, Kind};

/// What a right is about.
#[derive(Debug, Clone, Copy)]
pub struct Access<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    /// With the subresource, as in `statefulsets/scale`.
    pub resource: &'a str,
    pub name: Option<&'a str>,
}

#[derive(Deserialize)]
struct Review {
    status: Status,
}

#[derive(Deserialize)]
struct Status {
    allowed: bool,
}

impl Calls {
    /// Asks whether the caller has a right in the executors' namespace. The review is not stored.
    pub async fn may(&self, access: Access<'_>) -> Result<bool, Failure> {
        let (resource, subresource) = match access.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource)),
            None => (access.resource, None),
        };
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "namespace": self.at.namespace, "verb": access.verb, "group": access.group,
                "resource": resource, "subresource": subresource.unwrap_or_default(),
                "name": access.name.unwrap_or_default(),
            }},
        });
        let steps = [
            "apis",
            "authorization.k8s.io",
            "v1",
            "selfsubjectaccessreviews",
        ];
        let call = Call {
            method: Method::POST,
            path: path(&steps),
            query: Query::default(),
            body: Some((JSON, Bytes::from(review.to_string()))),
            limit: OBJECT_LIMIT,
        };
        let place = call.place();
        let answer = self.answer(&self.clients().reads, call).await;
        let answer = answer.map_err(|rejection| rejection.failure)?;
        match serde_json::from_slice::<Review>(&answer) {
            Ok(review) => Ok(review.status.allowed),
            Err(error) => Err(Failure::new(
                Kind::Unreachable,
                &format!("{place}: the answer is no review: {error}"),
            )),
        }
    }
}
