//! Lists pods by a watch with initial events (spec W-4). Unlike a paged list, it needs no page in the server's memory
//! and no quorum read of all objects.

use std::collections::HashMap;
use std::sync::Arc;

use http::Method;
use serde::Deserialize;

use super::lines::{LineReader, Next};
use super::transport::{Call, MARGIN, OBJECT_LIMIT, Query};
use super::watch::{WatchLine, read_line};
use super::{Calls, WatchedPods};
use crate::refusal::{Failure, FailureKind};
use crate::wire::{LineWire, Pairs, Text};
use boatswain_model::pod::Sighting;
use boatswain_model::{PodUid, ResourceVersion};

/// The annotation of the bookmark that follows the initial events.
const END_OF_LIST: &str = "k8s.io/initial-events-end";

/// The server's time limit for the watch.
const TIMEOUT_SECONDS: u32 = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotStreamed {
    /// The server does not support it, or never completes the list; do not request it again.
    Refused(Arc<str>),
    /// This attempt failed; a paged list may succeed.
    Cut(Arc<str>),
    /// A paged list would fail as well.
    Failed(Failure),
}

impl Calls {
    /// Streams all of the application's executors, in their most recent state, with the list's resource version.
    ///
    /// # Errors
    /// If the list is incomplete; the part received is discarded.
    pub async fn stream_pods(&self) -> Result<WatchedPods, NotStreamed> {
        let query = Query::default()
            .with("labelSelector", &self.at.selector)
            .with("watch", "true")
            .with("sendInitialEvents", "true")
            .with("resourceVersionMatch", "NotOlderThan")
            .with("allowWatchBookmarks", "true")
            .with("timeoutSeconds", &TIMEOUT_SECONDS.to_string());
        let call = Call {
            method: Method::GET,
            path: self.pods_path(None),
            query,
            body: None,
            limit: OBJECT_LIMIT,
        };
        let place = format!("streamed list on {}", call.place());
        let response = self
            .opened(&self.clients().reads, call)
            .await
            .map_err(|rejection| of_refusal(rejection.failure))?;
        let mut reader = LineReader::new(response.into_body());
        // Initial events come without a pause. A server that ignores `sendInitialEvents` may send nothing at all.
        let patience = self.at.request_timeout.saturating_add(MARGIN);
        let mut gathered = Gathered::default();
        loop {
            let Ok(next) = tokio::time::timeout(patience, reader.next()).await else {
                let seconds = patience.as_secs();
                let why = format!("{place}: the end of the list did not come within {seconds} s");
                return Err(NotStreamed::Refused(Arc::from(why)));
            };
            let cut = |why: &str| NotStreamed::Cut(Arc::from(format!("{place}: {why}")));
            let line = match next {
                Next::Line(line) if line.trim_ascii().is_empty() => continue,
                Next::Line(line) => line,
                Next::Rest(_) | Next::End => return Err(cut("ended before the end of the list")),
                Next::TooLong => return Err(cut("a line is too long")),
                Next::Broken(why) => return Err(cut(&format!("broken: {why}"))),
            };
            if let Some(version) = end_of_list(&line) {
                return Ok((version, gathered.into_items()));
            }
            let read = |object: &str| Ok(self.at.reader.read(object));
            match read_line(&line, &place, &read) {
                Ok(WatchLine::Seen(pod)) => gathered.seen(pod),
                Ok(WatchLine::Deleted(pod)) => gathered.deleted(&pod),
                Ok(WatchLine::Bookmark(_)) => {}
                // A skipped line would be missing in the list, and a missing pod is taken as gone.
                Ok(WatchLine::UnknownType(kind)) => {
                    return Err(cut(&format!("an event of unknown type {kind:?}")));
                }
                Ok(WatchLine::Expired) => {
                    return Err(cut("the server no longer knows the version"));
                }
                Ok(WatchLine::Error(failure)) | Err(failure) => return Err(of_refusal(failure)),
            }
        }
    }
}

fn of_refusal(failure: Failure) -> NotStreamed {
    match failure.kind {
        FailureKind::Invalid => NotStreamed::Refused(failure.message),
        // A server that does not know the parameter reports it as forbidden rather than invalid.
        _ if failure.message.contains("sendInitialEvents") => NotStreamed::Refused(failure.message),
        FailureKind::Wait
        | FailureKind::Unreachable
        | FailureKind::Credentials
        | FailureKind::Rights => NotStreamed::Failed(failure),
        _ => NotStreamed::Cut(failure.message),
    }
}

/// The resource version, if the line is the bookmark that ends the list.
pub(super) fn end_of_list(line: &[u8]) -> Option<ResourceVersion> {
    #[derive(Deserialize)]
    struct EndWire<'a> {
        #[serde(borrow)]
        metadata: MetaWire<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct MetaWire<'a> {
        #[serde(borrow)]
        resource_version: Text<'a>,
        #[serde(borrow)]
        annotations: Option<Pairs<'a>>,
    }
    let text = std::str::from_utf8(line).ok()?;
    let wire: LineWire<'_> = serde_json::from_str(text).ok()?;
    if wire.kind.0 != "BOOKMARK" {
        return None;
    }
    let end: EndWire<'_> = serde_json::from_str(wire.object?.get()).ok()?;
    let marked = end.metadata.annotations?.get(END_OF_LIST) == Some("true");
    let version = ResourceVersion::parse(&end.metadata.resource_version.0)?;
    marked.then_some(version)
}

/// The pods so far, in order. The list changes until its end: a later event replaces an earlier one of the same pod.
#[derive(Default)]
pub(super) struct Gathered {
    items: Vec<Option<Sighting>>,
    places: HashMap<PodUid, usize>,
}

impl Gathered {
    pub(super) fn seen(&mut self, pod: Sighting) {
        let Some(uid) = pod.uid().cloned() else {
            self.items.push(Some(pod));
            return;
        };
        let end = self.items.len();
        let place = *self.places.entry(uid).or_insert(end);
        match self.items.get_mut(place) {
            Some(item) => *item = Some(pod),
            None => self.items.push(Some(pod)),
        }
    }

    pub(super) fn deleted(&mut self, pod: &Sighting) {
        if let Some(place) = pod.uid().and_then(|uid| self.places.remove(uid))
            && let Some(item) = self.items.get_mut(place)
        {
            *item = None;
        } else if pod.uid().is_none() || pod.name().is_some() {
            // If either uid could not be decoded, compare the names.
            let meant = |item: &Option<Sighting>| {
                item.as_ref().is_some_and(|item| {
                    item.name().is_some()
                        && item.name() == pod.name()
                        && (item.uid().is_none() || pod.uid().is_none())
                })
            };
            if let Some(item) = self.items.iter_mut().find(|item| meant(item)) {
                *item = None;
            }
        }
    }

    pub(super) fn into_items(self) -> Vec<Sighting> {
        self.items.into_iter().flatten().collect()
    }
}
