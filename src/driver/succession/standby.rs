//! What a start waits for before it takes over: the Lease (spec O-32), or the end of the driver in another pod (spec
//! O-34).

use tokio::time::{Instant, timeout};

use super::{Found, Retries, StartError, record};
use crate::config::Config;
use crate::driver::Environment;
use crate::driver::lease::{AT_THE_END, Lease, active_patch};
use crate::driver::owner_chain::OwnerChain;
use crate::driver::predecessor;
use crate::exit::Exit;
use crate::kubernetes::WriteGate;
use crate::kubernetes::record::Record;

/// Begins to wait for the Lease under which this driver writes (spec O-32).
pub(in crate::driver) async fn wait_for_lease(
    found: &Found,
    config: &Config,
    environment: &Environment,
) -> Lease {
    let owner_chain = found.owner_chain.as_ref();
    if let Some(OwnerChain { pod, .. }) = owner_chain {
        // An earlier start in this pod may have been active.
        let patch = active_patch(&pod.uid, false);
        if let Err(error) = found.calls.patch_pod(&pod.name, &patch).await {
            tracing::warn!(%error, "this driver's pod may bear the label of the active one");
        }
    }
    let (calls, prefix) = (&found.calls, &found.place.prefix);
    Lease::wait_for(config, environment, calls, prefix, owner_chain)
}

/// This driver holds the Lease: its writes pass `gate`, and the record is read again, because another driver may have
/// changed it meanwhile.
///
/// # Errors
/// If the cluster stays unreachable or refuses a call.
pub(in crate::driver) async fn become_active(
    found: &mut Found,
    config: &Config,
    environment: &Environment,
    gate: WriteGate,
) -> Result<(), StartError> {
    found.calls = found.calls.clone().gated(gate);
    found.began = Instant::now();
    let retries = Retries::since(found.began, config, environment);
    found.record = record::read(&found.calls, &retries, &found.place).await?;
    unmark_earlier(found).await;
    Ok(())
}

/// Removes the label of the active driver from the pod of the one before, which may have lost the Lease together with its
/// node or its network. Executors are not to find two.
async fn unmark_earlier(found: &Found) {
    let record = found.record.as_ref().and_then(|map| Record::read(map).ok());
    let earlier = record.and_then(|record| record.holder_pod);
    let Some((name, uid)) = earlier.as_deref().and_then(|pod| pod.split_once('/')) else {
        return;
    };
    let own = found.owner_chain.as_ref().map(|chain| &*chain.pod.uid);
    if own.is_none_or(|own| own == uid) {
        return;
    }
    let patch = active_patch(uid, false);
    let unmarked = timeout(AT_THE_END, found.calls.patch_pod(name, &patch)).await;
    if !matches!(unmarked, Ok(Ok(_))) {
        // Another pod may have this name now.
        tracing::debug!(
            pod = name,
            "the label of the active driver may be on two pods"
        );
    }
}

/// The other pod in which the driver that holds the record lives (spec O-34).
pub(in crate::driver) async fn predecessor(found: &Found) -> Option<String> {
    let own = found.owner_chain.as_ref().map(|chain| &chain.pod)?;
    let record = found.record.as_ref().and_then(|map| Record::read(map).ok());
    predecessor::living(&found.calls, Some(own), record.as_ref()).await
}

/// Waits until the driver in this pod has ended, and no other one goes on. `stands_by` is called with each such pod.
///
/// # Errors
/// Never.
pub(in crate::driver) async fn end_of_predecessor(
    found: &mut Found,
    config: &Config,
    environment: &Environment,
    mut pod: String,
    stands_by: impl Fn(&str),
) -> Result<(), Exit> {
    stands_by(&pod);
    loop {
        tokio::time::sleep(predecessor::LOOK_EVERY).await;
        let retries = Retries::since(Instant::now(), config, environment);
        match record::read(&found.calls, &retries, &found.place).await {
            Ok(record) => found.record = record,
            Err(error) => {
                tracing::warn!(%error, "the application record cannot be read: still waiting");
                continue;
            }
        }
        match predecessor(found).await {
            Some(other) if other == pod => {}
            Some(other) => {
                stands_by(&other);
                pod = other;
            }
            None => break,
        }
    }
    found.began = Instant::now();
    tracing::info!(pod, "the driver in that pod is over: this one takes over");
    Ok(())
}
