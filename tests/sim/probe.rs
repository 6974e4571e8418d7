//! Checks after convergence that the driver's watch is alive. Polls would hide a dead watch for long.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::checks::Verdict;
use crate::objects::{NAMESPACE, text};
use crate::world::World;

/// Without faults a watch event arrives within milliseconds.
const MAX_WATCH_DELAY: Duration = Duration::from_secs(2);

impl World {
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
