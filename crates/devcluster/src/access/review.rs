//! Answers review requests, whose result is not stored: of access and of tokens.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::account::{Account, own_audiences};
use super::attributes::Attributes;
use super::auth::Credentials;
use super::rights::{Rights, User};
use crate::api::status::{ApiError, Causes};
use crate::objects::object::{strings, text};
use crate::storage::store::State;

/// What reviews are answered from.
#[derive(Debug)]
pub(crate) struct Reviewer<'a> {
    pub(crate) state: &'a State,
    pub(crate) rights: Rights,
    pub(crate) credentials: &'a Credentials,
    pub(crate) user: &'a User,
    pub(crate) now: Timestamp,
}

impl Reviewer<'_> {
    /// Adds the answer to a review, as its status.
    pub(crate) fn answer(&self, kind: &str, mut review: Value) -> Result<Value, ApiError> {
        let status = match kind {
            "TokenReview" => self.token(&review)?,
            "SelfSubjectRulesReview" => self.rules(&review)?,
            kind => self.access(kind, &review)?,
        };
        if !review.get("metadata").is_some_and(Value::is_object) {
            review["metadata"] = json!({});
        }
        review["status"] = status;
        Ok(review)
    }

    fn access(&self, kind: &str, review: &Value) -> Result<Value, ApiError> {
        let refused = |field: &str, value: &Value, why: &str| {
            let causes = Causes::of(|causes| causes.invalid(field, value, why));
            Err(ApiError::invalid(kind, "authorization.k8s.io", "", causes))
        };
        let spec = review.get("spec").cloned().unwrap_or_default();
        let part = |name: &str| spec.get(name).filter(|v| v.is_object());
        let wanted = match (part("resourceAttributes"), part("nonResourceAttributes")) {
            (Some(resource), None) => of_resource(resource),
            (None, Some(path)) => Attributes {
                verb: text(path, &["verb"]).to_owned(),
                path: Some(text(path, &["path"]).to_owned()),
                ..Attributes::default()
            },
            (both, _) => {
                let why =
                    "exactly one of nonResourceAttributes or resourceAttributes must be specified";
                let field = match both {
                    Some(_) => "spec.nonResourceAttributes",
                    None => "spec.resourceAttributes",
                };
                return refused(field, &Value::Null, why);
            }
        };
        Ok(json!({"allowed": self.rights.allow(self.state, self.user, &wanted)}))
    }

    fn rules(&self, review: &Value) -> Result<Value, ApiError> {
        let namespace = text(review, &["spec", "namespace"]);
        if namespace.is_empty() {
            return Err(ApiError::bad_request("no namespace on request"));
        }
        let rules = self.rights.rules(self.state, self.user, namespace);
        let (paths, resources): (Vec<Value>, Vec<Value>) = rules
            .into_iter()
            .partition(|rule| rule.get("nonResourceURLs").is_some());
        Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false}))
    }

    fn token(&self, review: &Value) -> Result<Value, ApiError> {
        let token = text(review, &["spec", "token"]);
        if token.is_empty() {
            return Err(ApiError::bad_request(
                "token is required for TokenReview in authentication",
            ));
        }
        let asked: Vec<&str> = strings(review, &["spec", "audiences"]).collect();
        let keys = self.credentials.keys();
        if let Some(account) = Account::read(keys, token, self.state, self.now) {
            let wanted = if asked.is_empty() {
                own_audiences()
            } else {
                &asked
            };
            let fitting: Vec<&&str> = wanted
                .iter()
                .filter(|audience| account.is_for(&[audience]))
                .collect();
            if !fitting.is_empty() {
                let user = account.user().to_value();
                return Ok(json!({"authenticated": true, "user": user, "audiences": fitting}));
            }
        } else if keys.verify(token).is_none()
            // A server without authentication accepts every other token.
            && let Some(user) = self.credentials.bearer(token.as_bytes(), self.state, self.now)
        {
            let audiences = if asked.is_empty() {
                own_audiences()
            } else {
                &asked
            };
            let user = user.to_value();
            return Ok(json!({"authenticated": true, "user": user, "audiences": audiences}));
        }
        Ok(json!({"user": {}, "error": "invalid bearer token"}))
    }
}

fn of_resource(asked: &Value) -> Attributes {
    let field = |name: &str| text(asked, &[name]).to_owned();
    Attributes {
        verb: field("verb"),
        path: None,
        group: field("group"),
        resource: field("resource"),
        subresource: field("subresource"),
        namespace: field("namespace"),
        name: field("name"),
    }
}
