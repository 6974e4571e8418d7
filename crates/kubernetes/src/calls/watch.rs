//! Watches, decoded line by line (spec W-1 to W-5).

use std::error::Error;
use std::sync::Arc;

use boatswain_agent::foreign;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use http::Method;
use http_body::Body as HttpBody;
use serde::Deserialize;

use super::Calls;
use super::lines::{LINE_LIMIT, LineReader, Next};
use super::transport::{self, Call, OBJECT_LIMIT, Query};
use crate::decode::PodReader;
use crate::refusal::{self, Failure, FailureKind, StatusBody, clean};
use crate::wire::{LineWire, Text};
use boatswain_model::ResourceVersion;
use boatswain_model::pod::Sighting;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchLine<T> {
    /// ADDED or MODIFIED. The resource version orders them, so the distinction is not needed.
    Seen(T),
    /// DELETED: the object is gone or no longer matches the selector.
    Deleted(T),
    /// The resource version that the watch has reached.
    Bookmark(ResourceVersion),
    /// The watch's resource version is too old; only a new list helps.
    Expired,
    /// Any other ERROR event.
    Error(Failure),
    /// An unknown event type, which is skipped and counted.
    UnknownType(Arc<str>),
}

impl<T> WatchLine<T> {
    pub fn map<U>(self, of: impl FnOnce(T) -> U) -> WatchLine<U> {
        match self {
            Self::Seen(object) => WatchLine::Seen(of(object)),
            Self::Deleted(object) => WatchLine::Deleted(of(object)),
            Self::Bookmark(version) => WatchLine::Bookmark(version),
            Self::Expired => WatchLine::Expired,
            Self::Error(failure) => WatchLine::Error(failure),
            Self::UnknownType(kind) => WatchLine::UnknownType(kind),
        }
    }
}

/// The lines of a watch. After a failure of kind [`FailureKind::Garbage`] more lines may follow. The watch ends with
/// the stream.
pub type Lines<T> = BoxStream<'static, Result<WatchLine<T>, Failure>>;

pub type WatchStream = Lines<Sighting>;

impl Calls {
    /// Watches the application's executors from this version on, with bookmarks (spec W-1, W-3).
    ///
    /// The server ends the watch after `timeout_seconds`. The stream does not time out: the caller must judge silence.
    ///
    /// # Errors
    /// If the watch does not begin; [`FailureKind::Expired`] if the version is too old.
    pub async fn watch_pods(
        &self,
        from: &ResourceVersion,
        timeout_seconds: u32,
    ) -> Result<WatchStream, Failure> {
        let query = Query::default().with("labelSelector", &self.at.selector);
        let reader = Arc::clone(&self.at.reader);
        let read = move |object: &str| Ok(reader.read(object));
        self.watch(
            self.pods_path(None),
            query,
            Some(from),
            timeout_seconds,
            read,
        )
        .await
    }

    /// Opens a watch and decodes its objects with `read`; an error from `read` becomes a failure of kind Garbage.
    pub(super) async fn watch<T: Send + 'static>(
        &self,
        path: String,
        query: Query,
        from: Option<&ResourceVersion>,
        timeout_seconds: u32,
        read: impl Fn(&str) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<Lines<T>, Failure> {
        let mut query = query
            .with("watch", "true")
            .with("allowWatchBookmarks", "true")
            .with("timeoutSeconds", &timeout_seconds.to_string());
        if let Some(version) = from {
            query = query.with("resourceVersion", &version.to_string());
        }
        let call = Call {
            method: Method::GET,
            path,
            query,
            body: None,
            limit: OBJECT_LIMIT,
        };
        let place = format!("watch on {}", call.place());
        let response = self
            .opened(&self.clients().reads, call)
            .await
            .map_err(|rejection| rejection.failure)?;
        let reader = LineReader::new(response.into_body());
        let lines = stream::unfold((reader, read, place), |(mut reader, read, place)| async {
            let item = next_line(&mut reader, &place, &read).await?;
            Some((item, (reader, read, place)))
        });
        Ok(lines.boxed())
    }
}

pub(super) async fn next_line<T, B: HttpBody<Data = Bytes, Error: Error + 'static> + Unpin>(
    reader: &mut LineReader<B>,
    place: &str,
    read: &(impl Fn(&str) -> Result<T, String> + Sync),
) -> Option<Result<WatchLine<T>, Failure>> {
    loop {
        match reader.next().await {
            Next::Line(line) if line.trim_ascii().is_empty() => {}
            Next::Line(line) => return Some(read_line(&line, place, read)),
            // An incomplete line is dropped (spec W-5). A complete one that lacks only the end of line is not.
            Next::Rest(rest) => return read_line(&rest, place, read).ok().map(Ok),
            Next::TooLong => {
                return Some(Err(Failure::new(
                    FailureKind::Garbage,
                    &format!("{place}: ended for a line of more than {LINE_LIMIT} bytes"),
                )));
            }
            Next::Broken(why) => {
                return Some(Err(Failure::new(
                    FailureKind::Broken,
                    &format!("{place}: broken: {why}"),
                )));
            }
            Next::End => return None,
        }
    }
}

pub(super) fn read_line<T>(
    line: &[u8],
    place: &str,
    read: &impl Fn(&str) -> Result<T, String>,
) -> Result<WatchLine<T>, Failure> {
    let garbage = |why: &str| {
        Failure::new(
            FailureKind::Garbage,
            &format!("{place}: a line cannot be read: {why}"),
        )
    };
    let text = transport::text(line);
    let wire: LineWire<'_> =
        serde_json::from_str(&text).map_err(|error| match foreign::page(line) {
            Some(page) => garbage(&page),
            None => garbage(&error.to_string()),
        })?;
    let object = wire.object.map_or("null", |object| object.get());
    let read = |object| read(object).map_err(|why| garbage(&why));
    match &*wire.kind.0 {
        "ADDED" | "MODIFIED" => read(object).map(WatchLine::Seen),
        "DELETED" => read(object).map(WatchLine::Deleted),
        "BOOKMARK" => bookmark(object)
            .map(WatchLine::Bookmark)
            .ok_or_else(|| garbage("a bookmark without a version")),
        "ERROR" => Ok(error_line(object, place)),
        unknown => Ok(WatchLine::UnknownType(clean(unknown, 64))),
    }
}

/// Decodes one line of a watch on pods; `place` names the watch in messages.
///
/// # Errors
/// If the line is not a complete watch event. A pod that cannot be decoded is not an error (spec S-15).
pub fn read_pod_line(
    line: &[u8],
    place: &str,
    reader: &PodReader,
) -> Result<WatchLine<Sighting>, Failure> {
    read_line(line, place, &|object| Ok(reader.read(object)))
}

fn bookmark(object: &str) -> Option<ResourceVersion> {
    #[derive(Deserialize)]
    struct BookmarkWire<'a> {
        #[serde(borrow)]
        metadata: VersionWire<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct VersionWire<'a> {
        #[serde(borrow)]
        resource_version: Text<'a>,
    }
    let wire: BookmarkWire<'_> = serde_json::from_str(object).ok()?;
    ResourceVersion::parse(&wire.metadata.resource_version.0)
}

fn error_line<T>(object: &str, place: &str) -> WatchLine<T> {
    let status = StatusBody::parse(object.as_bytes());
    let code = status.as_ref().and_then(|status| status.code);
    // An error without a code is treated as a server error, so that the watch resumes after a backoff.
    let failure = refusal::of_status(place, code.unwrap_or(500), None, status.as_ref());
    match failure.kind {
        FailureKind::Expired => WatchLine::Expired,
        _ => WatchLine::Error(failure),
    }
}
