//! The store.

use std::sync::Arc;

use crate::actors::snapshot_store::messages::{Subscribe, Subscriber};
use crate::actors::snapshot_store::{self, SnapshotStore};
use crate::config;
use crate::driver::settings;
use crate::kubernetes::record::Held;
use crate::model::ProfileName;
use crate::model::delivery::Timing;
use crate::model::ledger::{Identity, Ledger};
use crate::model::snapshot::Hold;

use super::basis::Basis;
use super::links::Links;

pub(super) fn snapshot_store(basis: &Basis<'_>, links: &Links, ledger: Ledger) -> SnapshotStore {
    SnapshotStore::new(snapshot_store::Wiring {
        ledger,
        clock: basis.clock,
        watch: links.watch.clone().map(|watch| watch.recipient()),
        metrics: links.metrics.clone(),
    })
}

/// Subscribes all who decide on batches.
pub(super) fn subscribe(basis: &Basis<'_>, links: &Links) {
    let provisioner = Timing {
        interval: basis.config.allocation.interval,
        ..basis.timing
    };
    for (subscriber, timing, recipient) in [
        (
            Subscriber::Record,
            basis.timing,
            links.record.clone().recipient(),
        ),
        (
            Subscriber::Registry,
            basis.timing,
            links.registry.clone().recipient(),
        ),
        (
            Subscriber::History,
            basis.timing,
            links.history.clone().recipient(),
        ),
        (
            Subscriber::Backend,
            basis.timing,
            links.backend.clone().recipient(),
        ),
        (
            Subscriber::Lifecycle,
            basis.timing,
            links.lifecycle.clone().recipient(),
        ),
        (
            Subscriber::Allocator,
            provisioner,
            links.provisioner.round.clone(),
        ),
    ] {
        links.store.do_send(Subscribe {
            subscriber,
            timing,
            recipient,
        });
    }
}

/// During a hold no executors are wanted.
pub(super) fn ledger(basis: &Basis<'_>) -> Ledger {
    let application = basis.application;
    let record = &application.record;
    let identity = Identity {
        app: record.app_id.clone(),
        prefix: Arc::clone(&basis.prefix),
        incarnation: record.incarnation,
        server_timeout: settings::server_timeout(&basis.config.cluster),
        decommission_timeout: basis.config.backend.decommission_timeout,
        default_profile: ProfileName::from(config::DEFAULT_PROFILE),
    };
    let inheritance = settings::inheritance(application.inherited.as_ref());
    let (targets, uid) = (basis.targets.clone(), application.uid.clone());
    let mut ledger = Ledger::new(identity, inheritance, targets, uid, basis.now)
        .with_profiles_removed(record.removing.clone(), basis.now)
        .with_profiles_failed(record.failures.failed())
        .with_memory_limits(settings::memory_limits(&basis.config.profiles, record));
    if basis.set_kind.is_some() {
        ledger = ledger.of_sets();
    }
    if let Some(Held { by, .. }) = record.held.clone() {
        ledger = ledger.with_executors_held(Hold { by });
    }
    ledger
}
