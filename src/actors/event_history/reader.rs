//! Reads the history from one event to the next, as fast as its client takes them (spec B-50, B-66).

use std::sync::Arc;

use actix::dev::ToEnvelope;
use actix::{Actor, Addr, Handler, Message};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::EventHistory;
use super::event::{Event, EventId};
use super::history::Reading;
use super::messages::{FollowEvents, Growth, ReadEvents};

/// How many events are read at a time. Events that a slow client has not read yet stay in the history.
const AT_A_TIME: usize = 100;

pub struct Reader {
    history: Addr<EventHistory>,
    /// Changes when events were added to the history.
    growth: watch::Receiver<u64>,
    /// The last event that was read for this client.
    last: Option<EventId>,
}

/// An event, or where the client starts anew, as JSON.
#[derive(Debug)]
pub struct Told {
    pub id: EventId,
    pub event: Value,
}

impl Reader {
    /// Reads what comes after the client's last event; `None` if the driver has ended.
    pub async fn new(history: Addr<EventHistory>, last: Option<EventId>) -> Option<Self> {
        let Growth(growth) = ask(&history, FollowEvents).await?;
        Some(Self {
            history,
            growth,
            last,
        })
    }

    /// The next events, at least one; `None` once the driver has ended.
    pub async fn next(&mut self) -> Option<Vec<Told>> {
        loop {
            match self.unread().await? {
                told if told.is_empty() => self.growth.changed().await.ok()?,
                told => return Some(told),
            }
        }
    }

    /// What this client has not read, as far as it is known now; `None` once the driver has ended.
    async fn unread(&mut self) -> Option<Vec<Told>> {
        self.growth.borrow_and_update();
        let unread = ReadEvents {
            after: self.last,
            most: AT_A_TIME,
        };
        let read = ask(&self.history, unread).await?;
        let told = match read.reading {
            Reading::Next(events) => events.iter().filter_map(told).collect(),
            Reading::Anew { from, ended } => {
                let event = json!({
                    "event": "living",
                    "time": read.time,
                    "gap": self.last.is_some(),
                    "executors": read.living,
                    "removing": read.removing,
                    "failed": read.failed,
                    "ended": ended.iter().map(|event| &**event).collect::<Vec<_>>(),
                });
                vec![Told { id: from, event }]
            }
        };
        self.last = told.last().map(|told| told.id).or(self.last);
        Some(told)
    }
}

fn told(event: &Arc<Event>) -> Option<Told> {
    let id = event.id;
    let event = serde_json::to_value(&**event).ok()?;
    Some(Told { id, event })
}

/// Waits for as long as the actor lives: after a pause of the process an answer may come late.
async fn ask<M>(history: &Addr<EventHistory>, message: M) -> Option<M::Result>
where
    EventHistory: Handler<M>,
    <EventHistory as Actor>::Context: ToEnvelope<EventHistory, M>,
    M: Message + Send + 'static,
    M::Result: Send,
{
    history.send(message).await.ok()
}
