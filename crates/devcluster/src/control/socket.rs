//! The control socket: accepts fault injection commands on a local Unix socket, one line of JSON per request and
//! response.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::faults::{FailureMode, Faults, FaultsReader, RequestFilter};
use super::node_faults::{self, NodeRequest};
use crate::DevCluster;

/// The longest request, in bytes.
const MAX_MESSAGE: u64 = 64 * 1024;

/// How long the server waits for a client's request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    Status,
    Clear,
    /// Delays responses by a random time between `from` and `to`.
    Latency {
        from: Duration,
        to: Duration,
        matching: RequestFilter,
    },
    /// Lets a share of requests fail.
    Errors {
        /// The share, from 0 to 1.
        rate: f64,
        failing: FailureMode,
        matching: RequestFilter,
    },
    CutWatches,
    Compact,
    /// Delays all responses, for this long or until `Thaw`.
    Freeze(Option<Duration>),
    Thaw,
    /// Closes all connections and accepts none for a while.
    Restart {
        /// How long the server is away.
        away: Duration,
        /// Whether the server comes back without any objects.
        empty: bool,
    },
    /// Injects a fault into the node or a pod.
    Node(NodeRequest),
}

/// Lets the server go away for this long.
#[derive(Debug)]
pub struct Downtime(pub Duration);

/// Why there is no control socket, or no answer from one.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("cannot make the control socket {path}", path = .path.display())]
    Bind {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(
        "{path} is not a socket: remove it if it is not needed, or choose another path for the control socket",
        path = .0.display()
    )]
    NotASocket(PathBuf),
    #[error(
        "another cluster listens at the control socket {path}: stop it, or choose another path",
        path = .0.display()
    )]
    InUse(PathBuf),
    #[error("no cluster answers at {path}: is it one that was started with `--control {path}`?", path = .path.display())]
    Connect {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the cluster's answer cannot be read")]
    Answer(#[source] io::Error),
    #[error("{0}")]
    Refused(String),
}

/// The server side of the control socket.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    /// The identity of the socket's file.
    file: (u64, u64),
    cluster: DevCluster,
    faults: watch::Sender<Faults>,
    /// The API server handles one absence after the other, and each client waits for its own.
    away: mpsc::Sender<Downtime>,
}

impl Control {
    /// Creates the socket, accessible to its owner only. A socket that a killed cluster left behind is replaced.
    pub fn bind(path: &Path, cluster: DevCluster) -> Result<(Self, ControlReceiver), ControlError> {
        let failed = |source| ControlError::Bind {
            path: path.to_owned(),
            source,
        };
        remove_stale(path)?;
        let listener = UnixListener::bind(path).map_err(failed)?;
        let owner_only = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(path, owner_only).map_err(failed)?;
        let file = identity(path).map_err(failed)?;
        let (faults, fault_reader) = watch::channel(Faults::default());
        let (away, downtimes) = mpsc::channel(1);
        let control = Self {
            listener,
            path: path.to_owned(),
            file,
            cluster,
            faults,
            away,
        };
        Ok((
            control,
            ControlReceiver {
                faults: fault_reader,
                downtimes,
            },
        ))
    }

