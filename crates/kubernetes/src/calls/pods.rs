//! API calls on pods (list, create, get, patch, delete), and the API server's version.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Calls;
use super::transport::{
    self, Call, JSON, MERGE_PATCH, OBJECT_LIMIT, Query, Rejection, garbage, path,
};
use crate::pod_template::PodBody;
use crate::refusal::{Failure, FailureKind, StatusBody};
use crate::wire::{ListMetaWire, ListWire, PodWire, Text};
use boatswain_model::planted::{self, Planted};
use boatswain_model::pod::{Sighting, Unreadable};
use boatswain_model::{PodUid, ResourceVersion};

/// The parameters of a list request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListQuery {
    /// The maximum number of items per page; `None` for all items in one page.
    pub limit: Option<u32>,
    /// The previous page's `continue` token; `None` for the first page.
    pub continue_token: Option<String>,
    /// Serves the list from the API server's cache, at this version or newer; `None` for the most recent state (a quorum
    /// read). Only the first page uses it: later pages continue the same list.
    pub at_least: Option<ResourceVersion>,
}

/// One page of a list of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage {
    /// The list's resource version, the same on every page.
    pub version: ResourceVersion,
    /// The token for the next page; `None` on the last page.
    pub continue_token: Option<String>,
    /// The pods. A pod that cannot be decoded does not affect the others.
    pub items: Vec<Sighting>,
    /// The most items that a page of this list may have: fewer than were asked for if these were too long.
    pub limit: Option<u32>,
}

/// The result of a delete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deleted {
    /// The deletion has begun or is complete; with the pod if the response contained it.
    Accepted(Option<Sighting>),
    /// The pod does not exist, or another pod has its name (404, or 409 because the uid differs).
    NothingThere,
}

pub(super) const PODS: &str = "pods";

impl Calls {
    /// Lists one page of the application's executor pods (spec P-1, S-15).
    ///
    /// # Errors
    /// Notably [`FailureKind::Expired`] if the page token is too old, and [`FailureKind::TooLargeVersion`] if the server has not yet
    /// reached the requested version.
    pub async fn list_pods(&self, page: &ListQuery) -> Result<ListPage, Failure> {
        let further = |query: Query, is_halved: bool| match (&page.continue_token, &page.at_least) {
            (Some(token), _) => query.with("continue", token),
            // A server does not divide what its cache has. The newest list is not older either.
            (None, Some(version)) if !is_halved => query
                .with("resourceVersion", &version.to_string())
                .with("resourceVersionMatch", "NotOlderThan"),
            (None, _) => query,
        };
        let (path, selector) = (self.pods_path(None), &self.at.selector);
        let mut limit = page.limit;
        let (place, body) = self.page(&path, selector, &mut limit, further).await?;
        let read = self.read_page(&body).map_err(|why| garbage(&place, &why))?;
        Ok(ListPage { limit, ..read })
    }

    /// Lists all of the application's executor pods as they are now, page by page.
    ///
    /// # Errors
    /// If a page cannot be had.
    pub async fn for_each_pod(
        &self,
        page_size: u32,
        mut visit: impl FnMut(&Sighting),
    ) -> Result<(), Failure> {
        let mut query = ListQuery {
            limit: Some(page_size),
            ..ListQuery::default()
        };
        loop {
            let page = self.list_pods(&query).await?;
            page.items.iter().for_each(&mut visit);
            let Some(token) = page.continue_token else {
                return Ok(());
            };
            (query.continue_token, query.limit) = (Some(token), page.limit);
        }
    }

    /// Decodes all pods in one pass. If any pod cannot be decoded, decodes each pod separately, so that one bad pod does
    /// not affect the others (spec S-15).
    fn read_page(&self, body: &[u8]) -> Result<ListPage, String> {
        let text = transport::text(body);
        let reader = &self.at.reader;
        let whole = serde_json::from_str::<ListWire<'_, PodWire<'_>>>(&text).ok();
        let whole = whole.and_then(|mut list| {
            let pods = list.items.take().unwrap_or_default().into_iter();
            let read = pods.map(|pod| reader.pod(pod).map(|pod| Sighting::Read(Arc::new(pod))));
            let items = read.collect::<Result<Vec<_>, _>>().ok()?;
            Some(page_of(list.kind, list.metadata, items))
        });
        if let Some(page) = whole {
            return page;
        }
        let list: ListWire<'_, &RawValue> =
            serde_json::from_str(&text).map_err(|error| error.to_string())?;
        let items = list.items.unwrap_or_default();
        let items = items.into_iter().map(|item| reader.read(item.get()));
        page_of(list.kind, list.metadata, items.collect())
    }

