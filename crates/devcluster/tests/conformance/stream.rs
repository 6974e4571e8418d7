//! An open watch, whose events are read as they come.

use std::time::Duration;

use axum::body::Body;
use futures::StreamExt as _;
use serde_json::Value;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use crate::paths::take;

pub struct Stream {
    events: UnboundedReceiver<Value>,
    reader: JoinHandle<Result<(), String>>,
}

impl Stream {
    pub fn new(body: Body) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        Self {
            events,
            reader: tokio::spawn(read(body, sender)),
        }
    }

    /// The next events, fewer where the watch ends or the time is over.
    pub async fn collect(
        &mut self,
        count: usize,
        with_bookmarks: bool,
        within: Duration,
    ) -> Vec<Value> {
        let end = Instant::now() + within;
        let mut found = Vec::new();
        while found.len() < count {
            let Ok(Some(event)) = timeout_at(end, self.events.recv()).await else {
                break;
            };
            if with_bookmarks || !is_bookmark(&event) {
                found.push(event);
            }
        }
        found
    }

    /// The types of the events that come in this time, bookmarks aside, and whether the watch is open after it.
    pub async fn listen(&mut self, time: Duration) -> (Vec<Value>, bool) {
        let events = self.collect(usize::MAX, false, time).await;
        let types = events.iter().map(|event| event["type"].clone());
        (types.collect(), !self.events.is_closed())
    }

    /// Whether the server ends the watch in this time, and what went wrong where it did not end cleanly.
    pub async fn closed(&mut self, within: Duration) -> (bool, Option<String>) {
        match timeout(within, &mut self.reader).await {
            Ok(ended) => (true, ended.unwrap().err()),
            Err(_) => (false, None),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

fn is_bookmark(event: &Value) -> bool {
    take(event, "type").is_some_and(|kind| kind == "BOOKMARK")
}

/// Reads the body line by line, up to its end.
async fn read(body: Body, events: UnboundedSender<Value>) -> Result<(), String> {
    let mut body = body.into_data_stream();
    let mut unread = Vec::new();
    while let Some(chunk) = body.next().await {
        unread.extend_from_slice(&chunk.map_err(|e| e.to_string())?);
        while let Some(end) = unread.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            send(&line, &events)?;
        }
    }
    send(&unread, &events)
}

fn send(line: &[u8], events: &UnboundedSender<Value>) -> Result<(), String> {
    if line.trim_ascii().is_empty() {
        return Ok(());
    }
    let event: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    if !event.is_object() {
        return Err(format!("an event that is no object: {event}"));
    }
    // An error means that the scenario is over.
    let _ = events.send(event);
    Ok(())
}
