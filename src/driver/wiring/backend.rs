//! The actors behind the API and the executors' sessions.

use crate::actors::autoscaler::{self, Autoscaler};
use crate::actors::commands::{self, Commands};
use crate::actors::driver_backend::{self, DriverBackend, readiness};
use crate::actors::event_history::{self, EventHistory};
use crate::actors::executor_registry::{self, ExecutorRegistry, registry};
use crate::actors::profiles::{self, Profiles};
use crate::actors::roller::{self, Roller};
use crate::driver::settings;
use crate::kubernetes::record::Held;

use super::basis::Basis;
use super::deciders;
use super::links::Links;

pub(super) fn driver_backend(
    basis: &Basis<'_>,
    links: &Links,
    readiness: readiness::Settings,
) -> DriverBackend {
    let record = &basis.application.record;
    DriverBackend::new(driver_backend::Wiring {
        app: record.app_id.clone(),
        incarnation: record.incarnation,
        readiness,
        wanted: (basis.targets.values()).fold(0, |sum: u32, n| sum.saturating_add(*n)),
        held: links.commands.clone().recipient(),
        events: links.history.clone().recipient(),
        store: links.store.clone(),
        clock: basis.clock,
        timing: basis.timing,
    })
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
        timing: basis.timing,
        metrics: links.metrics.clone(),
        api_server: links.outcomes.health.clone(),
    })
}

pub(super) fn event_history(basis: &Basis<'_>, links: &Links) -> EventHistory {
    EventHistory::new(event_history::Wiring {
        incarnation: basis.application.record.incarnation,
        past: basis.application.record.ends.clone(),
        sessions: links.registry.clone().recipient(),
        store: links.store.clone(),
        clock: basis.clock,
        timing: basis.timing,
    })
}

pub(super) fn commands(basis: &Basis<'_>, links: &Links) -> Commands {
    let config = &basis.config;
    Commands::new(commands::Wiring {
        settings: commands::Settings {
            kill_grace: config.backend.kill_grace,
            decommission_timeout: config.backend.decommission_timeout,
            ttl: config.app.ttl,
        },
        profiles: settings::bounds(&config.profiles),
        // Profiles may have been added or removed during the hold.
        held: (basis.application.record.held.clone()).map(|held| Held {
            targets: basis.targets.clone(),
            ..held
        }),
        keep_held: links.record.clone().recipient(),
        forget: links.record.clone().recipient(),
        stop: links.reporter.stops.clone(),
        events: links.history.clone().recipient(),
        store: links.store.clone(),
        clock: basis.clock,
        timing: basis.timing,
    })
}

pub(super) fn autoscaler(basis: &Basis<'_>, links: &Links) -> Autoscaler {
    let config = &basis.config;
    Autoscaler::new(autoscaler::Wiring {
        settings: (config.autoscaling.enabled).then(|| settings::scaling(&config.autoscaling)),
        profiles: settings::bounds(&config.profiles),
        decommission_timeout: config.backend.decommission_timeout,
        prefer: links.provisioner.prefer.clone(),
        store: links.store.clone(),
        clock: basis.clock,
        timing: basis.timing,
    })
}

/// `None` if the configuration disables the replacement of executors.
pub(super) fn roller(basis: &Basis<'_>, links: &Links) -> Option<Roller> {
    let config = &basis.config;
    if config.roll.interval.is_zero() {
        return None;
    }
    Some(Roller::new(roller::Wiring {
        settings: settings::rolling(&config.roll),
        decommission_timeout: config.backend.decommission_timeout,
        sessions: links.registry.clone().recipient(),
        store: links.store.clone(),
        clock: basis.clock,
        timing: basis.timing,
    }))
}

pub(super) fn profiles(basis: &Basis<'_>, links: &Links) -> Profiles {
    let (place, proofs) = (basis.profile_place.clone(), basis.profile_proofs.clone());
    let app_id = basis.application.record.app_id.clone();
    let recipients = vec![
        links.provisioner.profiles.clone(),
        links.record.clone().recipient(),
        links.registry.clone().recipient(),
        links.autoscaler.clone().recipient(),
        links.commands.clone().recipient(),
    ];
    let removed = vec![
        links.commands.clone().recipient(),
        links.autoscaler.clone().recipient(),
        links.record.clone().recipient(),
    ];
    let forget = vec![
        links.provisioner.forget.clone(),
        links.registry.clone().recipient(),
        links.record.clone().recipient(),
    ];
    Profiles::new(profiles::Wiring {
        read: Box::new(move |name, described| settings::understood(&place, name, described)),
        prove: Box::new(move |name, described| proofs.prove(&app_id, name, described)),
        names: basis.config.profiles.keys().cloned().collect(),
        configured: basis.application.configured.clone(),
        added: basis.application.record.profiles.clone(),
        removing: basis.application.record.removing.clone(),
        gangs: deciders::gangs(basis),
        recipients,
        removed,
        forget,
        look: links.store.clone().recipient(),
        tell: links.store.clone().recipient(),
    })
}
