//! The listeners of the API, of metrics and of probes, which are open from the start on.

use std::net::SocketAddr;

use axum::Router;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::config::Config;
use crate::server::api::monitoring::{self, Served};
use crate::server::api::{self, ApiError, tokens};

use super::actors::Actors;
use super::listener::{self, Listener};

/// The HTTP servers, which run until this is dropped.
pub(super) struct Serving {
    tasks: JoinSet<()>,
    /// `None` without the API.
    api: Option<Api>,
    monitoring: Vec<(Routes, Served)>,
}

struct Api {
    routes: Routes,
    /// The tokens of the API's clients.
    tokens: tokens::Current,
}

/// The routes of a listener; `None` until the actors run.
type Routes = watch::Sender<Option<Router>>;

impl Serving {
    /// Opens the ports that are configured.
    pub(super) async fn open(config: &Config) -> Result<Self, ApiError> {
        let limits = listener::limits(config);
        let mut serving = Self {
            tasks: JoinSet::new(),
            api: None,
            monitoring: Vec::new(),
        };
        if let (Some(address), Some(file)) = (config.api.listen, &config.api.token_file) {
            let server = api::Server::bind(address, file).await?;
            let (routes, served) = watch::channel(None);
            serving.api = Some(Api {
                routes,
                tokens: server.tokens.clone(),
            });
            serving.tasks.spawn(server.run(served, limits));
        }
        for server in monitoring_servers(config).await? {
            let (routes, served) = watch::channel(None);
            serving.monitoring.push((routes, server.served.clone()));
            serving.tasks.spawn(server.run(served, limits));
        }
        Ok(serving)
    }

    /// Serves the API and the executors' sessions, on one port or two, metrics and probes.
    pub(super) fn serve(&mut self, actors: &Actors, listener: Option<Listener>) {
        let one_port = matches!(listener, Some(Listener { server: None, .. }));
        if let Some(Api { routes, tokens }) = &self.api {
            let mut router = api::router(actors.api.clone(), tokens.clone(), actors.limits);
            if let (true, Some(sessions)) = (one_port, &actors.sessions) {
                router = router.merge(sessions.routes());
            }
            routes.send_replace(Some(router));
        }
        for (routes, served) in &self.monitoring {
            routes.send_replace(Some(monitoring::router(actors.api.clone(), served)));
        }
        let server = listener.and_then(|listener| listener.server);
        if let (Some(server), Some(sessions)) = (server, &actors.sessions) {
            self.tasks
                .spawn(server.run(sessions.clone(), actors.limits));
        }
    }
}

/// Opens the ports of metrics and probes: one, if their address is the same.
async fn monitoring_servers(config: &Config) -> Result<Vec<monitoring::Server>, ApiError> {
    let (metrics, probes) = (&config.metrics, config.probes.listen);
    let fixed = |address: &SocketAddr| address.port() != 0;
    let shared = metrics
        .listen
        .filter(fixed)
        .is_some_and(|m| probes == Some(m));
    let mut servers = Vec::new();
    if let Some(address) = metrics.listen {
        let server = monitoring::Server::bind(address, "metrics.listen").await?;
        let server = server.with_metrics(metrics.token_file.as_deref())?;
        servers.push(match shared {
            true => server.with_probes(),
            false => server,
        });
    }
    if let Some(address) = probes.filter(|_| !shared) {
        let server = monitoring::Server::bind(address, "probes.listen").await?;
        servers.push(server.with_probes());
    }
    Ok(servers)
}
