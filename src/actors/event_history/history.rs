//! The event history: all events in order, and those of each executor (spec B-50, B-51). Pure.
//!
//! Events are the differences between consecutive snapshots: exactly what the ledger knew.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use crate::model::{
    AppId, Batch, Ending, Entry, ExecutorId, Incarnation, Now, PodUid, ProfileName, Snapshot, Tick,
};

use crate::model::quantity::memory_text;
use crate::model::recorded_end::RecordedEnd;

use super::event::{Event, EventId, KindOfEnd, Step, What};
use boatswain_agent::protocol::Usage;

/// The most events that are kept. A reader that is further behind is informed of that.
const KEPT_EVENTS: usize = 10_000;

/// The most executors whose histories are kept after an end of one kind (spec B-51).
const KEPT_STORIES: usize = 400;

/// An executor's history keeps its first event, and this many of its last ones.
const STORY: usize = 32;

/// All events since this driver took over.
#[derive(Debug)]
pub struct History {
    app: AppId,
    incarnation: Incarnation,
    /// The number of the last event; 0 before the first.
    last: u64,
    events: VecDeque<Arc<Event>>,
    histories: BTreeMap<ExecutorId, ExecutorHistory>,
    /// Executors that have ended and whose histories are still kept, by how they ended, oldest end first.
    ended: BTreeMap<KindOfEnd, VecDeque<ExecutorId>>,
    /// The last snapshot whose changes have become events.
    seen: Option<Snapshot>,
}

#[derive(Debug, Clone, Default)]
pub struct ExecutorHistory {
    /// Oldest first.
    pub events: Vec<Arc<Event>>,
    /// How many were dropped after the first.
    pub left_out: usize,
    /// Its pod, which may be gone; `None`: it had none.
    pub pod: Option<KnownPod>,
    /// What its container used, until its end is told.
    usage: Option<Usage>,
    closed: bool,
}

/// What is known of a pod for as long as its executor's history is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPod {
    pub name: Arc<str>,
    /// `None`: only an earlier driver knew it.
    pub uid: Option<PodUid>,
}

#[derive(Debug, Clone)]
pub enum Reading {
    /// The events after the reader's last one.
    Next(Vec<Arc<Event>>),
    /// The reader's event is unknown: it gets the live executors, and continues after this event.
    Anew {
        from: EventId,
        /// The last events of the executors that have ended and whose histories are kept, oldest end first. Empty for a
        /// reader that had no event yet.
        ended: Vec<Arc<Event>>,
    },
}

impl History {
    pub fn new(app: AppId, incarnation: Incarnation) -> Self {
        Self {
            app,
            incarnation,
            last: 0,
            events: VecDeque::new(),
            histories: BTreeMap::new(),
            ended: BTreeMap::new(),
            seen: None,
        }
    }

    pub fn last(&self) -> EventId {
        EventId {
            incarnation: self.incarnation,
            number: self.last,
        }
    }

