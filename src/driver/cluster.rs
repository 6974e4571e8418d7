//! How the configured cluster is reached, if it is a real one.

use crate::config::Config;
use crate::kubernetes::client::Limits;
use crate::kubernetes::{Access, Clients, ConnectError};

/// Clients for the configured cluster. No request is sent to it.
///
/// # Errors
/// If the cluster's address or credentials are unknown.
pub async fn connect(config: &Config) -> Result<Clients, ConnectError> {
    access(config).connect(call_limits(config)).await
}

pub(super) fn call_limits(config: &Config) -> Limits {
    let allocation = &config.allocation;
    Limits {
        creates: 2 * allocation.max_in_flight as usize,
        deletes: 2 * allocation.usual_in_flight() as usize,
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
