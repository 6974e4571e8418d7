//! The phases of a start: prepare, find and take over the application, create the actors, serve.

use axum::Router;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::config::Config;
use crate::exit::Exit;
use crate::kubernetes::owned_resources::Content;
use crate::planted::{self, Planted};
use crate::server::api::{self, tokens};
use crate::telemetry::millis;

use super::Environment;
use super::actors::Actors;
use super::early::Early;
use super::handle::Command;
use super::listener::{self, Listener};
use super::owned_resources;
use super::profile_proofs::ProfileProofs;
use super::reporter::{Reporter, Reports};
use super::running::Running;
use super::succession::{self, Application, Found, StartError};
use super::wiring;

/// # Errors
/// Returns the exit code of a driver that does not run. The reason is logged.
pub(super) async fn start(
    mut config: Config,
    environment: Environment,
    commands: mpsc::UnboundedReceiver<Command>,
) -> Result<Running, Exit> {
    let began = Instant::now();
    let (content, mut serving) = prepare(&config).await?;
    let mut early = Early::new(&config, commands);
    let mut found = early.during(find(&config, &environment)).await?;
    early.know(found.owner_chain.as_ref());
    early.hand_over()?;
    if config.ha.lease {
        stand_by(&mut found, &config, &environment, &mut early, &serving).await?;
    } else {
        wait_for_predecessor(&mut found, &config, &environment, &mut early, &serving).await?;
    }
    let active = activate(found, &mut config, &environment, content, &mut early).await;
    let (actors, reports, listener) = match active {
        Ok(active) => active,
        Err(exit) => {
            early.release().await;
            return Err(exit);
        }
    };
    serving.serve(&actors, listener);
    tracing::debug!(duration_ms = millis(began.elapsed()), "actors started");
    Ok(Running {
        keep_record: config.driver.pod_name.is_some() || config.ha.lease,
        grace: config.shutdown.grace,
        actors,
        early,
        reports,
        _serving: serving,
    })
}

/// Waits until this driver holds the Lease, and reads again what another driver may have changed meanwhile.
async fn stand_by(
    found: &mut Found,
    config: &Config,
    environment: &Environment,
    early: &mut Early,
    serving: &Serving,
) -> Result<(), Exit> {
    let begun = async { Ok(succession::wait_for_lease(found, config, environment).await) };
    let mut lease = early.standing_by(begun).await?;
    let stood_by = early.standing_by(lease.acquired(|holder| {
        serving.stand_by(&format!("{holder} holds the lease"));
    }));
    if let Err(exit) = stood_by.await {
        lease.release().await;
        return Err(exit);
    }
    serving.routes.send_replace(None);
    let gate = lease.gate();
    early.lease = Some(lease);
    let look = async {
        let looked = succession::become_active(found, config, environment, gate).await;
        looked.map_err(exit_of)
    };
    let looked = early.during(look).await;
    if looked.is_err() {
        early.release().await;
    }
    looked
}

/// Waits while the driver that holds the record lives in another pod (spec O-34).
async fn wait_for_predecessor(
    found: &mut Found,
    config: &Config,
    environment: &Environment,
    early: &mut Early,
    serving: &Serving,
) -> Result<(), Exit> {
    let looked = async { Ok(succession::predecessor(found).await) };
    let Some(pod) = early.during(looked).await? else {
        return Ok(());
    };
    let stands_by = |pod: &str| {
        tracing::info!(
            pod,
            "standby: another driver lives in that pod; set ha.lease where two are wanted"
        );
        serving.stand_by(&format!("the driver in pod {pod} is active"));
    };
    let over = succession::end_of_predecessor(found, config, environment, pod, stands_by);
    early.standing_by(over).await?;
    serving.routes.send_replace(None);
    Ok(())
}

/// Takes over the application, and starts the actors.
async fn activate(
    found: Found,
    config: &mut Config,
    environment: &Environment,
    content: Option<Content>,
    early: &mut Early,
) -> Result<(Actors, Reports, Option<Listener>), Exit> {
    let nothing_made = found.record.is_none() || planted::is(Planted::EarlyEndForgotten);
    if early.stop().is_some() && nothing_made {
        tracing::info!("stopped at the first start, before anything was made");
        return Err(Exit::Clean);
    }
    let taken = take_over(found, config, environment, content.as_ref());
    let application = early.during(taken).await?;
    let proofs = ProfileProofs::of(config);
    succession::take_over_profiles(config, &application.record, &proofs);
    let (reporter, reports) = Reporter::start_with_reports();
    let listener = Listener::open(config).await.map_err(|error| {
        tracing::error!(
            error = &error as &dyn std::error::Error,
            "executors cannot be heard"
        );
        Exit::Configuration
    })?;
    let actors = wiring::wire(
        config,
        environment,
        &application,
        listener.as_ref(),
        &reporter,
    )
    .map_err(|error| {
        tracing::error!(%error, "the executors' pods cannot be made as configured");
        Exit::Configuration
    })?;
    Ok((actors, reports, listener))
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

/// Finds the application, and writes nothing.
async fn find(config: &Config, environment: &Environment) -> Result<Found, Exit> {
    let found = succession::find_application(config, environment).await;
    found.map_err(exit_of)
}

/// Takes over the application, and creates or corrects the owned resources.
async fn take_over(
    found: Found,
    config: &Config,
    environment: &Environment,
    content: Option<&Content>,
) -> Result<Application, Exit> {
    let taken_over = async {
        let mut application = succession::take_over_application(found, config, environment).await?;
        succession::ensure_owned_resources(config, environment, &mut application, content).await?;
        Ok(application)
    };
    taken_over.await.map_err(exit_of)
}

fn exit_of(error: StartError) -> Exit {
    tracing::error!(exit = error.exit.code(), "{error}");
    error.exit
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

    /// Answers the API's requests as a standby does.
    fn stand_by(&self, why: &str) {
        self.routes.send_replace(Some(api::standby(why)));
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
