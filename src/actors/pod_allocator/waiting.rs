//! Finds executors that have been pending for too long (spec, O-79).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::model::executor::{Class, LeaveReason};
use crate::model::pod::{ContainerState, PendingStage, Scheduling};
use crate::model::{Entry, ExecutorId, Pod, PodState, Tick};
use crate::planted::{self, Planted};

/// How long an image may be missing if there is no `pending_timeout` (spec A-51).
const IMAGE: Duration = Duration::from_secs(300);

/// How long a node may prepare a pod if there is no `pending_timeout` (spec O-79). Kubernetes detaches a volume from a lost
/// node after six minutes.
const PREPARATION: Duration = Duration::from_secs(600);

/// How long an init container may run, or a native sidecar may not be ready, if there is no `pending_timeout` (spec A-100).
/// It may load what an executor needs, which takes long.
const INIT: Duration = Duration::from_secs(3600);

const UNPREPARED: &str = "its node has not mounted its volumes or not set up its network";

/// Waiting reasons that do not end by themselves (spec A-100). An init container or native sidecar that fails again and
/// again is as good as one, whatever it shows in between.
const HOPELESS: [&str; 4] = [
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
];

/// Waiting reasons of a missing image (spec A-51).
const NO_IMAGE: [&str; 5] = [
    "ImagePullBackOff",
    "ErrImagePull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];

/// The kubelet's messages about containers that must not run as root and may do so (spec K-6).
const AS_ROOT: [&str; 2] = ["has runAsNonRoot and image", "breaks non-root policy"];

const ANOTHER_USER: &str = "; choose its user with the profile's security.run_as_user, or allow root with \
                            security.run_as_non_root = false";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitLimits {
    /// The limit whatever the reason; `None`: no limit.
    pub pending_timeout: Option<Duration>,
    /// The limit for reasons that do not end by themselves.
    pub stuck_after: Duration,
}

/// The pending executors that have a deadline.
#[derive(Debug)]
pub struct Waiting {
    settings: WaitLimits,
    /// Held by a scheduling gate. The time begins when the gate is removed.
    gated: BTreeSet<ExecutorId>,
    waits: BTreeMap<ExecutorId, Wait>,
    order: BTreeSet<(Tick, ExecutorId)>,
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Tick,
    for_what: What,
    /// Since when the reason has been the same.
    so_since: Tick,
    until: Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Hopeless,
    Image,
    Preparation,
    Init,
    Anything,
}

impl Waiting {
    pub fn new(settings: WaitLimits) -> Self {
        Self {
            settings,
            gated: BTreeSet::new(),
            waits: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }

    /// Takes over new limits, for each executor when it is next seen.
    pub fn reconfigure(&mut self, settings: WaitLimits) {
        self.settings = settings;
    }

    /// An executor has changed.
    pub fn observe(&mut self, entry: &Entry, now: Tick) {
        let id = entry.id;
        let before = self.remove(id);
        let Some(bound) = entry
            .bound()
            .filter(|_| matches!(entry.class(), Class::Pending(_)))
        else {
            self.gated.remove(&id);
            return;
        };
        if matches!(bound.pod.scheduling, Scheduling::Gated(_)) {
            self.gated.insert(id);
            return;
        }
        let restarts = bound.pod.state() == PodState::Pending(PendingStage::Restarting);
        let begins = match self.gated.remove(&id) || restarts {
            true => now,
            false => bound.since,
        };
        let since = before.map_or(begins, |wait| wait.since);
        let for_what = what(&bound.pod);
        let so_since =
            (before.filter(|wait| wait.for_what == for_what)).map_or(now, |w| w.so_since);
        // Kubernetes starts it again, however long its pauses are.
        let pending = (self.settings.pending_timeout)
            .filter(|_| !restarts)
            .map(|most| since + most);
        let until = match for_what {
            What::Hopeless => {
                let until = so_since + self.settings.stuck_after;
                Some(pending.map_or(until, |pending| pending.min(until)))
            }
            What::Image => Some(pending.unwrap_or(so_since + IMAGE)),
            What::Preparation => Some(pending.unwrap_or(so_since + PREPARATION)),
            What::Init => Some(pending.unwrap_or(so_since + INIT)),
            What::Anything => pending,
        };
        if let Some(until) = until.filter(|_| !planted::is(Planted::WaitedForEver)) {
            let wait = Wait {
                since,
                for_what,
                so_since,
                until,
            };
            self.waits.insert(id, wait);
            self.order.insert((until, id));
        }
    }

    /// An executor has left the ledger.
    pub fn removed(&mut self, id: ExecutorId) {
        self.remove(id);
        self.gated.remove(&id);
    }

    /// The executors that still wait by the newest full list, which was requested after their deadline, and why. Each is
    /// returned once. What is known without such a list may be old: they may run.
    pub fn overdue<'a>(
        &mut self,
        entry: impl Fn(ExecutorId) -> Option<&'a Arc<Entry>>,
        listed: Option<Tick>,
        now: Tick,
    ) -> Vec<(ExecutorId, LeaveReason)> {
        let mut overdue = Vec::new();
        while let Some(&(until, id)) = self.order.first()
            && listed.is_some_and(|listed| until <= listed)
        {
            let wait = self.remove(id);
            let waits = |entry: &&Arc<Entry>| matches!(entry.class(), Class::Pending(_));
            let pod = entry(id).filter(waits).and_then(|entry| entry.pod());
            if let Some((wait, pod)) = wait.zip(pod) {
                let words = Arc::from(words(pod));
                let (since, so_since) = (now.since(wait.since), now.since(wait.so_since));
                let hopeless =
                    wait.for_what == What::Hopeless && so_since >= self.settings.stuck_after;
                overdue.push((
                    id,
                    match hopeless {
                        true => LeaveReason::NeverStarts(so_since, words),
                        false => LeaveReason::PendingTimeout(since, words),
                    },
                ));
            }
        }
        overdue
    }

    /// The next deadline.
    pub fn next_at(&self) -> Option<Tick> {
        self.order.first().map(|(at, _)| *at)
    }

    fn remove(&mut self, id: ExecutorId) -> Option<Wait> {
        let wait = self.waits.remove(&id)?;
        self.order.remove(&(wait.until, id));
        Some(wait)
    }
}

fn what(pod: &Pod) -> What {
    let reason = match &pod.executor {
        ContainerState::Waiting { reason, .. } => reason.as_deref().unwrap_or_default(),
        ContainerState::Absent | ContainerState::Running { .. } | ContainerState::Terminated(_) => {
            ""
        }
    };
    // A container that the executor's waits for has ended before it was ready.
    let fails = (pod.init.as_ref()).is_some_and(|init| init.restarts > 0);
    if fails || HOPELESS.contains(&reason) {
        What::Hopeless
    } else if NO_IMAGE.contains(&reason) {
        What::Image
    } else if awaits_node(pod) {
        What::Preparation
    } else if pod.init.is_some() {
        What::Init
    } else {
        What::Anything
    }
}

fn awaits_node(pod: &Pod) -> bool {
    pod.awaits_node && pod.scheduling == Scheduling::Bound
}

/// The cluster's reason, with a hint if boatswain's own setting forbids root.
pub fn words(pod: &Pod) -> String {
    match &pod.executor {
        ContainerState::Waiting {
            reason: Some(reason),
            message: Some(message),
        } => {
            let as_root = AS_ROOT.iter().any(|said| message.contains(said));
            let hint = match (as_root, &pod.init) {
                (false, _) => String::new(),
                (true, None) => ANOTHER_USER.to_owned(),
                // The profile's keys are about the executor's container; the others may be fine.
                (true, Some(init)) => format!(
                    "; this is {init}: choose its user, or allow it root and its capabilities, in its own \
                     securityContext in the pod template"
                ),
            };
            format!("{reason}: {message}{hint}")
        }
        _ => {
            let why = pod.why_pending();
            let why = why.unwrap_or_else(|| "pending".to_owned());
            match awaits_node(pod) {
                true => format!("{why}: {UNPREPARED}"),
                false => why,
            }
        }
    }
}

#[cfg(test)]
mod init_containers;
#[cfg(test)]
mod tests;