    /// Creates a pod.
    ///
    /// # Errors
    /// [`Failure::is_refused`] distinguishes a refusal from an unknown outcome (spec ). The kind is
    /// [`FailureKind::AlreadyExists`] if the name is taken.
    pub async fn create_pod(&self, pod: &PodBody) -> Result<Sighting, Failure> {
        let call = Call {
            method: Method::POST,
            path: self.pods_path(None),
            query: self.write_query(),
            body: Some((JSON, pod.json.clone())),
            limit: OBJECT_LIMIT,
        };
        let place = format!("{} ({})", call.place(), pod.name);
        let body = self
            .answer(&self.clients().creates, call)
            .await
            .map_err(|rejection| rejection.failure)?;
        self.read_pod(&body).map_err(|why| garbage(&place, &why))
    }

    /// Gets the most recent state of a pod by name; `None` if the API server reports that it does not exist.
    ///
    /// # Errors
    /// Includes a 404 that is not about this pod: a proxy's error page, or a missing namespace.
    pub async fn get_pod(&self, name: &str) -> Result<Option<Sighting>, Failure> {
        let call = Call {
            method: Method::GET,
            path: self.pods_path(Some(name)),
            query: Query::default(),
            body: None,
            limit: OBJECT_LIMIT,
        };
        self.pod_or_nothing(call, name).await
    }

    /// Applies a merge patch to a pod; `None` if the pod does not exist.
    ///
    /// A uid in the patch's metadata is a precondition: if another pod has the name, the call fails with
    /// [`FailureKind::Invalid`], because a uid is immutable.
    ///
    /// # Errors
    /// As [`Calls::get_pod`].
    pub async fn patch_pod(
        &self,
        name: &str,
        merge_patch: &Value,
    ) -> Result<Option<Sighting>, Failure> {
        let call = Call {
            method: Method::PATCH,
            path: self.pods_path(Some(name)),
            query: self.write_query(),
            body: Some((MERGE_PATCH, Bytes::from(merge_patch.to_string()))),
            limit: OBJECT_LIMIT,
        };
        self.pod_or_nothing(call, name).await
    }

    /// Deletes a pod by name, with its uid as a precondition (spec L-11). If `grace` is `None`, the pod's own grace
    /// period applies.
    ///
    /// # Errors
    /// Includes a 404 or 409 that is not about this pod.
    pub async fn delete_pod(
        &self,
        name: &str,
        uid: &PodUid,
        grace: Option<Duration>,
    ) -> Result<Deleted, Failure> {
        let call = Call {
            method: Method::DELETE,
            path: self.pods_path(Some(name)),
            query: self.write_query(),
            body: Some((JSON, delete_options(uid, grace))),
            limit: OBJECT_LIMIT,
        };
        let place = call.place();
        match self.answer(&self.clients().deletes, call).await {
            Ok(body) => match self.read_deleted(&body) {
                Ok(Some(Sighting::Unreadable(pod))) if lost_the_race(&pod, uid) => {
                    Ok(Deleted::NothingThere)
                }
                read => read
                    .map(Deleted::Accepted)
                    .map_err(|why| garbage(&place, &why)),
            },
            Err(rejection) if is_missing(&rejection, PODS, name) || is_another(&rejection) => {
                Ok(Deleted::NothingThere)
            }
            Err(rejection) => Err(rejection.failure),
        }
    }

