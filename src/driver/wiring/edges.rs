//! The actors that write to the cluster (application record, Kubernetes Events, PodGroups), and the
//! routes of executors' sessions.

use actix::Actor;

use crate::actors::event_recorder::EventRecorder;
use crate::actors::event_recorder::events::Events;
use crate::actors::pod_groups::GroupKeeper;
use crate::actors::record_keeper::keeping::Keeping;
use crate::actors::record_keeper::owned_resources::OwnedResources;
use crate::actors::record_keeper::{self, RecordKeeper};
use crate::driver::listener;
use crate::driver::owner_chain::OwnerChain;
use crate::driver::settings;
use crate::server::limits::Limits;
use crate::server::sessions::Sessions;
use crate::server::sessions::access::{Access, TokenKeys};

use super::basis::Basis;
use super::links::Links;

pub(super) fn record_keeper(basis: &Basis<'_>, links: &Links) -> RecordKeeper {
    let application = basis.application;
    RecordKeeper::new(record_keeper::Wiring {
        keeping: Keeping::new(
            application.record.clone(),
            application.place.clone(),
            application.uid.clone(),
            application.version.clone(),
        ),
        owned_resources: OwnedResources::new(application.owned_resources.clone(), basis.has_claims),
        calls: links.calls.clone(),
        prefix: application.prefix.clone(),
        clock: basis.clock,
        timing: basis.timing,
        store: links.store.clone(),
        over: links.reporter.clone().recipient(),
    })
}

pub(super) fn event_recorder(
    basis: &Basis<'_>,
    links: &Links,
    owner_chain: &OwnerChain,
) -> EventRecorder {
    let application = basis.application;
    let holder = application.record.holder.as_deref();
    let instance = holder.unwrap_or("boatswain").to_owned();
    let namespace = application.namespace.clone();
    let events = Events::new(owner_chain.pod.clone(), namespace, instance);
    EventRecorder::new(events, links.calls.clone(), basis.clock)
}

pub(super) fn group_keeper(basis: &Basis<'_>, links: &Links) -> GroupKeeper {
    GroupKeeper::new(
        links.calls.clone(),
        basis.application.prefix.clone(),
        settings::least(&basis.config.profiles),
        links.store.clone(),
        links.event_recorder.clone().map(|one| one.recipient()),
    )
}

/// `None` without a listener.
pub(super) fn sessions(basis: &Basis<'_>, links: &Links, limits: Limits) -> Option<Sessions> {
    let listener = basis.listener?;
    let app_id = &basis.application.record.app_id;
    let access = match &listener.key {
        Some(key) => Access::Derived(app_id.clone(), key.clone()),
        None => {
            let audience = listener::audience(app_id);
            let keys = TokenKeys::new(links.calls.clone(), basis.clock, audience);
            Access::Kubernetes(keys.start())
        }
    };
    Some(Sessions::new(links.registry.clone(), access, limits))
}
