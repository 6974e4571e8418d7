//! How the cluster is reached: the clients, one for each kind of traffic.
//!
//! *Credentials.* A token file (a service account's, in a pod) is read again by the client itself, at most a minute
//! after the last time, whatever the server answers; a credential plugin runs again when its token is about to
//! expire. A 401 does not speed that up. To read credentials anew because of a 401 (spec A-22), clients know how they were
//! made: [`super::Calls::renew_credentials`] connects again, and all calls from then on are made so.
//!
//! A client lives in the runtime that it was made in and ends with it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use thiserror::Error;
use tower::limit::ConcurrencyLimitLayer;
use tower::{BoxError, Service};

use super::transport_error::{auth_text, chain_text};

/// How long a connection may take to come about; it is a part of the request's own timeout.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Where the cluster is and who the driver is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// `$KUBECONFIG`, else `~/.kube/config`, else the pod's service account.
    Infer,
    /// The pod's service account.
    InCluster,
    /// A kubeconfig.
    Kubeconfig {
        /// Its path; `None` for the usual place.
        path: Option<PathBuf>,
        /// The context; `None` for the file's current one.
        context: Option<String>,
    },
}

/// How much may be under way at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Creates; not below what the allocator has in flight at most, or the rest waits here while its time runs.
    pub creates: usize,
    /// Deletes, look-ups and patches; not below what the delete queue has in flight at most.
    pub deletes: usize,
}

impl Default for Limits {
    /// Twice what the allocator and the delete queue send at once by default.
    fn default() -> Self {
        Self {
            creates: 64,
            deletes: 64,
        }
    }
}

/// The clients. Each has connections of its own, so that creates hold up no delete, and neither a list.
#[derive(Clone)]
pub struct Clients {
    /// For creating pods.
    pub creates: Client,
    /// For deleting them, for look-ups and for patches.
    pub deletes: Client,
    /// For lists, watches, the application record and everything else.
    pub reads: Client,
    /// The namespace of the kubeconfig's context, or of the driver's pod.
    pub default_namespace: String,
    /// Where the API server is, for people.
    pub server: String,
    /// How others are made with credentials that are read anew; `None` where there are none to read.
    pub renew: Option<Renew>,
}

/// Makes clients anew.
pub type Renew = Arc<dyn Fn() -> BoxFuture<'static, Result<Clients, ConnectError>> + Send + Sync>;

/// Why no client could be made; nothing was sent yet.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ConnectError(String);

impl Access {
    /// Reads the credentials and makes the clients. It sends nothing.
    ///
    /// # Errors
    /// Where the kubeconfig, the service account or the credential plugin gives nothing to go by.
    pub async fn connect(&self, limits: Limits) -> Result<Clients, ConnectError> {
        let mut config = self.config().await?;
        // A repeated request has an outcome of its own, which only we can know (spec ).
        config.default_retry = false;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.cluster_url = without_userinfo(&config.cluster_url)?;
        let access = self.clone();
        let renew: Renew = Arc::new(move || access.clone().connect_again(limits));
        Ok(Clients {
            renew: Some(renew),
            creates: client(&config, Some(limits.creates))?,
            deletes: client(&config, Some(limits.deletes))?,
            reads: client(&config, None)?,
            server: config.cluster_url.to_string(),
            default_namespace: config.default_namespace,
        })
    }

    fn connect_again(self, limits: Limits) -> BoxFuture<'static, Result<Clients, ConnectError>> {
        async move { self.connect(limits).await }.boxed()
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
    /// Clients of a cluster in this process (the embedded one's router, a test's service). They have no limits: there
    /// is no connection to save.
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
            reads: Client::new(service, namespace),
            default_namespace: namespace.to_owned(),
            server: "in this process".to_owned(),
            renew: None,
        }
    }
}

/// An address may have a name and a password in it, for clients that know no better place (kubectl sends no token
/// without TLS). This client takes none from there, and what is in an address ends up in logs.
fn without_userinfo(url: &http::Uri) -> Result<http::Uri, ConnectError> {
    let Some((_, host)) = url.authority().and_then(|a| a.as_str().rsplit_once('@')) else {
        return Ok(url.clone());
    };
    let mut parts = url.clone().into_parts();
    parts.authority = host.parse().ok();
    http::Uri::from_parts(parts)
        .map_err(|error| ConnectError(format!("the cluster's address is odd: {error}")))
}

fn client(config: &Config, at_once: Option<usize>) -> Result<Client, ConnectError> {
    let builder = ClientBuilder::try_from(config.clone()).map_err(|error| {
        ConnectError(match &error {
            kube::Error::Auth(auth) => auth_text(auth),
            other => format!("no client can be made: {}", chain_text(other)),
        })
    })?;
    Ok(match at_once {
        // A limit of none at all would hold up everything for ever.
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

/// A parser's own text would show lines of the file, and those may be tokens.
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
