//! Hands the application's events to where the configuration wants them: a file (spec B-70), and a collector of traces
//! (spec O-141). Each has a task of its own, which reads the history as fast as its events are taken.

mod file;
mod spans;
mod traces;

use std::time::Duration;

use actix::Addr;
use boatswain_agent::backoff::Backoff;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::actors::event_history::EventHistory;
use crate::actors::event_history::event::EventId;
use crate::actors::event_history::reader::{Reader, Told};
use crate::model::Incarnation;

pub(super) use file::EventsFile;
pub(super) use traces::{Collector, Traces};

/// How long to wait before events are handed over again.
const TRY_AGAIN: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
};

/// At the end events that come within this time of the ones before are handed over too.
const LAST: Duration = Duration::from_millis(100);

/// Where events go.
pub(super) trait Sink {
    /// What is handed over at a time. It may be handed over again.
    type Batch;

    /// The key of the configuration.
    const KEY: &'static str;

    /// `None` if nothing of these events is handed over.
    fn batch(&mut self, events: &[Told]) -> Option<Self::Batch>;

    async fn put(&mut self, batch: &Self::Batch) -> Result<(), String>;
}

/// The task that hands events over.
pub(super) struct Writer {
    finish: watch::Sender<bool>,
    /// Closed when the task has ended.
    done: watch::Receiver<()>,
}

impl Writer {
    /// Hands over the events of this incarnation from the first one on.
    pub(super) fn start(
        sink: impl Sink + 'static,
        history: Addr<EventHistory>,
        incarnation: Incarnation,
    ) -> Self {
        let (finish, to_finish) = watch::channel(false);
        let (running, done) = watch::channel(());
        let first = EventId {
            incarnation,
            number: 0,
        };
        actix::spawn(async move {
            let _running = running;
            if let Some(reader) = Reader::new(history, Some(first)).await {
                write(sink, reader, to_finish).await;
            }
        });
        Self { finish, done }
    }

    /// Hands over what is there, and ends.
    pub(super) async fn finish(&self) {
        self.finish.send_replace(true);
        // An error says that the task has ended.
        let _ = self.done.clone().changed().await;
    }
}

/// Hands over what is read until the driver ends, or until it is to finish: then what is there is handed over, and nothing
/// that fails is tried again.
async fn write<S: Sink>(mut sink: S, mut reader: Reader, mut finish: watch::Receiver<bool>) {
    loop {
        let told = tokio::select! {
            biased;
            told = reader.next() => told,
            _ = finish.wait_for(|finish| *finish) => break,
        };
        let Some(told) = told else { return };
        let Some(batch) = sink.batch(&told) else {
            continue;
        };
        tokio::select! {
            biased;
            () = put(&mut sink, &batch) => {}
            _ = finish.wait_for(|finish| *finish) => break,
        }
    }
    while let Ok(Some(told)) = timeout(LAST, reader.next()).await {
        let Some(batch) = sink.batch(&told) else {
            continue;
        };
        if let Err(error) = sink.put(&batch).await {
            return warn::<S>(&error);
        }
    }
}

/// Tries until it succeeds. Meanwhile the events that follow stay in the history.
async fn put<S: Sink>(sink: &mut S, batch: &S::Batch) {
    let mut failures = 0;
    while let Err(error) = sink.put(batch).await {
        failures += 1;
        if failures == 1 {
            warn::<S>(&error);
        }
        sleep(TRY_AGAIN.delay(failures)).await;
    }
    if failures > 0 {
        tracing::info!(to = S::KEY, "events are handed over again");
    }
}

fn warn<S: Sink>(error: &str) {
    tracing::warn!(
        to = S::KEY, %error,
        "events cannot be handed over: the driver keeps the last 10,000, and tries again"
    );
}
