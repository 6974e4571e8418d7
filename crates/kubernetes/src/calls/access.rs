//! API calls that ask which rights this client has (spec C-8).

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Calls;
use super::transport::{Call, JSON, OBJECT_LIMIT, Query, path};
use crate::refusal::Failure;
use crate::rights::{Granted, Right};

pub(super) const GROUP: &str = "authorization.k8s.io";

const AUTHENTICATION: &str = "authentication.k8s.io";

impl Calls {
    /// Gets the rules that apply to this client in its namespace. A server may know more than it lists, so a right that
    /// is not listed is to be asked for by [`Self::has_right`].
    pub async fn granted_rules(&self) -> Result<Vec<Granted>, Failure> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Status {
            #[serde(default)]
            resource_rules: Option<Vec<Granted>>,
        }
        let review = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": self.namespace()},
        });
        let status: Status = self
            .review(GROUP, "selfsubjectrulesreviews", &review)
            .await?;
        Ok(status.resource_rules.unwrap_or_default())
    }

    /// Asks whether this client has a right.
    pub async fn has_right(&self, right: &Right) -> Result<bool, Failure> {
        #[derive(Deserialize)]
        struct Status {
            #[serde(default)]
            allowed: bool,
        }
        let (resource, subresource) = right.parts();
        let review = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {
                "namespace": if right.of_cluster { "" } else { self.namespace() },
                "verb": right.verb,
                "group": right.group,
                "resource": resource,
                "subresource": subresource,
                "name": right.name.as_deref().unwrap_or_default(),
            }},
        });
        let status: Status = self
            .review(GROUP, "selfsubjectaccessreviews", &review)
            .await?;
        Ok(status.allowed)
    }

    /// Asks whether the API server accepts a token for this audience (spec O-119).
    pub async fn review_token(&self, token: &str, audience: &str) -> Result<bool, Failure> {
        #[derive(Deserialize)]
        struct Status {
            #[serde(default)]
            authenticated: bool,
            #[serde(default)]
            audiences: Vec<String>,
        }
        let review = json!({
            "apiVersion": format!("{AUTHENTICATION}/v1"), "kind": "TokenReview",
            "spec": {"token": token, "audiences": [audience]},
        });
        let status: Status = self.review(AUTHENTICATION, "tokenreviews", &review).await?;
        // A server that knows no audiences names none, and has accepted a token that is for itself.
        Ok(status.authenticated && status.audiences.iter().any(|named| named == audience))
    }

    async fn review<T: DeserializeOwned>(
        &self,
        group: &str,
        resource: &str,
        review: &Value,
    ) -> Result<T, Failure> {
        #[derive(Deserialize)]
        struct Answer<T> {
            status: T,
        }
        let call = Call {
            method: Method::POST,
            path: path(&["apis", group, "v1", resource]),
            query: Query::default().with_timeout(self.request_timeout()),
            body: Some((JSON, Bytes::from(review.to_string()))),
            limit: OBJECT_LIMIT,
        };
        let answer: Answer<T> = self.read_json(call).await?;
        Ok(answer.status)
    }
}
