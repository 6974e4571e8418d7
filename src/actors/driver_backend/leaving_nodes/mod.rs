//! LeavingNodes: replaces executors on nodes that are about to leave, before these do: pure (spec B-71).
//!
//! More executors than requested are wanted meanwhile. As many of the old ones leave as run beyond the requested
//! number, or all of a node when half of its time is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::plan::Plan;
use crate::config::Config;
use crate::model::executor::{Class, LeaveMethod, LeaveReason};
use crate::model::news::{News, TargetChange};
use crate::model::node::LeavingNode;
use crate::model::{Entry, ExecutorId, ProfileName, Snapshot, Tick};
use crate::planted::{self, Planted};

/// An executor on a node that leaves has at least this long to finish.
const LEAST_DRAIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct LeavingNodes {
    config: Arc<Config>,
    /// How many executors of a profile are wanted in addition, by this part.
    surges: BTreeMap<ProfileName, u32>,
    /// The nodes whose executors were logged.
    logged: BTreeSet<Arc<str>>,
}

/// The fleet, as far as nodes matter.
#[derive(Debug, Default)]
struct Fleet<'a> {
    profiles: BTreeMap<ProfileName, Part<'a>>,
    /// How many executors on each node that is about to leave are to be replaced.
    on_node: BTreeMap<&'a Arc<str>, u32>,
    /// The nodes of all executors that have not ended.
    used: BTreeSet<&'a Arc<str>>,
}

/// The executors of a profile.
#[derive(Debug, Default)]
struct Part<'a> {
    /// Those whose node's time is over, or that do not run yet.
    at_once: Vec<On<'a>>,
    /// Those that may wait for replacements; the first node that leaves is first.
    waiting: Vec<On<'a>>,
    /// How many run elsewhere, and how many of these are registered.
    elsewhere: usize,
    registered: usize,
}

/// An executor, with its node.
#[derive(Debug, Clone, Copy)]
struct On<'a> {
    id: ExecutorId,
    runs: bool,
    registered: bool,
    node: &'a Arc<str>,
    leaving: &'a LeavingNode,
}

impl Part<'_> {
    /// How many executors run beyond the requested number. A registered one is only replaced by one that is registered.
    fn surplus(&self, asked: u32) -> usize {
        let needs_registration = self.waiting.iter().any(|on| on.registered);
        let elsewhere = match needs_registration {
            true => self.registered,
            false => self.elsewhere,
        };
        let asked = usize::try_from(asked).unwrap_or(usize::MAX);
        (elsewhere + self.waiting.len()).saturating_sub(asked)
    }
}

impl LeavingNodes {
    pub fn new(config: Arc<Config>) -> Self {
        Self {
            config,
            surges: BTreeMap::new(),
            logged: BTreeSet::new(),
        }
    }

    /// Reads the fleet only if a node is about to leave.
    pub fn decide(&mut self, snapshot: &Snapshot, now: Tick) -> Plan {
        let is_idle = snapshot.nodes.leaving.is_empty() && self.surges.is_empty();
        if is_idle || planted::is(Planted::LeavingNodesIgnored) {
            return Plan::default();
        }
        let mut fleet = self.fleet(snapshot, now);
        self.log(&fleet, snapshot);
        let mut news = forget_unused(&fleet, snapshot);
        for (profile, target) in &snapshot.targets {
            let before = self.surges.remove(profile).unwrap_or(0);
            let wants_none =
                target.removed || snapshot.held.is_some() || snapshot.failed.contains_key(profile);
            // A new target ends what was under way, and the roll replaces by itself.
            let is_others = target.surge != before && target.surge != 0;
            if wants_none || is_others {
                continue;
            }
            let mut part = fleet.profiles.remove(profile).unwrap_or_default();
            let surplus = part.surplus(target.asked).min(part.waiting.len());
            let replaced = part.waiting.drain(..surplus);
            let leave: Vec<On<'_>> = part.at_once.into_iter().chain(replaced).collect();
            let left = u32::try_from(part.waiting.len()).unwrap_or(u32::MAX);
            let surge = left.min(self.config.nodes.max_surge);
            if surge > 0 {
                self.surges.insert(profile.clone(), surge);
            }
            if leave.is_empty() && surge != target.surge {
                let (profile, by) = (profile.clone(), surge);
                news.push(News::Surge { profile, by });
            }
            news.extend(self.retire(profile, &leave, surge, now));
        }
        // Executors of a profile that has left the configuration are not replaced.
        (fleet.profiles.iter())
            .filter(|(profile, _)| !snapshot.targets.contains_key(*profile))
            .for_each(|(profile, part)| news.extend(self.retire(profile, &part.at_once, 0, now)));
        Plan {
            news,
            ..Plan::default()
        }
    }

