//! Makes the Kubernetes API clients: one each for creates, for deletes, for reads, and for the lease.
//!
//! *Credentials.* A token file (in a pod, the service account's) is read again at most a minute after the last read, and
//! a credential plugin runs again when its token is about to expire (`credentials.rs`). A 401 response triggers
//! neither. To reload credentials after a 401 (spec A-22), [`super::Calls::renew_credentials`] connects again with
//! [`Clients::renew`], and all later calls use the new clients. This reads the kubeconfig, token files and client
//! certificates again, and runs a credential plugin again.
//!
//! A client is bound to the tokio runtime it was made in and stops working when that runtime ends.

mod proxy;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::AUTHORIZATION;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use thiserror::Error;
use tower::limit::ConcurrencyLimitLayer;
use tower::util::MapRequestLayer;
use tower::{BoxError, Service};

use super::credentials::{Bearer, aside, take_bearer};
use super::transport_error::{UNUSABLE, chain_text};
use boatswain_agent::file;
use boatswain_agent::file_state::file_state;

pub use boatswain_agent::file_state::FileState;

/// Where the configuration of the cluster and the credentials come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// `$KUBECONFIG`, else `~/.kube/config`, else the pod's service account.
    Infer,
    /// The pod's service account.
    InCluster,
    /// A kubeconfig.
    Kubeconfig {
        /// The file; `None` for the default location.
        path: Option<PathBuf>,
        /// The context; `None` for the file's current context.
        context: Option<String>,
    },
}

/// How long opening a connection may take. It counts towards the request's own timeout.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The limits of a client's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent creates. A value below the allocator's in-flight limit makes requests wait here while their timeout runs.
    pub creates: usize,
    /// Concurrent deletes, gets and patches. It must not be below the delete queue's in-flight limit.
    pub deletes: usize,
}

impl Default for Limits {
    /// Twice the default in-flight limits of the allocator and of the delete queue.
    fn default() -> Self {
        Self {
            creates: 64,
            deletes: 64,
        }
    }
}

/// The API clients. Each has its own connections, so that creates do not delay deletes, and neither delays lists.
#[derive(Clone)]
pub struct Clients {
    /// For pod creates.
    pub creates: Client,
    /// For pod deletes, gets and patches.
    pub deletes: Client,
    /// For lists, watches, the application record and everything else.
    pub reads: Client,
    /// For the lease, which must be renewed in time whatever else is called.
    pub leases: Client,
    /// The namespace of the kubeconfig's context, or of the driver's pod.
    pub default_namespace: String,
    /// The API server's URL, for display.
    pub server: String,
    /// Makes new clients with reloaded credentials; `None` for clients without credentials.
    pub renew: Option<Renew>,
    /// The files that the credentials were read from.
    pub files: Vec<PathBuf>,
}

/// Makes new clients with reloaded credentials.
pub type Renew = Arc<dyn Fn() -> BoxFuture<'static, Result<Clients, ConnectError>> + Send + Sync>;

/// Why the clients could not be made. No request was sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConnectError(pub(super) String);

impl Access {
    /// Reads the credentials and makes the clients. It does not contact the API server.
    ///
    /// # Errors
    /// If the kubeconfig, the service account or the credential plugin is missing, unreadable or invalid, or if that takes
    /// too long.
    pub async fn connect(&self, limits: Limits) -> Result<Clients, ConnectError> {
        // What may block has threads of its own, which use neither timers nor sockets: the runtime may end before them.
        let access = self.clone();
        let mut config = aside(move || access.read()).await?;
        let access = self.clone();
        let files = self.files(&config);
        // kube would read it again in the middle of a handshake. It is among the files that are looked at instead.
        config.root_cert_file = None;
        let bearer = take_bearer(&mut config.auth_info).await?;
        aside(move || access.clients(&config, files, bearer, limits)).await
    }

    /// Reads the configuration, and the certificate authority. Blocks the thread.
    fn read(&self) -> Result<Config, ConnectError> {
        self.refuse_pipes()?;
        let unfinished = || ConnectError("the kubeconfig was not read at once".to_owned());
        // kube waits for nothing but files.
        let config = self.config().now_or_never();
        let mut config = config.ok_or_else(unfinished)??;
        // The driver must see the outcome of each request, so the client must not retry on its own (spec ).
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.cluster_url = without_userinfo(&config.cluster_url)?;
        config.proxy_url = proxy::proxy(&config, |name| std::env::var(name).ok());
        Ok(config)
    }

