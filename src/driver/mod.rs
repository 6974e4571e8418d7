//! The driver, from its configuration to its end.
//!
//! - [`start`]: starts a driver as this process, in the cluster that its clients reach.
//! - [`start_in`]: starts it in a given environment: the simulator's or a test's.
//! - [`applications`]: lists the applications of a cluster.
//! - [`clean`]: deletes what an application left behind.
//! - [`locate`]: finds the driver of an application for a client.
//! - [`dry_run`]: shows the objects that a first start would create, without a cluster.

mod actors;
pub mod applications;
mod certificates;
pub mod clean;
mod cluster;
mod dry_run;
mod early;
mod event_sinks;
mod handle;
mod lease;
mod left;
mod listener;
pub mod locate;
mod owned_resources;
mod owner_chain;
mod predecessor;
mod profile_proofs;
mod profile_spec;
mod provisioners;
mod reconfigure;
mod remainder;
mod reports;
pub mod rights;
mod running;
mod serving;
mod settings;
mod signal_cause;
mod starting;
mod stop_request;
mod stopping;
pub mod submission;
mod succession;
mod wiring;

use rand::TryRng;
use rand::rngs::SysRng;
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::config::{ClusterMode, Config};
use crate::exit::Exit;
use crate::kubernetes::{Clients, ConnectError};
use crate::manifests::WorkloadKind;
use crate::server::limits;

pub use cluster::connect;
pub use dry_run::{DryRunError, dry_run, shapes};
pub use handle::Handle;
pub use remainder::{Remainder, Remaining};

use handle::Command;
use rights::Rights;

pub struct Environment {
    pub clients: Clients,
    pub clock: Clock,
    /// The seed of all random choices except `holder`.
    pub seed: u64,
    /// Unique to this start. The record shows by it which driver holds it.
    pub holder: u64,
}

/// Returns a handle, and the driver's run until its end, to be awaited in an actix system. Where there are no clients for
/// its cluster, the run ends with that exit code.
pub fn start(
    config: Config,
    clients: impl Future<Output = Result<Clients, Exit>>,
) -> (Handle, impl Future<Output = Exit>) {
    let (handle, commands) = Handle::new();
    (handle.clone(), run(config, clients, handle, commands))
}

/// Like [`start`], in this environment.
pub fn start_in(config: Config, environment: Environment) -> (Handle, impl Future<Output = Exit>) {
    let (handle, commands) = Handle::new();
    (handle, drive(config, environment, commands))
}

async fn run(
    config: Config,
    clients: impl Future<Output = Result<Clients, Exit>>,
    handle: Handle,
    mut commands: mpsc::UnboundedReceiver<Command>,
) -> Exit {
    limits::raise_open_files();
    let drawn = SysRng
        .try_next_u64()
        .and_then(|holder| Ok((holder, SysRng.try_next_u64()?)));
    let (holder, seed) = match drawn {
        Ok(drawn) => drawn,
        Err(error) => {
            tracing::error!(%error, "the system gives no randomness");
            return Exit::Bug;
        }
    };
    let clients = match early::connected(&config, clients, handle, &mut commands).await {
        Ok(clients) => clients,
        Err(exit) => return exit,
    };
    let environment = Environment {
        clients,
        clock: Clock::system(),
        seed,
        holder,
    };
    // Beside the start, which must not get slower. The workload's kind is unknown here; the rights that depend on it are
    // used, and named if they are missing, when its controllers are read.
    let reporting = (config.cluster.mode == ClusterMode::Kubernetes).then(|| {
        let rights = Rights::new(&config, &environment.clients, None);
        actix::spawn(rights.report_missing())
    });
    let exit = drive(config, environment, commands).await;
    if let (Exit::Rights, Some(reporting)) = (exit, reporting) {
        // The first refusal ends the start; all that are missing are to be named.
        let _ = tokio::time::timeout(rights::LAST_WORDS, reporting).await;
    }
    exit
}

/// The rights that this configuration needs in its cluster, to be asked for; `None` in a cluster inside the
/// process, which grants all (spec C-8).
///
/// # Errors
/// If the cluster's address or credentials are unknown.
pub async fn rights(config: &Config, kind: WorkloadKind) -> Result<Option<Rights>, ConnectError> {
    let connected = match config.cluster.mode {
        ClusterMode::Embedded => return Ok(None),
        ClusterMode::Kubernetes => cluster::connect(config).await,
    };
    connected.map(|clients| Some(Rights::new(config, &clients, Some(kind))))
}

async fn drive(
    config: Config,
    environment: Environment,
    commands: mpsc::UnboundedReceiver<Command>,
) -> Exit {
    match starting::start(config, environment, commands).await {
        Ok(running) => running.until_it_ends().await,
        Err(exit) => exit,
    }
}

#[cfg(test)]
mod tests;