    /// The API server's version, such as `v1.36.0`.
    ///
    /// # Errors
    /// If the cluster is unreachable, or the response is not an API server's.
    pub async fn server_version(&self) -> Result<String, Failure> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Version {
            git_version: String,
        }
        let call = Call {
            method: Method::GET,
            path: path(&["version"]),
            query: Query::default(),
            body: None,
            limit: OBJECT_LIMIT,
        };
        let place = call.place();
        let body = self
            .answer(&self.clients().reads, call)
            .await
            .map_err(|rejection| rejection.failure)?;
        serde_json::from_slice::<Version>(&body)
            .map(|version| version.git_version)
            .map_err(|error| garbage(&place, &error.to_string()))
    }

    pub(super) async fn pod_or_nothing(
        &self,
        call: Call,
        name: &str,
    ) -> Result<Option<Sighting>, Failure> {
        let place = call.place();
        match self.answer(&self.clients().deletes, call).await {
            Ok(body) => self
                .read_pod(&body)
                .map(Some)
                .map_err(|why| garbage(&place, &why)),
            Err(rejection) if is_missing(&rejection, PODS, name) => Ok(None),
            Err(rejection) => Err(rejection.failure),
        }
    }

    fn read_pod(&self, body: &[u8]) -> Result<Sighting, String> {
        let text = transport::text(body);
        kind_is(&text, "Pod")?;
        Ok(self.at.reader.read(&text))
    }

    /// The response to a delete is either the pod or a `Status`.
    fn read_deleted(&self, body: &[u8]) -> Result<Option<Sighting>, String> {
        if StatusBody::parse(body).is_some() {
            return Ok(None);
        }
        self.read_pod(body).map(Some)
    }

    pub(super) fn write_query(&self) -> Query {
        let most = self.at.request_timeout;
        let limit = self.gate.as_ref();
        Query::default().with_timeout(limit.map_or(most, |gate| gate.time_limit(most)))
    }

    pub(super) fn pods_path(&self, name: Option<&str>) -> String {
        self.core_path(PODS, name)
    }

    pub(super) fn core_path(&self, resource: &str, name: Option<&str>) -> String {
        let mut segments = vec!["api", "v1", "namespaces", &self.at.namespace, resource];
        segments.extend(name);
        path(&segments)
    }
}

/// A delete that loses against the pod's removal is answered with the pod as it was handed to storage, without a version:
/// it is gone.
fn lost_the_race(pod: &Unreadable, uid: &PodUid) -> bool {
    pod.version.is_none() && pod.uid.as_ref() == Some(uid)
}

fn page_of(
    kind: Option<Text<'_>>,
    meta: Option<ListMetaWire<'_>>,
    items: Vec<Sighting>,
) -> Result<ListPage, String> {
    expect_kind(kind.as_ref(), "PodList")?;
    let meta = meta.ok_or("no metadata")?;
    let version = meta
        .resource_version
        .and_then(|text| ResourceVersion::parse(&text.0))
        .ok_or("metadata.resourceVersion: no unsigned integer")?;
    let token = meta.continue_token.map(|token| token.0.into_owned());
    Ok(ListPage {
        version,
        continue_token: token.filter(|token| !token.is_empty()),
        items,
        limit: None,
    })
}

/// The uid precondition keeps the delete from hitting another pod with the same name.
fn delete_options(uid: &PodUid, grace: Option<Duration>) -> Bytes {
    let mut options = json!({
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": uid.as_str()},
    });
    if planted::is(Planted::DeleteWithoutUid) {
        options["preconditions"] = Value::Null;
    }
    if let Some(grace) = grace {
        options["gracePeriodSeconds"] = grace.as_secs().into();
    }
    Bytes::from(options.to_string())
}

/// Whether the API server itself reports that this object does not exist.
pub(super) fn is_missing(rejection: &Rejection, resource: &str, name: &str) -> bool {
    rejection.failure.code == Some(404)
        && StatusBody::parse(&rejection.body)
            .is_some_and(|status| status.says_missing(resource, name))
}

/// Whether the response says that the object of this name has another uid. API servers use two texts for it:
/// "UID in precondition: …, UID in object meta: …" and "the UID in the precondition (…) does not match …".
pub(super) fn is_another(rejection: &Rejection) -> bool {
    let message = &rejection.failure.message;
    rejection.failure.kind == FailureKind::Conflict
        && (message.contains("UID in precondition") || message.contains("UID in the precondition"))
}

/// Checks that the object is of the wanted kind. API responses always include their kind.
pub(super) fn kind_is(text: &str, wanted: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct KindWire<'a> {
        #[serde(borrow)]
        kind: Option<Text<'a>>,
    }
    let wire: KindWire<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    expect_kind(wire.kind.as_ref(), wanted)
}

pub(super) fn expect_kind(kind: Option<&Text<'_>>, wanted: &str) -> Result<(), String> {
    match kind {
        Some(kind) if kind.0 == wanted => Ok(()),
        Some(kind) => Err(format!("it is a {:?} and no {wanted}", kind.0)),
        None => Err(format!("it does not say that it is a {wanted}")),
    }
}
