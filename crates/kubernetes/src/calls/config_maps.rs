//! API calls on ConfigMaps, one of which contains the application record (spec O-30).

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::Calls;
use super::pods::{Deleted, is_missing, kind_is};
use super::transport::{self, Call, JSON, MERGE_PATCH, OBJECT_LIMIT, Query, Rejection, garbage};
use super::watch::{Lines, WatchLine};
use crate::refusal::{Failure, FailureKind};
use boatswain_model::{PodUid, ResourceVersion};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMap {
    pub name: String,
    /// The uid. `PodUid` is used for any object's uid.
    pub uid: PodUid,
    /// The precondition of a replace.
    pub version: ResourceVersion,
    pub deleting: bool,
    pub labels: BTreeMap<String, String>,
    pub data: BTreeMap<String, String>,
}

pub type ConfigMapStream = Lines<ConfigMap>;

const CONFIG_MAPS: &str = "configmaps";

/// When a watch of one second that the server has not ended is given up.
const HISTORY_TIMEOUT: Duration = Duration::from_secs(2);

impl Calls {
    /// Gets the most recent ConfigMap; `None` if the API server reports no such ConfigMap. Any other 404 is an error.
    pub async fn get_config_map(&self, name: &str) -> Result<Option<ConfigMap>, Failure> {
        let call = self.config_map_call(Method::GET, Some(name), None);
        match self.config_map(call).await {
            Ok(map) => Ok(Some(map)),
            Err(rejection) if is_missing(&rejection, CONFIG_MAPS, name) => Ok(None),
            Err(rejection) => Err(rejection.failure),
        }
    }

    /// Creates a ConfigMap; fails with [`crate::FailureKind::AlreadyExists`] if the name is taken.
    pub async fn create_config_map(&self, map: &Value) -> Result<ConfigMap, Failure> {
        let call = self.config_map_call(Method::POST, None, Some(map));
        self.config_map(call).await.map_err(|r| r.failure)
    }

    /// Replaces a ConfigMap. The object's `resourceVersion` is a precondition, and so is its `uid` if present.
    ///
    /// # Errors
    /// [`crate::FailureKind::Conflict`] if the ConfigMap was changed meanwhile,
    /// [`crate::FailureKind::NotFound`] if it does not exist.
    pub async fn replace_config_map(&self, name: &str, map: &Value) -> Result<ConfigMap, Failure> {
        let call = self.config_map_call(Method::PUT, Some(name), Some(map));
        self.config_map(call).await.map_err(|r| r.failure)
    }

    /// Changes a ConfigMap by a merge patch. Its `uid` and `resourceVersion` are preconditions if present.
    ///
    /// # Errors
    /// As [`Calls::replace_config_map`].
    pub async fn patch_config_map(&self, name: &str, patch: &Value) -> Result<ConfigMap, Failure> {
        let mut call = self.config_map_call(Method::PATCH, Some(name), None);
        call.body = Some((MERGE_PATCH, Bytes::from(patch.to_string())));
        self.config_map(call).await.map_err(|r| r.failure)
    }

    /// Deletes a ConfigMap by name, with its uid and version as preconditions.
    ///
    /// # Errors
    /// Includes a 404 that is not about this ConfigMap, another uid, and a change after this version.
    pub async fn delete_config_map(
        &self,
        name: &str,
        uid: &PodUid,
        version: &ResourceVersion,
    ) -> Result<Deleted, Failure> {
        let mut call = self.config_map_call(Method::DELETE, Some(name), None);
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid.as_str(), "resourceVersion": version.to_string()},
        });
        call.body = Some((JSON, Bytes::from(options.to_string())));
        match self.answer(&self.clients().reads, call).await {
            Ok(_) => Ok(Deleted::Accepted(None)),
            Err(rejection) if is_missing(&rejection, CONFIG_MAPS, name) => {
                Ok(Deleted::NothingThere)
            }
            Err(rejection) => Err(rejection.failure),
        }
    }

    /// Watches one ConfigMap (spec W-10), from its current state if `from` is `None`.
    ///
    /// If a ConfigMap cannot be decoded, the stream reports a failure of kind Garbage and continues. If the watch
    /// does not begin, the call fails as [`Calls::watch_pods`].
    pub async fn watch_config_map(
        &self,
        name: &str,
        from: Option<&ResourceVersion>,
        timeout_seconds: u32,
    ) -> Result<ConfigMapStream, Failure> {
        let query = Query::default().with("fieldSelector", &format!("metadata.name={name}"));
        let path = self.core_path(CONFIG_MAPS, None);
        self.watch(path, query, from, timeout_seconds, read_config_map)
            .await
    }

    /// Gets the last state of a ConfigMap that was deleted after version `from`; `None` if the API server's history
    /// does not show it.
    ///
    /// # Errors
    /// Only a failure that says nothing about the history: refused credentials, a request to wait, no connection.
    pub async fn deleted_config_map(
        &self,
        name: &str,
        from: &ResourceVersion,
    ) -> Result<Option<ConfigMap>, Failure> {
        let lines = match self.watch_config_map(name, Some(from), 1).await {
            Ok(lines) => lines,
            Err(failure)
                if matches!(
                    failure.kind,
                    FailureKind::Credentials | FailureKind::Wait | FailureKind::Unreachable
                ) =>
            {
                return Err(failure);
            }
            Err(_) => return Ok(None),
        };
        let mut lines = lines.take_until(Box::pin(sleep(HISTORY_TIMEOUT)));
        while let Some(line) = lines.next().await {
            if let Ok(WatchLine::Deleted(map)) = line {
                return Ok(Some(map));
            }
        }
        Ok(None)
    }

    fn config_map_call(&self, method: Method, name: Option<&str>, body: Option<&Value>) -> Call {
        Call {
            query: if method == Method::GET {
                Query::default()
            } else {
                self.write_query()
            },
            method,
            path: self.core_path(CONFIG_MAPS, name),
            body: body.map(|map| (JSON, Bytes::from(map.to_string()))),
            limit: OBJECT_LIMIT,
        }
    }

    async fn config_map(&self, call: Call) -> Result<ConfigMap, Rejection> {
        let place = call.place();
        let body = self.answer(&self.clients().reads, call).await?;
        let text = transport::text(&body);
        kind_is(&text, "ConfigMap")
            .and_then(|()| read_config_map(&text))
            .map_err(|why| garbage(&place, &why).into())
    }
}

pub(super) fn read_config_map(json: &str) -> Result<ConfigMap, String> {
    #[derive(Deserialize)]
    struct MapWire {
        metadata: MetaWire,
        data: Option<BTreeMap<String, String>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct MetaWire {
        name: String,
        uid: String,
        resource_version: String,
        deletion_timestamp: Option<String>,
        labels: Option<BTreeMap<String, String>>,
    }
    let wire: MapWire = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let meta = wire.metadata;
    let version = ResourceVersion::parse(&meta.resource_version)
        .ok_or("metadata.resourceVersion: no unsigned integer")?;
    Ok(ConfigMap {
        name: meta.name,
        uid: meta.uid.into(),
        version,
        deleting: meta.deletion_timestamp.is_some(),
        labels: meta.labels.unwrap_or_default(),
        data: wire.data.unwrap_or_default(),
    })
}
