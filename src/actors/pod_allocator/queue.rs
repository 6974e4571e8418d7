//! Decides what a queue is asked for, in blocks of executors, and how many executors of each block may be requested
//! (spec ).
//!
//! How many executors a block has is counted in the snapshot. The blocks are kept as they were last read.

mod writes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::kubernetes::workloads::{Block, BlockState, Placement};
use crate::model::executor::{Class, LeaveMethod, LeaveReason};
use crate::model::{Entry, ExecutorId, PodUid, ProfileName, Snapshot, Tick};
use boatswain_agent::backoff::Backoff;

use super::decision::{Action, Decision, Notice};
use super::demand::Demand;
use super::pause::{Cause, Pause};

/// The time between two rounds of writes, however often the targets change, and between two looks at a block that may
/// be admitted any moment.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// So long after it an eviction is obeyed at the latest.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Most blocks are admitted sooner than this, and are not worth a line in the log.
const PATIENCE: Duration = Duration::from_secs(10);

/// The wait before the blocks are read again that could not be read.
const TRIES: Backoff = Backoff {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(60),
};

pub use writes::{Size, Write};

#[derive(Debug)]
pub struct Queue {
    profiles: BTreeMap<ProfileName, Known>,
    /// As last read, without what was given back since; `None` before that.
    blocks: Option<Vec<Block>>,
    under_way: bool,
    look_at: Tick,
    write_at: Tick,
    trouble: Option<Trouble>,
    /// The blocks of the executors that this driver requested. Their pods may not have been seen yet.
    given: BTreeMap<ExecutorId, u32>,
    /// What this round may still request: numbers of blocks, and how many executors of each.
    free: BTreeMap<ProfileName, Vec<(u32, u32)>>,
    waits: BTreeMap<ProfileName, Wait>,
    /// Whether it was said that Kueue queues pods a second time.
    said_twice: bool,
}

#[derive(Debug)]
struct Known {
    /// Of the template that the profile's blocks are made with now.
    hash: Arc<str>,
    /// So many are admitted together, or none.
    least: u32,
}

#[derive(Debug)]
struct Trouble {
    cause: Cause,
    why: Arc<str>,
    since: Tick,
    /// How often in a row the blocks could not be read.
    unread: u32,
}

#[derive(Debug)]
struct Wait {
    since: Tick,
    said: bool,
}

/// What was read after the writes.
#[derive(Debug)]
pub struct Read {
    /// `None`: they could not be read.
    pub blocks: Option<Vec<Block>>,
    /// Why something could not be read or written: a refusal by its own word, all else as [`Cause::Queued`].
    pub trouble: Option<(Cause, Arc<str>)>,
}

/// The executors of a block.
#[derive(Debug, Clone, Copy, Default)]
struct Members {
    live: u32,
    /// With those that are ending: their pods use the quota.
    all: u32,
}

#[derive(Debug, Default)]
struct Usage {
    of: BTreeMap<u32, Members>,
    /// Live executors without a block: they were requested before there was a queue.
    outside: BTreeMap<ProfileName, u32>,
    /// Executors of blocks whose Workload is gone: their pods use quota that Kueue believes to be free.
    strays: BTreeMap<ProfileName, u32>,
    /// The LocalQueue in which Kueue has queued a pod of a block by itself as well.
    twice: Option<Arc<str>>,
}

impl Usage {
    fn of(&self, block: &Block) -> Members {
        self.of.get(&block.number).copied().unwrap_or_default()
    }
}

impl Queue {
    pub fn new(now: Tick) -> Self {
        Self {
            profiles: BTreeMap::new(),
            blocks: None,
            under_way: false,
            look_at: now,
            write_at: now,
            trouble: None,
            given: BTreeMap::new(),
            free: BTreeMap::new(),
            waits: BTreeMap::new(),
            said_twice: false,
        }
    }

    /// Adds a profile, or replaces its template.
    pub fn add_profile(&mut self, profile: ProfileName, hash: Arc<str>, least: u32) {
        self.profiles.insert(profile, Known { hash, least });
    }

    /// Forgets a removed profile. Blocks of it that are left are given back.
    pub fn remove_profile(&mut self, profile: &ProfileName) {
        self.profiles.remove(profile);
        self.waits.remove(profile);
    }

    pub fn removed(&mut self, id: ExecutorId) {
        self.given.remove(&id);
    }

    pub fn server_is_back(&mut self, now: Tick) {
        self.look_at = now;
    }

    pub fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// How executors of blocks get to their nodes, as far as it is known, by the Workload's uid.
    pub fn placements(&self) -> BTreeMap<PodUid, Arc<Placement>> {
        let placement = |block: &Block| match &block.state {
            BlockState::Admitted { placement, .. } => Some((block.uid.clone(), placement.clone()?)),
            _ => None,
        };
        self.blocks.iter().flatten().filter_map(placement).collect()
    }

