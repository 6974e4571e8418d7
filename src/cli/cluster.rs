//! The cluster of `boatswain run`: a real one, or one inside this process (spec O-70).

use devcluster::{DevCluster, NodeKind, Options, ProcessNode, SimulatedNode};
use rand::TryRng as _;
use rand::rngs::SysRng;

use crate::config::{ClusterMode, Config, EmbeddedNode};
use crate::driver;
use crate::exit::Exit;
use crate::kubernetes::Clients;

pub(super) enum Cluster {
    /// Ends with the driver.
    Embedded(DevCluster),
    Kubernetes,
}

impl Cluster {
    /// Starts the embedded cluster if it is the configured one.
    ///
    /// # Errors
    /// Returns the exit code if the operating system gives no randomness, which is logged.
    pub(super) fn start(config: &Config) -> Result<Self, Exit> {
        if config.cluster.mode == ClusterMode::Kubernetes {
            return Ok(Self::Kubernetes);
        }
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
        let seed = SysRng.try_next_u64().map_err(|error| {
            tracing::error!(%error, "the system gives no randomness");
            Exit::Bug
        })?;
        Ok(Self::Embedded(devcluster::start(Options {
            node,
            seed,
            ..Options::default()
        })))
    }

    /// # Errors
    /// Returns the exit code if the cluster's address or credentials are unknown, which is logged.
    pub(super) async fn clients(&self, config: &Config) -> Result<Clients, Exit> {
        if let Self::Embedded(cluster) = self {
            let namespace = config.cluster.namespace.as_deref().unwrap_or("default");
            return Ok(Clients::in_process(cluster.router(), namespace));
        }
        driver::connect(config).await.map_err(|error| {
            tracing::error!(
                %error,
                "the cluster cannot be spoken to: look at cluster.kubeconfig and cluster.context, \
                 or at the service account of the pod that this runs in"
            );
            Exit::Configuration
        })
    }

    pub(super) async fn leave(&self) {
        if let Self::Embedded(cluster) = self {
            cluster.shutdown().await;
        }
    }
}
