//! The event history: all events in order, and those of each executor (spec B-50, B-51). Pure.
//!
//! Events are the differences between consecutive snapshots: exactly what the ledger knew.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::model::executor::{Class, State};
use crate::model::{
    Batch, Ending, Entry, ExecutorId, Incarnation, Now, PodUid, ProfileName, Snapshot, Tick,
};

use crate::model::recorded_end::RecordedEnd;

use super::event::{Event, EventId, Step, What};

/// The most events that are kept. A reader that is further behind is informed of that.
const KEPT_EVENTS: usize = 10_000;

/// The most executors that have ended whose histories are kept (spec B-51).
const KEPT_STORIES: usize = 1_000;

/// An executor's history keeps its first event, and this many of its last ones.
const STORY: usize = 32;

/// All events since this driver took over.
#[derive(Debug)]
pub struct History {
    incarnation: Incarnation,
    /// The number of the last event; 0 before the first.
    last: u64,
    events: VecDeque<Arc<Event>>,
    histories: BTreeMap<ExecutorId, ExecutorHistory>,
    /// Executors that have ended and whose histories are still kept, oldest end first.
    ended: VecDeque<ExecutorId>,
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
    pub fn new(incarnation: Incarnation) -> Self {
        Self {
            incarnation,
            last: 0,
            events: VecDeque::new(),
            histories: BTreeMap::new(),
            ended: VecDeque::new(),
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
            self.begin(latest, now);
            batch.ends().for_each(|ending| self.end(ending, now));
            self.seen = Some(latest.clone());
            return;
        };
        for snapshot in batch.snapshots().iter().map(Arc::as_ref) {
            self.changes(&before, snapshot, now);
            before = snapshot.clone();
        }
        self.seen = Some(latest.clone());
    }

    /// Records an event that no snapshot shows.
    pub fn note(&mut self, what: What, now: Now) {
        self.push(what, None, now);
    }

    /// Records a step of an executor that no snapshot shows.
    pub fn step(&mut self, id: ExecutorId, profile: &ProfileName, step: Step, now: Now) {
        let event = self.push(What::step(id, profile, step), None, now);
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
        let histories = (self.ended.iter()).filter_map(|id| self.histories.get(id));
        // What an executor's session reported late comes after its end.
        let ends = histories
            .filter_map(|history| history.events.iter().rfind(|event| event.what.is_last()));
        ends.cloned().collect()
    }

    fn begin(&mut self, snapshot: &Snapshot, now: Now) {
        let adopted: Vec<&Arc<Entry>> = (snapshot.entries.values())
            .filter(|entry| entry.adopted)
            .collect();
        self.push(
            What::Began {
                adopted: adopted.len(),
                targets: (snapshot.targets.iter())
                    .map(|(profile, target)| (profile.to_string(), target.executors))
                    .collect(),
            },
            None,
            now,
        );
        // Only in the executors' own histories: a reader of all events gets the live executors
        // first.
        for entry in adopted {
            let state = super::views::state(entry.class());
            let pod = entry.pod().map(|pod| pod.name.to_string());
            let what = What::step(entry.id, &entry.profile, Step::Adopted { state, pod });
            let event = self.event(what, None, now);
            self.history_of(entry).add(event);
        }
        for entry in snapshot.entries.values().filter(|entry| !entry.adopted) {
            if let Some(step) = Step::of(entry) {
                self.tell(entry, step, since(entry), now);
            }
        }
    }

    fn changes(&mut self, before: &Snapshot, snapshot: &Snapshot, now: Now) {
        if snapshot.changes.other {
            let of = |profile: &ProfileName| profile.to_string();
            for profile in snapshot
                .removed()
                .filter(|profile| !before.is_removed(profile))
            {
                let profile = of(profile);
                self.push(What::Removing { profile }, None, now);
            }
            for (profile, why) in &snapshot.failed {
                if !before.failed.contains_key(profile) {
                    let (profile, why) = (of(profile), why.to_string());
                    self.push(What::Failed { profile, why }, None, now);
                }
            }
            let is_reset = |profile: &&ProfileName| {
                !snapshot.failed.contains_key(*profile) && snapshot.targets.contains_key(*profile)
            };
            for profile in before.failed.keys().filter(is_reset) {
                let profile = of(profile);
                self.push(What::Reset { profile }, None, now);
            }
            let is_left = |profile: &&ProfileName| snapshot.targets.contains_key(*profile);
            for profile in before.removed().filter(|profile| !is_left(profile)) {
                let profile = of(profile);
                self.push(What::Removed { profile }, None, now);
            }
            for (profile, target) in &snapshot.targets {
                if before.target(profile) != target.executors {
                    let what = What::TargetChanged {
                        profile: of(profile),
                        target: target.executors,
                    };
                    self.push(what, Some(target.since), now);
                }
            }
        }
        for id in &snapshot.changes.executors {
            let Some(entry) = snapshot.entry(*id) else {
                self.close(*id);
                continue;
            };
            let was = before.entry(*id).and_then(|before| Step::of(before));
            if let Some(step) = Step::of(entry).filter(|step| was.as_ref() != Some(step)) {
                self.tell(entry, step, since(entry), now);
            }
        }
        for ending in &snapshot.changes.ends {
            self.end(ending, now);
        }
    }

    fn end(&mut self, ending: &Ending, now: Now) {
        self.tell(&ending.entry, Step::end(ending), None, now);
    }

    /// Records a step, with the driver's time at which it took place, if that is known.
    fn tell(&mut self, entry: &Entry, step: Step, at: Option<Tick>, now: Now) {
        let (id, ends) = (entry.id, step.is_last());
        let event = self.push(What::step(id, &entry.profile, step), at, now);
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
        self.ended.push_back(id);
        if self.ended.len() > KEPT_STORIES
            && let Some(oldest) = self.ended.pop_front()
        {
            self.histories.remove(&oldest);
        }
    }

    fn push(&mut self, what: What, at: Option<Tick>, now: Now) -> Arc<Event> {
        self.last += 1;
        let event = self.event(what, at, now);
        self.events.push_back(Arc::clone(&event));
        if self.events.len() > KEPT_EVENTS {
            self.events.pop_front();
        }
        event
    }

    fn event(&self, what: What, at: Option<Tick>, now: Now) -> Arc<Event> {
        let ago = at.map_or(Duration::ZERO, |at| now.tick.since(at));
        Arc::new(Event {
            id: self.last(),
            // The subtraction fails only beyond the range of the wall clock.
            time: now.wall.checked_sub(ago).unwrap_or(now.wall),
            what,
        })
    }
}

/// Since when the driver has known the executor to be in its state.
fn since(entry: &Entry) -> Option<Tick> {
    if let Some(leaving) = &entry.leaving {
        return Some(leaving.since);
    }
    match &entry.state {
        State::Sent(request) => Some(request.sent),
        State::Bound(bound) if entry.class() == Class::Running => bound.running_since,
        // A waiting pod may have another reason than at first, whose beginning is not recorded.
        State::Bound(_) | State::Unknown(_) => None,
        State::Gone(gone) => Some(gone.at),
    }
}

impl ExecutorHistory {
    fn add(&mut self, event: Arc<Event>) {
        self.events.push(event);
        if self.events.len() > STORY {
            self.events.remove(1);
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests;
