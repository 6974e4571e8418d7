//! Whether the driver that holds the record lives in another pod, without a Lease (spec O-34).
//!
//! The record names the pod of the start that holds it, and the API server says whether that pod runs. An earlier start
//! in the own pod has ended, and one outside a cluster leaves no evidence: they are superseded at once.

use std::sync::Arc;
use std::time::Duration;

use crate::kubernetes::calls::Reference;
use crate::kubernetes::{Calls, Record};

/// The interval between two looks at the other pod.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How the record names a pod.
pub(super) fn pod_text(pod: &Reference) -> Arc<str> {
    Arc::from(format!("{}/{}", pod.name, pod.uid))
}

/// The name of the other pod in which the record's holder lives. `None` if there is none, or if that is not known: a
/// start must not wait for an answer that it may never get.
pub(super) async fn living(
    calls: &Calls,
    own: Option<&Reference>,
    record: Option<&Record>,
) -> Option<String> {
    let record = record.filter(|record| record.finished.is_none())?;
    let (name, uid) = record.holder_pod.as_deref()?.split_once('/')?;
    if own?.uid == uid {
        return None;
    }
    match calls.controller_of_pod(name).await {
        Ok(Some(pod)) => (pod.uid == uid && pod.runs).then(|| name.to_owned()),
        Ok(None) => None,
        Err(error) => {
            tracing::warn!(%error, pod = name, "it is not known whether a driver lives there: taking over");
            None
        }
    }
}
