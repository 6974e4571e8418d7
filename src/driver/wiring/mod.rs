//! Creates every actor and gives it the addresses of the actors that it needs.
//!
//! - [`basis`]: the input of all parts: the configuration by sections, and the application.
//! - [`links`]: the addresses, which exist before the actors.
//! - [`sources`], [`store`], [`deciders`], [`backend`], [`edges`]: the creation of each actor.

mod backend;
mod basis;
mod deciders;
mod edges;
mod links;
mod sources;
mod store;

use std::time::Duration;

use actix::{Actor, Addr};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::actors::credentials::Credentials;
use crate::config::{Config, Queue};
use crate::kubernetes::pod_template::TemplateError;
use crate::kubernetes::record::Held;
use crate::server::api;

use super::Environment;
use super::actors::Actors;
use super::listener::{self, Listener};
use super::provisioners;
use super::reporter::Reporter;
use super::settings;
use super::succession::Application;

use basis::Basis;
use links::Contexts;

/// How long after the server's own timeout a create may still commit, as it may have been in
/// transit this long. A create that was in transit for longer makes an orphan pod (spec E-3).
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// Starts all actors.
///
/// # Errors
/// If the API server would refuse the executors' pods. Then nothing was started.
pub(super) fn wire(
    config: &Config,
    environment: &Environment,
    application: &Application,
    listener: Option<&Listener>,
    reporter: &Addr<Reporter>,
) -> Result<Actors, TemplateError> {
    let basis = Basis::new(config, application, listener, environment.clock);
    let (accounts, readiness) = listener::session_settings(config, application);
    provisioners::log_strategy(config.allocation.strategy);
    let contexts = Contexts::new(&basis);
    let links = contexts.links(application.calls.clone(), reporter);
    let mut seeds = StdRng::seed_from_u64(environment.seed);
    let mut rng = || StdRng::from_rng(&mut seeds);

    let watch =
        (contexts.watch).map(|context| (context, sources::watch_source(&basis, &links, rng())));
    let poll = sources::poll_source(&basis, &links, rng());
    let lifecycle = deciders::lifecycle_manager(&basis, &links, rng());
    let start_provisioner = deciders::provisioner(contexts.provisioner, &basis, &links, rng())?;
    let reachability_rng = rng();

    let ledger = store::ledger(&basis);
    let held = Held::of(ledger.current());
    let store = store::snapshot_store(&basis, &links, ledger);
    contexts.store.run(store);
    contexts.meter.run(store::meter(&basis, &links));
    let credentials = Credentials::new(application.calls.clone(), environment.clock, rng());
    contexts.credentials.run(credentials);
    if let Some((context, watch)) = watch {
        context.run(watch);
    }
    let poll = poll.start();
    (contexts.reachability).run(sources::reachability(
        &basis,
        &links,
        &poll,
        reachability_rng,
    ));
    let (record_keeper, record_is_gone) = edges::record_keeper(&basis, &links, held);
    contexts.record.run(record_keeper);
    (contexts.registry).run(backend::executor_registry(&basis, &links, accounts));
    let history = backend::event_history(&basis, &links);
    let backend = backend::driver_backend(&basis, &links, readiness);
    let adoption = api::Adoption::told_by([history.adopted(), backend.adopted()]);
    contexts.history.run(history);
    contexts.backend.run(backend);
    contexts.lifecycle.run(lifecycle);
    if let (Some(context), Some(owner_chain)) = (contexts.event_recorder, &application.owner_chain)
    {
        context.run(edges::event_recorder(&basis, &links, owner_chain));
    }
    let pod_groups = settings::pod_groups(&config.scheduling);
    if let Some((groups, context)) = pod_groups.zip(contexts.pod_groups) {
        context.run(edges::pod_groups(groups, &basis, &links));
    }
    (contexts.disruption_budgets).run(edges::disruption_budgets(&basis, &links));
    start_provisioner();
    let limits = listener::limits(config);
    let keys = edges::token_keys(&basis, &links);
    Ok(Actors {
        api: edges::api_actors(&basis, &links, adoption, keys.as_ref()),
        sessions: edges::sessions(&basis, &links, limits, keys),
        limits,
        watch: links.watch,
        poll,
        reachability: links.reachability,
        store: links.store,
        provisioner: links.provisioner,
        record: links.record,
        record_is_gone,
        event_recorder: links.event_recorder,
        lifecycle: links.lifecycle,
        registry: links.registry,
        calls: links.calls,
        page_size: config.poll.page_size,
        has_claims: basis.has_claims,
        has_queue: config.scheduling.queue != Queue::Off,
        request_timeout: config.cluster.request_timeout,
        decommission_timeout: config.backend.decommission_timeout,
    })
}
