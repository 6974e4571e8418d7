//! The actors behind the API and the executors' sessions.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::actors::driver_backend::autoscaler::Autoscaler;
use crate::actors::driver_backend::commands::Commands;
use crate::actors::driver_backend::leaving_nodes::LeavingNodes;
use crate::actors::driver_backend::pools::Pools;
use crate::actors::driver_backend::profiles::{Known, Profiles};
use crate::actors::driver_backend::roller::Roller;
use crate::actors::driver_backend::status::{Identity, Status};
use crate::actors::driver_backend::{self, DriverBackend, Receivers};
use crate::actors::event_history::{self, EventHistory};
use crate::actors::executor_registry::registry::Registry;
use crate::actors::executor_registry::{self, ExecutorRegistry};
use crate::driver::settings;
use crate::model::ProfileName;

use super::basis::Basis;
use super::deciders;
use super::links::Links;

pub(super) fn driver_backend(basis: &Basis<'_>, links: &Links) -> DriverBackend {
    let (config, record, now) = (&basis.config, &basis.application.record, basis.now.tick);
    let failed: BTreeSet<_> = record
        .failures
        .failed()
        .map(|(profile, _)| profile)
        .collect();
    let counts = |profile: &ProfileName| !failed.contains(profile) && !profile.is_of_spares();
    let wanted = (basis.targets.iter()).filter(|(profile, _)| counts(profile));
    let wanted = wanted.fold(0, |sum: u32, (_, n)| sum.saturating_add(*n));
    let rolls = !config.roll.interval.is_zero();
    DriverBackend::new(driver_backend::Wiring {
        profiles: profiles(basis),
        commands: Commands::new(Arc::clone(config), now),
        autoscaler: Autoscaler::new(Arc::clone(config)),
        pools: Pools::new(Arc::clone(config)),
        leaving_nodes: LeavingNodes::new(Arc::clone(config)),
        roller: rolls.then(|| Roller::new(Arc::clone(config), now)),
        status: Status::new(
            Identity {
                app: record.app_id.clone(),
                incarnation: record.incarnation,
                namespace: basis.application.namespace.clone(),
                api_server: basis.application.calls.server(),
            },
            Arc::clone(config),
            wanted,
            links.outcomes.health.clone(),
        ),
        to: receivers(links),
        clock: basis.clock,
    })
}

fn profiles(basis: &Basis<'_>) -> Profiles {
    let (place, proofs) = (basis.profile_place.clone(), basis.profile_proofs.clone());
    let record = &basis.application.record;
    let app_id = record.app_id.clone();
    Profiles::new(
        Box::new(move |name, described| settings::understood(&place, name, described)),
        Box::new(move |name, described| proofs.prove(&app_id, name, described)),
        Known {
            bounds: settings::bounds(&basis.config.profiles),
            containers: settings::containers(&basis.config.profiles),
            configured: basis.application.configured.clone(),
            added: record.profiles.clone(),
            removing: record.removing.clone(),
            gangs: deciders::gangs(basis),
        },
    )
}

fn receivers(links: &Links) -> Receivers {
    let added = vec![
        links.provisioner.profiles.clone(),
        links.record.clone().recipient(),
        links.registry.clone().recipient(),
    ];
    let gone = vec![
        links.provisioner.gone.clone(),
        links.registry.clone().recipient(),
        links.record.clone().recipient(),
    ];
    Receivers {
        added,
        record: links.record.clone().recipient(),
        gone,
        prefer: links.provisioner.prefer.clone(),
        sessions: links.registry.clone().recipient(),
        stop: links.reporter.stops.clone(),
        events: links.history.clone().recipient(),
        store: links.store.clone(),
    }
}

pub(super) fn executor_registry(basis: &Basis<'_>, links: &Links) -> ExecutorRegistry {
    let application = basis.application;
    let (app, incarnation) = (
        application.record.app_id.clone(),
        application.record.incarnation,
    );
    let (prefix, config) = (application.prefix.clone(), Arc::clone(&basis.config));
    ExecutorRegistry::new(executor_registry::Wiring {
        registry: Registry::new(app, prefix, incarnation, config),
        store: links.store.clone(),
        record: links.record.clone().recipient(),
        events: links.history.clone().recipient(),
        changes: links.backend.clone().recipient(),
        clock: basis.clock,
        metrics: links.metrics.clone(),
        api_server: links.outcomes.health.clone(),
    })
}

pub(super) fn event_history(basis: &Basis<'_>, links: &Links) -> EventHistory {
    EventHistory::new(event_history::Wiring {
        app: basis.application.record.app_id.clone(),
        incarnation: basis.application.record.incarnation,
        past: basis.application.record.ends.clone(),
        sessions: links.registry.clone().recipient(),
        clock: basis.clock,
    })
}
