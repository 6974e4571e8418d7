//! The driver: from a configuration to actors that run, until one of the ways in which it ends.
//!
//! - [`start`]: a driver that reaches its cluster as the configuration says.
//! - [`dry_run`]: what a first start would ask for, without any cluster.
//! - [`start_in`]: the same driver in a given environment: the simulator's, a test's.

mod dry_run;
mod ending;
mod listener;
mod observer;
mod owned_resources;
mod owner_chain;
mod profile_spec;
mod provisioners;
mod settings;
mod succession;
mod wiring;

pub use dry_run::{DryRunError, dry_run, shapes};

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;

use actix::{Actor, Context, Handler, Recipient};
use axum::Router;
use rand::TryRng;
use rand::rngs::SysRng;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::actors::commands::messages::{RefusedTargets, Stop};
use crate::actors::pod_allocator::messages::CannotStart;
use crate::actors::record_keeper::messages::DriverIsOver;
use crate::actors::snapshot_store::messages::{Measures, Round};
use crate::clock::Clock;
use crate::config::{self, ClusterMode, Config, EmbeddedNode, OnSignal};
use crate::exit::Exit;
use crate::kubernetes::client::Limits;
use crate::kubernetes::owned_resources::Content;
use crate::kubernetes::{Access, Clients};
use crate::model::{ProfileName, Snapshot};
use crate::server::api::{self, tokens::Tokens};
use crate::server::sessions;
use crate::telemetry::millis;
use devcluster::{self, DevCluster, NodeKind, ProcessNode, SimulatedNode};
use ending::Way;

use listener::Listener;
use succession::{Application, StartError};

/// What a driver runs in.
pub struct Environment {
    /// How the cluster is reached.
    pub clients: Clients,
    /// The time.
    pub clock: Clock,
    /// Where jitter and new ids begin.
    pub seed: u64,
    /// Unlike any other driver's: by it the record shows who holds it (spec O-30).
    pub holder: u64,
}

/// What a driver that runs can be told. It reads them one after the other between other work; they come from people
/// and programs that wait for an answer, so the queue needs no limit.
enum Command {
    Stop(Option<OnSignal>),
    SetTargets(
        BTreeMap<ProfileName, u32>,
        oneshot::Sender<Result<BTreeMap<ProfileName, u32>, RefusedTargets>>,
    ),
    Look(oneshot::Sender<Snapshot>),
    Measure(oneshot::Sender<Measures>),
    Observe(Recipient<Round>),
    Sessions(oneshot::Sender<Option<Router>>),
    Routes(Tokens, oneshot::Sender<Router>),
}

/// Speaks to a driver that runs.
#[derive(Clone)]
pub struct Handle {
    commands: mpsc::UnboundedSender<Command>,
}

impl Handle {
    /// Tells it to stop, as `shutdown.on_signal` says (spec O-10).
    pub fn stop(&self) {
        self.tell(Command::Stop(None));
    }

    /// Tells it to stop in this way (spec O-10).
    pub fn stop_by(&self, way: OnSignal) {
        self.tell(Command::Stop(Some(way)));
    }

    /// Sets targets, answered with all that are then; `None` where the driver has ended.
    pub async fn set_targets(
        &self,
        targets: BTreeMap<ProfileName, u32>,
    ) -> Option<Result<BTreeMap<ProfileName, u32>, RefusedTargets>> {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::SetTargets(targets, answer));
        answered.await.ok()
    }

    /// What is known now; `None` where the driver has ended, or does not run yet.
    pub async fn look(&self) -> Option<Snapshot> {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::Look(answer));
        answered.await.ok()
    }

    /// How much is remembered beside what is known now; `None` where the driver has ended, or does not run yet.
    pub async fn measure(&self) -> Option<Measures> {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::Measure(answer));
        answered.await.ok()
    }

    /// What executors speak to, without a socket; `None` where they are not heard, or the driver has ended.
    pub async fn sessions(&self) -> Option<Router> {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::Sessions(answer));
        answered.await.ok().flatten()
    }

    /// Hands every batch to this reader from now on, which need not answer. A later reader takes its place.
    pub fn observe(&self, reader: Recipient<Round>) {
        self.tell(Command::Observe(reader));
    }

    /// Its api without a socket, for the bearers of these tokens; `None` where the driver has ended, or does not run
    /// yet.
    pub async fn routes(&self, tokens: Tokens) -> Option<Router> {
        let (answer, answered) = oneshot::channel();
        self.tell(Command::Routes(tokens, answer));
        answered.await.ok()
    }

    fn tell(&self, command: Command) {
        // One that has ended by itself need not be told.
        let _ = self.commands.send(command);
    }
}

