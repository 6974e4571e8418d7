//! Checks after convergence that the driver's watch is alive. Polls would hide a dead watch for long.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::checks::Verdict;
use crate::objects::{NAMESPACE, text};
use crate::world::World;

/// Without faults a watch event arrives within milliseconds.
const HEARD_WITHIN: Duration = Duration::from_secs(2);

impl World {
    /// Changes a pod and checks that the driver learns of it through its watch.
    // spec: W-1, W-2
    pub async fn probe(&mut self) -> Verdict {
        let listens = self.script.config.watch.enabled;
        let ledger = self
            .youngest()
            .filter(|_| listens)
            .and_then(|number| self.checks.last(number));
        let Some((id, name)) = ledger.and_then(|ledger| {
            let entry = ledger.entries.values().next()?;
            Some((entry.id, entry.pod()?.name.to_string()))
        }) else {
            return Ok(());
        };
        let touch = json!({"metadata": {"annotations": {"probe": "is anybody there"}}});
        self.hand.patch(&name, &touch).await;
        self.until(Instant::now() + HEARD_WITHIN).await?;
        let state = self.cluster.state().await;
        let now = state
            .pod(NAMESPACE, &name)
            .map(|pod| text(pod, "/metadata/resourceVersion"));
        let heard = (self.youngest()).and_then(|number| {
            self.checks
                .last(number)?
                .entry(id)?
                .pod()
                .map(|pod| pod.version.to_string())
        });
        if now == heard.as_deref() {
            return Ok(());
        }
        Err(format!(
            "W-2: {name} was changed, and the watch did not show it: {now:?}, not {heard:?}"
        ))
    }
}
