//! The command line of `devcluster` and of `boatswain dev-cluster`: serves a cluster on its own, for kubectl and other
//! clients, or injects faults into one that runs.

mod credentials;
mod ctl;
mod private_file;
mod signals;
mod users;

use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use rand::TryRng as _;
use rand::rngs::SysRng;
use tokio::task::JoinSet;

use crate::control::socket::{Control, ControlError};
use crate::{NodeKind, Options, ProcessNode, Seed, SeedError, ServeError, Server, SimulatedNode};

use credentials::CredentialsError;
use ctl::CtlArgs;
use users::UsersError;

/// Serve an embedded cluster on loopback, for kubectl and any other client
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
    /// Inject faults into a cluster that was started with `--control`
    Ctl(CtlArgs),
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Listening address: a loopback address; port 0 chooses any free port
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// File with the bearer token; created with mode 600 if it does not exist
    #[arg(long, value_name = "FILE", required = true)]
    token_file: Option<PathBuf>,
    /// File with further users, in lines of the form `token,user,uid,"group1,group2"`; only its
    /// owner may have access
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// YAML file with Roles, ClusterRoles and their bindings, which enables authorisation. The
    /// cluster's own token still has all rights. Without this option every user has all rights.
    #[arg(long, value_name = "FILE")]
    rbac: Option<PathBuf>,
    /// Where to write a kubeconfig for this cluster
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// What runs the pods
    #[arg(long, value_enum, default_value_t = Node::Process)]
    node: Node,
    /// No node: pods stay pending until a client binds them. The same as `--node none`
    #[arg(long, conflicts_with = "node")]
    no_node: bool,
    /// Directory for the working directories and logs of processes [default: a temporary directory]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Create a socket by which the command `ctl` can inject faults
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Whether controllers run: garbage collection, quotas, and a service account in each namespace
    /// [default: on; off with `--node none`, which is only an API server]
    #[arg(long, value_enum, value_name = "SWITCH")]
    controllers: Option<Switch>,
    /// Simulated node: how long a pod takes to start
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = humantime::parse_duration)]
    start_delay: Duration,
    /// Simulated node: how long a pod takes to stop
    #[arg(long, value_name = "DURATION", default_value = "100ms", value_parser = humantime::parse_duration)]
    stop_delay: Duration,
    /// Simulated node: share of pods that start slowly, from 0 to 1
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    slow_start_rate: f64,
    /// Simulated node: how long a slow start takes
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = humantime::parse_duration)]
    slow_start_delay: Duration,
    /// Simulated node: share of pods that exit with an error, from 0 to 1
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    crash_rate: f64,
    /// Simulated node: share of pods that are killed out of memory, from 0 to 1
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    out_of_memory_rate: f64,
    /// Simulated node: share of pods that are evicted, from 0 to 1
    #[arg(long, value_name = "RATE", default_value_t = 0.0, value_parser = rate)]
    eviction_rate: f64,
    /// Simulated node: the longest time from a pod's start to such a failure
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = humantime::parse_duration)]
    trouble_within: Duration,
    /// Seed of the random numbers [default: chosen by the operating system]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Node {
    /// Each container is a process on this machine
    Process,
    /// Nothing runs; pods only pass through their phases
    Simulated,
    /// No node: pods stay pending
    None,
}

/// Parses a share from 0 to 1.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (0.0..=1.0).contains(&rate) => Ok(rate),
        _ => Err("a rate is a number from 0 to 1".to_owned()),
    }
}

/// Why the embedded cluster cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DevClusterError {
    #[error("--token-file is required")]
    NoTokenFile,
    #[error("cannot use the users' file {path}: {source}", path = .path.display())]
    Users {
        path: PathBuf,
        #[source]
        source: UsersError,
    },
    #[error("cannot read the roles' file {path}: {source}", path = .path.display())]
    RolesUnreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot use the roles' file {path}: {source}", path = .path.display())]
    Roles {
        path: PathBuf,
        #[source]
        source: SeedError,
    },
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// Random numbers or signal handlers are not available.
    #[error("the operating system denied random numbers or signal handlers")]
    System(#[source] io::Error),
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The control socket cannot be used.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The server ended unexpectedly.
    #[error("the cluster stopped unexpectedly: see its log")]
    Stopped,
}

impl DevClusterArgs {
    /// Whether a cluster is to be served, rather than one that runs to be controlled.
    pub fn serves(&self) -> bool {
        self.command.is_none()
    }

    /// Serves the cluster until SIGTERM, SIGINT or SIGHUP, or controls one that runs.
    ///
    /// # Errors
    ///
    /// The cluster cannot be served or reached; the error says how to fix it.
    pub async fn run(self) -> Result<(), DevClusterError> {
        match self.command {
            Some(Command::Ctl(args)) => Ok(ctl::run(args).await?),
            None => serve(self.serve).await,
        }
    }
}

async fn serve(args: ServeArgs) -> Result<(), DevClusterError> {
    let ended = signals::end().map_err(DevClusterError::System)?;
    let token_file = args.token_file.as_deref();
    let token = credentials::token(token_file.ok_or(DevClusterError::NoTokenFile)?)?;
    let options = options(&args, token.clone())?;
    let cluster = crate::start(options);
    let mut server = Server::bind(cluster.clone(), args.listen).await?;
    // Dropped with the server, which removes the socket.
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
    // A closed stdout is not an error.
    let _ = writeln!(io::stdout(), "{url}");
    tokio::select! {
        biased;
        () = ended => {}
        served = &mut serving => {
            served.map_err(|e| DevClusterError::System(e.into()))??;
            return Err(DevClusterError::Stopped);
        }
    }
    cluster.shutdown().await;
    // Connections that clients keep open must not delay the exit.
    serving.abort();
    Ok(())
}

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
