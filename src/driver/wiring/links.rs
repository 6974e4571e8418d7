//! The addresses of the actors. They exist before the actors, because several actors need one
//! another's.

use std::sync::Arc;

use actix::{Addr, AsyncContext, Context};
use tokio::sync::watch;

use crate::actors::api_health::{ApiHealth, Health, Outcomes};
use crate::actors::driver_backend::DriverBackend;
use crate::actors::event_history::EventHistory;
use crate::actors::executor_registry::ExecutorRegistry;
use crate::actors::lifecycle_manager::LifecycleManager;
use crate::actors::pod_allocator::PodAllocator;
use crate::actors::record_keeper::RecordKeeper;
use crate::actors::set_scaler::SetScaler;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::watch_source::WatchSource;
use crate::driver::provisioners::Provisioner;
use crate::driver::reports::Reporter;
use crate::event_recorder::EventRecorder;
use crate::kubernetes::{Calls, SetKind};
use crate::metrics::Metrics;

use super::basis::Basis;
use super::edges;

pub(super) struct Contexts {
    pub(super) store: Context<SnapshotStore>,
    pub(super) api_health: Context<ApiHealth>,
    pub(super) health: watch::Sender<Health>,
    /// `None` without the watch.
    pub(super) watch: Option<Context<WatchSource>>,
    /// `None` if nodes are not watched.
    pub(super) nodes: Option<Context<WatchSource>>,
    pub(super) record: Context<RecordKeeper>,
    pub(super) backend: Context<DriverBackend>,
    pub(super) registry: Context<ExecutorRegistry>,
    pub(super) history: Context<EventHistory>,
    pub(super) lifecycle: Context<LifecycleManager>,
    pub(super) provisioner: ProvisionerContext,
    /// How much is left to await before the driver may stop.
    pub(super) left: watch::Sender<u32>,
}

pub(super) enum ProvisionerContext {
    Direct(Context<PodAllocator>),
    Sets(SetKind, Context<SetScaler>),
}

pub(super) struct Links {
    pub(super) store: Addr<SnapshotStore>,
    pub(super) metrics: Metrics,
    pub(super) watch: Option<Addr<WatchSource>>,
    pub(super) nodes: Option<Addr<WatchSource>>,
    pub(super) outcomes: Outcomes,
    pub(super) record: Addr<RecordKeeper>,
    pub(super) backend: Addr<DriverBackend>,
    pub(super) registry: Addr<ExecutorRegistry>,
    pub(super) history: Addr<EventHistory>,
    pub(super) lifecycle: Addr<LifecycleManager>,
    pub(super) event_recorder: Option<EventRecorder>,
    pub(super) provisioner: Provisioner,
    pub(super) reporter: Reporter,
    /// These calls are counted. Their outcomes show whether the network and the credentials work.
    pub(super) calls: Calls,
}

impl Contexts {
    pub(super) fn new(basis: &Basis<'_>) -> Self {
        Self {
            store: Context::new(),
            api_health: Context::new(),
            health: watch::Sender::default(),
            watch: basis.config.watch.enabled.then(Context::new),
            nodes: basis.config.nodes.watch.then(Context::new),
            record: Context::new(),
            backend: Context::new(),
            registry: Context::new(),
            history: Context::new(),
            lifecycle: Context::new(),
            provisioner: match basis.set_kind {
                None => ProvisionerContext::Direct(Context::new()),
                Some(kind) => ProvisionerContext::Sets(kind, Context::new()),
            },
            left: watch::Sender::default(),
        }
    }

    pub(super) fn links(&self, basis: &Basis<'_>, metrics: Metrics, reporter: Reporter) -> Links {
        let outcomes = Outcomes {
            to: self.api_health.address(),
            health: self.health.subscribe(),
        };
        let observers = (metrics.clone(), outcomes.clone());
        let calls = basis.application.calls.clone();
        let calls = calls.observed(Arc::new(move |call| {
            let (metrics, outcomes) = &observers;
            metrics.count_call(&call);
            outcomes.report(call);
        }));
        let left = self.left.subscribe();
        Links {
            store: self.store.address(),
            metrics,
            watch: self.watch.as_ref().map(Context::address),
            nodes: self.nodes.as_ref().map(Context::address),
            outcomes,
            record: self.record.address(),
            backend: self.backend.address(),
            registry: self.registry.address(),
            history: self.history.address(),
            lifecycle: self.lifecycle.address(),
            event_recorder: edges::event_recorder(basis, &calls),
            provisioner: match &self.provisioner {
                ProvisionerContext::Direct(context) => {
                    let allocator = context.address();
                    let prefer = Some(allocator.clone().recipient());
                    let groups = Some(allocator.clone().recipient());
                    Provisioner::new(&allocator, prefer, groups, left)
                }
                ProvisionerContext::Sets(_, context) => {
                    Provisioner::new(&context.address(), None, None, left)
                }
            },
            reporter,
            calls,
        }
    }
}
