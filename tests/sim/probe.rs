//! Checks after convergence that the driver's watches are alive. Polls would hide a dead watch for long.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::checks::{PREFIX, Verdict};
use crate::objects::{NAMESPACE, text};
use crate::world::World;

/// Without faults a watch event arrives within milliseconds.
const MAX_WATCH_DELAY: Duration = Duration::from_secs(2);

/// Longer than the backoff of the watch on the record.
const OPEN_AGAIN: Duration = Duration::from_secs(35);

impl World {
    /// Lets the server forget its history, whose last change is not the record's, and end all watches, changes the record
    /// later, and checks that the driver reads it: the watch on the record is open again, although the record's own
    /// version is too old to begin from.
    // spec: W-7
    pub async fn probe_record(&mut self) -> Verdict {
        self.cluster.compact().await;
        self.cluster.cut_watches().await;
        self.run_until(Instant::now() + OPEN_AGAIN).await?;
        let Some(driver) = self.youngest() else {
            return Ok(());
        };
        let changed = Instant::now();
        let touch = json!({"metadata": {"annotations": {"probe": "sim"}}});
        (self.client)
            .patch_config_map(&format!("{PREFIX}-app"), &touch)
            .await;
        self.run_until(changed + MAX_WATCH_DELAY).await?;
        let read = self.network.shared().record_read.get(&driver).copied();
        if read.is_some_and(|read| read >= changed) {
            return Ok(());
        }
        Err(format!(
            "W-7: the record was changed, and its watch did not show it to d{driver}"
        ))
    }

    /// Changes a pod and checks that the driver learns of it through its watch.
    // spec: W-1, W-2
    pub async fn probe_watch(&mut self) -> Verdict {
        let watches = self.script.config.watch.enabled;
        let ledger = self
            .youngest()
            .filter(|_| watches)
            .and_then(|number| self.checks.last_ledger(number));
        let Some((id, name)) = ledger.and_then(|ledger| {
            let entry = ledger.entries.values().next()?;
            Some((entry.id, entry.pod()?.name.to_string()))
        }) else {
            return Ok(());
        };
        let touch = json!({"metadata": {"annotations": {"probe": "sim"}}});
        self.client.patch(&name, &touch).await;
        self.run_until(Instant::now() + MAX_WATCH_DELAY).await?;
        let state = self.cluster.state().await;
        let now = state
            .pod(NAMESPACE, &name)
            .map(|pod| text(pod, "/metadata/resourceVersion"));
        let known = (self.youngest()).and_then(|number| {
            self.checks
                .last_ledger(number)?
                .entry(id)?
                .pod()
                .map(|pod| pod.version.to_string())
        });
        if now == known.as_deref() {
            return Ok(());
        }
        Err(format!(
            "W-2: {name} was changed, and the watch did not show it: {now:?}, not {known:?}"
        ))
    }
}
