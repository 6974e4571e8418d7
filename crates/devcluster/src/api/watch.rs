//! Serves watch requests: streams the events of the objects that a client selects.
//!
//! A watcher has no queue of its own, but a position in the event log; when woken, it reads on from there. The bounded
//! log is the only queue. A watcher that falls behind the log's start is cut off, as on real servers.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use super::query::Query;
use super::status::{ApiError, Causes};
use super::view::View;
use crate::objects::object::Key;
use crate::objects::resource::Resource;
use crate::objects::selector::Selector;
use crate::storage::publish::Reader;
use crate::storage::store::{Event, EventKind, Objects, range};

/// How often a watch without events gets a bookmark.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// How long before its end a watch gets a last bookmark.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// The shortest lifetime of a watch without timeout, in seconds. Up to as much is added, so that watches do not all end
/// at once.
const MIN_LIFETIME: u64 = 1_800;

/// The target size of a chunk in bytes: large enough to save calls, small enough to be fair to other watchers.
const CHUNK: usize = 64 * 1024;

#[derive(Debug)]
pub struct Watch {
    resource: Resource,
    namespace: Option<String>,
    selector: Selector,
    from: From,
    bookmarks: bool,
    /// Whether a bookmark marks the end of the initial events.
    marks_end: bool,
    timeout: Option<Duration>,
    view: View,
}

#[derive(Debug)]
enum From {
    /// Sends the existing objects first, once the state has reached this version.
    State { at_least: u64 },
    /// Sends the events after this version.
    Version(u64),
}

impl Watch {
    pub fn parse(
        resource: Resource,
        namespace: Option<&str>,
        query: &Query,
        view: View,
    ) -> Result<Self, ApiError> {
        let selector = query.selector(resource)?;
        let initial = query.flag("sendInitialEvents");
        refusals(query, initial).check("ListOptions", "meta.k8s.io", "")?;
        let version = query.text("resourceVersion");
        let number = if version.is_empty() {
            0
        } else {
            version.parse().map_err(|_| {
                // Real servers pass this one on as an internal error.
                let version = serde_json::Value::from(version);
                ApiError::unclassified(format!(
                    "resourceVersion: Invalid value: {version}: strconv.ParseUint: parsing {version}: invalid syntax"
                ))
            })?
        };
        let bookmarks = query.flag("allowWatchBookmarks").unwrap_or(false);
        let from = match initial {
            Some(true) => From::State { at_least: number },
            None if number == 0 => From::State { at_least: 0 },
            Some(false) | None => From::Version(number),
        };
        let seconds = query
            .number("timeoutSeconds")?
            .and_then(|s| u64::try_from(s).ok())
            .filter(|s| *s > 0);
        Ok(Self {
            resource,
            namespace: namespace.map(str::to_owned),
            selector,
            from,
            bookmarks,
            marks_end: bookmarks && initial == Some(true),
            timeout: seconds.map(|s| Duration::from_secs(s.min(u64::from(u32::MAX)))),
            view,
        })
    }

    /// The version that the state must have reached before the watch can start.
    pub fn needs(&self) -> u64 {
        match self.from {
            From::State { at_least } => at_least,
            From::Version(_) => 0,
        }
    }

    pub fn start(self, mut published: Reader) -> Watcher {
        let (cursor, initial, cut, version) = {
            let now = published.borrow_and_update();
            let version = now.state.resource_version();
            match self.from {
                From::State { .. } => {
                    let initial = Initial {
                        objects: now.state.objects().clone(),
                        after: None,
                        version,
                    };
                    (version, Some(initial), now.cuts, version)
                }
                // Version 0 without initial events means from now on.
                From::Version(0) => (version, None, now.cuts, version),
                From::Version(from) => (from, None, now.cuts, version),
            }
        };
        let lasts = self.timeout.unwrap_or_else(|| {
            let spread = version.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
            Duration::from_secs(MIN_LIFETIME + spread % MIN_LIFETIME)
        });
        let now = Instant::now();
        let mut watcher = Watcher {
            published,
            cut,
            cursor,
            seen: version,
            initial,
            ends: now + lasts,
            next_bookmark: None,
            fresh: true,
            first: true,
            over: false,
            watch: self,
        };
        watcher.next_bookmark = watcher.bookmark_after(now);
        watcher
    }
}

