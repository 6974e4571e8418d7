//! The status as the API shows it (spec O-42, O-43), made from a snapshot on request.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use crate::actors::api_health::refused_writes::RefusedWrite;
use crate::actors::driver_backend::pools::PoolView;
use crate::actors::driver_backend::profiles::Profiles;
use crate::actors::pod_allocator::pause::Pause;
use crate::kubernetes::ProfileSpec;
use crate::kubernetes::pod_template::NO_IMAGE;
use crate::model::executor::Class;
use crate::model::pod::PendingStage;
use crate::model::quantity::memory_text;
use crate::model::snapshot::{Target, asked};
use crate::model::{ProfileName, Snapshot, Tick};

/// The number of losses in the status.
pub const LOSSES: usize = 10;

/// The content of `boatswain status`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatusView {
    pub app: String,
    pub incarnation: u64,
    pub driver: DriverView,
    /// Whether adoption is complete, so that the executors are known.
    pub adopted: bool,
    /// The time of this status.
    pub time: Timestamp,
    /// Whether the application is ready.
    pub ready: bool,
    /// Why the driver suspects itself, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<DegradedView>,
    /// The writes that the API server has refused for long.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused_writes: Vec<RefusedWriteView>,
    /// The hold, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldView>,
    pub profiles: BTreeMap<String, ProfileView>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, PoolView>,
    /// The last losses, newest first.
    pub losses: Vec<LossView>,
}

/// Which program the driver is, and where its executors are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DriverView {
    pub version: &'static str,
    pub namespace: String,
    /// The URL of the API server, or `in this process`.
    pub api_server: String,
    /// Since its process was started.
    pub up_seconds: u64,
}

/// The driver suspects itself, and gives up no silent executor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DegradedView {
    pub why: String,
    pub for_seconds: u64,
}

/// Writes of one kind that the API server refuses; they are tried again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedWriteView {
    pub verb: &'static str,
    pub resource: String,
    /// The server's message, or the right that is missing and the rule that would grant it.
    pub why: String,
    pub for_seconds: u64,
}

impl RefusedWriteView {
    pub fn of(write: &RefusedWrite, now: Tick) -> Self {
        Self {
            verb: write.verb,
            resource: write.resource.to_string(),
            why: write.why.to_string(),
            for_seconds: now.since(write.since).as_secs(),
        }
    }
}

/// A hold, with the targets that a resume restores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldView {
    /// The requester; `None` if the application was silent for too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub targets: BTreeMap<String, u32>,
}

impl HeldView {
    pub fn of(snapshot: &Snapshot) -> Option<Self> {
        let hold = snapshot.held.as_ref()?;
        let target = |(profile, target): (ProfileName, u32)| (profile.to_string(), target);
        Some(Self {
            by: hold.by.as_deref().map(str::to_owned),
            targets: asked(&snapshot.targets).into_iter().map(target).collect(),
        })
    }
}

/// The numbers of a profile's executors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ProfileView {
    /// The target.
    pub target: u32,
    pub running: u32,
    /// Have registered with the driver.
    pub registered: u32,
    /// Have a pod that does not run yet.
    pub pending: u32,
    /// Are requested and have no pod yet.
    pub requested: u32,
    /// Are requested, but the answer of the API server is missing.
    pub unanswered: u32,
    /// May or may not run; their pods' state is unknown.
    pub uncertain: u32,
    /// Are leaving; they do not count.
    pub leaving: u32,
    /// What pending executors wait for, the most frequent first.
    pub waiting_for: Vec<WaitView>,
    /// What an executor is made of; `None` if this driver cannot read the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<Arc<ContainerView>>,
    /// Whether the profile is being removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub removing: bool,
    /// Why the profile has failed, if it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// To how much the memory limit of new executors has grown, as a Kubernetes quantity (spec L-43).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grown_memory: Option<String>,
    /// Why missing executors are not requested, if that is so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PauseView {
    /// The reason in one word.
    pub cause: &'static str,
    /// The reason as text.
    pub why: String,
    pub for_seconds: u64,
    /// The seconds until the next attempt; `None` during an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again_in_seconds: Option<u64>,
}

