//! The sources of pods, the watch and the poll, and what informs all callers that the API server is
//! back.

use actix::Addr;
use rand::rngs::StdRng;
use tokio::sync::watch;

use crate::actors::api_health::{ApiHealth, Health};
use crate::actors::poll_source::PollSource;
use crate::actors::poll_source::lister::Lister;
use crate::actors::watch_source::WatchSource;
use crate::driver::settings;

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
    WatchSource::new(lister(basis, links), store, rng)
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
    callers.extend(links.watch.clone().map(|one| one.recipient()));
    let (calls, prefix) = (links.calls.clone(), &basis.application.prefix);
    ApiHealth::new(calls, prefix, basis.clock, health, callers, rngs)
}
