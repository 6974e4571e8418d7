//! Executors that end early again and again are not requested again and again (spec A-30).
//!
//! Early ends alone are no crash loop: they are weighed against the executors of the profile that were started lately
//! and have run at least as long. A profile backs off when most of its recent starts die. What interrupts executors, as
//! evictions and deletions do, may take each of them once before that counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::actors::failures::Period;
use crate::actors::failures::latest::LatestEnds;
use crate::model::reasoning::EarlyEnd;
use crate::model::{ExecutorId, LossReason, Tick};
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

/// One executor in this many of the target may end early, and at least one, before a profile backs off: 5 %.
const TOLERATED_SHARE: u32 = 20;
/// A young executor is evidence only when it has run this long: those that die at once have all run for an instant.
const LEAST_EVIDENCE: Duration = Duration::from_secs(1);
/// A probe runs at least this long before the others follow.
const LEAST_TRIAL: Duration = Duration::from_secs(5);

/// A profile's early ends, and what they are weighed against.
#[derive(Debug, Default)]
pub struct CrashLoop {
    phase: Phase,
    /// The step of the latest backoff. It falls to 0 when an executor stays that began to run after that.
    step: u32,
    /// When the latest backoff period began.
    began: Tick,
    /// Early ends since the last executor that stayed, or since the last backoff ended.
    early: u32,
    /// Of them, those that were interrupted.
    interrupted: u32,
    /// The latest of them.
    latest: LatestEnds,
    /// Early ends since the last tick, outside a backoff.
    unweighed: Vec<ExecutorId>,
    /// The trial of a backoff that an earlier incarnation began.
    inherited_trial: Option<Duration>,
    /// Executors that were judged and have not left the snapshot, with the backoff period in which each ended early. An
    /// executor is judged when it stops counting towards the target, for it is replaced then; that is before its end
    /// is reported, and later changes of its entry show it again.
    judged: BTreeMap<ExecutorId, Option<Period>>,
    /// The number of the latest backoff period.
    period: Period,
    /// Executors that run, but not for `stable_after` yet.
    young: BTreeMap<ExecutorId, Tick>,
    young_order: BTreeSet<(Tick, ExecutorId)>,
    /// Executors that had run for `stable_after` by then have stayed, and stay once.
    ticked: Tick,
    /// The profile's target at that time.
    target: u32,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    BackingOff {
        since: Tick,
        until: Tick,
    },
    Probing {
        since: Tick,
        probe: Option<ExecutorId>,
    },
}

/// How many executors may be requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// All that are missing.
    Free,
    /// None, until then.
    NoneUntil(Tick),
    /// One, the probe.
    OneProbe,
    /// None: the probe has not passed yet.
    ProbeIsOut,
}

/// A backoff began or ended (spec A-31).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Began {
        /// When the first probe may be requested.
        until: Tick,
    },
    Ended {
        /// How long the profile backed off.
        after: Duration,
    },
}

/// What a successor has to know of a backoff (spec O-30).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackoffState {
    /// How often in a row the wait was doubled, from 1.
    pub step: u32,
    /// How much longer nothing is requested.
    pub remaining: Duration,
    /// How long a probe has to run; `failures.stable_after` where that is not known.
    pub trial: Option<Duration>,
}

impl CrashLoop {
    /// Continues the backoff of an earlier incarnation.
    pub fn resume(kept: BackoffState, backoff: &Backoff, now: Tick) -> Self {
        let longest = match planted::is(Planted::BackoffByTheWall) {
            true => Duration::MAX,
            false => backoff.max,
        };
        let until = now + kept.remaining.min(longest);
        Self {
            phase: Phase::BackingOff { since: now, until },
            step: kept.step.max(1),
            began: now,
            inherited_trial: kept.trial,
            ticked: now,
            ..Self::default()
        }
    }

    /// Since when the profile backs off, and until when; with no end while a probe decides (spec A-31).
    pub fn backs_off(&self) -> Option<(Tick, Option<Tick>)> {
        match self.phase {
            Phase::Open => None,
            Phase::BackingOff { since, until } => Some((since, Some(until))),
            Phase::Probing { since, .. } => Some((since, None)),
        }
    }

    pub fn keep(&self, stable_after: Duration, now: Tick) -> Option<BackoffState> {
        let remaining = match self.phase {
            Phase::Open => return None,
            Phase::BackingOff { until, .. } => now.until(until),
            Phase::Probing { .. } => Duration::ZERO,
        };
        Some(BackoffState {
            step: self.step,
            remaining,
            trial: Some(self.trial(stable_after)),
        })
    }