/// What ends a driver from within.
enum Event {
    CannotStart(CannotStart),
    Over(DriverIsOver),
}

/// Hands the actors' reports to the driver's own task.
struct Reporter {
    events: mpsc::UnboundedSender<Event>,
    stops: mpsc::UnboundedSender<Stop>,
}

impl Actor for Reporter {
    type Context = Context<Self>;
}

impl Handler<CannotStart> for Reporter {
    type Result = ();

    fn handle(&mut self, report: CannotStart, _: &mut Self::Context) {
        // Where nobody listens any more, the driver has ended already.
        let _ = self.events.send(Event::CannotStart(report));
    }
}

impl Handler<DriverIsOver> for Reporter {
    type Result = ();

    fn handle(&mut self, report: DriverIsOver, _: &mut Self::Context) {
        let _ = self.events.send(Event::Over(report));
    }
}

impl Handler<Stop> for Reporter {
    type Result = ();

    fn handle(&mut self, stop: Stop, _: &mut Self::Context) {
        // Where nobody listens any more, the driver has ended already.
        let _ = self.stops.send(stop);
    }
}

/// Starts a driver: a handle to it, and what it does until it ends, to be awaited where actors can run.
pub fn start(config: Config) -> (Handle, impl Future<Output = Exit>) {
    let (commands, commanded) = mpsc::unbounded_channel();
    (Handle { commands }, run(config, commanded))
}

async fn run(config: Config, commanded: mpsc::UnboundedReceiver<Command>) -> Exit {
    // Who holds the record is never drawn from a seed that two starts may share.
    let drawn = SysRng.try_next_u64().and_then(|holder| {
        let seed = config.driver.seed.map_or_else(|| SysRng.try_next_u64(), Ok);
        seed.map(|seed| (holder, seed))
    });
    let (holder, seed) = match drawn {
        Ok(drawn) => drawn,
        Err(error) => {
            tracing::error!(%error, "the system gives no randomness");
            return Exit::Bug;
        }
    };
    let environment = |clients| Environment {
        clients,
        clock: Clock::system(),
        seed,
        holder,
    };
    match config.cluster.mode {
        ClusterMode::Embedded => {
            let cluster = embedded(&config, seed);
            let namespace = config.cluster.namespace.as_deref().unwrap_or("default");
            let clients = Clients::in_process(cluster.router(), namespace);
            let exit = drive(config, environment(clients), commanded).await;
            cluster.shutdown().await;
            exit
        }
        ClusterMode::Kubernetes => {
            let calls_at_once = 2 * config.allocation.max_in_flight as usize;
            let limits = Limits {
                creates: calls_at_once,
                deletes: calls_at_once,
            };
            match access(&config).connect(limits).await {
                Ok(clients) => drive(config, environment(clients), commanded).await,
                Err(error) => {
                    tracing::error!(
                        %error,
                        "the cluster cannot be spoken to: look at cluster.kubeconfig and cluster.context, \
                         or at the service account of the pod that this runs in"
                    );
                    Exit::Configuration
                }
            }
        }
    }
}

/// Starts a driver in this environment.
pub fn start_in(config: Config, environment: Environment) -> (Handle, impl Future<Output = Exit>) {
    let (commands, commanded) = mpsc::unbounded_channel();
    (Handle { commands }, drive(config, environment, commanded))
}

/// Where the configuration says that the cluster is.
fn access(config: &Config) -> Access {
    let (path, context) = (
        config.cluster.kubeconfig.clone(),
        config.cluster.context.clone(),
    );
    match (&path, &context) {
        (None, None) => Access::Infer,
        _ => Access::Kubeconfig { path, context },
    }
}

/// The cluster inside this process (spec O-70).
fn embedded(config: &Config, seed: u64) -> DevCluster {
    let node = match config.embedded.node {
        EmbeddedNode::Process => NodeKind::Process(ProcessNode {
            state_dir: config.embedded.state_dir.clone(),
            ..ProcessNode::default()
        }),
        EmbeddedNode::Simulated => NodeKind::Simulated(SimulatedNode {
            start_delay: config.embedded.start_delay,
            ..SimulatedNode::default()
        }),
    };
    devcluster::start(devcluster::Options {
        node,
        seed,
        ..devcluster::Options::default()
    })
}

