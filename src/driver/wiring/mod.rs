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

use std::sync::Arc;

use actix::Actor;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::config::{Config, Queue};
use crate::kubernetes::pod_template::TemplateError;
use crate::kubernetes::record::Held;
use crate::metrics::Metrics;
use crate::server::api;

use super::Environment;
use super::actors::Actors;
use super::listener::{self, Listener};
use super::provisioners;
use super::remainder::Remover;
use super::reports::Reporter;
use super::succession::Application;

use basis::Basis;
use links::Contexts;

/// Starts all actors.
///
/// # Errors
/// If the API server would refuse the executors' pods. Then nothing was started.
pub(super) fn wire(
    config: Arc<Config>,
    environment: &Environment,
    application: &Application,
    listener: Option<&Listener>,
    reporter: Reporter,
) -> Result<Actors, TemplateError> {
    let basis = Basis::new(
        Arc::clone(&config),
        application,
        listener,
        environment.clock,
    );
    provisioners::log_strategy(config.allocation.strategy);
    let contexts = Contexts::new(&basis);
    let record = &application.record;
    let metrics = Metrics::new(&record.app_id, record.incarnation);
    let links = contexts.links(&basis, metrics, reporter);
    let mut seeds = StdRng::seed_from_u64(environment.seed);
    let mut rng = || StdRng::from_rng(&mut seeds);

    let watch =
        (contexts.watch).map(|context| (context, sources::watch_source(&basis, &links, rng())));
    let nodes = (contexts.nodes).map(|context| (context, sources::nodes(&basis, &links, rng())));
    let poll = sources::poll_source(&basis, &links, rng());
    let lifecycle = deciders::lifecycle_manager(&basis, &links, rng());
    let start_provisioner =
        deciders::provisioner(contexts.provisioner, contexts.left, &basis, &links, rng())?;
    let rngs = [rng(), rng()];

    let ledger = store::ledger(&basis);
    let held = Held::of(ledger.current());
    let store = store::snapshot_store(&basis, &links, ledger);
    let snapshots = store.shown();
    contexts.store.run(store);
    store::subscribe(&basis, &links);
    for (context, watch) in watch.into_iter().chain(nodes) {
        context.run(watch);
    }
    let poll = poll.start();
    let health = sources::api_health(&basis, &links, &poll, contexts.health, rngs);
    contexts.api_health.run(health);
    let (record_keeper, record_is_gone) = edges::record_keeper(&basis, &links, held);
    contexts.record.run(record_keeper);
    (contexts.registry).run(backend::executor_registry(&basis, &links));
    let history = backend::event_history(&basis, &links);
    let backend = backend::driver_backend(&basis, &links);
    let adoption = api::Adoption::told_by([history.adopted(), backend.adopted()]);
    contexts.history.run(history);
    contexts.backend.run(backend);
    contexts.lifecycle.run(lifecycle);
    start_provisioner();
    let limits = listener::limits(&config);
    let keys = edges::token_keys(&basis, &links);
    let event_sinks = edges::event_sinks(&basis, &links);
    Ok(Actors {
        api: edges::api_actors(&basis, &links, adoption, keys.as_ref()),
        sessions: edges::sessions(&basis, &links, limits, keys),
        limits,
        watches: links.watch.into_iter().chain(links.nodes).collect(),
        poll,
        api_health: links.outcomes.to,
        health: links.outcomes.health,
        store: links.store,
        snapshots,
        provisioner: links.provisioner,
        record: links.record,
        record_is_gone,
        event_recorder: links.event_recorder,
        event_sinks,
        lifecycle: links.lifecycle,
        registry: links.registry,
        remover: Remover::of(&config, &links.calls),
        calls: links.calls,
        page_size: config.tuning.page_size,
        has_claims: basis.has_claims,
        has_queue: config.scheduling.queue != Queue::Off,
        request_timeout: config.cluster.request_timeout,
        decommission_timeout: config.backend.decommission_timeout,
    })
}
