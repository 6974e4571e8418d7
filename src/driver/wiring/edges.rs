//! The actors that write to the cluster (application record, Kubernetes Events, objects of profiles), where events are handed over,
//! and the routes of executors' sessions.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{Actor, Addr};
use tokio::sync::watch;

use crate::actors::record_keeper::keeping::Keeping;
use crate::actors::record_keeper::owned_resources::OwnedResources;
use crate::actors::record_keeper::profile_objects::{Place, ProfileObjects};
use crate::actors::record_keeper::{self, RecordKeeper};
use crate::config::AccountRight;
use crate::driver::event_sinks::{Collector, EventsFile, Traces, Writer};
use crate::driver::listener;
use crate::driver::settings;
use crate::event_recorder::EventRecorder;
use crate::event_recorder::events::Events;
use crate::kubernetes::Calls;
use crate::kubernetes::calls::ProfileObject;
use crate::kubernetes::record::Held;
use crate::metrics::Scraper;
use crate::model::ProfileName;
use crate::server::api::callers::Callers;
use crate::server::api::evidence::EvidenceReader;
use crate::server::api::tokens::Right;
use crate::server::api::{self, Adoption};
use crate::server::limits::Limits;
use crate::server::sessions::Sessions;
use crate::server::sessions::access::{Access, TokenKeys};

use super::basis::Basis;
use super::links::Links;

pub(super) fn record_keeper(
    basis: &Basis<'_>,
    links: &Links,
    held: Option<Held>,
) -> (RecordKeeper, watch::Receiver<bool>) {
    let application = basis.application;
    RecordKeeper::new(record_keeper::Wiring {
        keeping: Keeping::new(
            application.record.clone(),
            application.place.clone(),
            application.uid.clone(),
            application.version.clone(),
        ),
        held,
        owned_resources: OwnedResources::new(application.owned_resources.clone(), basis.has_claims),
        objects: objects(basis, links),
        calls: links.calls.clone(),
        prefix: application.prefix.clone(),
        clock: basis.clock,
        store: links.store.clone(),
        over: links.reporter.over.clone(),
    })
}

/// `None` outside a pod.
pub(super) fn event_recorder(basis: &Basis<'_>, calls: &Calls) -> Option<EventRecorder> {
    let application = basis.application;
    let pod = application.owner_chain.as_ref()?.pod.clone();
    let holder = application.record.holder.as_deref();
    let instance = holder.unwrap_or("boatswain").to_owned();
    let namespace = application.namespace.clone();
    let events = Events::new(pod, namespace, instance);
    Some(EventRecorder::start(events, calls.clone(), basis.clock))
}

/// The PodGroups of gangs, if a scheduler reads them, and the PodDisruptionBudgets.
fn objects(basis: &Basis<'_>, links: &Links) -> Vec<ProfileObjects> {
    let (config, mut all) = (&basis.config, Vec::new());
    if let Some(groups) = settings::pod_groups(&config.scheduling) {
        let least = settings::least(&config.profiles);
        all.push(profile_objects(
            ProfileObject::PodGroup(groups),
            least,
            basis,
            links,
        ));
    }
    let least = settings::min_available(&config.profiles);
    all.push(profile_objects(
        ProfileObject::DisruptionBudget,
        least,
        basis,
        links,
    ));
    all
}

fn profile_objects(
    object: ProfileObject,
    least: BTreeMap<ProfileName, u32>,
    basis: &Basis<'_>,
    links: &Links,
) -> ProfileObjects {
    let application = basis.application;
    let place = Place {
        prefix: application.prefix.clone(),
        app_id: application.record.app_id.clone(),
        labels: application.labels,
    };
    let event_recorder = links.event_recorder.clone();
    let (calls, store) = (links.calls.clone(), links.store.clone());
    let is_group = matches!(object, ProfileObject::PodGroup(_));
    let refused = links.provisioner.groups.clone().filter(|_| is_group);
    ProfileObjects::start(object, calls, place, least, store, event_recorder, refused)
}

