//! `boatswain dev-cluster`: the embedded cluster alone, for kubectl and any client.

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use rand::TryRng as _;
use rand::rngs::SysRng;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use super::credentials::{self, CredentialsError};
use super::ctl::{self, CtlArgs};
use super::users::{self, UsersError};
use devcluster::control::socket::{Control, ControlError};
use devcluster::{
    self, KeepError, NodeKind, Options, ProcessNode, Seed, SeedError, ServeError, Server,
    SimulatedNode,
};

/// Serve an embedded cluster on loopback, for kubectl and any other client.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct DevClusterArgs {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Have a cluster that was started with `--control` misbehave, for tests by hand.
    Ctl(CtlArgs),
}

/// How the cluster is set up.
#[derive(Debug, Args)]
struct ServeArgs {
    /// Where to listen; a loopback address, port 0 for any that is free.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// The file of the bearer token; made, for its owner only, if it is not there.
    #[arg(long, value_name = "FILE", required = true)]
    token_file: Option<PathBuf>,
    /// Further users: a file of lines `token,user,uid,"group1,group2"`, for its owner only.
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Let roles say who may do what: a YAML file of Roles, ClusterRoles and their bindings. The cluster's own token
    /// may do anything all the same. Without it every user may. With `--data` it counts when that file is new.
    #[arg(long, value_name = "FILE")]
    rbac: Option<PathBuf>,
    /// Where to write a kubeconfig for this cluster.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// What runs the pods.
    #[arg(long, value_enum, default_value_t = Node::Process)]
    node: Node,
    /// No node: pods stay pending until a client binds them. The same as `--node none`.
    #[arg(long, conflicts_with = "node")]
    no_node: bool,
    /// Where processes have their working directories and logs [default: a temporary directory].
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Make a socket at which `boatswain dev-cluster ctl` can have the cluster misbehave.
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Keep the cluster's state in this file, and begin with what it holds.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Whether there are controllers: what is owned goes with its owner, quotas are accounted for, each namespace has a
    /// service account [default: on; off with `--node none`, which is an API server and nothing else].
    #[arg(long, value_enum, value_name = "SWITCH")]
    controllers: Option<Switch>,
    /// Simulated node: how long a pod takes to start.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = humantime::parse_duration)]
    start_delay: Duration,
    /// Simulated node: how long a pod takes to stop.
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = humantime::parse_duration)]
    stop_delay: Duration,
    /// Simulated node: the share of pods that start slowly, from 0 to 1.
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    slow_start_rate: f64,
    /// Simulated node: how long a slow start takes.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    slow_start_delay: Duration,
    /// Simulated node: the share of pods that exit with an error, from 0 to 1.
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    crash_rate: f64,
    /// Simulated node: the share of pods that are killed for want of memory, from 0 to 1.
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    out_of_memory_rate: f64,
    /// Simulated node: the share of pods that are evicted, from 0 to 1.
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    eviction_rate: f64,
    /// Simulated node: within what time of its start such a thing befalls a pod.
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = humantime::parse_duration)]
    trouble_within: Duration,
    /// Where the random source begins; the operating system's choice if it is not given.
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

/// What runs the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Node {
    /// Each container is a process on this machine.
    Process,
    /// Pods are said to run.
    Simulated,
    /// Nothing.
    None,
}

/// A share, from 0 to 1.
pub fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
        _ => Err("a rate is a number from 0 to 1".to_owned()),
    }
}

