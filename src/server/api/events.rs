//! Streams events as server-sent events (spec B-50). A client can resume the stream after the last
//! event that it has.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::response::Sse;
use axum::response::sse::{Event as Line, KeepAlive};
use futures::Stream;
use futures::stream;
use http::HeaderMap;
use serde::Deserialize;
use std::collections::VecDeque;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::{ANSWER, Api};
use crate::actors::event_history::reader::{Reader, Told};
use crate::server::problem::Problem;

/// The interval of keep-alives, by which a client can tell a quiet stream from a dead connection.
const ALIVE: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize)]
pub struct Begin {
    /// The last event that the client has. The header `Last-Event-ID` has the same meaning and
    /// takes precedence.
    after: Option<String>,
}

struct Follower {
    reader: Reader,
    unsent: VecDeque<Told>,
    /// One of the limited number of event streams.
    _place: OwnedSemaphorePermit,
}

pub async fn follow(
    State(api): State<Api>,
    Query(begin): Query<Begin>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Line, Infallible>>>, Problem> {
    let header = headers.get("last-event-id").map(|id| id.to_str());
    let header = header.transpose().map_err(|_| no_id("Last-Event-ID"))?;
    let last = match (header, &begin.after) {
        (Some(id), _) => Some(id.parse().map_err(|_| no_id("Last-Event-ID"))?),
        (None, Some(id)) => Some(id.parse().map_err(|_| no_id("after"))?),
        (None, None) => None,
    };
    let place = (api.followers.clone().try_acquire_owned())
        .map_err(|_| Problem::too_many("too many clients follow the events already"))?;
    let reader = timeout(ANSWER, Reader::new(api.actors.history.clone(), last)).await;
    let follower = Follower {
        reader: reader.ok().flatten().ok_or_else(Problem::unavailable)?,
        unsent: VecDeque::new(),
        _place: place,
    };
    let lines = stream::unfold(follower, |mut follower| async {
        let line = follower.next().await?;
        Some((Ok(line), follower))
    });
    Ok(Sse::new(lines).keep_alive(KeepAlive::new().interval(ALIVE)))
}

fn no_id(field: &str) -> Problem {
    Problem::bad_request("this is not an event's id")
        .at(field)
        .hint("use an id from the stream, such as 3-17; without one the stream begins with all live executors")
}

impl Follower {
    /// The next message; `None` once the driver has ended.
    async fn next(&mut self) -> Option<Line> {
        if self.unsent.is_empty() {
            self.unsent = self.reader.next().await?.into();
        }
        let Told { id, event } = self.unsent.pop_front()?;
        let name = event["event"].as_str().unwrap_or("event").to_owned();
        let line = Line::default().id(id.to_string()).event(name);
        line.json_data(event).ok()
    }
}