/// By `history.file` and `traces.collector`.
pub(super) fn event_sinks(basis: &Basis<'_>, links: &Links) -> Vec<Writer> {
    let (config, application) = (&basis.config, basis.application);
    let incarnation = application.record.incarnation;
    let mut writers = Vec::new();
    if let Some(path) = config.history.file.as_deref() {
        let file = EventsFile {
            path: Arc::from(path),
            most: config.history.max_size.bytes(),
        };
        writers.push(Writer::start(file, links.history.clone(), incarnation));
    }
    if let Some(server) = &config.traces.collector {
        let collector = Collector {
            server: server.clone(),
            token_file: config.traces.token_file.clone(),
            ca_file: config.traces.ca_file.clone(),
        };
        let (app, namespace) = (application.record.app_id.as_str(), &application.namespace);
        let traces = Traces::of(collector, app, namespace);
        writers.push(Writer::start(traces, links.history.clone(), incarnation));
    }
    writers
}

/// The cluster's keys, with which service account tokens are verified. They are fetched when the
/// first such token comes. `None` if no such token is accepted.
pub(super) fn token_keys(basis: &Basis<'_>, links: &Links) -> Option<Addr<TokenKeys>> {
    let of_pods = (basis.listener).is_some_and(|listener| listener.key.is_none());
    let of_callers = !basis.config.api.service_accounts.is_empty();
    let audience = listener::audience(&basis.application.record.app_id);
    let keys = || {
        let keys = TokenKeys::new(links.calls.clone(), basis.clock, audience);
        match of_pods {
            true => keys.telling(links.registry.clone().recipient()).start(),
            false => keys.start(),
        }
    };
    (of_pods || of_callers).then(keys)
}

/// `None` if no service account may call the API.
fn callers(basis: &Basis<'_>, keys: Option<&Addr<TokenKeys>>) -> Option<Callers> {
    let (api, keys) = (&basis.config.api, keys?);
    if api.service_accounts.is_empty() {
        return None;
    }
    let application = basis.application;
    let audience = api.audience.clone();
    let audience = audience.unwrap_or_else(|| {
        let (namespace, prefix) = (&application.namespace, &application.prefix);
        listener::api_audience(namespace, prefix)
    });
    tracing::info!(
        audience,
        "service accounts may call the API with tokens for this audience"
    );
    let right = |right: AccountRight| match right {
        AccountRight::Read => Right::Read,
        AccountRight::Full => Right::Full,
    };
    let rights = api.service_accounts.iter();
    let rights = rights.map(|(account, given)| (account.clone(), right(*given)));
    Some(Callers {
        keys: keys.clone(),
        audience: audience.into(),
        rights: Arc::new(rights.collect()),
    })
}

fn scraper(links: &Links) -> Scraper {
    Scraper {
        metrics: links.metrics.clone(),
        actors: vec![
            ("store", links.store.clone().recipient()),
            ("backend", links.backend.clone().recipient()),
            ("allocator", links.provisioner.measure.clone()),
            ("lifecycle", links.lifecycle.clone().recipient()),
            ("registry", links.registry.clone().recipient()),
            ("history", links.history.clone().recipient()),
        ],
    }
}

/// What the API's routes speak to.
pub(super) fn api_actors(
    basis: &Basis<'_>,
    links: &Links,
    adoption: Adoption,
    keys: Option<&Addr<TokenKeys>>,
) -> api::Actors {
    let evidence = || EvidenceReader::new(links.calls.clone());
    api::Actors {
        backend: links.backend.clone(),
        history: links.history.clone(),
        scraper: scraper(links),
        adoption,
        callers: callers(basis, keys),
        evidence: basis.config.api.evidence.then(evidence),
    }
}

/// `None` without a listener.
pub(super) fn sessions(
    basis: &Basis<'_>,
    links: &Links,
    limits: Limits,
    keys: Option<Addr<TokenKeys>>,
) -> Option<Sessions> {
    let listener = basis.listener?;
    let app_id = &basis.application.record.app_id;
    let access = match &listener.key {
        Some(key) => Access::Derived(app_id.clone(), key.clone()),
        None => Access::Kubernetes(keys?),
    };
    let metrics = links.metrics.clone();
    Some(Sessions::new(
        links.registry.clone(),
        access,
        limits,
        metrics,
    ))
}
