//! Deletes the executors that the end of an application has left (spec O-134).
//!
//! An API server may take longer to delete a large fleet than a driver has for its end. The next driver in its place finds
//! the record marked as ended.

use futures::{StreamExt as _, stream};
use tokio::time::Instant;

use super::record::understand;
use super::{Found, Retries, StartError, provisioners};
use crate::config::Config;
use crate::driver::Environment;
use crate::driver::left::Left;

/// # Errors
/// If the cluster stays unreachable or refuses a call.
pub(in crate::driver) async fn delete(
    found: &Found,
    config: &Config,
    environment: &Environment,
) -> Result<(), StartError> {
    let Some(map) = &found.record else {
        return Ok(());
    };
    // Another application's is refused, as it is when the record is taken over.
    let record = understand(map, config)?;
    if record.finished.is_none() {
        return Ok(());
    }
    // A set that is left would make its pods again. It goes with the record.
    if provisioners::set_kind(config.allocation.strategy).is_some() {
        return Ok(());
    }
    let calls = &found.calls.clone().of_app(record.app_id);
    let mut failures = 0;
    let mut retries = Retries::since(Instant::now(), config, environment);
    loop {
        let list = || Left::of(calls, config.tuning.page_size);
        let left = retries.call("what the application has left", list).await?;
        let with_uid = left.undeleted.into_iter();
        let pods: Vec<_> = (with_uid.filter_map(|(name, uid)| Some((name, uid?)))).collect();
        if pods.is_empty() {
            return Ok(());
        }
        tracing::info!(
            executors = pods.len(),
            "the application has ended, and some of its executors are left: they are deleted"
        );
        let mut deletes = stream::iter(&pods)
            .map(|(name, uid)| calls.delete_pod(name, uid, None))
            .buffer_unordered(config.allocation.usual_in_flight() as usize);
        let (mut deleted, mut refused) = (false, None);
        while let Some(answer) = deletes.next().await {
            match answer {
                Ok(_) => deleted = true,
                Err(failure) => refused = Some(failure),
            }
        }
        if deleted {
            failures = 0;
            retries = Retries::since(Instant::now(), config, environment);
        }
        if let Some(failure) = refused {
            failures += 1;
            let what = "an executor that is left";
            retries.wait(what, failures, &failure).await?;
        }
    }
}
