//! Reads the driver's own pod and its controllers at a start.

use tokio::time::Instant;

use super::{Found, Retries, StartError};
use crate::config::{Config, OnSignal};
use crate::driver::Environment;
use crate::driver::owner_chain::{self, OwnerChain};
use crate::exit::Exit;
use crate::kubernetes::calls::{ControllerKind, Reference};
use crate::kubernetes::{Calls, FailureKind};

/// Reads the chain whose top owns the record; `None` outside a cluster (spec K-2).
pub(super) async fn owner_chain(
    config: &Config,
    calls: &Calls,
    retries: &Retries<'_>,
    namespace: &str,
) -> Result<Option<OwnerChain>, StartError> {
    let Some(name) = &config.driver.pod_name else {
        return Ok(None);
    };
    let owner_chain = retries
        .call("the driver's own pod", || owner_chain::of_pod(calls, name))
        .await?;
    let Some(owner_chain) = owner_chain else {
        return Err(StartError::new(
            Exit::Configuration,
            format!(
                "the driver's own pod {name} is not in namespace {namespace}: driver.pod_name has to be the name of \
                 the pod that this process runs in, and cluster.namespace its namespace"
            ),
        ));
    };
    let (kind, owner) = (owner_chain.top.kind.as_str(), owner_chain.top.name.as_str());
    tracing::debug!(
        pod = name,
        kind,
        owner,
        "the application's record belongs to it"
    );
    if config.shutdown.on_signal == OnSignal::Auto {
        check_right_to_read(calls, &owner_chain.top).await;
    }
    Ok(Some(owner_chain))
}

/// Whether the top controller of the driver's pod is gone, or is being deleted: then the application is over (spec O-97).
/// A pod outlives its controller for some seconds, in which the node restarts its containers and a standby gets the lease.
///
/// # Errors
/// If the cluster stays unreachable.
pub(in crate::driver) async fn controller_is_gone(
    found: &Found,
    config: &Config,
    environment: &Environment,
) -> Result<bool, StartError> {
    let chain = match &found.owner_chain {
        Some(chain) if config.shutdown.on_signal == OnSignal::Auto => chain,
        _ => return Ok(false),
    };
    let retries = Retries::since(Instant::now(), config, environment);
    let read = || async {
        match chain.top_is_gone(&found.calls).await {
            // The start has warned of it.
            Err(failure) if failure.kind == FailureKind::Rights => Ok(false),
            read => read,
        }
    };
    retries.call("the driver's controller", read).await
}

/// Warns if the driver will not be able to learn why it is stopped (spec O-66).
async fn check_right_to_read(calls: &Calls, top: &Reference) {
    let Some(kind) = ControllerKind::of(top) else {
        return;
    };
    let failure = match calls.controller(kind, &top.name).await {
        Err(failure) if failure.kind == FailureKind::Rights => failure,
        _ => return,
    };
    tracing::warn!(
        error = %failure,
        rule = failure.missing_right().map(|right| right.rule()),
        hint = "grant it: see docs/kubernetes.md, \"Rights\"",
        "the driver's controller cannot be read: a signal will mean a hand-over, also when the application is over"
    );
}
