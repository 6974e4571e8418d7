//! The event history: what happened, in order, and the story of each executor (spec B-50, B-51). Pure.
//!
//! It is made from snapshots: what differs between one and the next has happened. So nothing that the ledger knew is
//! missed, and nothing is told that it did not know.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::model::executor::{Class, State};
use crate::model::{
    Batch, Ending, Entry, ExecutorId, Incarnation, Now, ProfileName, Snapshot, Tick,
};

use super::event::{Event, EventId, Step, What};

/// So many events can be read later; who is further behind is told so.
const KEPT_EVENTS: usize = 10_000;

/// So many stories of executors that have ended can be read (spec B-51).
const KEPT_STORIES: usize = 1_000;

/// A story keeps its beginning, and so many of its last events.
const STORY: usize = 32;

/// What happened since this driver took over.
#[derive(Debug)]
pub struct History {
    incarnation: Incarnation,
    /// The number of the last event; 0 before the first.
    last: u64,
    events: VecDeque<Arc<Event>>,
    histories: BTreeMap<ExecutorId, ExecutorHistory>,
    /// Executors that have ended and whose stories are still kept, oldest end first.
    ended: VecDeque<ExecutorId>,
    /// The last snapshot whose changes were told.
    seen: Option<Snapshot>,
}

/// What happened to one executor.
#[derive(Debug, Clone, Default)]
pub struct ExecutorHistory {
    /// Its events, oldest first.
    pub events: Vec<Arc<Event>>,
    /// How many were left out after the first.
    pub left_out: usize,
    closed: bool,
}

/// What a reader gets.
#[derive(Debug, Clone)]
pub enum Reading {
    /// What came after the event that it had last.
    Next(Vec<Arc<Event>>),
    /// Its place is not known here: it has to begin with the living, and go on after this event.
    Anew(EventId),
}

impl History {
    /// In which nothing has happened yet.
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

    /// The place of the last event.
    pub fn last(&self) -> EventId {
        EventId {
            incarnation: self.incarnation,
            number: self.last,
        }
    }

    /// The newest snapshot; none before the driver has taken over.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.seen.as_ref()
    }

    /// Takes in a batch: O(changes), but for the first one after the driver has taken over.
    pub fn round(&mut self, batch: &Batch, now: Now) {
        let latest = batch.latest();
        if !latest.adopted {
            return;
        }
        let Some(mut before) = self.seen.take() else {
            self.begin(latest, now);
            batch.ends().for_each(|ending| self.end(ending, now));
            self.seen = Some(latest.clone());
            return;
        };
        let snapshots = batch.snapshots().iter().map(Arc::as_ref);
        for snapshot in snapshots.filter(|s| s.adopted) {
            self.changes(&before, snapshot, now);
            before = snapshot.clone();
        }
        self.seen = Some(latest.clone());
    }

    /// Something happened that no snapshot shows.
    pub fn note(&mut self, what: What, now: Now) {
        self.push(what, None, now);
    }

    /// Something happened to an executor that no snapshot shows.
    pub fn step(&mut self, id: ExecutorId, profile: &ProfileName, step: Step, now: Now) {
        let event = self.push(What::step(id, profile, step), None, now);
        // What comes after its end begins no new story.
        if let Some(history) = self.histories.get_mut(&id) {
            history.add(event);
        }
    }

    /// The story of an executor that lives, or that was among the last to end.
    pub fn history(&self, id: ExecutorId) -> Option<&ExecutorHistory> {
        self.histories.get(&id)
    }

    /// At most so many events after the one that a reader has last. A reader that has none begins with the living.
    pub fn after(&self, last: Option<EventId>, most: usize) -> Reading {
        let kept = u64::try_from(self.events.len()).unwrap_or(u64::MAX);
        let known = last.filter(|last| {
            last.incarnation == self.incarnation
                && (self.last - kept..=self.last).contains(&last.number)
        });
        let Some(last) = known else {
            return Reading::Anew(self.last());
        };
        let unread = usize::try_from(self.last - last.number).unwrap_or(usize::MAX);
        let first = self.events.len().saturating_sub(unread);
        Reading::Next(self.events.iter().skip(first).take(most).cloned().collect())
    }

    fn begin(&mut self, snapshot: &Snapshot, now: Now) {
        let adopted: Vec<&Arc<Entry>> = (snapshot.entries.values())
            .filter(|entry| entry.adopted)
            .collect();
        self.push(
            What::Began {
                adopted: adopted.len(),
            },
            None,
            now,
        );
        // Only their stories begin so: one who reads events gets the living first.
        for entry in adopted {
            let state = super::views::state(entry.class());
            let pod = entry.pod().map(|pod| pod.name.to_string());
            let what = What::step(entry.id, &entry.profile, Step::Adopted { state, pod });
            let event = self.event(what, None, now);
            self.histories.entry(entry.id).or_default().add(event);
        }
        for entry in snapshot.entries.values().filter(|entry| !entry.adopted) {
            if let Some(step) = Step::of(entry) {
                self.tell(entry, step, since(entry), now);
            }
        }
    }

    fn changes(&mut self, before: &Snapshot, snapshot: &Snapshot, now: Now) {
        if snapshot.changes.other {
            for (profile, target) in &snapshot.targets {
                if before.target(profile) != target.executors {
                    let what = What::TargetChanged {
                        profile: profile.to_string(),
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

    /// Tells a step, which took place at that time of the driver's, if that is known.
    fn tell(&mut self, entry: &Entry, step: Step, at: Option<Tick>, now: Now) {
        let (id, ends) = (entry.id, step.is_last());
        let event = self.push(What::step(id, &entry.profile, step), at, now);
        self.histories.entry(id).or_default().add(event);
        if ends {
            self.close(id);
        }
    }

    /// Nothing more happens to an executor: its story is one of those that make room for later ones.
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
            // No wall clock goes back that far.
            time: now.wall.checked_sub(ago).unwrap_or(now.wall),
            what,
        })
    }
}

/// Since when the driver has known the executor to be as far as it is.
fn since(entry: &Entry) -> Option<Tick> {
    if let Some(leaving) = &entry.leaving {
        return Some(leaving.since);
    }
    match &entry.state {
        State::Sent(request) => Some(request.sent),
        State::Bound(bound) if entry.class() == Class::Running => bound.running_since,
        // A pod that waits may do so for another reason than at first, and nobody has noted since when.
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
