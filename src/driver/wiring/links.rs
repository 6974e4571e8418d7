//! The addresses of the actors. They exist before the actors, because several actors need one
//! another's.

use std::sync::Arc;

use actix::{Addr, AsyncContext, Context};

use crate::actors::credentials::Credentials;
use crate::actors::driver_backend::DriverBackend;
use crate::actors::event_history::EventHistory;
use crate::actors::event_recorder::EventRecorder;
use crate::actors::executor_registry::ExecutorRegistry;
use crate::actors::lifecycle_manager::LifecycleManager;
use crate::actors::metrics::Meter;
use crate::actors::pod_allocator::PodAllocator;
use crate::actors::profile_objects::ProfileObjects;
use crate::actors::reachability::Reachability;
use crate::actors::record_keeper::RecordKeeper;
use crate::actors::set_scaler::SetScaler;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::watch_source::WatchSource;
use crate::driver::provisioners::Provisioner;
use crate::driver::reporter::Reporter;
use crate::driver::settings;
use crate::kubernetes::{Calls, SetKind};

use super::basis::Basis;

pub(super) struct Contexts {
    pub(super) store: Context<SnapshotStore>,
    pub(super) meter: Context<Meter>,
    pub(super) credentials: Context<Credentials>,
    pub(super) reachability: Context<Reachability>,
    /// `None` without the watch.
    pub(super) watch: Option<Context<WatchSource>>,
    pub(super) record: Context<RecordKeeper>,
    pub(super) backend: Context<DriverBackend>,
    pub(super) registry: Context<ExecutorRegistry>,
    pub(super) history: Context<EventHistory>,
    /// `None` unless Volcano schedules the executors.
    pub(super) pod_groups: Option<Context<ProfileObjects>>,
    pub(super) disruption_budgets: Context<ProfileObjects>,
    pub(super) lifecycle: Context<LifecycleManager>,
    /// `None` outside a pod.
    pub(super) event_recorder: Option<Context<EventRecorder>>,
    pub(super) provisioner: ProvisionerContext,
}

pub(super) enum ProvisionerContext {
    Direct(Context<PodAllocator>),
    Sets(SetKind, Context<SetScaler>),
}

pub(super) struct Links {
    pub(super) store: Addr<SnapshotStore>,
    pub(super) meter: Addr<Meter>,
    pub(super) watch: Option<Addr<WatchSource>>,
    pub(super) reachability: Addr<Reachability>,
    pub(super) record: Addr<RecordKeeper>,
    pub(super) backend: Addr<DriverBackend>,
    pub(super) registry: Addr<ExecutorRegistry>,
    pub(super) history: Addr<EventHistory>,
    pub(super) pod_groups: Option<Addr<ProfileObjects>>,
    pub(super) disruption_budgets: Addr<ProfileObjects>,
    pub(super) lifecycle: Addr<LifecycleManager>,
    pub(super) event_recorder: Option<Addr<EventRecorder>>,
    pub(super) provisioner: Provisioner,
    pub(super) reporter: Addr<Reporter>,
    /// These calls are counted. Their outcomes show whether the network and the credentials work.
    pub(super) calls: Calls,
}

impl Contexts {
    pub(super) fn new(basis: &Basis<'_>) -> Self {
        Self {
            store: Context::new(),
            meter: Context::new(),
            credentials: Context::new(),
            reachability: Context::new(),
            watch: basis.config.watch.enabled.then(Context::new),
            record: Context::new(),
            backend: Context::new(),
            registry: Context::new(),
            history: Context::new(),
            disruption_budgets: Context::new(),
            pod_groups: settings::pod_groups(&basis.config.scheduling).map(|_| Context::new()),
            lifecycle: Context::new(),
            event_recorder: basis
                .application
                .owner_chain
                .as_ref()
                .map(|_| Context::new()),
            provisioner: match basis.set_kind {
                None => ProvisionerContext::Direct(Context::new()),
                Some(kind) => ProvisionerContext::Sets(kind, Context::new()),
            },
        }
    }

    pub(super) fn links(&self, calls: Calls, reporter: &Addr<Reporter>) -> Links {
        let (meter, registry) = (self.meter.address(), self.registry.address());
        let observers = (
            meter.clone(),
            registry.clone(),
            self.credentials.address(),
            self.reachability.address(),
        );
        Links {
            store: self.store.address(),
            meter,
            watch: self.watch.as_ref().map(Context::address),
            reachability: self.reachability.address(),
            record: self.record.address(),
            backend: self.backend.address(),
            registry,
            history: self.history.address(),
            pod_groups: self.pod_groups.as_ref().map(Context::address),
            disruption_budgets: self.disruption_budgets.address(),
            lifecycle: self.lifecycle.address(),
            event_recorder: self.event_recorder.as_ref().map(Context::address),
            provisioner: match &self.provisioner {
                ProvisionerContext::Direct(context) => context.address().into(),
                ProvisionerContext::Sets(_, context) => context.address().into(),
            },
            reporter: reporter.clone(),
            calls: calls.observed(Arc::new(move |call| {
                let (meter, registry, credentials, reachability) = &observers;
                meter.do_send(call);
                registry.do_send(call);
                credentials.do_send(call);
                reachability.do_send(call);
            })),
        }
    }
}
