//! Checks that no driver lets an executor wait for its start longer than the configuration allows (spec ).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use boatswain::config::Config;
use boatswain::model::executor::Class;
use boatswain::model::pod::{ContainerState, Scheduling};
use boatswain::model::{Entry, ExecutorId, Pod, PodUid, Snapshot, Tick};
use tokio::time::Instant;

use super::Verdict;

/// The default limit for waiting for an image (spec A-51).
pub const IMAGE_TIMEOUT: Duration = Duration::from_secs(300);

/// The default limit for a node that prepares a pod (spec O-79).
const PREPARATION_TIMEOUT: Duration = Duration::from_secs(600);

/// A driver that was not checked for this long was not running and could not act.
const MAX_CHECK_GAP: Duration = Duration::from_secs(5);

/// Tolerance for noticing that a deadline has passed, on top of two rounds.
const NOTICE_TOLERANCE: Duration = Duration::from_secs(5);

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
    last_check: Option<Instant>,
    /// When each full list was requested, and when the ledger first had it.
    lists: Vec<(Instant, Instant)>,
    by_pod: BTreeMap<PodUid, Wait>,
}

#[derive(Debug)]
struct Wait {
    id: ExecutorId,
    since: Instant,
    reason: WaitReason,
    reason_since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitReason {
    /// Something that cannot appear without intervention.
    NeedsIntervention,
    Image,
    Preparation,
    Other,
}

impl Deadlines {
    pub fn of(config: &Config) -> Self {
        let allocation = &config.allocation;
        Self {
            pending: allocation.pending_timeout,
            stuck: allocation.stuck_after,
            late: 2 * allocation.interval + NOTICE_TOLERANCE,
            drivers: BTreeMap::new(),
        }
    }

    /// Updates the waiting executors from the changed entries of a driver's ledger.
    pub fn update(&mut self, driver: usize, ledger: &Snapshot, changed: &[Arc<Entry>]) {
        let waits = self.drivers.entry(driver).or_default();
        let is_there = |id, uid: &PodUid| ledger.entry(id).and_then(|e| e.uid()) == Some(uid);
        waits.by_pod.retain(|uid, wait| is_there(wait.id, uid));
        let now = Instant::now();
        for entry in changed {
            let Some(pod) = entry.pod() else { continue };
            let is_pending = matches!(entry.class(), Class::Pending(_));
            if !is_pending || matches!(pod.scheduling, Scheduling::Gated(_)) {
                waits.by_pod.remove(&pod.uid);
                continue;
            }
            let reason = wait_reason(pod);
            let wait = waits.by_pod.entry(pod.uid.clone()).or_insert(Wait {
                id: entry.id,
                since: now,
                reason,
                reason_since: now,
            });
            if wait.reason != reason {
                (wait.reason, wait.reason_since) = (reason, now);
            }
        }
    }

    /// Records when the newest full list was requested that the ledger has of this driver, which started then.
    pub fn listed(&mut self, driver: usize, started: Instant, ledger: &Snapshot) {
        let Some(list) = &ledger.full_list else {
            return;
        };
        let asked = started + list.asked.since(Tick::default());
        let lists = &mut self.drivers.entry(driver).or_default().lists;
        if lists.last().is_none_or(|(last, _)| *last < asked) {
            lists.push((asked, Instant::now()));
        }
    }

    /// Checks the deadlines of a driver that runs and may act. It acts by a list that was requested after the deadline,
    /// which it may count from a little later.
    // spec
    pub fn check(&mut self, driver: usize) -> Verdict {
        let now = Instant::now();
        let waits = self.drivers.entry(driver).or_default();
        let before = waits.last_check.replace(now);
        if before.is_none_or(|before| now - before > MAX_CHECK_GAP) {
            for wait in waits.by_pod.values_mut() {
                (wait.since, wait.reason_since) = (now, now);
            }
        }
        for wait in waits.by_pod.values() {
            let pending = self.pending.map(|limit| wait.since + limit);
            let until = match wait.reason {
                WaitReason::NeedsIntervention => {
                    let until = wait.reason_since + self.stuck;
                    Some(pending.map_or(until, |pending| pending.min(until)))
                }
                WaitReason::Image => Some(pending.unwrap_or(wait.reason_since + IMAGE_TIMEOUT)),
                WaitReason::Preparation => {
                    Some(pending.unwrap_or(wait.reason_since + PREPARATION_TIMEOUT))
                }
                WaitReason::Other => pending,
            };
            let seen = until.and_then(|until| {
                let after = |(asked, _): &&(Instant, Instant)| *asked > until + self.late;
                waits.lists.iter().find(after).map(|(_, seen)| *seen)
            });
            if seen.is_some_and(|seen| now > seen + self.late) {
                return Err(format!(
                    "A-50: d{driver} lets {} wait for {:?}, for {:?} of it with the reason {:?}",
                    wait.id,
                    now - wait.since,
                    now - wait.reason_since,
                    wait.reason
                ));
            }
        }
        Ok(())
    }
}

fn wait_reason(pod: &Pod) -> WaitReason {
    let reason = match &pod.executor {
        ContainerState::Waiting { reason, .. } => reason.as_deref(),
        _ => None,
    };
    match reason {
        Some("CreateContainerConfigError") => WaitReason::NeedsIntervention,
        Some("ImagePullBackOff") => WaitReason::Image,
        _ if pod.awaits_node && pod.scheduling == Scheduling::Bound => WaitReason::Preparation,
        _ => WaitReason::Other,
    }
}