    /// Answers commands, one client after the other, until it is dropped.
    pub async fn run(self) {
        let mut thaw = None;
        loop {
            let client = tokio::select! {
                biased;
                () = sleep_until_some(thaw) => {
                    thaw = None;
                    self.faults.send_modify(|faults| faults.frozen = false);
                    continue;
                }
                client = self.listener.accept() => client,
            };
            let served = async {
                let (mut client, _) = client?;
                let request = read(&mut client).await?;
                let answer = match request {
                    Ok(request) => {
                        if let Request::Freeze(duration) = &request {
                            thaw = duration.map(|d| tokio::time::Instant::now() + d);
                        }
                        self.carry_out(request).await
                    }
                    Err(error) => Err(format!("the request cannot be read: {error}")),
                };
                let mut line = serde_json::to_vec(&answer)?;
                line.push(b'\n');
                client.write_all(&line).await
            };
            match timeout(CLIENT_TIMEOUT, served).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::debug!(target: "apiserver.control", %error, "cannot serve a client of the control socket");
                    // Accepting may succeed later; the pause avoids a busy loop.
                    sleep(Duration::from_millis(10)).await;
                }
                Err(_) => {
                    tracing::debug!(target: "apiserver.control", "a client of the control socket timed out");
                }
            }
        }
    }

    async fn carry_out(&self, request: Request) -> Result<String, String> {
        tracing::info!(target: "apiserver.control", ?request, "received a fault injection command");
        let faults = &self.faults;
        let done = done(&request);
        match request {
            Request::Status => {}
            Request::Clear => {
                drop(faults.send_replace(Faults::default()));
                node_faults::clear_faults(&self.cluster);
            }
            Request::Node(request) => node_faults::inject(&self.cluster, request).await?,
            Request::Latency { from, to, matching } => {
                let latency = (!to.is_zero()).then(|| (from.min(to), to, matching));
                faults.send_modify(|faults| faults.latency = latency);
            }
            Request::Errors {
                rate,
                failing,
                matching,
            } => {
                let errors = (rate > 0.0).then_some((rate, failing, matching));
                faults.send_modify(|faults| faults.errors = errors);
            }
            Request::CutWatches => self.cluster.cut_watches().await,
            Request::Compact => self.cluster.compact().await,
            Request::Freeze(_) => faults.send_modify(|faults| faults.frozen = true),
            Request::Thaw => faults.send_modify(|faults| faults.frozen = false),
            Request::Restart { away, empty } => {
                if empty {
                    self.cluster.empty().await;
                }
                // If the server has ended, there is nothing to restart.
                let _ = self.away.send(Downtime(away)).await;
            }
        }
        let in_force = self.status();
        Ok(match done {
            Some(done) if in_force == NO_FAULTS => done,
            Some(done) => format!("{done}\n{in_force}"),
            None => in_force,
        })
    }

    fn status(&self) -> String {
        let faults = self.faults.borrow().clone();
        let of = |matching: &RequestFilter| {
            let verb = matching.verb.as_deref().map(|verb| format!(" of {verb}"));
            let path = matching.path.as_deref().map(|path| format!(" to …{path}…"));
            [verb, path].into_iter().flatten().collect::<String>()
        };
        let mut lines = Vec::new();
        if faults.frozen {
            lines.push("frozen: nothing is answered".to_owned());
        }
        if let Some((from, to, matching)) = &faults.latency {
            let (from, to) = (
                humantime::format_duration(*from),
                humantime::format_duration(*to),
            );
            lines.push(format!("latency of {from} to {to}{}", of(matching)));
        }
        if let Some((rate, failing, matching)) = &faults.errors {
            let how = match failing {
                FailureMode::Status(code) => format!("are refused with {code}"),
                FailureMode::Break => "break before they are carried out".to_owned(),
                FailureMode::LostRace => "lose a race, if they remove an object".to_owned(),
                FailureMode::BreakAfter => "break after they were carried out".to_owned(),
            };
            lines.push(format!(
                "{} % of requests{} {how}",
                rate * 100.0,
                of(matching)
            ));
        }
        lines.extend(node_faults::status(&self.cluster));
        if lines.is_empty() {
            lines.push(NO_FAULTS.to_owned());
        }
        lines.join("\n")
    }
}

const NO_FAULTS: &str = "no faults";