    /// Makes the clients. Blocks the thread, because kube reads client certificates.
    fn clients(
        &self,
        config: &Config,
        files: Vec<PathBuf>,
        bearer: Option<Bearer>,
        limits: Limits,
    ) -> Result<Clients, ConnectError> {
        let (access, server) = (self.clone(), config.cluster_url.to_string());
        let renew: Renew =
            Arc::new(move || access.clone().connect_again(limits, server.clone()).boxed());
        let client = |at_once| client(config, bearer.clone(), at_once);
        Ok(Clients {
            renew: Some(renew),
            files,
            creates: client(Some(limits.creates))?,
            deletes: client(Some(limits.deletes))?,
            reads: client(None)?,
            leases: client(None)?,
            server: config.cluster_url.to_string(),
            default_namespace: config.default_namespace.clone(),
        })
    }

    /// Connects to the same API server with reloaded credentials. Another server has other executors, so a kubeconfig
    /// whose current context was changed must not lead the driver to it.
    async fn connect_again(self, limits: Limits, server: String) -> Result<Clients, ConnectError> {
        let clients = self.connect(limits).await?;
        if clients.server != server {
            return Err(ConnectError(format!(
                "they are for another API server now, {}, not for {server}: restart the driver if it moved",
                clients.server
            )));
        }
        Ok(clients)
    }

    fn kubeconfigs(&self) -> Vec<PathBuf> {
        match self {
            Access::InCluster => Vec::new(),
            Access::Kubeconfig {
                path: Some(path), ..
            } => vec![path.clone()],
            Access::Infer | Access::Kubeconfig { path: None, .. } => default_kubeconfigs(),
        }
    }

    /// The files that the credentials in `config` were read from, and those that would have been preferred.
    fn files(&self, config: &Config) -> Vec<PathBuf> {
        let mut files = self.kubeconfigs();
        let user = &config.auth_info;
        let named = [&user.token_file, &user.client_certificate, &user.client_key];
        files.extend(named.into_iter().flatten().map(PathBuf::from));
        files.extend(config.root_cert_file.clone());
        files
    }

    /// Looks at the files that kube reads, which would wait for a pipe (spec O-129).
    fn refuse_pipes(&self) -> Result<(), ConnectError> {
        for path in self.kubeconfigs() {
            refuse_pipe(&path)?;
            // A mistake in it is told by kube.
            let Ok(read) = Kubeconfig::read_from(&path) else {
                continue;
            };
            let clusters = read.clusters.into_iter().filter_map(|named| named.cluster);
            let authorities = clusters.filter_map(|cluster| cluster.certificate_authority);
            let users = (read.auth_infos.into_iter()).filter_map(|named| named.auth_info);
            let pairs = users.flat_map(|user| [user.client_certificate, user.client_key]);
            for file in authorities.chain(pairs.flatten()) {
                refuse_pipe(Path::new(&file))?;
            }
        }
        Ok(())
    }

    async fn config(&self) -> Result<Config, ConnectError> {
        match self {
            Access::Infer => Config::infer()
                .await
                .map_err(|error| ConnectError(infer_text(&error))),
            Access::InCluster => Config::incluster().map_err(|error| {
                ConnectError(format!("no service account: {}", chain_text(&error)))
            }),
            Access::Kubeconfig { path, context } => {
                let options = KubeConfigOptions {
                    context: context.clone(),
                    ..KubeConfigOptions::default()
                };
                let config = match path {
                    Some(path) => match Kubeconfig::read_from(path) {
                        Ok(file) => Config::from_custom_kubeconfig(file, &options).await,
                        Err(error) => Err(error),
                    },
                    None => Config::from_kubeconfig(&options).await,
                };
                config.map_err(|error| ConnectError(kubeconfig_text(&error)))
            }
        }
    }
}

