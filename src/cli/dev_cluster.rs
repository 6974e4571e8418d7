//! `boatswain dev-cluster`: the embedded cluster alone, for kubectl and any client.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use rand::TryRng as _;
use rand::rngs::SysRng;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;

use super::ctl::{self, CtlArgs};
use super::users::{self, UsersError};
use crate::devcluster::control::{Control, ControlError};
use crate::devcluster::{
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
    /// The token's file cannot be read or written.
    #[error("cannot use the token file {path}")]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others than its owner may read the token.
    #[error("the token file {path} has mode {mode:o}, so others may read it: run `chmod 600 {path}`", path = .path.display())]
    TokenReadable {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file has no token that can be sent in a header.
    #[error("the token file {path} has no token of printable ASCII characters: remove it, and one is made", path = .path.display())]
    TokenUnusable {
        /// The file.
        path: PathBuf,
    },
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
    /// The kubeconfig cannot be written.
    #[error("cannot write the kubeconfig {path}", path = .path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
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
    let token = token(token_file.ok_or(DevClusterError::NoTokenFile)?)?;
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
        write_private(path, kubeconfig(server.address(), &token).as_bytes()).map_err(|source| {
            DevClusterError::Kubeconfig {
                path: path.clone(),
                source,
            }
        })?;
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

/// The token in the file, or a new one put there.
fn token(path: &Path) -> Result<String, DevClusterError> {
    let failed = |source| DevClusterError::TokenFile {
        path: path.to_owned(),
        source,
    };
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(DevClusterError::TokenReadable {
            path: path.to_owned(),
            mode,
        });
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(failed)?;
    let token = String::from_utf8(text).unwrap_or_default();
    let token = token.trim();
    if !token.is_empty() && token.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(token.to_owned());
    }
    if file.metadata().map_err(failed)?.len() > 0 {
        return Err(DevClusterError::TokenUnusable {
            path: path.to_owned(),
        });
    }
    let mut bytes = [0; 32];
    SysRng
        .try_fill_bytes(&mut bytes)
        .map_err(|e| DevClusterError::System(io::Error::other(e)))?;
    let token: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    writeln!(file, "{token}").map_err(failed)?;
    Ok(token)
}

/// Writes a file for its owner only, whole or not at all.
fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(format!(".{}", std::process::id()));
    let temporary = PathBuf::from(temporary);
    let written = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // What is half written helps nobody; that it cannot be removed either adds nothing.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// The token is there twice: kubectl sends none over plain HTTP, but does send the password in the server's URL.
fn kubeconfig(address: SocketAddr, token: &str) -> String {
    let password: String = token
        .bytes()
        .map(|b| {
            if b.is_ascii_alphanumeric() {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect();
    let user = devcluster::USER;
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: boatswain
  cluster:
    server: http://{user}:{password}@{address}
users:
- name: boatswain
  user:
    token: {token:?}
contexts:
- name: boatswain
  context:
    cluster: boatswain
    user: boatswain
    namespace: default
current-context: boatswain
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("a file").permissions().mode() & 0o777
    }

    // spec: O-72
    #[test]
    fn a_token_is_made_for_its_owner_only_and_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        let made = token(&path).expect("a token");
        assert_eq!((made.len(), mode(&path)), (64, 0o600));
        assert_eq!(token(&path).expect("a token"), made);
        fs::write(&path, " mine\n").expect("written");
        assert_eq!(token(&path).expect("a token"), "mine");
    }

    // spec: O-72
    #[test]
    fn a_token_that_others_may_read_or_that_is_none_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("token");
        token(&path).expect("a token");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
        let error = token(&path).expect_err("readable by the group");
        assert!(error.to_string().contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        for bad in ["two words", "\u{e4}"] {
            fs::write(&path, bad).expect("written");
            assert!(
                matches!(token(&path), Err(DevClusterError::TokenUnusable { .. })),
                "{bad}"
            );
        }
        assert!(matches!(
            token(dir.path()),
            Err(DevClusterError::TokenFile { .. })
        ));
    }

    #[test]
    fn the_kubeconfig_is_for_its_owner_only_and_replaces_another() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("kubeconfig");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("changed");
        let address = "127.0.0.1:1".parse().expect("an address");
        write_private(&path, kubeconfig(address, "a+b").as_bytes()).expect("written");
        assert_eq!(mode(&path), 0o600);
        let text = fs::read_to_string(&path).expect("a file");
        assert!(
            text.contains("server: http://boatswain:a%2Bb@127.0.0.1:1\n"),
            "{text}"
        );
        assert_eq!(
            fs::read_dir(dir.path()).expect("a directory").count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn a_rate_is_between_none_and_all() {
        assert_eq!(rate("0.5"), Ok(0.5));
        for bad in ["-0.1", "1.1", "NaN", "x"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
