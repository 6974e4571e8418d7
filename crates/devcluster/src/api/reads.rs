//! Handles read requests: get, list, watch and log.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures::stream;
use http::StatusCode;
use serde_json::Value;
use tokio::time::timeout;

use super::accept;
use super::call::Call;
use super::list::List;
use super::logs::Log;
use super::router::{Api, plain, response};
use super::status::ApiError;
use super::view::View;
use super::watch::Watch;
use super::websocket;
use crate::changes::scale;
use crate::objects::object::Key;
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// How long a list waits for a resource version in the future.
const WAIT_FOR_VERSION: Duration = Duration::from_secs(3);

impl Api {
    /// The form in which the client wants objects.
    pub(crate) fn view(&self, call: &Call<'_>) -> Result<View, ApiError> {
        let form = accept::form(call.headers(), &call.query)?;
        Ok(View::new(form, self.store.clock()))
    }

    /// Waits until the state has reached a version; an error after `WAIT_FOR_VERSION`.
    async fn state_at_least(&self, version: u64) -> Result<State, ApiError> {
        let mut published = self.store.published();
        let reached = timeout(
            WAIT_FOR_VERSION,
            published.wait_for(|p| p.state.resource_version() >= version),
        )
        .await;
        match reached {
            Ok(Ok(now)) => return Ok(now.state.clone()),
            Ok(Err(_)) => return Err(ApiError::stopping()),
            Err(_) => {}
        }
        let current = self.store.state().resource_version();
        Err(ApiError::version_too_large(version, current))
    }

    pub(crate) async fn list(
        &self,
        call: &Call<'_>,
        resource: Resource,
        namespace: Option<&str>,
    ) -> Result<Response, ApiError> {
        let view = self.view(call)?;
        let list = List::parse(resource, namespace, &call.query)?;
        let state = self.state_at_least(list.needs()).await?;
        let body = list.answer(&state, &view)?;
        Ok(response(200, body))
    }

    pub(crate) async fn get(
        &self,
        call: &Call<'_>,
        key: &Key,
        sub: Option<&str>,
    ) -> Result<Response, ApiError> {
        if sub == Some("log") && key.resource == Resource::Pods {
            return self.log(call, key).await;
        }
        if sub == Some("scale") && key.resource.is_workload() {
            let set = self.store.state().existing(key)?;
            return Ok(response(200, scale::of(&set).to_string()));
        }
        let view = self.view(call)?;
        let is_whole = match sub {
            None => true,
            Some("status") => key.resource.traits().has_status,
            Some("resize") => key.resource == Resource::Pods,
            Some(_) => false,
        };
        if !is_whole {
            return Err(match call.is_known_subresource(key, sub) {
                true => ApiError::method_not_allowed(),
                false => ApiError::unknown_resource(),
            });
        }
        let version = call.query.text("resourceVersion");
        let needed = match version {
            "" => 0,
            version => version.parse().map_err(|_| {
                ApiError::bad_request(format!(
                    "resourceVersion: Invalid value: {}",
                    Value::from(version)
                ))
            })?,
        };
        let object = self.state_at_least(needed).await?.existing(key)?;
        Ok(response(200, view.object(&object)))
    }

    async fn log(&self, call: &Call<'_>, key: &Key) -> Result<Response, ApiError> {
        let pod = self.store.state().existing(key)?;
        let log = Log::parse(
            &pod,
            &call.query,
            self.logs.as_deref(),
            self.store.published(),
        )?;
        let Some(log) = log else {
            let mut nothing = Response::default();
            *nothing.status_mut() = StatusCode::NO_CONTENT;
            return Ok(nothing);
        };
        let mut response = plain(200, "");
        *response.body_mut() = Body::from_stream(log.open().await?);
        Ok(response)
    }

    pub(crate) async fn watch(
        &self,
        call: &Call<'_>,
        resource: Resource,
        namespace: Option<&str>,
    ) -> Result<Response, ApiError> {
        let view = self.view(call)?;
        let watch = Watch::parse(resource, namespace, &call.query, view)?;
        self.state_at_least(watch.needs()).await?;
        let watcher = watch.start(self.store.published());
        if websocket::is_wanted(call.headers()) {
            return Ok(websocket::serve(call.parts(), watcher).await);
        }
        let lines = stream::unfold(watcher, |mut watcher| async move {
            let lines = watcher.next().await?;
            Some((Ok::<Bytes, Infallible>(lines), watcher))
        });
        Ok(response(200, Body::from_stream(lines)))
    }
}