/// Why the embedded cluster cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DevClusterError {
    /// There is none.
    #[error("--token-file is needed")]
    NoTokenFile,
    /// The file of further users cannot be used.
    #[error("cannot use the users' file {path}: {source}", path = .path.display())]
    Users {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: UsersError,
    },
    /// The file of roles cannot be read.
    #[error("cannot read the roles' file {path}: {source}", path = .path.display())]
    RolesUnreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file of roles holds what is no role.
    #[error("cannot use the roles' file {path}: {source}", path = .path.display())]
    Roles {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: SeedError,
    },
    /// The token or the kubeconfig cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// There is no randomness, or no signals, to be had.
    #[error("the operating system refuses what is needed to start")]
    System(#[source] io::Error),
    /// The API cannot be served.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The state cannot be kept.
    #[error(transparent)]
    Keep(#[from] KeepError),
    /// It cannot be controlled.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// It could not go on.
    #[error("the cluster has stopped by itself: its log says why")]
    Stopped,
}

impl DevClusterArgs {
    /// Whether a cluster is to be served, and not another one to be spoken to.
    pub fn serves(&self) -> bool {
        self.command.is_none()
    }
}

/// Serves the cluster until SIGTERM or SIGINT, or speaks to one.
///
/// # Errors
///
/// Where that cannot be done; the error says what to do about it.
pub async fn run(args: DevClusterArgs) -> Result<(), DevClusterError> {
    match args.command {
        Some(Command::Ctl(args)) => Ok(ctl::run(args).await?),
        None => serve(args.serve).await,
    }
}

async fn serve(args: ServeArgs) -> Result<(), DevClusterError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(DevClusterError::System)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(DevClusterError::System)?;
    let token_file = args.token_file.as_deref();
    let token = credentials::token(token_file.ok_or(DevClusterError::NoTokenFile)?)?;
    let options = options(&args, token.clone())?;
    let cluster = match &args.data {
        Some(file) => devcluster::resume(options, file)?,
        None => devcluster::start(options),
    };
    let mut server = Server::bind(cluster.clone(), args.listen).await?;
    // Dropped with the server, so that its socket is not left behind.
    let mut controlling = JoinSet::new();
    if let Some(path) = &args.control {
        let (control, controlled) = Control::bind(path, cluster.clone())?;
        server = server.controlled(controlled);
        controlling.spawn(control.run());
    }
    let url = server.url();
    if let Some(path) = &args.kubeconfig {
        credentials::write_kubeconfig(path, server.address(), server.authority(), &token)?;
    }
    let mut serving = tokio::spawn(server.run());
    // Nobody has to read the line.
    let _ = writeln!(io::stdout(), "{url}");
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        ended = &mut serving => {
            ended.map_err(|e| DevClusterError::System(e.into()))??;
            return Err(DevClusterError::Stopped);
        }
    }
    cluster.shutdown().await;
    // A connection that a client keeps open is no reason to stay.
    serving.abort();
    Ok(())
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

fn options(args: &ServeArgs, token: String) -> Result<Options, DevClusterError> {
    let seed = match args.seed {
        Some(seed) => seed,
        None => SysRng
            .try_next_u64()
            .map_err(|e| DevClusterError::System(io::Error::other(e)))?,
    };
    let node = match args.node {
        _ if args.no_node => NodeKind::None,
        Node::None => NodeKind::None,
        Node::Process => NodeKind::Process(ProcessNode {
            state_dir: args.state_dir.clone(),
            ..ProcessNode::default()
        }),
        Node::Simulated => NodeKind::Simulated(SimulatedNode {
            start_delay: args.start_delay,
            stop_delay: args.stop_delay,
            slow_start_rate: args.slow_start_rate,
            slow_start_delay: args.slow_start_delay,
            crash_rate: args.crash_rate,
            out_of_memory_rate: args.out_of_memory_rate,
            eviction_rate: args.eviction_rate,
            trouble_within: args.trouble_within,
            ..SimulatedNode::default()
        }),
    };
    let users = match &args.token_auth_file {
        None => Vec::new(),
        Some(path) => users::read(path).map_err(|source| DevClusterError::Users {
            path: path.clone(),
            source,
        })?,
    };
    let collect_garbage = match args.controllers {
        Some(switch) => switch == Switch::On,
        None => node != NodeKind::None,
    };
    Ok(Options {
        token: Some(token),
        users,
        roles: args.rbac.as_deref().map(roles).transpose()?,
        node,
        register_node: true,
        seed,
        collect_garbage,
        ..Options::default()
    })
}

/// The roles and bindings in the file.
fn roles(path: &Path) -> Result<Vec<Seed>, DevClusterError> {
    let text = fs::read_to_string(path).map_err(|source| DevClusterError::RolesUnreadable {
        path: path.to_owned(),
        source,
    })?;
    Seed::parse(&text).map_err(|source| DevClusterError::Roles {
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_between_none_and_all() {
        assert_eq!(rate("0.5"), Ok(0.5));
        for bad in ["-0.1", "1.1", "NaN", "x"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