impl PauseView {
    pub fn of(pause: &Pause, now: Tick) -> Self {
        Self {
            cause: pause.cause.as_str(),
            why: pause.why.to_string(),
            for_seconds: now.since(pause.since).as_secs(),
            again_in_seconds: pause.until.map(|until| now.until(until).as_secs()),
        }
    }
}

/// An executor's container, in the API's terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContainerView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// By resource, such as `memory`: `4Gi`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, String>,
}

impl ContainerView {
    pub fn of(spec: &ProfileSpec) -> Self {
        let container = spec.executor_container();
        let image = container["image"].as_str();
        // A template may have a quantity without quotes.
        let quantity =
            |value: &Value| (value.as_str()).map_or_else(|| value.to_string(), str::to_owned);
        let resources = |kind: &str| {
            let resources = container["resources"][kind].as_object();
            (resources.into_iter().flatten())
                .map(|(resource, value)| (resource.clone(), quantity(value)))
                .collect()
        };
        Self {
            image: image.filter(|image| *image != NO_IMAGE).map(str::to_owned),
            requests: resources("requests"),
            limits: resources("limits"),
        }
    }
}

/// A reason for which executors are pending.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitView {
    /// The cluster's own message.
    pub why: String,
    /// The number of executors with this reason.
    pub executors: u32,
}

/// An executor that ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LossView {
    pub executor: u64,
    pub profile: String,
    /// When the driver learnt of the end.
    pub time: Timestamp,
    /// The class of the reason.
    pub reason: String,
    /// The reason as text.
    pub why: String,
}

/// The numbers of all profiles: O(executors) if any is pending.
pub fn profiles(
    snapshot: &Snapshot,
    known: &Profiles,
    registered: &BTreeMap<ProfileName, u32>,
    paused: &BTreeMap<ProfileName, Pause>,
    now: Tick,
) -> BTreeMap<String, ProfileView> {
    let mut waiting: BTreeMap<&ProfileName, BTreeMap<String, u32>> = BTreeMap::new();
    // Their programs registered and ended; the ones to come have not registered.
    let mut restarting: BTreeMap<&ProfileName, u32> = BTreeMap::new();
    // The fleet is traversed only if an executor is pending, which is rare.
    let anybody = snapshot.counts.values().any(|counts| counts.pending > 0);
    for entry in anybody
        .then(|| snapshot.entries.values())
        .into_iter()
        .flatten()
    {
        if entry.class() == Class::Pending(PendingStage::Restarting) && entry.session.registered {
            *restarting.entry(&entry.profile).or_default() += 1;
        }
        if matches!(entry.class(), Class::Pending(_))
            && let Some(why) = entry.pod().and_then(|pod| pod.why_pending())
        {
            *waiting
                .entry(&entry.profile)
                .or_default()
                .entry(why)
                .or_default() += 1;
        }
    }
    let view = |profile: &ProfileName, target: &Target| {
        let counts = snapshot.counts(profile);
        let reasons = waiting.get(profile).into_iter().flatten();
        let mut waiting_for: Vec<_> = reasons
            .map(|(why, executors)| WaitView {
                why: why.clone(),
                executors: *executors,
            })
            .collect();
        waiting_for.sort_by_key(|wait| std::cmp::Reverse(wait.executors));
        ProfileView {
            target: target.executors,
            running: counts.running,
            registered: (registered.get(profile).copied().unwrap_or(0))
                .saturating_sub(restarting.get(profile).copied().unwrap_or(0)),
            pending: counts.pending,
            requested: counts.sent,
            unanswered: counts.unknown,
            uncertain: counts.uncertain,
            leaving: counts.leaving + counts.terminating,
            waiting_for,
            container: known.container(profile),
            removing: target.removed,
            failed: snapshot.failed.get(profile).map(ToString::to_string),
            grown_memory: snapshot
                .memory_limits
                .get(profile)
                .copied()
                .map(memory_text),
            paused: paused.get(profile).map(|pause| PauseView::of(pause, now)),
        }
    };
    (snapshot.targets.iter())
        .map(|(profile, target)| (profile.to_string(), view(profile, target)))
        .collect()
}
