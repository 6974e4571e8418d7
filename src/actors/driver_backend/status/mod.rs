//! Status: the application's status and readiness, and its numbers over the last hour (spec B-20, O-42, O-82).
//!
//! Other actors send what no batch shows: the number of registered executors (ExecutorRegistry) and the paused profiles
//! (PodAllocator). ApiHealth publishes which writes are refused.

pub mod counts;
mod pauses;
pub mod readiness;
mod storm;
pub mod views;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

use crate::actors::api_health::Health;
use crate::actors::event_history::event::What;
use crate::actors::executor_registry::messages::SessionsChanged;
use crate::actors::executor_registry::registry::WhyDoubt;
use crate::actors::pod_allocator::pause::{Cause, Paused};
use crate::actors::pod_allocator::refusal::RefusalKind;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::model::{AppId, Batch, Ending, Incarnation, Now, ProfileName, Snapshot, Tick};

use super::pools::PoolView;
use super::profiles::Profiles;
use counts::{CountsHistory, CountsView};
use readiness::Readiness;
use views::{DegradedView, DriverView, HeldView, LOSSES, LossView, RefusedWriteView, StatusView};

/// Which driver this is, and where its executors are.
#[derive(Debug)]
pub struct Identity {
    pub app: AppId,
    pub incarnation: Incarnation,
    pub namespace: String,
    /// The URL of the API server.
    pub api_server: String,
}

#[derive(Debug)]
pub struct Status {
    identity: Identity,
    readiness: Readiness,
    sessions: SessionsChanged,
    api_server: watch::Receiver<Health>,
    /// The profiles whose executors are not requested.
    paused: Paused,
    counts: CountsHistory,
    /// The last losses, newest first.
    losses: VecDeque<LossView>,
}

impl Status {
    /// `wanted` is the sum of the targets at the start.
    pub fn new(
        identity: Identity,
        config: Arc<Config>,
        wanted: u32,
        api_server: watch::Receiver<Health>,
    ) -> Self {
        Self {
            identity,
            api_server,
            readiness: Readiness::new(config, wanted),
            sessions: SessionsChanged::default(),
            paused: Paused::default(),
            counts: CountsHistory::default(),
            losses: VecDeque::new(),
        }
    }

    pub fn set_sessions(&mut self, sessions: SessionsChanged) {
        self.sessions = sessions;
    }

    /// The pauses that began, ended or changed their reason.
    pub fn set_pauses(&mut self, paused: Paused) -> Vec<What> {
        let before = std::mem::replace(&mut self.paused, paused);
        pauses::changes(&before, &self.paused)
    }

    pub fn note_losses(&mut self, batch: &Batch, now: Now) {
        storm::note(batch);
        for Ending { entry, reason } in batch.ends() {
            self.losses.truncate(LOSSES - 1);
            self.losses.push_front(LossView {
                executor: entry.id.get(),
                profile: entry.profile.to_string(),
                time: now.wall,
                reason: reason.class.to_string(),
                why: reason.message.clone(),
            });
        }
    }

    /// Keeps the numbers, if it is time for it.
    pub fn count(&mut self, latest: &Snapshot, now: Now) {
        if latest.adopted {
            (self.counts).look(latest, &self.sessions.registered, now);
        }
    }

    /// Whether the application has just become ready.
    pub fn becomes_ready(&mut self, latest: &Snapshot, now: Tick) -> Option<What> {
        if !latest.adopted || self.readiness.is_ready() {
            return None;
        }
        let registered = &self.sessions.registered;
        let (there, becomes) = if self.readiness.counts_registered() {
            let there = registered.values().sum();
            let of = |profile: &ProfileName| registered.get(profile).copied().unwrap_or(0);
            (there, self.readiness.look(there, of, now))
        } else {
            let there = running(latest);
            let of = |profile: &ProfileName| latest.counts(profile).running;
            (there, self.readiness.look(there, of, now))
        };
        let (executors, wanted) = (there, self.readiness.wanted());
        becomes.then(|| {
            if executors < wanted {
                tracing::warn!(
                    executors,
                    wanted,
                    "app.max_wait is over: the application begins with fewer executors than it waited for"
                );
            }
            let counted = match self.readiness.counts_registered() {
                true => "registered",
                false => "running",
            };
            let targets = self.readiness.targets();
            tracing::info!(executors, counted, wanted, targets, "ready");
            What::Ready { executors, wanted }
        })
    }

    /// Before adoption nothing is told of executors (spec B-55).
    pub fn view(
        &self,
        latest: &Snapshot,
        profiles: &Profiles,
        pools: BTreeMap<String, PoolView>,
        now: Now,
    ) -> StatusView {
        let (adopted, nothing) = (latest.adopted, Snapshot::default());
        let latest = if adopted { latest } else { &nothing };
        let (registered, paused) = (&self.sessions.registered, &self.paused.0);
        let degraded = |(why, since): (WhyDoubt, Tick)| DegradedView {
            why: why.to_string(),
            for_seconds: now.tick.since(since).as_secs(),
        };
        StatusView {
            app: self.identity.app.to_string(),
            incarnation: self.identity.incarnation.0,
            driver: DriverView {
                version: env!("CARGO_PKG_VERSION"),
                namespace: self.identity.namespace.clone(),
                api_server: self.identity.api_server.clone(),
                up_seconds: now.tick.since(Tick::default()).as_secs(),
            },
            adopted,
            time: now.wall,
            ready: self.readiness.is_ready(),
            degraded: self.sessions.doubt.filter(|_| adopted).map(degraded),
            refused_writes: (self.api_server.borrow().refused.iter())
                .map(|write| RefusedWriteView::of(write, now.tick))
                .collect(),
            held: HeldView::of(latest),
            pools: match adopted {
                true => pools,
                false => BTreeMap::new(),
            },
            profiles: views::profiles(latest, profiles, registered, paused, now.tick),
            losses: self.losses.iter().cloned().collect(),
        }
    }

    /// Whether missing executors of this profile are not requested, for a cause that other profiles need not share.
    pub fn is_held_back(&self, profile: &ProfileName) -> bool {
        let cause = self.paused.0.get(profile).map(|pause| pause.cause);
        cause.is_some_and(|cause| match cause {
            Cause::CrashLoop | Cause::Queued => true,
            Cause::Refused(kind) => matches!(kind, RefusalKind::Quota | RefusalKind::Blocked),
            Cause::GangMissed | Cause::Failing => false,
        })
    }

    /// Sets the gauges of readiness and pauses.
    pub fn measure(&self, metrics: &Metrics) {
        metrics.ready.set(self.readiness.is_ready().into());
        metrics.paused.clear();
        for (profile, pause) in &self.paused.0 {
            let values = [profile.to_string().into(), pause.cause.as_str().into()];
            metrics.paused.of(values).set(1);
        }
    }

    pub fn counts(&self) -> CountsView {
        self.counts.view()
    }
}

/// Spares are not there for the application.
fn running(snapshot: &Snapshot) -> u32 {
    (snapshot.counts.iter())
        .filter(|(profile, _)| !profile.is_of_spares())
        .map(|(_, counts)| counts.running)
        .sum()
}
