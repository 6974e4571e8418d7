//! What is shown of the driver to people and programs (spec O-42, O-43): made from a snapshot when it is asked for.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

use crate::actors::pod_allocator::pause::Pause;
use crate::kubernetes::record::Held;
use crate::model::executor::Class;
use crate::model::{Incarnation, ProfileName, Snapshot, Tick};

/// So many of the last losses are shown.
pub const LOSSES: usize = 10;

/// What `boatswain status` shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatusView {
    /// The application's id.
    pub app: String,
    /// Which start of the driver this is.
    pub incarnation: u64,
    /// Whether the driver has taken over, and knows what is there.
    pub adopted: bool,
    /// When this was so.
    pub time: Timestamp,
    /// Whether the application may begin (spec B-20).
    pub ready: bool,
    /// That the driver has reason to doubt itself, if it has (spec B-13).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<DegradedView>,
    /// That the executors are held, if they are (spec B-31).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<HeldView>,
    /// How far each profile has come.
    pub profiles: BTreeMap<String, ProfileView>,
    /// The executors that ended last, the newest first.
    pub losses: Vec<LossView>,
}

/// That the driver gives nobody up for being silent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DegradedView {
    /// Why.
    pub why: String,
    /// For how long, in seconds.
    pub for_seconds: u64,
}

/// What is wanted again once the executors are held no longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HeldView {
    /// Who asked for it; nobody, where the application has been silent for too long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// How many executors of each profile.
    pub targets: BTreeMap<String, u32>,
}

impl HeldView {
    /// How it is shown.
    pub fn of(held: &Held) -> Self {
        let target = |(profile, target): (&ProfileName, &u32)| (profile.to_string(), *target);
        Self {
            by: held.by.as_deref().map(str::to_owned),
            targets: held.targets.iter().map(target).collect(),
        }
    }
}

/// How far a profile has come.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ProfileView {
    /// How many are wanted.
    pub target: u32,
    /// How many run.
    pub running: u32,
    /// How many have registered with the driver.
    pub registered: u32,
    /// How many have a pod that does not run yet.
    pub pending: u32,
    /// How many were asked for and have no pod yet.
    pub requested: u32,
    /// How many were asked for, and the API server did not say whether it heard.
    pub unanswered: u32,
    /// Of how many it cannot be told at the moment whether they run.
    pub in_doubt: u32,
    /// How many are on their way out; they do not count.
    pub leaving: u32,
    /// What those that are pending wait for, the most frequent first.
    pub waiting_for: Vec<WaitView>,
    /// Why no more are asked for, though they are wanted, if that is so (spec A-31).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseView>,
}

/// Why no executors are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PauseView {
    /// In one word.
    pub cause: &'static str,
    /// For people.
    pub why: String,
    /// For how long that has been so, in seconds.
    pub for_seconds: u64,
    /// After how many seconds one is tried again; missing while one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again_in_seconds: Option<u64>,
}

impl PauseView {
    /// How it is shown now.
    pub fn of(pause: &Pause, now: Tick) -> Self {
        Self {
            cause: pause.cause.as_str(),
            why: pause.why.to_string(),
            for_seconds: now.since(pause.since).as_secs(),
            again_in_seconds: pause.until.map(|until| now.until(until).as_secs()),
        }
    }
}

/// What some executors wait for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WaitView {
    /// In the cluster's own words.
    pub why: String,
    /// How many wait for it.
    pub executors: u32,
}

/// An executor that ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LossView {
    /// Which one.
    pub executor: u64,
    /// Of which profile.
    pub profile: String,
    /// When this was learnt.
    pub time: Timestamp,
    /// Why, in one word (spec L-20).
    pub reason: String,
    /// Why, for people.
    pub why: String,
}

/// How far each profile has come: O(executors), for what the pending ones wait for.
pub fn profiles(
    snapshot: &Snapshot,
    registered: &BTreeMap<ProfileName, u32>,
    paused: &BTreeMap<ProfileName, Pause>,
    now: Tick,
) -> BTreeMap<String, ProfileView> {
    let mut waiting: BTreeMap<&ProfileName, BTreeMap<String, u32>> = BTreeMap::new();
    // Most of the time nobody waits, and then the fleet need not be gone through.
    let anybody = snapshot.counts.values().any(|counts| counts.pending > 0);
    for entry in anybody
        .then(|| snapshot.entries.values())
        .into_iter()
        .flatten()
    {
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
    let view = |profile: &ProfileName, target| {
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
            target,
            running: counts.running,
            registered: registered.get(profile).copied().unwrap_or(0),
            pending: counts.pending,
            requested: counts.sent,
            unanswered: counts.unknown,
            in_doubt: counts.doubtful,
            leaving: counts.leaving + counts.terminating,
            waiting_for,
            paused: paused.get(profile).map(|pause| PauseView::of(pause, now)),
        }
    };
    (snapshot.targets.iter())
        .map(|(profile, target)| (profile.to_string(), view(profile, target.executors)))
        .collect()
}

impl StatusView {
    /// Before anything is known.
    pub fn before_adoption(app: String, incarnation: Incarnation, time: Timestamp) -> Self {
        Self {
            app,
            incarnation: incarnation.0,
            adopted: false,
            ready: false,
            degraded: None,
            time,
            held: None,
            profiles: BTreeMap::new(),
            losses: Vec::new(),
        }
    }
}