    /// The block that an executor was requested for.
    pub fn given(&self, id: ExecutorId) -> Option<(u32, Arc<Placement>)> {
        let number = *self.given.get(&id)?;
        let block = self.blocks.iter().flatten().find(|b| b.number == number)?;
        match &block.state {
            BlockState::Admitted { placement, .. } => Some((number, placement.clone()?)),
            _ => None,
        }
    }

    /// Chooses the executors whose quota was taken, and what to write; counts what may be requested.
    pub fn decide(
        &mut self,
        latest: &Snapshot,
        within: Duration,
        now: Tick,
        decision: &mut Decision,
    ) {
        let usage = self.usage(latest);
        self.evict(latest, within, decision);
        let may_write = self.trouble.is_none() && now >= self.write_at;
        let due = now >= self.look_at;
        if !self.under_way && (due || may_write) {
            let writes = match self.unread() {
                true => Vec::new(),
                false => self.writes(latest, &usage),
            };
            if !writes.is_empty() {
                self.write_at = now + WRITE_EVERY;
            }
            if due || !writes.is_empty() {
                self.under_way = true;
                decision.actions.push(Action::Queue(writes));
            }
        }
        if !self.under_way {
            decision.wake_at(Some(self.look_at), now);
            decision.wake_at(Some(self.write_at), now);
        }
        self.see_twice(usage.twice.as_ref(), decision);
        self.free = self.free(usage);
        self.wait(latest, now, decision);
    }

    /// The writes were carried out as far as possible, and then the blocks were read.
    pub fn read(&mut self, read: Read, now: Tick) -> Option<Notice> {
        self.under_way = false;
        let soon = self.waits.values().any(|wait| !wait.said);
        self.look_at = now + if soon { WRITE_EVERY } else { LOOK_EVERY };
        let unread = read.blocks.is_none();
        self.blocks = read.blocks.or(self.blocks.take());
        let Some((cause, why)) = read.trouble else {
            let trouble = self.trouble.take()?;
            let after = now.since(trouble.since);
            return Some(Notice::QueueWorks { after });
        };
        let known = self.trouble.take();
        let tries = known.as_ref().map_or(0, |known| known.unread) + 1;
        let unread = if unread { tries } else { 0 };
        if unread > 0 {
            self.look_at = now + TRIES.delay(unread);
        }
        let trouble = Trouble {
            cause,
            why: Arc::clone(&why),
            since: known.as_ref().map_or(now, |known| known.since),
            unread,
        };
        self.trouble = Some(trouble);
        known.is_none().then_some(Notice::QueueTrouble { why })
    }

    pub fn limit(&self, demands: &mut [Demand]) {
        for demand in demands {
            demand.repeats.retain(|id| self.given(*id).is_some());
            demand.new = demand.new.min(self.free_of(&demand.profile));
        }
    }

    /// Gives an executor that is about to be requested a place in a block.
    pub fn give(&mut self, id: ExecutorId, profile: &ProfileName) {
        let blocks = self.free.get_mut(profile).into_iter().flatten();
        for (number, free) in blocks {
            if *free > 0 {
                *free -= 1;
                self.given.insert(id, *number);
                return;
            }
        }
    }

    /// Since when a profile has waited for the queue, if that has lasted or the queue cannot be used.
    pub fn pause_of(&self, profile: &ProfileName, lacks: bool) -> Option<Pause> {
        let waits = self.waits.get(profile).filter(|wait| wait.said);
        let trouble = self.trouble.as_ref().filter(|_| lacks);
        let since = waits.map(|wait| wait.since);
        Some(Pause {
            cause: (self.trouble.as_ref()).map_or(Cause::Queued, |trouble| trouble.cause),
            why: self.why(profile),
            since: since.or(trouble.map(|trouble| trouble.since))?,
            until: None,
        })
    }

    fn unread(&self) -> bool {
        self.trouble
            .as_ref()
            .is_some_and(|trouble| trouble.unread > 0)
    }

    fn free_of(&self, profile: &ProfileName) -> u32 {
        let blocks = self.free.get(profile).into_iter().flatten();
        blocks.fold(0, |sum, (_, free)| sum.saturating_add(*free))
    }

    fn block_of(&self, entry: &Entry) -> Option<u32> {
        let given = self.given.get(&entry.id).copied();
        given.or_else(|| entry.pod()?.block)
    }

    fn usage(&self, latest: &Snapshot) -> Usage {
        let mut usage = Usage::default();
        let blocks: BTreeSet<u32> = self.blocks.iter().flatten().map(|b| b.number).collect();
        for entry in latest.entries.values() {
            if usage.twice.is_none()
                && let Some(pod) = entry.pod().filter(|pod| pod.block.is_some())
            {
                usage.twice.clone_from(&pod.queue);
            }
            let class = entry.class();
            let (live, ended) = (
                class.is_live(),
                matches!(class, Class::Finished | Class::Gone),
            );
            match self.block_of(entry) {
                Some(number) => {
                    let members = usage.of.entry(number).or_default();
                    members.live += u32::from(live);
                    members.all += u32::from(!ended);
                    if !ended && !blocks.contains(&number) {
                        *usage.strays.entry(entry.profile.clone()).or_default() += 1;
                    }
                }
                None if live => *usage.outside.entry(entry.profile.clone()).or_default() += 1,
                None => {}
            }
        }
        usage
    }