    /// The newest snapshot; `None` before adoption.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.seen.as_ref()
    }

    /// Adds the ends that earlier drivers recorded to the executors' own histories.
    pub fn with_past(mut self, ends: &[RecordedEnd]) -> Self {
        for end in ends {
            let what = What::step(end.executor, &end.profile, Step::from(end));
            let (id, time) = (self.last(), end.at);
            let event = Arc::new(Event { id, time, what });
            let history = self.histories.entry(end.executor).or_default();
            history.add(event);
            let name = end.pod.clone();
            history.pod = name.map(|name| KnownPod { name, uid: None });
            self.close(end.executor);
        }
        self
    }

    /// Processes a batch: O(changes), except for the first one after adoption.
    pub fn round(&mut self, batch: &Batch, now: Now) {
        let latest = batch.latest();
        let Some(mut before) = self.seen.take() else {
            let at = earlier(now, latest.at);
            self.begin(latest, at);
            batch.ends().for_each(|ending| self.end(ending, at));
            self.seen = Some(latest.clone());
            return;
        };
        for snapshot in batch.snapshots().iter().map(Arc::as_ref) {
            self.changes(&before, snapshot, earlier(now, snapshot.at));
            before = snapshot.clone();
        }
        self.seen = Some(latest.clone());
    }

    /// Records an event that no snapshot shows.
    pub fn note(&mut self, what: What, at: Timestamp) {
        self.push(what, at);
    }

    /// Records a step of an executor that no snapshot shows.
    pub fn step(&mut self, id: ExecutorId, profile: &ProfileName, step: Step, at: Timestamp) {
        let event = self.push(What::step(id, profile, step), at);
        // A step after the executor's end must not begin another history.
        if let Some(history) = self.histories.get_mut(&id) {
            history.add(event);
        }
    }

    /// The history of an executor that is alive, or was among the last to end.
    pub fn history(&self, id: ExecutorId) -> Option<&ExecutorHistory> {
        self.histories.get(&id)
    }

    /// At most `most` events after the reader's last. Without one it gets the live executors first.
    pub fn after(&self, last: Option<EventId>, most: usize) -> Reading {
        let kept = u64::try_from(self.events.len()).unwrap_or(u64::MAX);
        let known = last.filter(|last| {
            last.incarnation == self.incarnation
                && (self.last - kept..=self.last).contains(&last.number)
        });
        let Some(last) = known else {
            let ended = last.map_or_else(Vec::new, |_| self.kept_ends());
            return Reading::Anew {
                from: self.last(),
                ended,
            };
        };
        let unread = usize::try_from(self.last - last.number).unwrap_or(usize::MAX);
        let first = self.events.len().saturating_sub(unread);
        Reading::Next(self.events.iter().skip(first).take(most).cloned().collect())
    }

    fn kept_ends(&self) -> Vec<Arc<Event>> {
        let histories = (self.ended.values().flatten()).filter_map(|id| self.histories.get(id));
        let mut ends: Vec<Arc<Event>> = histories
            .filter_map(|history| history.end().cloned())
            .collect();
        ends.sort_by_key(|end| end.time);
        ends
    }

    fn begin(&mut self, snapshot: &Snapshot, at: Timestamp) {
        let adopted: Vec<&Arc<Entry>> = (snapshot.entries.values())
            .filter(|entry| entry.adopted)
            .collect();
        self.push(
            What::Began {
                app: self.app.to_string(),
                adopted: adopted.len(),
                targets: (snapshot.targets.iter())
                    .map(|(profile, target)| (profile.to_string(), target.executors))
                    .collect(),
            },
            at,
        );
        // Only in the executors' own histories: a reader of all events gets the live executors
        // first.
        for entry in adopted {
            let state = super::views::state(entry.class());
            let pod = entry.pod().map(|pod| pod.name.to_string());
            let what = What::step(entry.id, &entry.profile, Step::Adopted { state, pod });
            let event = self.event(what, at);
            self.history_of(entry).add(event);
        }
        for entry in snapshot.entries.values().filter(|entry| !entry.adopted) {
            if let Some(step) = Step::of(entry, &snapshot.nodes) {
                self.tell(entry, step, at);
            }
        }
    }

    fn changes(&mut self, before: &Snapshot, snapshot: &Snapshot, at: Timestamp) {
        if snapshot.changes.other {
            let of = |profile: &ProfileName| profile.to_string();
            for profile in snapshot
                .removed()
                .filter(|profile| !before.is_removed(profile))
            {
                let profile = of(profile);
                self.push(What::Removing { profile }, at);
            }
            for (profile, why) in &snapshot.failed {
                if !before.failed.contains_key(profile) {
                    let (profile, why) = (of(profile), why.to_string());
                    self.push(What::Failed { profile, why }, at);
                }
            }
            for (profile, limit) in &snapshot.memory_limits {
                if before.memory_limits.get(profile) != Some(limit) {
                    let (profile, memory_limit) = (of(profile), memory_text(*limit));
                    self.push(
                        What::MemoryGrown {
                            profile,
                            memory_limit,
                        },
                        at,
                    );
                }
            }
            let was_set = |of: &Snapshot, profile: &ProfileName| {
                of.failed.contains_key(profile) || of.memory_limits.contains_key(profile)
            };
            for profile in snapshot.targets.keys() {
                if was_set(before, profile) && !was_set(snapshot, profile) {
                    let profile = of(profile);
                    self.push(What::Reset { profile }, at);
                }
            }
            let is_left = |profile: &&ProfileName| snapshot.targets.contains_key(*profile);
            for profile in before.removed().filter(|profile| !is_left(profile)) {
                let profile = of(profile);
                self.push(What::Removed { profile }, at);
            }
            for (profile, target) in &snapshot.targets {
                if before.target(profile) != target.executors {
                    let what = What::TargetChanged {
                        profile: of(profile),
                        target: target.executors,
                    };
                    self.push(what, at);
                }
            }
        }
        for id in &snapshot.changes.executors {
            let Some(entry) = snapshot.entry(*id) else {
                self.close(*id);
                continue;
            };
            let step = |entry: &Entry| Step::of(entry, &snapshot.nodes);
            let known = before.entry(*id);
            if known.is_some_and(|known| known.profile.is_spares_of(&entry.profile)) {
                self.tell(entry, Step::Promoted, at);
            }
            let was = known.and_then(|known| step(known));
            if let Some(step) = step(entry).filter(|step| was.as_ref() != Some(step)) {
                self.tell(entry, step, at);
            }
        }
        for ending in &snapshot.changes.ends {
            self.end(ending, at);
        }
    }

    /// Keeps what the container of an executor used until its end is told.
    pub fn used(&mut self, id: ExecutorId, usage: Usage) {
        if let Some(history) = self.histories.get_mut(&id) {
            history.usage = Some(usage);
        }
    }

    fn end(&mut self, ending: &Ending, at: Timestamp) {
        let history = self.histories.get_mut(&ending.entry.id);
        let usage = history.and_then(|history| history.usage.take());
        self.tell(&ending.entry, Step::end(ending, usage), at);
    }

    fn tell(&mut self, entry: &Entry, step: Step, at: Timestamp) {
        let (id, ends) = (entry.id, step.kind_of_end().is_some());
        let event = self.push(What::step(id, &entry.profile, step), at);
        self.history_of(entry).add(event);
        if ends {
            self.close(id);
        }
    }

    fn history_of(&mut self, entry: &Entry) -> &mut ExecutorHistory {
        let history = self.histories.entry(entry.id).or_default();
        if let Some(pod) = entry.pod() {
            history.pod = Some(KnownPod {
                name: Arc::clone(&pod.name),
                uid: Some(pod.uid.clone()),
            });
        }
        history
    }

    /// Marks an executor's history as complete; it is then dropped when newer ones need the room.
    fn close(&mut self, id: ExecutorId) {
        let Some(history) = self
            .histories
            .get_mut(&id)
            .filter(|history| !history.closed)
        else {
            return;
        };
        history.closed = true;
        let kind = history.end().and_then(|end| end.what.kind_of_end());
        let alike = self
            .ended
            .entry(kind.unwrap_or(KindOfEnd::Planned))
            .or_default();
        alike.push_back(id);
        if alike.len() > KEPT_STORIES
            && let Some(oldest) = alike.pop_front()
        {
            self.histories.remove(&oldest);
        }
    }

    fn push(&mut self, what: What, at: Timestamp) -> Arc<Event> {
        self.last += 1;
        let event = self.event(what, at);
        self.events.push_back(Arc::clone(&event));
        if self.events.len() > KEPT_EVENTS {
            self.events.pop_front();
        }
        event
    }

    fn event(&self, what: What, time: Timestamp) -> Arc<Event> {
        let id = self.last();
        Arc::new(Event { id, time, what })
    }
}

/// The wall clock's time at an earlier moment of the driver's clock.
fn earlier(now: Now, at: Tick) -> Timestamp {
    // The subtraction fails only beyond the range of the wall clock.
    (now.wall.checked_sub(now.tick.since(at))).unwrap_or(now.wall)
}

impl ExecutorHistory {
    /// What its session reported late comes after its end.
    fn end(&self) -> Option<&Arc<Event>> {
        (self.events.iter()).rfind(|event| event.what.kind_of_end().is_some())
    }

    /// What is noticed later than it happened, as a step of a session, has its place by its time.
    fn add(&mut self, event: Arc<Event>) {
        let place = (self.events.iter()).rposition(|other| other.time <= event.time);
        self.events
            .insert(place.map_or(0, |place| place + 1), event);
        if self.events.len() > STORY {
            self.events.remove(1);
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests;
