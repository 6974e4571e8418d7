//! Assigns executor ids to a set's pods, by a label (spec A-80, B-1).

use super::*;
use crate::planted::{self, Planted};

impl Scaling {
    /// Forgets pods that need no id. Returns ids that no pod has and no call can assign any more.
    pub(super) fn forget_numbered(&mut self, latest: &Snapshot, now: Tick) -> Vec<ExecutorId> {
        let settled = now + self.settings.settled_after;
        self.numbers.retain(|uid, numbering| {
            let kept = numbering.trial.in_flight || latest.unassigned.contains_key(uid);
            if !kept {
                self.unused.insert(numbering.id, settled);
            }
            kept
        });
        let is_assigned = |id| latest.entry(id).is_some() || latest.ended.contains(id);
        self.unused.retain(|id, _| !is_assigned(*id));
        let due = self.unused.extract_if(.., |_, settled| *settled <= now);
        due.map(|(id, _)| id).collect()
    }

    pub(super) fn number(
        &mut self,
        latest: &Snapshot,
        now: Tick,
        decision: &mut allocator::Decision,
        actions: &mut Vec<Action>,
    ) {
        let most = self.settings.max_in_flight as usize;
        let mut room = most.saturating_sub(self.about_pods());
        let waits =
            |pod: &UnassignedPod| !pod.terminating && !pod.unread && pod.epoch == latest.epoch;
        let waiting = latest.unassigned.iter().filter(|(_, pod)| waits(pod));
        let new = latest.unassigned.len().saturating_sub(self.numbers.len());
        let new = u32::try_from(new).unwrap_or(u32::MAX);
        self.ids.assignable(new, now, decision);
        for (uid, pod) in waiting {
            if room == 0 {
                return;
            }
            let known = self.numbers.get(uid).map(|numbering| numbering.id);
            let Some(id) = known.or_else(|| self.next_id(latest)) else {
                return;
            };
            let numbering = (self.numbers)
                .entry(uid.clone())
                .or_insert_with(|| Numbering {
                    id,
                    version: pod.version.clone(),
                    trial: Trial::default(),
                });
            self.restarts.begin(id, pod.restarts);
            let changed = numbering.version != pod.version;
            if numbering.trial.in_flight || !(changed || numbering.trial.may_begin(now)) {
                continue;
            }
            numbering.version = pod.version.clone();
            numbering.trial.begin();
            room -= 1;
            actions.push(Action::Number {
                id,
                uid: uid.clone(),
                name: Arc::clone(&pod.name),
                version: pod.version.clone(),
            });
        }
    }

    /// The next id that no pod has. A pod may have been labelled by hand.
    fn next_id(&mut self, latest: &Snapshot) -> Option<ExecutorId> {
        if planted::is(Planted::NumberReused) {
            let mut ids = (1..).map_while(ExecutorId::new);
            let taken = |id| self.numbers.values().any(|other| other.id == id);
            return ids.find(|id| latest.entry(*id).is_none() && !taken(*id));
        }
        loop {
            let id = self.ids.take()?;
            if latest.entry(id).is_none() && !latest.ended.contains(id) {
                return Some(id);
            }
        }
    }
}