    fn fleet<'a>(&self, snapshot: &'a Snapshot, now: Tick) -> Fleet<'a> {
        let half = self.config.nodes.notice / 2;
        let mut fleet = Fleet::default();
        for entry in snapshot.entries.values().filter(|entry| !entry.is_gone()) {
            fleet
                .used
                .extend(entry.pod().and_then(|pod| pod.node.as_ref()));
            let runs = entry.class() == Class::Running;
            let on = on_leaving(entry, snapshot);
            if on.is_none() && !runs {
                continue;
            }
            let part = fleet.profiles.entry(entry.profile.clone()).or_default();
            let Some(on) = on else {
                part.elsewhere += 1;
                part.registered += usize::from(entry.session.registered);
                continue;
            };
            *fleet.on_node.entry(on.node).or_default() += 1;
            match on.runs && now < on.leaving.since + half {
                true => part.waiting.push(on),
                false => part.at_once.push(on),
            }
        }
        for part in fleet.profiles.values_mut() {
            part.waiting.sort_by_key(|on| (on.leaving.since, on.id));
        }
        fleet
    }

    /// Logs each node once, as long as it is about to leave.
    fn log(&mut self, fleet: &Fleet<'_>, snapshot: &Snapshot) {
        (self.logged).retain(|node| snapshot.nodes.leaving.contains_key(node));
        for (&node, executors) in &fleet.on_node {
            if self.logged.insert(Arc::clone(node)) {
                let leaving = snapshot.nodes.leaving.get(node);
                let (node, why) = (&**node, leaving.map(|leaving| &*leaving.why));
                tracing::info!(
                    node,
                    why,
                    executors,
                    "a node is about to leave: its executors are replaced"
                );
            }
        }
    }

    /// One message for each node. Each has the target that fits it, so that neither a surplus nor a lack is seen in
    /// between.
    fn retire(&self, profile: &ProfileName, leave: &[On<'_>], surge: u32, now: Tick) -> Vec<News> {
        let mut by_node: BTreeMap<&Arc<str>, Vec<On<'_>>> = BTreeMap::new();
        for on in leave {
            by_node.entry(on.node).or_default().push(*on);
        }
        let mut runs_still = leave.iter().filter(|on| on.runs).count();
        (by_node.into_iter())
            .filter_map(|(node, on_node)| {
                let leaving = on_node.first()?.leaving;
                runs_still -= on_node.iter().filter(|on| on.runs).count();
                let later = u32::try_from(runs_still).unwrap_or(u32::MAX);
                let surge = surge.saturating_add(later).min(self.config.nodes.max_surge);
                Some(News::Retire {
                    ids: on_node.iter().map(|on| on.id).collect(),
                    aim: TargetChange::Surge([(profile.clone(), surge)].into()),
                    why: LeaveReason::NodeLeaving(format!("{node}: {}", leaving.why).into()),
                    how: LeaveMethod::Drain {
                        within: self.time_left(leaving, now),
                    },
                })
            })
            .collect()
    }

    /// How long an executor on this node may drain.
    fn time_left(&self, leaving: &LeavingNode, now: Tick) -> Duration {
        let left = now.until(leaving.since + self.config.nodes.notice);
        left.min(self.config.backend.decommission_timeout)
            .max(LEAST_DRAIN)
    }
}

/// A node that is gone is of no interest when no executor is on it.
fn forget_unused(fleet: &Fleet<'_>, snapshot: &Snapshot) -> Vec<News> {
    let nodes = &snapshot.nodes;
    (nodes.leaving.keys())
        .filter(|name| !nodes.by_name.contains_key(*name) && !fleet.used.contains(name))
        .map(|name| News::NodeUnused(Arc::clone(name)))
        .collect()
}

/// Where an executor is, if that is about to leave and the executor counts.
fn on_leaving<'a>(entry: &'a Entry, snapshot: &'a Snapshot) -> Option<On<'a>> {
    let (node, leaving) = snapshot.nodes.leaving_of(entry)?;
    let id = entry.id;
    let counts = entry.class().is_live() && entry.leaving.is_none();
    (counts && leaving.concerns(id)).then_some(On {
        id,
        runs: entry.class() == Class::Running,
        registered: entry.session.registered,
        node,
        leaving,
    })
}

#[cfg(test)]
mod tests;