/// What is invalid about the resource version parameters.
fn refusals(query: &Query, initial: Option<bool>) -> Causes {
    let (field, matching) = ("resourceVersionMatch", query.text("resourceVersionMatch"));
    let mut causes = Causes::default();
    if initial.is_some() && matching != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        causes.forbidden(field, why);
    }
    if matching.is_empty() {
        return causes;
    }
    if initial.is_none() {
        let why =
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
        causes.forbidden(field, why);
    }
    if matching != "NotOlderThan" {
        let known = ["NotOlderThan"];
        causes.not_supported(field, matching, &known);
    }
    if !query.text("continue").is_empty() {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        causes.forbidden(field, why);
    }
    causes
}

/// The initial objects that have not been sent yet.
struct Initial {
    objects: Objects,
    after: Option<Key>,
    version: u64,
}

pub struct Watcher {
    published: Reader,
    /// The count of watch cuts when this watch began.
    cut: u64,
    /// The version up to which events have been sent.
    cursor: u64,
    /// The version of the state last read.
    seen: u64,
    initial: Option<Initial>,
    ends: Instant,
    next_bookmark: Option<Instant>,
    /// Whether the log has not been read yet.
    fresh: bool,
    /// Whether nothing has been sent yet.
    first: bool,
    over: bool,
    watch: Watch,
}

enum Read {
    Lines(Bytes),
    Nothing,
    End,
}

