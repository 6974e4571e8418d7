//! A request to stop, and what it means: at once, or after the cause of the signal was read (spec O-66).

use std::future::pending;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::actors::driver_backend::messages::Stop;
use crate::config::{Config, OnSignal};
use crate::kubernetes::Calls;

use super::owner_chain::OwnerChain;
use super::signal_cause::reading::Reader;

/// What asks the driver to stop, from its start to its end. The first request counts.
pub(super) struct StopRequest {
    configured: OnSignal,
    /// What `auto` means outside a cluster.
    outside: Stop,
    /// `None` outside a cluster.
    reader: Option<Reader>,
    grace: Duration,
    made: Option<Request>,
}

struct Request {
    at: Instant,
    way: Way,
}

enum Way {
    Known(Stop),
    Learning(LocalBoxFuture<'static, Stop>),
}

impl StopRequest {
    /// `calls` read the driver's pod until there are others.
    pub(super) fn awaited(config: &Config, calls: Calls) -> Self {
        Self {
            configured: config.shutdown.on_signal,
            // A standby goes on with the application.
            outside: match config.ha.lease {
                true => Stop::HandOver,
                false => Stop::DONE,
            },
            reader: Reader::new(config, calls),
            grace: config.shutdown.grace,
            made: None,
        }
    }

    /// The driver's controllers are known now.
    pub(super) fn set_owner_chain(&mut self, chain: Option<&OwnerChain>) {
        if let Some(reader) = &mut self.reader {
            reader.set_owner_chain(chain);
        }
    }

    /// The driver's pod is read by these calls from now on.
    pub(super) fn use_calls(&mut self, calls: &Calls) {
        if let Some(reader) = &mut self.reader {
            reader.use_calls(calls);
        }
    }

    /// Whether the application record is gone is shown here from now on.
    pub(super) fn follow_record(&mut self, is_gone: watch::Receiver<bool>) {
        if let Some(reader) = &mut self.reader {
            reader.follow_record(is_gone);
        }
    }

    /// `way`: `None` for a signal.
    pub(super) fn make(&mut self, way: Option<OnSignal>) {
        if self.made.is_some() {
            return;
        }
        let way = match (way.unwrap_or(self.configured), &self.reader) {
            (OnSignal::HandOver, _) => Way::Known(Stop::HandOver),
            (OnSignal::End, _) => Way::Known(Stop::DONE),
            (OnSignal::Auto, None) => Way::Known(self.outside.clone()),
            (OnSignal::Auto, Some(reader)) => Way::Learning(reader.clone().learn().boxed_local()),
        };
        let at = Instant::now();
        self.made = Some(Request { at, way });
    }

    pub(super) fn is_made(&self) -> bool {
        self.made.is_some()
    }

    /// Whether it has been made and its meaning is not known yet.
    pub(super) fn is_open(&self) -> bool {
        let way = self.made.as_ref().map(|made| &made.way);
        matches!(way, Some(Way::Learning(_)))
    }

    /// `None` as long as it is not made, or its meaning is not known yet.
    pub(super) fn known(&self) -> Option<Stop> {
        match &self.made.as_ref()?.way {
            Way::Known(meaning) => Some(meaning.clone()),
            Way::Learning(_) => None,
        }
    }

    /// Waits until a request is made and its meaning known, or until the application was deleted without one. May be
    /// dropped and called again.
    pub(super) async fn meaning(&mut self) -> Stop {
        let made = match &mut self.made {
            Some(made) => made,
            None => {
                let meaning = self.deleted().await;
                self.made.insert(Request {
                    at: Instant::now(),
                    way: Way::Known(meaning),
                })
            }
        };
        let meaning = match &mut made.way {
            Way::Known(meaning) => return meaning.clone(),
            Way::Learning(learning) => learning.await,
        };
        made.way = Way::Known(meaning.clone());
        meaning
    }

    /// The signal of a driver whose controller was deleted may come long after the record was collected.
    async fn deleted(&self) -> Stop {
        match (&self.reader, self.configured) {
            (Some(reader), OnSignal::Auto) => reader.deleted().await,
            _ => pending().await,
        }
    }

    /// When the time to end the application is over.
    pub(super) fn deadline(&self) -> Option<Instant> {
        Some(self.made.as_ref()?.at + self.grace)
    }

    /// How much of that time is left.
    pub(super) fn left(&self) -> Duration {
        self.deadline().map_or(self.grace, |deadline| {
            deadline.saturating_duration_since(Instant::now())
        })
    }
}