impl Clients {
    /// Clients of a cluster in this process (the embedded cluster's router, or a test's service). They have no
    /// concurrency limits, because there are no connections to save.
    pub fn in_process<S, B>(service: S, namespace: &str) -> Self
    where
        S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self {
            creates: Client::new(service.clone(), namespace),
            deletes: Client::new(service.clone(), namespace),
            reads: Client::new(service.clone(), namespace),
            leases: Client::new(service, namespace),
            default_namespace: namespace.to_owned(),
            server: "in this process".to_owned(),
            renew: None,
            files: Vec::new(),
        }
    }

    /// The current states of the files that the credentials were read from.
    pub fn file_states(&self) -> Vec<FileState> {
        self.files.iter().map(|path| file_state(path)).collect()
    }
}

fn refuse_pipe(path: &Path) -> Result<(), ConnectError> {
    match file::open(path) {
        // Any other mistake is told by kube.
        Err(why) if file::is_irregular(&why) => {
            let path = path.display();
            Err(ConnectError(format!("{path} cannot be read: {why}")))
        }
        _ => Ok(()),
    }
}

fn default_kubeconfigs() -> Vec<PathBuf> {
    match std::env::var_os("KUBECONFIG") {
        Some(paths) if !paths.is_empty() => std::env::split_paths(&paths).collect(),
        _ => (std::env::home_dir().map(|home| home.join(".kube/config")))
            .into_iter()
            .collect(),
    }
}

/// Removes the user name and password from the URL. Some tools put credentials there (kubectl sends no token without
/// TLS), but this client does not use them, and the URL is logged.
fn without_userinfo(url: &http::Uri) -> Result<http::Uri, ConnectError> {
    let Some((_, host)) = url.authority().and_then(|a| a.as_str().rsplit_once('@')) else {
        return Ok(url.clone());
    };
    let mut parts = url.clone().into_parts();
    parts.authority = host.parse().ok();
    http::Uri::from_parts(parts)
        .map_err(|error| ConnectError(format!("the cluster's address is odd: {error}")))
}

fn client(
    config: &Config,
    bearer: Option<Bearer>,
    at_once: Option<usize>,
) -> Result<Client, ConnectError> {
    let builder = ClientBuilder::try_from(config.clone()).map_err(|error| {
        ConnectError(match &error {
            kube::Error::Auth(_) => UNUSABLE.to_owned(),
            // Its own text has the URL, which may have a password.
            kube::Error::ProxyProtocolDisabled { .. }
            | kube::Error::ProxyProtocolUnsupported { .. } => {
                "the cluster's proxy (the kubeconfig's proxy-url, or HTTPS_PROXY) must be an http:// or https:// URL"
                    .to_owned()
            }
            other => format!("no client can be made: {}", chain_text(other)),
        })
    })?;
    let builder = builder.with_layer(&MapRequestLayer::new(
        move |mut request: http::Request<Body>| {
            if let Some(bearer) = &bearer {
                let header = bearer.borrow().clone();
                request.headers_mut().insert(AUTHORIZATION, header);
            }
            request
        },
    ));
    Ok(match at_once {
        // A limit of 0 would block every request forever.
        Some(limit) => builder
            .with_layer(&ConcurrencyLimitLayer::new(limit.max(1)))
            .build(),
        None => builder.build(),
    })
}

fn infer_text(error: &kube::config::InferConfigError) -> String {
    use std::error::Error as _;
    let kubeconfig = error
        .source()
        .and_then(|source| source.downcast_ref::<KubeconfigError>())
        .map_or_else(|| "unreadable".to_owned(), kubeconfig_text);
    format!("no cluster: neither a service account nor a kubeconfig ({kubeconfig})")
}

/// Omits the YAML parser's own message, because it quotes lines of the file, which may contain tokens.
fn kubeconfig_text(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(why) => match why.location() {
            Some(at) => format!(
                "the kubeconfig is no valid YAML at line {} column {}",
                at.line(),
                at.column()
            ),
            None => "the kubeconfig is no valid YAML".to_owned(),
        },
        KubeconfigError::LoadContext(name) => format!("the kubeconfig has no context {name:?}"),
        KubeconfigError::LoadClusterOfContext(name) => {
            format!("the kubeconfig has no cluster {name:?}")
        }
        other => chain_text(other),
    }
}

#[cfg(test)]
mod tests;
