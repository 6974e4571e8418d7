//! Executors whose containers the kubelet starts again by their own policies (spec A-84).

use std::time::Duration;

use super::super::decision::{Action, Decision, Notice};
use super::Allocation;
use crate::actors::failures::restarts::as_it_ended;
use crate::model::executor::LeaveMethod;
use crate::model::reasoning::reason_of;
use crate::model::{ExecutorId, Now, Snapshot};

impl Allocation {
    /// A restart ends no executor, but counts if the end before it was a failure.
    pub(super) fn see_restarts(
        &mut self,
        id: ExecutorId,
        latest: &Snapshot,
        now: Now,
        decision: &mut Decision,
    ) {
        let Some(entry) = latest.entry(id) else {
            return;
        };
        if !entry.adopted {
            self.restarts.begin(id, 0);
        }
        let times = self.restarts.observe(entry);
        if times == 0 || entry.has_ended() {
            return;
        }
        if let Some(mark) = &entry.leaving {
            // Its program has ended, so it is not waited for.
            if matches!(mark.how, LeaveMethod::Drain { .. }) {
                let grace = Duration::from_secs(1);
                let how = LeaveMethod::Kill { grace };
                let kill = Action::Retire(vec![id], mark.why.clone(), how);
                decision.actions.push(kill);
            }
            return;
        }
        let ended = as_it_ended(entry);
        let reason = reason_of(&ended);
        self.failures.restarted(&ended, &reason, times, now);
        decision.say(Notice::Restarted(Box::new(ended), Box::new(reason)));
    }
}