    /// An executor has run since then.
    pub fn running(&mut self, id: ExecutorId, since: Tick, stable_after: Duration) {
        // An executor that stayed long ago is no evidence about those that end early now; the probe always is, also if it is
        // seen to run only long after it began.
        let stayed_before = since + stable_after <= self.ticked;
        let is_probe = matches!(self.phase, Phase::Probing { probe, .. } if probe == Some(id));
        if stayed_before && !is_probe || self.judged.contains_key(&id) {
            return;
        }
        if self.young.insert(id, since).is_none() {
            self.young_order.insert((since, id));
        }
    }

    /// An executor does not count any more: it ended, early or not, or is about to. It is judged once, however often
    /// its entry changes after that.
    pub fn ended(
        &mut self,
        id: ExecutorId,
        early: Option<EarlyEnd>,
        reason: &LossReason,
        backoff: &Backoff,
        now: Tick,
    ) {
        let ran = self.forget_young(id).map(|since| now.since(since));
        if self.judged.contains_key(&id) {
            return;
        }
        let mut period = None;
        if let Some(how) = early {
            self.early = self.early.saturating_add(1);
            self.interrupted += u32::from(how == EarlyEnd::Interrupted);
            self.latest.push(format!("executor {id}"), ran, reason);
        }
        match self.phase {
            Phase::Open if early == Some(EarlyEnd::ByItself) => self.unweighed.push(id),
            Phase::Probing { since, probe }
                if probe == Some(id)
                    && (early == Some(EarlyEnd::ByItself) || self.are_most_interrupted(early)) =>
            {
                self.back_off(since, backoff, now);
            }
            Phase::Probing { since, probe } if probe == Some(id) => {
                self.phase = Phase::Probing { since, probe: None };
            }
            Phase::Open | Phase::BackingOff { .. } | Phase::Probing { .. } => {}
        }
        if early.is_some() && self.phase != Phase::Open {
            period = Some(self.period);
        }
        self.judged.insert(id, period);
    }

    pub fn has_judged(&self, id: ExecutorId) -> bool {
        self.judged.contains_key(&id)
    }

    /// The backoff period in which an executor ended early, where it did so in one.
    pub fn period_of(&self, id: ExecutorId) -> Option<Period> {
        self.judged.get(&id).copied().flatten()
    }

    /// An executor has left the snapshot.
    pub fn removed(&mut self, id: ExecutorId) {
        self.judged.remove(&id);
        self.forget_young(id);
    }

    fn forget_young(&mut self, id: ExecutorId) -> Option<Tick> {
        let since = self.young.remove(&id)?;
        self.young_order.remove(&(since, id));
        Some(since)
    }

    /// Weighs the early ends, once all of a batch are known.
    pub fn tick(
        &mut self,
        target: u32,
        backoff: &Backoff,
        stable_after: Duration,
        now: Tick,
    ) -> Option<Change> {
        (self.ticked, self.target) = (now, target);
        let probe_passed = self
            .probe_passes_at(stable_after)
            .is_some_and(|at| at <= now);
        self.note_stays(stable_after, now);
        let unweighed = std::mem::take(&mut self.unweighed);
        match self.phase {
            Phase::Open => {
                let tolerated = (target / TOLERATED_SHARE).max(1);
                let by_themselves = self.early - self.interrupted;
                if by_themselves <= tolerated && self.early <= target.max(1)
                    || self.most_live(now)
                    || planted::is(Planted::CrashLoopIgnored)
                {
                    return None;
                }
                self.back_off(now, backoff, now);
                // Those within what is tolerated each count as a failure of their own.
                let before = (by_themselves as usize).saturating_sub(unweighed.len());
                let within = (tolerated as usize).saturating_sub(before);
                for id in unweighed.into_iter().skip(within) {
                    if let Some(period) = self.judged.get_mut(&id) {
                        *period = Some(self.period);
                    }
                }
                let until = now + backoff.delay(self.step);
                Some(Change::Began { until })
            }
            Phase::BackingOff { since, .. } | Phase::Probing { since, .. }
                if (probe_passed || self.most_live(now))
                    && !planted::is(Planted::BackoffForEver) =>
            {
                self.phase = Phase::Open;
                // Those that live are no evidence twice: without a probe the early ends go on counting.
                if probe_passed {
                    self.forgive();
                }
                Some(Change::Ended {
                    after: now.since(since),
                })
            }
            Phase::BackingOff { since, until } if now >= until => {
                self.phase = Phase::Probing { since, probe: None };
                None
            }
            Phase::BackingOff { .. } | Phase::Probing { .. } => None,
        }
    }

