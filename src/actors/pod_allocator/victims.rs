//! Chooses the executors to retire when there are more than wanted (spec ).

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use crate::model::executor::Class;
use crate::model::pod::PendingStage;
use crate::model::{Entry, ExecutorId, ProfileName, Snapshot, Tick};
use crate::planted::{self, Planted};

#[derive(Debug, Clone, Copy)]
pub struct SurplusRules {
    /// The least age of a request, and of the target, before an executor is retired.
    pub cancel_delay: Duration,
    /// Whether running executors are spared, unless their profile is being removed.
    pub pending_only: bool,
    /// How long a registered executor may drain.
    pub decommission_timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Victims {
    pub ids: Vec<ExecutorId>,
    /// When an executor that is too young now will be old enough.
    pub more_at: Option<Tick>,
}

/// Chooses the victims of one profile. Reads the entries only if there is a surplus.
pub fn choose(
    snapshot: &Snapshot,
    profile: &ProfileName,
    settings: &SurplusRules,
    now: Tick,
) -> Victims {
    let counts = snapshot.counts(profile);
    let target = snapshot.target(profile);
    let own = || {
        snapshot
            .entries
            .values()
            .filter(|entry| entry.profile == *profile)
    };
    let mut victims = Victims::default();
    let surplus = counts.live().saturating_sub(target);
    if surplus > 0 && counts.pending > 0 {
        waiting_surplus(own(), surplus, settings, now, &mut victims);
    }
    if planted::is(Planted::AdoptedChosen) {
        let adopted = own().filter(|entry| entry.adopted && entry.class().may_be_chosen());
        victims.ids.extend(adopted.map(|entry| entry.id));
    }
    let leaving = match planted::is(Planted::SurplusCountedTwice) {
        true => counts.leaving,
        false => 0,
    };
    let surplus = (counts.running + leaving).saturating_sub(target);
    let all_go = snapshot.is_removed(profile) || snapshot.failed.contains_key(profile);
    let spared = settings.pending_only && !all_go;
    if surplus > 0 && !spared {
        let since = snapshot
            .targets
            .get(profile)
            .map_or(Tick::default(), |t| t.since);
        let at = since + settings.cancel_delay;
        if now >= at {
            running_surplus(snapshot, own(), surplus, &mut victims);
        } else {
            victims.wait_for(at);
        }
    }
    victims
}

impl Victims {
    fn wait_for(&mut self, at: Tick) {
        self.more_at = Some(self.more_at.map_or(at, |known| known.min(at)));
    }
}

/// executors that do not run. The choice ignores age, so that the share of an executor that
/// is too young falls on no other one.
fn waiting_surplus<'a>(
    entries: impl Iterator<Item = &'a Arc<Entry>>,
    surplus: u32,
    settings: &SurplusRules,
    now: Tick,
    victims: &mut Victims,
) {
    let mut pending: Vec<(PendingStage, i32, Reverse<ExecutorId>, Tick)> = entries
        .filter_map(|entry| match entry.class() {
            Class::Pending(stage) => {
                Some((stage, deletion_cost(entry), Reverse(entry.id), entry.since))
            }
            _ => None,
        })
        .collect();
    pending.sort_unstable();
    for (_, _, Reverse(id), since) in pending.into_iter().take(surplus as usize) {
        let at = since + settings.cancel_delay;
        if now >= at {
            victims.ids.push(id);
        } else {
            victims.wait_for(at);
        }
    }
}

/// running executors: those on nodes that are about to leave first, then unregistered ones, then idle, then busy.
fn running_surplus<'a>(
    snapshot: &Snapshot,
    entries: impl Iterator<Item = &'a Arc<Entry>>,
    surplus: u32,
    victims: &mut Victims,
) {
    let stays = |entry: &Entry| snapshot.nodes.leaving_of(entry).is_none();
    let mut running: Vec<(bool, Activity, i32, Reverse<ExecutorId>)> = entries
        .filter(|entry| entry.class() == Class::Running)
        .map(|entry| {
            let (activity, cost) = (activity(entry), deletion_cost(entry));
            (stays(entry), activity, cost, Reverse(entry.id))
        })
        .collect();
    running.sort_unstable();
    let chosen = running
        .into_iter()
        .take(surplus as usize)
        .map(|(.., Reverse(id))| id);
    victims.ids.extend(chosen);
}

/// In the order in which executors are retired (spec A-41).
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Activity {
    Unregistered,
    Idle,
    Busy,
}

fn activity(entry: &Entry) -> Activity {
    match (entry.session.registered, entry.session.idle) {
        (false, _) => Activity::Unregistered,
        (true, true) => Activity::Idle,
        (true, false) => Activity::Busy,
    }
}

fn deletion_cost(entry: &Entry) -> i32 {
    entry.pod().map_or(0, |pod| pod.deletion_cost)
}

#[cfg(test)]
mod tests;
