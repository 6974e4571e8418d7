//! Executors that end early: what is told to the profile's crash loop and to the failure budget (spec, L-30).

use std::collections::BTreeSet;

use super::super::crash_loop::{Change, CrashLoop};
use super::super::decision::{Decision, Notice};
use super::Allocation;
use crate::model::executor::Class;
use crate::model::reasoning::{EarlyEnd, ended_early, reason_of};
use crate::model::{
    Batch, Ending, Entry, ExecutorId, LossReason, Now, ProfileName, Snapshot, Tick,
};

impl Allocation {
    /// An executor's end was reported.
    pub(super) fn ended(&mut self, ending: &Ending, now: Now) {
        let Ending { entry, reason } = ending;
        let looping = self.crash_loops.get(&entry.profile);
        let early = ended_early(entry, reason.class, now.tick, self.settings.stable_after);
        let period = looping.and_then(|looping| looping.period_of(entry.id));
        let by_itself = early == Some(EarlyEnd::ByItself);
        (self.failures).ended(entry, reason, period.filter(|_| by_itself), now);
    }

    /// Weighs the early ends of a batch, all of them together: which profiles back off (spec A-97).
    pub(super) fn judge(
        &mut self,
        batch: &Batch,
        changed: &BTreeSet<ExecutorId>,
        now: Tick,
        decision: &mut Decision,
    ) {
        let latest = batch.latest();
        for Ending { entry, reason } in batch.ends() {
            self.stops_counting(entry, reason, latest, now);
        }
        for entry in changed.iter().filter_map(|id| latest.entry(*id)) {
            if !entry.class().is_live() {
                self.stops_counting(entry, &reason_of(entry), latest, now);
            } else if let Some(since) = entry.bound().and_then(|bound| bound.running_since)
                && entry.class() == Class::Running
            {
                let looping = self.crash_loops.entry(entry.profile.clone()).or_default();
                looping.running(entry.id, since, self.settings.stable_after);
            }
        }
        let (backoff, stable_after) = (&self.settings.crash_backoff, self.settings.stable_after);
        for (profile, looping) in &mut self.crash_loops {
            let change = looping.tick(latest.target(profile), backoff, stable_after, now);
            if let Some(change) = change {
                decision.say(backoff_notice(profile, looping, change, now));
            }
            decision.wake_at(looping.due(stable_after), now);
        }
    }

    /// An executor that no longer counts is replaced at once, so it must be judged before its report: a pod that is
    /// deleted before it ran may stay Terminating for long or forever.
    fn stops_counting(&mut self, entry: &Entry, reason: &LossReason, latest: &Snapshot, now: Tick) {
        let early = ended_early(entry, reason.class, now, self.settings.stable_after);
        // An engine that lowers the target and ends executors itself makes no crash loop.
        let is_replaced = latest.counts(&entry.profile).live() < latest.target(&entry.profile);
        let early = early.filter(|_| is_replaced || reason.exit_code != Some(0));
        let looping = self.crash_loops.entry(entry.profile.clone()).or_default();
        // Later changes of its entry must not undo a reset.
        let is_judged = looping.has_judged(entry.id);
        if !is_judged {
            self.failures.note_rejection(reason, now);
        }
        let outgrown = !is_judged && self.failures.grow(entry, reason);
        let early = early.filter(|_| !outgrown);
        looping.ended(entry.id, early, reason, &self.settings.crash_backoff, now);
    }
}

fn backoff_notice(profile: &ProfileName, looping: &CrashLoop, change: Change, now: Tick) -> Notice {
    let profile = profile.clone();
    match change {
        Change::Began { until } => Notice::BackoffBegan {
            profile,
            why: looping.why(),
            wait: now.until(until),
        },
        Change::Ended { after } => Notice::BackoffEnded { profile, after },
    }
}
