//! Checks that no driver lets an executor wait for its start longer than the configuration allows (spec ).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use boatswain::config::Config;
use boatswain::model::executor::Class;
use boatswain::model::pod::{ContainerState, Scheduling};
use boatswain::model::{Entry, ExecutorId, Pod, PodUid, Snapshot};
use tokio::time::Instant;

use super::Verdict;

/// The default limit for waiting for an image (spec A-51).
pub const IMAGE: Duration = Duration::from_secs(300);

/// A driver that was not checked for this long was not running and could not act.
const AWAY: Duration = Duration::from_secs(5);

/// Tolerance for noticing that a deadline has passed, on top of two rounds.
const NOTICED: Duration = Duration::from_secs(5);

/// The waiting executors in each driver's ledger.
#[derive(Debug, Default)]
pub struct Deadlines {
    pending: Option<Duration>,
    stuck: Duration,
    late: Duration,
    drivers: BTreeMap<usize, Waits>,
}

#[derive(Debug, Default)]
struct Waits {
    looked: Option<Instant>,
    of: BTreeMap<PodUid, Wait>,
}

#[derive(Debug)]
struct Wait {
    id: ExecutorId,
    since: Instant,
    for_what: What,
    so_since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Something that cannot appear without intervention.
    Hopeless,
    Image,
    Anything,
}

impl Deadlines {
    pub fn of(config: &Config) -> Self {
        let up = &config.allocation;
        Self {
            pending: up.pending_timeout,
            stuck: up.stuck_after,
            late: 2 * up.interval + NOTICED,
            drivers: BTreeMap::new(),
        }
    }

    /// Updates the waiting executors from the changed entries of a driver's ledger.
    pub fn see(&mut self, driver: usize, ledger: &Snapshot, changed: &[Arc<Entry>]) {
        let waits = self.drivers.entry(driver).or_default();
        let is_there = |id, uid: &PodUid| ledger.entry(id).and_then(|e| e.uid()) == Some(uid);
        waits.of.retain(|uid, wait| is_there(wait.id, uid));
        let now = Instant::now();
        for entry in changed {
            let Some(pod) = entry.pod() else { continue };
            let is_pending = matches!(entry.class(), Class::Pending(_));
            if !is_pending || pod.scheduling == Scheduling::Gated {
                waits.of.remove(&pod.uid);
                continue;
            }
            let for_what = for_what(pod);
            let wait = waits.of.entry(pod.uid.clone()).or_insert(Wait {
                id: entry.id,
                since: now,
                for_what,
                so_since: now,
            });
            if wait.for_what != for_what {
                (wait.for_what, wait.so_since) = (for_what, now);
            }
        }
    }

    /// Checks the deadlines of a driver that runs and may act.
    // spec
    pub fn hold(&mut self, driver: usize) -> Verdict {
        let now = Instant::now();
        let waits = self.drivers.entry(driver).or_default();
        let before = waits.looked.replace(now);
        if before.is_none_or(|before| now - before > AWAY) {
            for wait in waits.of.values_mut() {
                (wait.since, wait.so_since) = (now, now);
            }
        }
        for wait in waits.of.values() {
            let pending = self.pending.map(|most| wait.since + most);
            let until = match wait.for_what {
                What::Hopeless => {
                    let until = wait.so_since + self.stuck;
                    Some(pending.map_or(until, |pending| pending.min(until)))
                }
                What::Image => Some(pending.unwrap_or(wait.so_since + IMAGE)),
                What::Anything => pending,
            };
            if let Some(until) = until
                && now > until + self.late
            {
                return Err(format!(
                    "A-50: d{driver} lets {} wait for {:?}, of that {:?} for {:?}",
                    wait.id,
                    now - wait.since,
                    now - wait.so_since,
                    wait.for_what
                ));
            }
        }
        Ok(())
    }
}

fn for_what(pod: &Pod) -> What {
    let ContainerState::Waiting { reason, .. } = &pod.executor else {
        return What::Anything;
    };
    match reason.as_deref() {
        Some("CreateContainerConfigError") => What::Hopeless,
        Some("ImagePullBackOff") => What::Image,
        _ => What::Anything,
    }
}
