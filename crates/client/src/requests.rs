//! The requests of the HTTP API.
//!
//! Made from the driver's OpenAPI document. Do not edit: see CONTRIBUTING.md.

use std::collections::BTreeMap;

use http::Method;
use serde_json::json;

use crate::client::{Client, ClientError, segment, with_query};
use crate::types::*;

impl Client {
    /// Ends the application; the driver exits with its code
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn end(&self, body: &End) -> Result<Ending, ClientError> {
        let path = "/v1/application/end";
        self.ask(Method::POST, path, Some(json!(body))).await
    }

    /// Ends this driver and leaves the executors to its successor
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn hand_over(&self) -> Result<Ending, ClientError> {
        let path = "/v1/application/hand-over";
        self.ask(Method::POST, path, Some(json!({}))).await
    }

    /// Decommissions all executors, and keeps the targets for a later resume
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn hold(&self, body: &Hold) -> Result<Held, ClientError> {
        let path = "/v1/application/hold";
        self.ask(Method::POST, path, Some(json!(body))).await
    }

    /// Restores the targets from before the hold
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn resume(&self) -> Result<Targets, ClientError> {
        let path = "/v1/application/resume";
        self.ask(Method::POST, path, Some(json!({}))).await
    }

    /// Reports the demand, for autoscaling
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn demand(
        &self,
        profiles: &BTreeMap<String, ProfileDemand>,
    ) -> Result<Wanted, ClientError> {
        let path = "/v1/demand";
        self.ask(Method::POST, path, Some(json!({"profiles": profiles}))).await
    }

    /// The executors that live
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn executors(
        &self,
        ip: Option<&str>,
        profile: Option<&str>,
        state: Option<&str>,
        after: Option<&str>,
        limit: Option<&str>,
    ) -> Result<Executors, ClientError> {
        let path = with_query("/v1/executors", &[("ip", ip), ("profile", profile), ("state", state), ("after", after), ("limit", limit)]);
        self.ask(Method::GET, &path, None).await
    }

    /// Decommissions executors: they finish their work and exit
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn decommission(&self, body: &Decommission) -> Result<CommandOutcome, ClientError> {
        let path = "/v1/executors/decommission";
        self.ask(Method::POST, path, Some(json!(body))).await
    }

    /// Kills executors
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn kill(&self, body: &Kill) -> Result<CommandOutcome, ClientError> {
        let path = "/v1/executors/kill";
        self.ask(Method::POST, path, Some(json!(body))).await
    }

    /// The history of a live executor, or of one of the last that ended
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn executor(&self, id: Id) -> Result<ExecutorHistory, ClientError> {
        let path = format!("/v1/executors/{id}", id = segment(id));
        self.ask(Method::GET, &path, None).await
    }

    /// The executors of each profile by state over the last hour, every 10 s
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn counts(&self) -> Result<CountsHistory, ClientError> {
        let path = "/v1/history/counts";
        self.ask(Method::GET, path, None).await
    }

    /// Removes a profile that was added; its executors finish their work and exit
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn delete_profile(&self, profile: &str) -> Result<Targets, ClientError> {
        let path = format!("/v1/profiles/{profile}", profile = segment(profile));
        self.ask(Method::DELETE, &path, None).await
    }

    /// Adds a profile; an existing one cannot be changed
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn put_profile(
        &self,
        profile: &str,
        body: &NewProfile,
    ) -> Result<Targets, ClientError> {
        let path = format!("/v1/profiles/{profile}", profile = segment(profile));
        self.ask(Method::PUT, &path, Some(json!(body))).await
    }

    /// Lets a profile that has failed begin anew
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn reset(&self, profile: &str) -> Result<Targets, ClientError> {
        let path = format!("/v1/profiles/{profile}/reset", profile = segment(profile));
        self.ask(Method::POST, &path, Some(json!({}))).await
    }

    /// The driver's state: targets, executors by state, what they wait for, the last losses
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn status(&self) -> Result<Status, ClientError> {
        let path = "/v1/status";
        self.ask(Method::GET, path, None).await
    }

    /// How many executors are wanted
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn targets(&self) -> Result<Targets, ClientError> {
        let path = "/v1/targets";
        self.ask(Method::GET, path, None).await
    }

    /// Sets the targets of all named profiles, or of none if one is invalid
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn put_targets(&self, targets: &TargetMap) -> Result<Targets, ClientError> {
        let path = "/v1/targets";
        self.ask(Method::PUT, path, Some(json!({"targets": targets}))).await
    }

    /// Sets the target of one profile
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn put_target(&self, profile: &str, executors: u64) -> Result<Targets, ClientError> {
        let path = format!("/v1/targets/{profile}", profile = segment(profile));
        self.ask(Method::PUT, &path, Some(json!({"executors": executors}))).await
    }

    /// What the token of this request may do
    ///
    /// # Errors
    ///
    /// There is no answer within 10 s, or it is a refusal.
    pub async fn token(&self) -> Result<TokenRight, ClientError> {
        let path = "/v1/token";
        self.ask(Method::GET, path, None).await
    }
}