    fn back_off(&mut self, since: Tick, backoff: &Backoff, now: Tick) {
        self.period.0 += 1;
        self.step = self.step.saturating_add(1);
        self.began = now;
        let until = now + backoff.delay(self.step);
        self.phase = Phase::BackingOff { since, until };
    }

    /// Whether an interrupted probe is one interruption more of a profile that had as many as it has executors.
    fn are_most_interrupted(&self, early: Option<EarlyEnd>) -> bool {
        early == Some(EarlyEnd::Interrupted) && self.interrupted > self.target
    }

    fn forgive(&mut self) {
        (self.early, self.interrupted) = (0, 0);
        self.latest.clear();
        self.inherited_trial = None;
    }

    fn note_stays(&mut self, stable_after: Duration, now: Tick) {
        while let Some(&(since, id)) = self.young_order.first()
            && now.since(since) >= stable_after
        {
            self.young_order.pop_first();
            self.young.remove(&id);
            if self.phase == Phase::Open {
                self.forgive();
                if since > self.began {
                    self.step = 0;
                }
            }
        }
    }

    /// How long half of the early ends had run at most.
    fn usual_run(&self) -> Option<Duration> {
        let mut runs: Vec<Duration> = self.latest.runs().collect();
        let middle = runs.len().checked_sub(1)? / 2;
        Some(*runs.select_nth_unstable(middle).1)
    }

    /// How long a probe has to run: as long as all before it had, or twice as long as half of them.
    fn trial(&self, stable_after: Duration) -> Duration {
        let longest = self.latest.runs().max();
        let outlived = (self.usual_run().zip(longest)).map(|(run, longest)| longest.min(run * 2));
        let usual = outlived.map(|run| run.max(LEAST_TRIAL));
        let trial = usual.or(self.inherited_trial).unwrap_or(stable_after);
        trial.min(stable_after)
    }

    fn probe_passes_at(&self, stable_after: Duration) -> Option<Tick> {
        let Phase::Probing { probe, .. } = self.phase else {
            return None;
        };
        let since = *self.young.get(&probe?)?;
        Some(since + self.trial(stable_after))
    }

    /// When more young executors than ended early will have run as long as those had, if none ends.
    fn most_live_at(&self) -> Option<Tick> {
        let usual = self.usual_run()?.max(LEAST_EVIDENCE);
        let (since, _) = self.young_order.iter().nth(self.early as usize)?;
        Some(*since + usual)
    }

    fn most_live(&self, now: Tick) -> bool {
        self.most_live_at().is_some_and(|at| at <= now) && !planted::is(Planted::EarlyEndsUnweighed)
    }

    /// How the executors ended, by what most of the latest have in common.
    pub fn why(&self) -> Arc<str> {
        let common = self.latest.in_common();
        let common = common.map_or_else(String::new, |common| format!(": {common}"));
        Arc::from(format!("executors end early, again and again{common}"))
    }

    /// When this is to be looked at again, though nothing happens.
    pub fn due(&self, stable_after: Duration) -> Option<Tick> {
        if self.phase == Phase::Open {
            return None;
        }
        let times = [self.most_live_at(), self.probe_passes_at(stable_after)];
        times.into_iter().flatten().min()
    }

    pub fn permission(&self) -> Permission {
        match self.phase {
            Phase::Open => Permission::Free,
            Phase::BackingOff { until, .. } => Permission::NoneUntil(until),
            Phase::Probing { probe: None, .. } => Permission::OneProbe,
            Phase::Probing { probe: Some(_), .. } => Permission::ProbeIsOut,
        }
    }

    /// Whether a request of unknown outcome may be sent again: during a backoff only the probe's.
    pub fn may_repeat(&self, id: ExecutorId) -> bool {
        match self.phase {
            Phase::Open => true,
            Phase::BackingOff { .. } => false,
            Phase::Probing { probe, .. } => probe == Some(id),
        }
    }

    /// An executor is requested; during a backoff it is the probe.
    pub fn requested(&mut self, id: ExecutorId) {
        if let Phase::Probing { probe, .. } = &mut self.phase {
            probe.get_or_insert(id);
        }
    }
}

#[cfg(test)]
mod tests;
