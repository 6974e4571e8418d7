//! The phases of a start: prepare, take over the application, create the actors, serve.

use axum::Router;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::config::Config;
use crate::exit::Exit;
use crate::kubernetes::owned_resources::Content;
use crate::server::api::{self, tokens};
use crate::telemetry::millis;

use super::Environment;
use super::actors::Actors;
use super::handle::Command;
use super::listener::{self, Listener};
use super::owned_resources;
use super::owner_chain;
use super::profile_proofs::ProfileProofs;
use super::reporter::Reporter;
use super::running::Running;
use super::succession::{self, Application};
use super::wiring;

/// # Errors
/// Returns the exit code of a driver that does not run. The reason is logged.
pub(super) async fn start(
    mut config: Config,
    environment: Environment,
    mut commands: mpsc::UnboundedReceiver<Command>,
) -> Result<Running, Exit> {
    let began = Instant::now();
    let (content, mut serving) = prepare(&config).await?;
    let mut early = Vec::new();
    let application = tokio::select! {
        biased;
        // Nothing was created yet that would have to be deleted, so every way to stop is the same.
        () = stopped(&mut commands, &mut early) => return Err(Exit::Clean),
        taken = take_over(&config, &environment, content.as_ref()) => taken?,
    };
    let proofs = ProfileProofs::of(&config);
    succession::take_over_profiles(&mut config, &application.record, &proofs);
    let (reporter, reports) = Reporter::start_with_reports();
    let listener = Listener::open(&config).await.map_err(|error| {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "executors cannot be heard"
        );
        Exit::Configuration
    })?;
    let actors = wiring::wire(
        &config,
        &environment,
        &application,
        listener.as_ref(),
        &reporter,
    )
    .map_err(|error| {
        tracing::error!(%error, "the executors' pods cannot be made as configured");
        Exit::Configuration
    })?;
    serving.serve(&actors, listener);
    tracing::debug!(duration_ms = millis(began.elapsed()), "actors started");
    let owner_chain = application.owner_chain.as_ref();
    Ok(Running {
        on_signal: owner_chain::on_signal(config.shutdown.on_signal, owner_chain),
        in_a_pod: config.driver.pod_name.is_some(),
        grace: config.shutdown.grace,
        actors,
        early,
        commands,
        reports,
        _serving: serving,
    })
}

/// Reads the files that the configuration names and opens the API's port, before any call to the
/// cluster.
async fn prepare(config: &Config) -> Result<(Option<Content>, Serving), Exit> {
    let content = owned_resources::content(config).map_err(|error| {
        tracing::error!(%error, "the application's ConfigMap cannot be made as configured");
        Exit::Configuration
    })?;
    let serving = Serving::open(config).await.map_err(|error| {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "the api cannot be served"
        );
        Exit::Configuration
    })?;
    Ok((content, serving))
}

/// Takes over the application, and creates or corrects the owned resources.
async fn take_over(
    config: &Config,
    environment: &Environment,
    content: Option<&Content>,
) -> Result<Application, Exit> {
    let taken_over = async {
        let mut application = succession::take_over_application(config, environment).await?;
        succession::ensure_owned_resources(config, environment, &mut application, content).await?;
        Ok(application)
    };
    taken_over.await.map_err(|error: succession::StartError| {
        tracing::error!(exit = error.exit.code(), "{error}");
        error.exit
    })
}

/// Waits for the command to stop. Queries are dropped until the actors run. Other commands are kept
/// for the actors, so that no observer misses an end.
async fn stopped(commands: &mut mpsc::UnboundedReceiver<Command>, early: &mut Vec<Command>) {
    loop {
        match commands.recv().await {
            Some(Command::Stop(_)) => return,
            Some(
                Command::Look(_) | Command::Measure(_) | Command::Sessions(_) | Command::Routes(..),
            ) => {}
            Some(command) => early.push(command),
            None => return std::future::pending().await,
        }
    }
}

/// The HTTP servers, which run until this is dropped.
pub(super) struct Serving {
    tasks: JoinSet<()>,
    /// The routes of the API; `None` until the actors run.
    routes: watch::Sender<Option<Router>>,
    /// The tokens of the API's clients; `None` without the API.
    tokens: Option<tokens::Current>,
}

impl Serving {
    /// Opens the API's port, if one is configured.
    async fn open(config: &Config) -> Result<Self, api::ApiError> {
        let mut tasks = JoinSet::new();
        let (routes, served) = watch::channel(None);
        let api = match (config.api.listen, &config.api.token_file) {
            (Some(address), Some(file)) => Some(api::Server::bind(address, file).await?),
            _ => None,
        };
        let tokens = api.as_ref().map(|api| api.tokens.clone());
        if let Some(api) = api {
            tasks.spawn(api.run(served, listener::limits(config)));
        }
        Ok(Self {
            tasks,
            routes,
            tokens,
        })
    }

    /// Serves the API and the executors' sessions, on one port or two.
    fn serve(&mut self, actors: &Actors, listener: Option<Listener>) {
        let one_port = matches!(listener, Some(Listener { server: None, .. }));
        if let Some(tokens) = self.tokens.take() {
            let mut router = api::router(actors.api.clone(), tokens, actors.limits);
            if let (true, Some(sessions)) = (one_port, &actors.sessions) {
                router = router.merge(sessions.routes());
            }
            self.routes.send_replace(Some(router));
        }
        let server = listener.and_then(|listener| listener.server);
        if let (Some(server), Some(sessions)) = (server, &actors.sessions) {
            self.tasks
                .spawn(server.run(sessions.clone(), actors.limits));
        }
    }
}
