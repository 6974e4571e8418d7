//! The actors behind the API and the executors' sessions.

use crate::actors::driver_backend::autoscaler::Autoscaler;
use crate::actors::driver_backend::commands::{self, Commands};
use crate::actors::driver_backend::profiles::{Known, Profiles};
use crate::actors::driver_backend::roller::Roller;
use crate::actors::driver_backend::status::{Status, readiness};
use crate::actors::driver_backend::{self, DriverBackend, Receivers};
use crate::actors::event_history::{self, EventHistory};
use crate::actors::executor_registry::{self, ExecutorRegistry, registry};
use crate::driver::settings;

use super::basis::Basis;
use super::deciders;
use super::links::Links;

pub(super) fn driver_backend(
    basis: &Basis<'_>,
    links: &Links,
    readiness: readiness::Settings,
) -> DriverBackend {
    let (config, record) = (basis.config, &basis.application.record);
    let (backend, now) = (&config.backend, basis.now.tick);
    let commands = commands::Settings {
        kill_grace: backend.kill_grace,
        decommission_timeout: backend.decommission_timeout,
        ttl: config.app.ttl,
    };
    let scaling = (config.autoscaling.enabled).then(|| settings::scaling(&config.autoscaling));
    let rolls = !config.roll.interval.is_zero();
    let rolling = rolls.then(|| settings::rolling(&config.roll));
    let roller = |rolling| Roller::new(rolling, backend.decommission_timeout, now);
    let wanted = (basis.targets.values()).fold(0, |sum: u32, n| sum.saturating_add(*n));
    let (app, incarnation) = (record.app_id.clone(), record.incarnation);
    DriverBackend::new(driver_backend::Wiring {
        profiles: profiles(basis),
        commands: Commands::new(commands, now),
        autoscaler: Autoscaler::new(scaling, backend.decommission_timeout),
        roller: rolling.map(roller),
        status: Status::new(app, incarnation, readiness, wanted),
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
    let forget = vec![
        links.provisioner.forget.clone(),
        links.registry.clone().recipient(),
        links.record.clone().recipient(),
    ];
    Receivers {
        added,
        removed: links.record.clone().recipient(),
        forget,
        forget_targets: links.record.clone().recipient(),
        prefer: links.provisioner.prefer.clone(),
        sessions: links.registry.clone().recipient(),
        stop: links.reporter.stops.clone(),
        events: links.history.clone().recipient(),
        store: links.store.clone(),
    }
}

pub(super) fn executor_registry(
    basis: &Basis<'_>,
    links: &Links,
    registry: registry::Settings,
) -> ExecutorRegistry {
    ExecutorRegistry::new(executor_registry::Wiring {
        registry,
        decommission_timeout: basis.config.backend.decommission_timeout,
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
        incarnation: basis.application.record.incarnation,
        past: basis.application.record.ends.clone(),
        sessions: links.registry.clone().recipient(),
        clock: basis.clock,
    })
}