impl Watcher {
    /// The next lines; `None` when the watch has ended.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            let now = Instant::now();
            if self.over || now >= self.ends {
                return None;
            }
            self.give_up_initial();
            if let Some(lines) = self.next_initial() {
                return Some(lines);
            }
            match self.read_log() {
                Read::Lines(lines) => return Some(lines),
                Read::End => return None,
                Read::Nothing => {}
            }
            if self.next_bookmark.is_some_and(|at| now >= at) {
                self.next_bookmark = self.bookmark_after(now);
                // A watch that waits for a version in the future gets no bookmark with an earlier one.
                if self.seen >= self.cursor {
                    return Some(self.bookmark(self.cursor, false));
                }
            }
            let wake = self.next_bookmark.map_or(self.ends, |at| at.min(self.ends));
            tokio::select! {
                biased;
                changed = self.published.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    /// When the next bookmark is due: each minute and shortly before the end, as on real servers.
    fn bookmark_after(&self, now: Instant) -> Option<Instant> {
        if !self.watch.bookmarks {
            return None;
        }
        let before_end = self.ends.checked_sub(BOOKMARK_BEFORE_END).unwrap_or(now);
        let next = before_end.min(now + BOOKMARK_EVERY);
        (next > now).then_some(next)
    }

    fn bookmark(&mut self, version: u64, ends_initial: bool) -> Bytes {
        let mut metadata =
            json!({"resourceVersion": version.to_string(), "creationTimestamp": null});
        if ends_initial {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let first = std::mem::take(&mut self.first);
        self.watch
            .view
            .bookmark(self.watch.resource, metadata, first)
    }

    /// Ends the sending of initial objects once the log no longer reaches back to their version. The watcher would be
    /// cut off afterwards, and until then keep objects in memory that nothing else needs.
    fn give_up_initial(&mut self) {
        let behind = self
            .published
            .borrow()
            .state
            .event_after(self.cursor)
            .is_err();
        if behind {
            self.initial = None;
        }
    }

    /// The next chunk of initial objects.
    fn next_initial(&mut self) -> Option<Bytes> {
        let initial = self.initial.as_mut()?;
        let mut lines = BytesMut::new();
        let mut last = None;
        let after = initial
            .after
            .as_ref()
            .map(|key| (&*key.namespace, &*key.name));
        let mut all = range(
            &initial.objects,
            self.watch.resource,
            self.watch.namespace.as_deref(),
            after,
        );
        for object in &mut all {
            if self.watch.selector.matches(object) {
                let first = std::mem::take(&mut self.first);
                lines.extend_from_slice(&self.watch.view.event(EventKind::Added, object, first));
            }
            last = Some(object.key().clone());
            if lines.len() >= CHUNK {
                break;
            }
        }
        let done = all.next().is_none();
        drop(all);
        let version = initial.version;
        initial.after = last.or(initial.after.take());
        if done {
            self.initial = None;
            if self.watch.marks_end {
                lines.extend_from_slice(&self.bookmark(version, true));
            }
        }
        (!lines.is_empty()).then(|| lines.freeze())
    }

    /// The next chunk of events.
    fn read_log(&mut self) -> Read {
        let now = self.published.borrow_and_update();
        if now.cuts != self.cut || now.stopping {
            return Read::End;
        }
        let mut first: Option<Bytes> = None;
        let mut more = BytesMut::new();
        loop {
            let event = match now.state.event_after(self.cursor) {
                Ok(Some(event)) => event,
                Ok(None) => {
                    self.seen = now.state.resource_version();
                    break;
                }
                Err(_) if self.fresh => {
                    self.over = true;
                    return Read::Lines(too_old(self.cursor, now.state.compacted()));
                }
                Err(_) => {
                    tracing::info!(target: "apiserver.watch", "closed a watch that fell behind the event log");
                    return Read::End;
                }
            };
            self.cursor = event.object().resource_version();
            let Some(line) = self.watch.line(event, self.first) else {
                continue;
            };
            self.first = false;
            match (&first, more.is_empty()) {
                (None, _) => first = Some(line),
                (Some(start), true) => {
                    more.extend_from_slice(start);
                    more.extend_from_slice(&line);
                }
                (Some(_), false) => more.extend_from_slice(&line),
            }
            if more.len() >= CHUNK {
                break;
            }
        }
        drop(now);
        self.fresh = false;
        match first {
            None => Read::Nothing,
            Some(line) if more.is_empty() => Read::Lines(line),
            Some(_) => Read::Lines(more.freeze()),
        }
    }
}

impl Watch {
    /// The event as this watcher sees it: an object that starts to match the selector is added, one that no longer
    /// matches is deleted.
    fn line(&self, event: &Event, first: bool) -> Option<Bytes> {
        let object = event.object();
        let key = object.key();
        if key.resource != self.resource
            || self
                .namespace
                .as_deref()
                .is_some_and(|n| n != &*key.namespace)
        {
            return None;
        }
        let as_it_is = |kind: EventKind| {
            if self.view.is_whole() && kind == event.kind() {
                event.line().clone()
            } else {
                self.view.event(kind, object, first)
            }
        };
        if self.selector.is_empty() {
            return Some(as_it_is(event.kind()));
        }
        let before = event.previous().filter(|p| self.selector.matches(p));
        let after = event.kind() != EventKind::Deleted && self.selector.matches(object);
        match (before, after) {
            (None, false) => None,
            (None, true) => Some(as_it_is(EventKind::Added)),
            (Some(_), true) => Some(as_it_is(event.kind())),
            (Some(_), false) if event.kind() == EventKind::Deleted => {
                Some(as_it_is(EventKind::Deleted))
            }
            (Some(before), false) => {
                let last = before.last(object.resource_version());
                Some(self.view.event(EventKind::Deleted, &last, first))
            }
        }
    }
}

/// The 410 error as a watch event, as real servers send it.
fn too_old(asked: u64, oldest: u64) -> Bytes {
    let error = ApiError::expired(format!("too old resource version: {asked} ({oldest})"));
    format!("{}\n", json!({"type": "ERROR", "object": error.to_value()})).into()
}
