//! API calls on Events (spec O-45).

use bytes::Bytes;
use http::Method;
use serde_json::Value;

use super::Calls;
use super::transport::{Call, JSON, MERGE_PATCH, OBJECT_LIMIT};
use crate::refusal::Failure;

const EVENTS: &str = "events";

impl Calls {
    /// Creates an Event. Callers may ignore a failure.
    pub async fn create_event(&self, event: &Value) -> Result<(), Failure> {
        self.event(Method::POST, None, JSON, event).await
    }

    /// Applies a merge patch to an Event. Fails if the Event does not exist.
    pub async fn patch_event(&self, name: &str, patch: &Value) -> Result<(), Failure> {
        self.event(Method::PATCH, Some(name), MERGE_PATCH, patch)
            .await
    }

    async fn event(
        &self,
        method: Method,
        name: Option<&str>,
        kind: &'static str,
        body: &Value,
    ) -> Result<(), Failure> {
        let call = Call {
            method,
            path: self.core_path(EVENTS, name),
            query: self.write_query(),
            body: Some((kind, Bytes::from(body.to_string()))),
            limit: OBJECT_LIMIT,
        };
        let answer = self.answer(&self.clients().reads, call).await;
        answer.map(|_| ()).map_err(|rejection| rejection.failure)
    }
}
