//! Calls about pods.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Calls;
use super::transport::{
    self, Call, JSON, LIST_LIMIT, MERGE_PATCH, OBJECT_LIMIT, Query, Rejection, garbage, path,
};
use crate::kubernetes::pod_template::PodBody;
use crate::kubernetes::refusal::{Failure, Kind, StatusBody};
use crate::kubernetes::wire::{ListMetaWire, ListWire, PodWire, Text};
use crate::model::pod::Sighting;
use crate::model::{PodUid, ResourceVersion};
use crate::planted::{self, Planted};

/// Which page of which list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListQuery {
    /// How many items a page has at most; `None` for all at once.
    pub limit: Option<u32>,
    /// What the page before said; `None` for the first one.
    pub continue_token: Option<String>,
    /// From the server's cache, not older than this; `None` for the newest there is (a quorum list). It counts for
    /// the first page only, which the others follow.
    pub at_least: Option<ResourceVersion>,
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListPage {
    /// The list's version, the same on every page.
    pub version: ResourceVersion,
    /// What the next page is asked for with; `None` on the last one.
    pub continue_token: Option<String>,
    /// The pods; one that cannot be read spoils no other (spec S-15).
    pub items: Vec<Sighting>,
}

/// What a delete found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deleted {
    /// The deletion has begun, or is done; with the pod where the answer held it.
    Accepted(Option<Sighting>),
    /// There is no such pod, or another one has its name (404, or 409 about the uid).
    NothingThere,
}

const PODS: &str = "pods";

impl Calls {
    /// One page of the application's executors (spec P-1, S-15).
    ///
    /// # Errors
    /// Notably [`Kind::Expired`] for a page token that is too old and [`Kind::TooLargeVersion`] for a version that
    /// the server has not reached.
    pub async fn list_pods(&self, page: &ListQuery) -> Result<ListPage, Failure> {
        let mut query = Query::default().with("labelSelector", &self.at.selector);
        if let Some(limit) = page.limit {
            query = query.with("limit", &limit.to_string());
        }
        if let Some(token) = &page.continue_token {
            query = query.with("continue", token);
        } else if let Some(version) = &page.at_least {
            query = query
                .with("resourceVersion", &version.to_string())
                .with("resourceVersionMatch", "NotOlderThan");
        }
        let call = Call {
            method: Method::GET,
            path: self.pods_path(None),
            query,
            body: None,
            limit: LIST_LIMIT,
        };
        let place = call.place();
        let body = self
            .answer(&self.clients().reads, call)
            .await
            .map_err(|rejection| rejection.failure)?;
        self.read_page(&body).map_err(|why| garbage(&place, &why))
    }

    /// Each pod's text is gone over once, as long as all can be read; where one cannot, all are read one by one, so that
    /// it spoils no other (spec S-15).
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

    /// Asks for a pod.
    ///
    /// # Errors
    /// [`Failure::is_refused`] tells a refusal from an unknown outcome (spec ); [`Kind::AlreadyExists`]
    /// where the name is taken.
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

    /// Looks a pod up by name, as the newest there is; `None` where the server says that there is none.
    ///
    /// # Errors
    /// Also for a 404 that does not say so of this very pod: a proxy's page, or a namespace that is missing.
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

    /// Changes a pod by a merge patch; `None` where there is no such pod.
    ///
    /// A uid in the patch's metadata is a precondition: another pod of that name answers [`Kind::Invalid`], since a uid
    /// cannot be changed.
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

    /// Deletes a pod by name, with its uid as precondition (spec L-11). `grace` is the pod's own where it is `None`.
    ///
    /// # Errors
    /// Also for a 404 or 409 that is about something else than this pod.
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
            Ok(body) => self
                .read_deleted(&body)
                .map(Deleted::Accepted)
                .map_err(|why| garbage(&place, &why)),
            Err(rejection) if is_missing(&rejection, PODS, name) || is_another(&rejection) => {
                Ok(Deleted::NothingThere)
            }
            Err(rejection) => Err(rejection.failure),
        }
    }

    /// The server's version, such as `v1.36.0`.
    ///
    /// # Errors
    /// Where the cluster cannot be reached, or what answers is no API server.
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

    async fn pod_or_nothing(&self, call: Call, name: &str) -> Result<Option<Sighting>, Failure> {
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

    /// A delete is answered with the pod as it was, or with a Status.
    fn read_deleted(&self, body: &[u8]) -> Result<Option<Sighting>, String> {
        if StatusBody::parse(body).is_some() {
            return Ok(None);
        }
        self.read_pod(body).map(Some)
    }

    pub(super) fn write_query(&self) -> Query {
        Query::default().with_timeout(self.at.request_timeout)
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
    })
}

/// The precondition is what makes a delete safe: it never hits a pod that only has the same name.
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

/// Whether the answer is the API server's own word that this one object does not exist.
pub(super) fn is_missing(rejection: &Rejection, resource: &str, name: &str) -> bool {
    rejection.failure.code == Some(404)
        && StatusBody::parse(&rejection.body)
            .is_some_and(|status| status.says_missing(resource, name))
}

/// Whether the answer says that the object of this name is another one than was meant. API servers have two texts for
/// it: "UID in precondition: …, UID in object meta: …" and "the UID in the precondition (…) does not match …".
pub(super) fn is_another(rejection: &Rejection) -> bool {
    let message = &rejection.failure.message;
    rejection.failure.kind == Kind::Conflict
        && (message.contains("UID in precondition") || message.contains("UID in the precondition"))
}

/// That the text is an object of this kind; answers always say what they are.
pub(super) fn kind_is(text: &str, wanted: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct KindWire<'a> {
        #[serde(borrow)]
        kind: Option<Text<'a>>,
    }
    let wire: KindWire<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    expect_kind(wire.kind.as_ref(), wanted)
}

fn expect_kind(kind: Option<&Text<'_>>, wanted: &str) -> Result<(), String> {
    match kind {
        Some(kind) if kind.0 == wanted => Ok(()),
        Some(kind) => Err(format!("it is a {:?} and no {wanted}", kind.0)),
        None => Err(format!("it does not say that it is a {wanted}")),
    }
}
