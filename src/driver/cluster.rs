//! The configured cluster: a real or the embedded one (spec O-70).

use devcluster::{self, DevCluster, NodeKind, ProcessNode, SimulatedNode};

use crate::config::{ClusterMode, Config, EmbeddedNode};
use crate::exit::Exit;
use crate::kubernetes::client::Limits;
use crate::kubernetes::{Access, Clients, ConnectError};

pub(super) enum Cluster {
    /// Runs in this process and ends with the driver.
    Embedded(DevCluster),
    Kubernetes,
}

impl Cluster {
    /// # Errors
    /// Returns the exit code if the cluster's address or credentials are unknown, which is logged.
    pub(super) async fn reach(config: &Config, seed: u64) -> Result<(Self, Clients), Exit> {
        match config.cluster.mode {
            ClusterMode::Embedded => {
                let cluster = embedded(config, seed);
                let namespace = config.cluster.namespace.as_deref().unwrap_or("default");
                let clients = Clients::in_process(cluster.router(), namespace);
                Ok((Self::Embedded(cluster), clients))
            }
            ClusterMode::Kubernetes => match connect(config).await {
                Ok(clients) => Ok((Self::Kubernetes, clients)),
                Err(error) => {
                    tracing::error!(
                        %error,
                        "the cluster cannot be spoken to: look at cluster.kubeconfig and cluster.context, \
                         or at the service account of the pod that this runs in"
                    );
                    Err(Exit::Configuration)
                }
            },
        }
    }

    pub(super) async fn leave(self) {
        if let Self::Embedded(cluster) = self {
            cluster.shutdown().await;
        }
    }
}

/// Clients for the configured real cluster. No request is sent to it.
///
/// # Errors
/// If the cluster's address or credentials are unknown.
pub(super) async fn connect(config: &Config) -> Result<Clients, ConnectError> {
    access(config).connect(call_limits(config)).await
}

pub(super) fn call_limits(config: &Config) -> Limits {
    let most = 2 * config.allocation.max_in_flight as usize;
    Limits {
        creates: most,
        deletes: most,
    }
}

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
