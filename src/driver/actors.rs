//! The actors of a running driver, and the commands to them.

use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use tokio::sync::watch;

use crate::actors::api_health::{ApiHealth, Health};
use crate::actors::driver_backend::messages::Command as OfBackend;
use crate::actors::executor_registry::ExecutorRegistry;
use crate::actors::lifecycle_manager::LifecycleManager;
use crate::actors::poll_source::PollSource;
use crate::actors::record_keeper::RecordKeeper;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::{MeasureNow, Subscribe};
use crate::actors::watch_source::WatchSource;
use crate::event_recorder::EventRecorder;
use crate::kubernetes::Calls;
use crate::model::Snapshot;
use crate::model::snapshot::asked;
use crate::server::api;
use crate::server::limits::Limits;
use crate::server::sessions::Sessions;

use super::event_sinks::Writer;
use super::handle::Command;
use super::provisioners::Provisioner;
use super::remainder::{Remainder, Remover};

/// The actors, and the settings that the driver's end needs.
pub(super) struct Actors {
    /// Of pods and of nodes, as far as they are watched.
    pub(super) watches: Vec<Addr<WatchSource>>,
    pub(super) poll: Addr<PollSource>,
    pub(super) api_health: Addr<ApiHealth>,
    /// What is known of the API server.
    pub(super) health: watch::Receiver<Health>,
    pub(super) store: Addr<SnapshotStore>,
    /// The ledger as it is now.
    pub(super) snapshots: watch::Receiver<Arc<Snapshot>>,
    pub(super) provisioner: Provisioner,
    pub(super) record: Addr<RecordKeeper>,
    /// Whether the application record is known to be deleted, and not made anew yet.
    pub(super) record_is_gone: watch::Receiver<bool>,
    /// `None` outside a cluster.
    pub(super) event_recorder: Option<EventRecorder>,
    /// What hands the events over.
    pub(super) event_sinks: Vec<Writer>,
    pub(super) lifecycle: Addr<LifecycleManager>,
    pub(super) registry: Addr<ExecutorRegistry>,
    pub(super) api: api::Actors,
    /// `None` without a listener for executors.
    pub(super) sessions: Option<Sessions>,
    /// How many connections are accepted.
    pub(super) limits: Limits,
    pub(super) calls: Calls,
    /// Who removes executors that this driver leaves.
    pub(super) remover: Remover,
    pub(super) page_size: u32,
    /// Whether the configuration has claims on volumes that outlive their executors.
    pub(super) has_claims: bool,
    /// Whether a queue admits executors.
    pub(super) has_queue: bool,
    pub(super) request_timeout: Duration,
    pub(super) decommission_timeout: Duration,
}

impl Actors {
    /// Executes a command that does not stop the driver.
    pub(super) async fn command(&self, command: Command) {
        // Sending fails if the caller no longer waits for the answer.
        match command {
            Command::SetTargets(targets, answer) => {
                let set = self.api.backend.send(OfBackend::SetTargets(targets));
                if let Ok(set) = set.await {
                    let _ = answer.send(set.map(|outcome| asked(&outcome.ledger.targets)));
                }
            }
            Command::Reconfigure(changes, answer) => {
                let _ = answer.send(self.reconfigure(changes).await);
            }
            Command::Look(answer) => {
                let _ = answer.send(Snapshot::clone(&self.snapshots.borrow()));
            }
            Command::Measure(answer) => {
                if let Ok(measures) = self.store.send(MeasureNow).await {
                    let _ = answer.send(measures);
                }
            }
            Command::Remainder(answer) => {
                let remainder = Remainder::new(self.snapshots.clone(), self.remover.clone());
                let _ = answer.send(remainder);
            }
            Command::Sessions(answer) => {
                let router = self.sessions.as_ref().map(Sessions::router);
                let _ = answer.send(router);
            }
            Command::Observe(reader) => self.store.do_send(Subscribe::observer(reader)),
            Command::Routes(tokens, answer) => {
                let _ = answer.send(api::router(self.api.clone(), tokens, self.limits));
            }
            Command::Stop(_) => {}
        }
    }
}