/// From the first call to the exit code.
async fn drive(
    mut config: Config,
    environment: Environment,
    mut commands: mpsc::UnboundedReceiver<Command>,
) -> Exit {
    let started = tokio::time::Instant::now();
    let mut early = Vec::new();
    let content = match owned_resources::content(&config) {
        Ok(content) => content,
        Err(error) => {
            tracing::error!(%error, "the application's ConfigMap cannot be made as configured");
            return Exit::Configuration;
        }
    };
    let api = match served(&config.api).await {
        Ok(api) => api,
        Err(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the api cannot be served"
            );
            return Exit::Configuration;
        }
    };
    // Dropped with the driver, and what it serves with it.
    let mut serving = JoinSet::new();
    let (routes, served) = watch::channel(None);
    let tokens = api.as_ref().map(|api| api.tokens.clone());
    if let Some(api) = api {
        let most = match config.one_port() {
            true => sessions::CONNECTIONS,
            false => api::CONNECTIONS,
        };
        serving.spawn(api.run(served, most));
    }
    let succeeded = tokio::select! {
        biased;
        // Nothing was made yet, so there is nothing to end: any way to stop is the same.
        () = told_to_stop(&mut commands, &mut early) => return Exit::Clean,
        succeeded = take_over(&config, &environment, content.as_ref()) => succeeded,
    };
    let application = match succeeded {
        Ok(application) => application,
        Err(error) => {
            tracing::error!(exit = error.exit.code(), "{error}");
            return error.exit;
        }
    };
    succession::take_over_profiles(&mut config, &application.record);
    // Of each there are a few at most: what ends a driver is told once.
    let (reports, mut events) = mpsc::unbounded_channel();
    let (asked, mut stops) = mpsc::unbounded_channel();
    let reporter = Reporter {
        events: reports,
        stops: asked,
    }
    .start();
    let owner_chain = application.owner_chain.as_ref();
    let on_signal = owner_chain::on_signal(config.shutdown.on_signal, owner_chain);
    let grace = config.shutdown.grace;
    let in_a_pod = config.driver.pod_name.is_some();
    let listener = match Listener::open(&config).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "executors cannot be heard"
            );
            return Exit::Configuration;
        }
    };
    let wired = wiring::wire(
        config,
        environment,
        application,
        listener.as_ref(),
        &reporter,
    );
    let actors = match wired {
        Ok(actors) => actors,
        Err(error) => {
            tracing::error!(%error, "the executors' pods cannot be made as configured");
            return Exit::Configuration;
        }
    };
    if let Some(tokens) = tokens {
        let mut router = api::router(actors.api(), tokens);
        if let (Some(Listener { server: None, .. }), Some(sessions)) = (&listener, &actors.sessions)
        {
            router = router.merge(sessions.routes());
        }
        routes.send_replace(Some(router));
    }
    let server = listener.and_then(|listener| listener.server);
    if let (Some(server), Some(sessions)) = (server, &actors.sessions) {
        serving.spawn(server.run(sessions.clone()));
    }
    tracing::debug!(duration_ms = millis(started.elapsed()), "actors started");
    for command in early {
        actors.command(command).await;
    }
    let way = loop {
        tokio::select! {
            biased;
            Some(event) = events.recv() => return ending::of_itself(event),
            Some(stop) = stops.recv() => break Way::asked(stop, in_a_pod),
            // Where every handle is gone, nobody but the application will ever stop it, so it goes on.
            Some(command) = commands.recv() => match command {
                Command::Stop(way) => break Way::of_signal(way.unwrap_or(on_signal), in_a_pod),
                command => actors.command(command).await,
            },
            else => return Exit::Bug,
        }
    };
    let mut stop = pin!(actors.stop(way, grace));
    loop {
        tokio::select! {
            biased;
            Some(event) = events.recv() => return ending::of_itself(event),
            exit = &mut stop => return exit,
            Some(command) = commands.recv() => actors.command(command).await,
        }
    }
}

/// Takes the application over, with all that the record owns beside executors.
async fn take_over(
    config: &Config,
    environment: &Environment,
    content: Option<&Content>,
) -> Result<Application, StartError> {
    let mut application = succession::succeed(config, environment).await?;
    succession::establish(config, environment, &mut application, content).await?;
    Ok(application)
}

/// The API, where one is wanted.
async fn served(config: &config::Api) -> Result<Option<api::Server>, api::ApiError> {
    match (config.listen, &config.token_file) {
        (Some(address), Some(file)) => api::Server::bind(address, file).await.map(Some),
        _ => Ok(None),
    }
}

/// Waits for the command to stop. Who looks finds nothing yet; the other commands are kept for the driver that starts,
/// so that no observer misses a batch.
async fn told_to_stop(commands: &mut mpsc::UnboundedReceiver<Command>, early: &mut Vec<Command>) {
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

#[cfg(test)]
mod kubernetes_events_tests;
#[cfg(test)]
mod lines_tests;
#[cfg(test)]
mod session_tests;
#[cfg(test)]
mod sets_tests;