    /// Retires the executors of blocks that are not admitted any more (spec A-93).
    fn evict(&self, latest: &Snapshot, within: Duration, decision: &mut Decision) {
        let Some(blocks) = &self.blocks else { return };
        let mut evicted: BTreeMap<(Arc<str>, bool), Vec<ExecutorId>> = BTreeMap::new();
        for entry in latest.entries.values().filter(|e| e.class().is_live()) {
            let Some(number) = self.block_of(entry) else {
                continue;
            };
            let why = match blocks.iter().find(|block| block.number == number) {
                Some(block) if may_run(block) => continue,
                Some(block) if !block.active => "its Workload was deactivated".into(),
                Some(block) if !block.deleting => Arc::clone(&block.why),
                Some(_) | None => "its Workload was deleted".into(),
            };
            let key = (why, entry.session.registered);
            evicted.entry(key).or_default().push(entry.id);
        }
        for ((why, registered), ids) in evicted {
            let how = match registered {
                true => LeaveMethod::Drain { within },
                false => LeaveMethod::Delete,
            };
            (decision.actions).push(Action::Retire(ids, LeaveReason::QuotaLost(why), how));
        }
    }

    /// What each block may still be requested of. Nothing while the blocks cannot be read.
    fn free(&self, mut usage: Usage) -> BTreeMap<ProfileName, Vec<(u32, u32)>> {
        let mut free: BTreeMap<ProfileName, Vec<(u32, u32)>> = BTreeMap::new();
        if self.unread() {
            return free;
        }
        for block in self.blocks.iter().flatten().filter(|b| self.is_current(b)) {
            let placed = matches!(&block.state, BlockState::Admitted { placement, .. } if placement.is_some());
            let mut slots = slots(block).saturating_sub(usage.of(block).all);
            if !may_run(block) || !placed {
                continue;
            }
            if let Some(strays) = usage.strays.get_mut(&block.profile) {
                let taken = slots.min(*strays);
                (slots, *strays) = (slots - taken, *strays - taken);
            }
            if slots > 0 {
                let of = free.entry(block.profile.clone()).or_default();
                of.push((block.number, slots));
            }
        }
        free
    }

    /// Whether it was made with the profile's template.
    fn is_current(&self, block: &Block) -> bool {
        let known = self.profiles.get(&block.profile);
        known.is_some_and(|known| known.hash == block.hash)
    }

    /// Says once that Kueue has queued a pod of a block by itself as well (spec A-111).
    fn see_twice(&mut self, queue: Option<&Arc<str>>, decision: &mut Decision) {
        if let Some(queue) = queue.filter(|_| !self.said_twice) {
            self.said_twice = true;
            decision.say(Notice::QueuedTwice {
                queue: Arc::clone(queue),
            });
        }
    }

    fn wait(&mut self, latest: &Snapshot, now: Tick, decision: &mut Decision) {
        for (profile, target) in &latest.targets {
            let lacks = latest.counts(profile).live() < target.executors;
            if lacks && self.free_of(profile) == 0 {
                let began = Wait {
                    since: now,
                    said: false,
                };
                let wait = self.waits.entry(profile.clone()).or_insert(began);
                let say_at = wait.since + PATIENCE;
                decision.wake_at(Some(say_at), now);
                if !wait.said && now >= say_at {
                    wait.said = true;
                    let why = self.why(profile);
                    let profile = profile.clone();
                    decision.say(Notice::Queued { profile, why });
                }
            } else if let Some(wait) = self.waits.remove(profile)
                && wait.said
            {
                decision.say(Notice::Admitted {
                    profile: profile.clone(),
                    after: now.since(wait.since),
                });
            }
        }
    }

    fn why(&self, profile: &ProfileName) -> Arc<str> {
        if let Some(trouble) = &self.trouble {
            return Arc::clone(&trouble.why);
        }
        let mut blocks = self.blocks.iter().flatten();
        let waits = |block: &&Block| block.profile == *profile && !may_run(block);
        match blocks.find(waits) {
            Some(block) if !block.active => {
                format!("the Workload {} is deactivated", block.name).into()
            }
            Some(block) => format!("the Workload {}: {}", block.name, block.why).into(),
            None => "the executors that had the quota are still ending".into(),
        }
    }
}

fn may_run(block: &Block) -> bool {
    let admitted = matches!(block.state, BlockState::Admitted { .. });
    admitted && block.active && !block.deleting
}

/// How many pods the block has quota for, or asks for.
fn slots(block: &Block) -> u32 {
    let asked = block.count.saturating_sub(block.reclaimed);
    match block.state {
        BlockState::Queued | BlockState::Evicted => asked,
        BlockState::Reserved(pods) | BlockState::Admitted { pods, .. } => asked.min(pods),
    }
}

#[cfg(test)]
mod tests;
