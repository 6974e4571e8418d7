//! Checks that no driver gives up an executor for its silence while its container waits to be started again (spec B-14).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use boatswain::model::executor::{Class, LeaveReason};
use boatswain::model::pod::PendingStage;
use boatswain::model::{Entry, PodUid};
use tokio::time::Instant;

use super::Verdict;

/// A driver's registry learns of the restart from its next batch. What it decided until then reaches the ledger within
/// this time.
const LATE: Duration = Duration::from_secs(5);

/// Since when the container of each pod waits to be started again, in each driver's ledger.
#[derive(Debug, Default)]
pub struct Restarting(BTreeMap<(usize, PodUid), Instant>);

impl Restarting {
    /// Checks the changed entries of a driver's ledger.
    // spec: B-14
    pub fn check(&mut self, driver: usize, changed: &[Arc<Entry>]) -> Verdict {
        let now = Instant::now();
        for entry in changed {
            let Some(uid) = entry.uid() else { continue };
            let key = (driver, uid.clone());
            if entry.class() == Class::Pending(PendingStage::Restarting) {
                self.0.entry(key).or_insert(now);
                continue;
            }
            let waited = self.0.remove(&key).map(|since| now - since);
            let for_silence = (entry.leaving.as_ref()).filter(|leaving| {
                matches!(
                    leaving.why,
                    LeaveReason::Disconnected
                        | LeaveReason::HeartbeatTimeout(_)
                        | LeaveReason::Unreachable(_)
                        | LeaveReason::NodeNotReady(..)
                        | LeaveReason::RegistrationTimeout(_)
                )
            });
            if let (Some(waited), Some(leaving)) = (waited, for_silence)
                && entry.class() == Class::Leaving
                && waited > LATE
            {
                return Err(format!(
                    "B-14: d{driver} gives up {} ({}), whose container has waited to be started again for {waited:?}",
                    entry.id, leaving.why
                ));
            }
        }
        Ok(())
    }
}
