//! The listener for executors, and their authentication (spec O-112, K-4).

use std::net::SocketAddr;

use crate::config::{Auth, ClusterMode, Config, EmbeddedNode, Inject};
use crate::kubernetes::owned_resources::service_name;
use crate::kubernetes::pod_template::{InjectedBy, Injection, TokenSource};
use crate::model::AppId;
use crate::secret::SecretError;
use crate::secret::seal::Key;
use crate::server::limits::Limits;
use crate::server::serve::ListenError;
use crate::server::sessions::Server;

use super::cluster::call_limits;
use super::owned_resources::{self, CA};

#[derive(Debug, thiserror::Error)]
pub(super) enum ListenerError {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Key(#[from] SecretError),
}

/// An open port for executors that does not answer yet.
pub(super) struct Listener {
    pub(super) address: SocketAddr,
    /// `None` if the API's port serves executors too.
    pub(super) server: Option<Server>,
    /// Whether sessions are HTTPS.
    pub(super) tls: bool,
    /// The key of derived tokens; `None` if Kubernetes issues the tokens.
    pub(super) key: Option<Key>,
}

impl Listener {
    /// Opens the port, unless it is the API's, and reads or creates the key. `None` without a
    /// configured address.
    ///
    /// # Errors
    /// If the port cannot be opened or the key is unreadable.
    pub(super) async fn open(config: &Config) -> Result<Option<Self>, ListenerError> {
        let sessions = &config.backend.sessions;
        let Some(address) = sessions.listen else {
            return Ok(None);
        };
        let limits = limits(config);
        let executors = config.profiles.values().map(|profile| profile.executors);
        let executors = executors.fold(0, u32::saturating_add);
        if limits.sessions < executors as usize {
            let sessions = limits.sessions;
            tracing::warn!(
                sessions,
                executors,
                "the limit of open files allows fewer sessions than executors: raise its hard limit"
            );
        }
        let key = match (sessions.auth(config.cluster.mode), &sessions.key_file) {
            (Auth::Kubernetes, _) => None,
            (Auth::Derived, Some(file)) => Some(Key::of_file(file)?),
            (Auth::Derived, None) => Some(Key::drawn()?),
        };
        let tls = sessions_with_tls(config);
        if config.one_port() {
            let server = None;
            tracing::info!(%address, "executors' sessions share the port of the API");
            return Ok(Some(Self {
                address,
                server,
                tls,
                key,
            }));
        }
        let server = Server::bind(address).await?;
        Ok(Some(Self {
            address: server.address(),
            server: Some(server),
            tls,
            key,
        }))
    }

    pub(super) fn token_source(&self, app: &AppId) -> TokenSource {
        match &self.key {
            Some(key) => TokenSource::Sealed(key.clone()),
            None => projected(app),
        }
    }
}

/// How many connections are accepted, beside as many calls to the API server as are made at a time.
pub(super) fn limits(config: &Config) -> Limits {
    let calls = call_limits(config);
    Limits::of_process(calls.creates.saturating_add(calls.deletes))
}

/// A token that Kubernetes issues to each pod, and that only this application's driver accepts.
pub(super) fn projected(app: &AppId) -> TokenSource {
    TokenSource::Projected {
        audience: audience(app),
    }
}

/// The audience of the tokens of this application's executors.
pub(super) fn audience(app: &AppId) -> String {
    format!("boatswain.dev/{app}")
}

/// The audience of the tokens of service accounts that call the API. It is known before the
/// application's first start, and no executor's token has it.
pub(super) fn api_audience(namespace: &str, prefix: &str) -> String {
    format!("boatswain.dev/{namespace}/{prefix}")
}

/// The URL of a driver that listens at this address, for executors.
pub(super) fn url(config: &Config, address: SocketAddr, prefix: &str, namespace: &str) -> String {
    let sessions = &config.backend.sessions;
    let scheme = if sessions_with_tls(config) {
        "https"
    } else {
        "http"
    };
    match (&sessions.url, sessions.service_port()) {
        (Some(url), _) => url.trim_end_matches('/').to_owned(),
        (None, Some(port)) => format!("{scheme}://{}.{namespace}.svc:{port}", service_name(prefix)),
        (None, None) => format!("{scheme}://{address}"),
    }
}

/// Whether sessions are HTTPS.
pub(super) fn sessions_with_tls(config: &Config) -> bool {
    config.tls.is_on() && !config.backend.sessions.plain_http
}

/// The path of the CA in executors' pods; `None` if they trust those of their image.
pub(super) fn ca_path(config: &Config) -> Option<String> {
    let handed_out = owned_resources::hands_out_ca(config);
    handed_out.then(|| {
        format!(
            "{}/{CA}",
            config.config_map.mount_path.trim_end_matches('/')
        )
    })
}

/// The path of the agent's binary if executors are local processes; `None` if their image contains
/// it.
pub(super) fn agent(config: &Config) -> Option<String> {
    let processes = config.cluster.mode == ClusterMode::Embedded
        && config.embedded.node == EmbeddedNode::Process;
    let program = processes.then(std::env::current_exe)?.ok()?;
    Some(program.display().to_string())
}

/// How the agent's program gets into executors' containers (spec O-65).
pub(super) fn injection(config: &Config) -> Option<Injection> {
    let by = match config.agent.inject {
        Inject::None => return None,
        Inject::Init => InjectedBy::InitContainer,
        Inject::Image => InjectedBy::ImageVolume,
    };
    Some(Injection {
        image: config.agent.image.clone()?,
        by,
        decommission_command: config.agent.decommission_command.clone(),
    })
}
