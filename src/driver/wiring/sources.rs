//! The sources of pods, the watch and the poll, and what informs all callers that the API server is
//! back.

use actix::Addr;
use rand::rngs::StdRng;

use crate::actors::poll_source::PollSource;
use crate::actors::poll_source::lister::Lister;
use crate::actors::reachability::{self, Reachability};
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
    let pace = settings::poll_pace(basis.config);
    PollSource::new(lister(basis, links), pace, rng)
}

pub(super) fn reachability(
    basis: &Basis<'_>,
    links: &Links,
    poll: &Addr<PollSource>,
    rng: StdRng,
) -> Reachability {
    let mut callers = vec![
        poll.clone().recipient(),
        links.record.clone().recipient(),
        links.lifecycle.clone().recipient(),
        links.provisioner.server_is_back.clone(),
    ];
    callers.extend(links.watch.clone().map(|one| one.recipient()));
    callers.extend(links.pod_groups.clone().map(|one| one.recipient()));
    callers.push(links.disruption_budgets.clone().recipient());
    Reachability::new(reachability::Wiring {
        calls: links.calls.clone(),
        prefix: basis.application.prefix.clone(),
        clock: basis.clock,
        callers,
        rng,
    })
}
