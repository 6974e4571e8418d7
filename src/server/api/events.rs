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
use serde_json::json;
use std::collections::VecDeque;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{Api, ask};
use crate::actors::event_history::event::{Event, EventId};
use crate::actors::event_history::history::Reading;
use crate::actors::event_history::messages::{FollowEvents, Growth, ReadEvents};
use crate::server::problem::Problem;

/// How many events are read from the history at a time. Events that a slow client has not read yet
/// stay in the history.
const AT_A_TIME: usize = 100;

/// The interval of keep-alives, by which a client can tell a quiet stream from a dead connection.
const ALIVE: Duration = Duration::from_secs(15);

#[derive(Debug, Deserialize)]
pub struct Begin {
    /// The last event that the client has. The header `Last-Event-ID` has the same meaning and
    /// takes precedence.
    after: Option<String>,
}

struct Reader {
    api: Api,
    /// Changes when events were added to the history.
    growth: watch::Receiver<u64>,
    /// The last event that was read for this client.
    last: Option<EventId>,
    unsent: VecDeque<Line>,
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
    let Growth(growth) = ask(&api.actors.history, FollowEvents).await?;
    let reader = Reader {
        api,
        growth,
        last,
        unsent: VecDeque::new(),
        _place: place,
    };
    let lines = stream::unfold(reader, |mut reader| async {
        let line = reader.next().await?;
        Some((Ok(line), reader))
    });
    Ok(Sse::new(lines).keep_alive(KeepAlive::new().interval(ALIVE)))
}

fn no_id(field: &str) -> Problem {
    Problem::bad_request("this is not an event's id")
        .at(field)
        .hint("use an id from the stream, such as 3-17; without one the stream begins with all live executors")
}

impl Reader {
    /// The next message; `None` once the driver has ended.
    async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.unsent.pop_front() {
                return Some(line);
            }
            self.growth.borrow_and_update();
            let unread = ReadEvents {
                after: self.last,
                most: AT_A_TIME,
            };
            let read = ask(&self.api.actors.history, unread).await.ok()?;
            match read.reading {
                Reading::Next(events) if events.is_empty() => self.growth.changed().await.ok()?,
                Reading::Next(events) => {
                    self.last = events.last().map(|event| event.id);
                    self.unsent
                        .extend(events.iter().filter_map(|event| line(event)));
                }
                Reading::Anew { from, ended } => {
                    let living = json!({
                        "event": "living",
                        "time": read.time,
                        "gap": self.last.is_some(),
                        "executors": read.living,
                        "removing": read.removing,
                        "failed": read.failed,
                        "ended": ended.iter().map(|event| &**event).collect::<Vec<_>>(),
                    });
                    self.last = Some(from);
                    let line = Line::default().id(from.to_string()).event("living");
                    self.unsent.extend(line.json_data(living));
                }
            }
        }
    }
}

fn line(event: &Event) -> Option<Line> {
    let value = serde_json::to_value(event).ok()?;
    let name = value["event"].as_str().unwrap_or("event").to_owned();
    let line = Line::default().id(event.id.to_string()).event(name);
    line.json_data(value).ok()
}