/// What a fault did that happens once; `None` for one that is in force from now on.
fn done(request: &Request) -> Option<String> {
    Some(match request {
        Request::CutWatches => "all watches were closed".to_owned(),
        Request::Compact => "the history was compacted".to_owned(),
        Request::Restart { away, empty } => {
            let away = humantime::format_duration(*away);
            let data = if *empty { "no" } else { "all its" };
            format!("the API server is away for {away}, and returns with {data} data")
        }
        Request::Node(NodeRequest::OutOfMemory(pod)) => {
            format!(
                "the containers of pod {} were killed as if out of memory",
                pod.name
            )
        }
        Request::Node(NodeRequest::Crash { pod, code }) => {
            format!("the containers of pod {} exited with {code}", pod.name)
        }
        Request::Node(NodeRequest::Evict(pod)) => format!("pod {} was evicted", pod.name),
        _ => return None,
    })
}

/// The device and the number of a file, which together identify it.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let file = std::fs::symlink_metadata(path)?;
    Ok((file.dev(), file.ino()))
}

/// Removes a socket on which nobody listens, and nothing else.
fn remove_stale(path: &Path) -> Result<(), ControlError> {
    let failed = |source| ControlError::Bind {
        path: path.to_owned(),
        source,
    };
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(file) if !file.file_type().is_socket() => {
            return Err(ControlError::NotASocket(path.to_owned()));
        }
        Ok(_) => {}
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(ControlError::InUse(path.to_owned())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Another cluster may have replaced the socket.
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            // If this fails, the next cluster replaces the stale socket.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What the API server receives from the control socket.
#[derive(Debug)]
pub struct ControlReceiver {
    pub(crate) faults: FaultsReader,
    pub(crate) downtimes: mpsc::Receiver<Downtime>,
}

async fn sleep_until_some(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn read(client: &mut UnixStream) -> io::Result<Result<Request, serde_json::Error>> {
    let mut line = Vec::new();
    BufReader::new(client.take(MAX_MESSAGE))
        .read_until(b'\n', &mut line)
        .await?;
    Ok(serde_json::from_slice(&line))
}

/// Sends a command to the cluster behind a socket, and returns its answer.
///
/// # Errors
///
/// If no cluster answers, or it refuses the command.
pub async fn ask(path: &Path, request: &Request) -> Result<String, ControlError> {
    let mut stream = UnixStream::connect(path)
        .await
        .map_err(|source| ControlError::Connect {
            path: path.to_owned(),
            source,
        })?;
    let answer_received = async {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        let mut answer = Vec::new();
        stream.take(MAX_MESSAGE).read_to_end(&mut answer).await?;
        Ok::<Result<String, String>, io::Error>(serde_json::from_slice(&answer)?)
    };
    timeout(2 * CLIENT_TIMEOUT, answer_received)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(ControlError::Answer)?
        .map_err(ControlError::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    fn bind(path: &Path) -> Result<(Control, ControlReceiver), ControlError> {
        Control::bind(path, crate::start(Options::default()))
    }

    #[tokio::test]
    async fn a_file_at_the_path_of_the_socket_is_kept() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notes");
        std::fs::write(&path, "mine").expect("written");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        for path in [&path, &link, &dir.path().to_owned()] {
            let error = bind(path).map(|_| ()).expect_err("refused");
            assert!(error.to_string().contains("is not a socket"), "{error}");
        }
        assert_eq!(std::fs::read_to_string(&link).expect("there"), "mine");
    }

    #[tokio::test]
    async fn a_socket_is_replaced_only_if_no_cluster_listens_on_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("control");
        drop(UnixListener::bind(&path).expect("a socket that stays behind"));
        let (control, _receiver) = bind(&path).expect("replaced");
        let error = bind(&path).map(|_| ()).expect_err("in use");
        assert!(error.to_string().contains("another cluster"), "{error}");
        drop(control);
        assert!(!path.exists(), "the cluster removes its own socket");
    }

    #[tokio::test]
    async fn a_cluster_that_ends_keeps_what_replaced_its_socket() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("control");
        let (control, _receiver) = bind(&path).expect("bound");
        std::fs::remove_file(&path).expect("removed");
        let (_other, _receiver) = bind(&path).expect("bound");
        drop(control);
        assert!(path.exists());
    }
}
