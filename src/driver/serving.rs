//! The listeners of the API, of metrics and of probes, which are open from the start on, and the
//! certificate of API and sessions.

use std::net::SocketAddr;

use axum::Router;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::clock::Clock;
use crate::config::Config;
use crate::server::api::monitoring::{self, Served};
use crate::server::api::{self, ApiError, tokens};
use crate::server::tls::authority::{Authority, AuthorityError, Issuing};
use crate::server::tls::files::FilesError;

use super::actors::Actors;
use super::certificates::{self, Source};
use super::listener::{self, Listener};

/// The HTTP servers, which run until this is dropped.
pub(super) struct Serving {
    tasks: JoinSet<()>,
    /// `None` without the API.
    api: Option<Api>,
    monitoring: Vec<(Routes, Served)>,
    certificate: Source,
}

struct Api {
    routes: Routes,
    /// The tokens of the API's clients.
    tokens: tokens::Current,
}

/// The routes of a listener; `None` until the actors run.
type Routes = watch::Sender<Option<Router>>;

#[derive(Debug, thiserror::Error)]
pub(super) enum ServingError {
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Certificate(#[from] FilesError),
}

impl Serving {
    /// Opens the ports that are configured.
    pub(super) async fn open(config: &Config, clock: Clock) -> Result<Self, ServingError> {
        let limits = listener::limits(config);
        let mut tasks = JoinSet::new();
        let certificate = Source::open(&config.tls, clock, &mut tasks).await?;
        let mut serving = Self {
            tasks,
            api: None,
            monitoring: Vec::new(),
            certificate,
        };
        if let Some(address) = config.api.listen {
            let server = api::Server::bind(address, config.api.token_file.as_deref()).await?;
            let (routes, served) = watch::channel(None);
            serving.api = Some(Api {
                routes,
                tokens: server.tokens.clone(),
            });
            let tls = serving.certificate.tls().filter(|_| !config.api.plain_http);
            serving.tasks.spawn(server.run(served, limits, tls));
        }
        for server in monitoring_servers(config).await? {
            let (routes, served) = watch::channel(None);
            serving.monitoring.push((routes, server.served.clone()));
            serving.tasks.spawn(server.run(served, limits));
        }
        Ok(serving)
    }

    /// Answers as a standby does, on every port.
    pub(super) fn stand_by(&self, why: &str) {
        if let Some(Api { routes, .. }) = &self.api {
            routes.send_replace(Some(api::standby(why)));
        }
        for (routes, served) in &self.monitoring {
            routes.send_replace(Some(monitoring::standby(served, why)));
        }
    }

    /// Answers as a driver that is starting does, again.
    pub(super) fn start(&self) {
        let of_api = self.api.iter().map(|Api { routes, .. }| routes);
        for routes in of_api.chain(self.monitoring.iter().map(|(routes, _)| routes)) {
            routes.send_replace(None);
        }
    }

    /// Issues the certificate by the driver's own CA.
    ///
    /// # Errors
    ///
    /// None can be issued.
    pub(super) fn certify(
        &mut self,
        authority: Authority,
        names: Vec<String>,
    ) -> Result<(), AuthorityError> {
        let Source::Issued { holder, clock, .. } = &mut self.certificate else {
            return Ok(());
        };
        let Some(holder) = holder.take() else {
            return Ok(());
        };
        let issuing = Issuing {
            authority,
            names,
            clock: *clock,
        };
        let certificate = issuing.begin(&holder)?;
        self.tasks.spawn(issuing.run(certificate, holder));
        Ok(())
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
        let server_with_tls = listener.as_ref().is_some_and(|listener| listener.tls);
        let server = listener.and_then(|listener| listener.server);
        if let (Some(server), Some(sessions)) = (server, &actors.sessions) {
            let tls = self.certificate.tls().filter(|_| server_with_tls);
            self.tasks
                .spawn(server.run(sessions.clone(), actors.limits, tls));
        }
        if let Some(tls) = self.certificate.tls() {
            self.tasks.spawn(certificates::show_expiry(
                tls,
                actors.api.scraper.metrics.clone(),
            ));
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
        let server = server.with_metrics(metrics.token_file.as_deref()).await?;
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
