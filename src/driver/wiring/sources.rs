//! The sources of pods, the watch and the poll, and what informs all callers that the API server is
//! back.

use std::sync::Arc;

use actix::Addr;
use rand::rngs::StdRng;
use tokio::sync::watch;

use crate::actors::api_health::{ApiHealth, Health};
use crate::actors::poll_source::PollSource;
use crate::actors::poll_source::lister::Lister;
use crate::actors::watch_source::{WatchSource, Watched};
use crate::driver::settings;
use crate::kubernetes::calls::LeavingRules;

use super::basis::Basis;
use super::links::Links;

fn lister(basis: &Basis<'_>, links: &Links) -> Lister {
    Lister {
        calls: links.calls.clone(),
        begin: links.store.clone().recipient(),
        arrived: links.store.clone().recipient(),
        page_size: basis.config.tuning.page_size,
        streams: true,
    }
}

pub(super) fn watch_source(basis: &Basis<'_>, links: &Links, rng: StdRng) -> WatchSource {
    let store = links.store.clone().recipient();
    WatchSource::new(Watched::Pods(lister(basis, links)), store, rng)
}

/// The watch of the cluster's nodes.
pub(super) fn nodes(basis: &Basis<'_>, links: &Links, rng: StdRng) -> WatchSource {
    let nodes = &basis.config.nodes;
    let rules = LeavingRules::new(nodes.leaving_taints.clone(), nodes.cordoned);
    let watched = Watched::Nodes {
        calls: links.calls.clone(),
        rules: Arc::new(rules),
    };
    WatchSource::new(watched, links.store.clone().recipient(), rng)
}

pub(super) fn poll_source(basis: &Basis<'_>, links: &Links, rng: StdRng) -> PollSource {
    let pace = settings::poll_pace(&basis.config);
    PollSource::new(lister(basis, links), pace, rng)
}

pub(super) fn api_health(
    basis: &Basis<'_>,
    links: &Links,
    poll: &Addr<PollSource>,
    health: watch::Sender<Health>,
    rngs: [StdRng; 2],
) -> ApiHealth {
    let mut callers = vec![
        poll.clone().recipient(),
        links.record.clone().recipient(),
        links.lifecycle.clone().recipient(),
        links.provisioner.server_is_back.clone(),
    ];
    let watches = links.watch.iter().chain(&links.nodes);
    callers.extend(watches.map(|one| one.clone().recipient()));
    let (calls, prefix) = (links.calls.clone(), &basis.application.prefix);
    ApiHealth::new(calls, prefix, basis.clock, health, callers, rngs)
}
