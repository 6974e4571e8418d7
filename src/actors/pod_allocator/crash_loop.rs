//! Executors that end early, again and again, are not asked for again and again (spec A-30).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::{ExecutorId, Tick};
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

/// Of this part of the target that many may end early before a profile backs off: 5 %, and at least one.
const TOLERATED_SHARE: u32 = 20;

/// What is known of a profile's early ends.
#[derive(Debug, Default)]
pub struct CrashLoop {
    phase: Phase,
    /// Early ends since the last executor that stayed.
    early: u32,
    /// Executors that were judged and have not left the snapshot, with the backoff period in which each ended early. An
    /// executor is judged when it stops counting towards the target, for it is replaced then; that is before its end
    /// is reported, and later changes of its entry show it again.
    judged: BTreeMap<ExecutorId, Option<Period>>,
    /// How often a backoff period has begun.
    period: Period,
    /// Executors that run, but not for long yet.
    young: BTreeMap<ExecutorId, Tick>,
    young_order: BTreeSet<(Tick, ExecutorId)>,
    /// Who had run for long enough by then has stayed, and stays but once.
    ticked: Tick,
}

/// A backoff period: from the early end that begins it, or makes its next step, up to the one that makes the step after
/// it. Of the early ends in it one counts as a failure (spec A-30, L-30).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(u64);

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    BackingOff {
        step: u32,
        since: Tick,
        until: Tick,
    },
    Probing {
        step: u32,
        since: Tick,
        probe: Option<ExecutorId>,
    },
}

/// How many may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// As many as are wanted.
    Free,
    /// None, until then.
    NoneUntil(Tick),
    /// One, to see whether it stays.
    OneProbe,
    /// None: the probe is out.
    ProbeIsOut,
}

/// That a backoff began or ended (spec A-31).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It began, and holds until then.
    Began {
        /// When the first probe goes out.
        until: Tick,
    },
    /// The probe stayed.
    Ended {
        /// How long it took.
        after: Duration,
    },
}

/// What of it is kept over a restart (spec O-30).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// How many times in a row it was waited.
    pub step: u32,
    /// How much longer.
    pub remaining: Duration,
}

impl CrashLoop {
    /// Goes on where an earlier incarnation was.
    pub fn resume(kept: Kept, backoff: &Backoff, now: Tick) -> Self {
        let until = now + kept.remaining.min(backoff.max);
        Self {
            phase: Phase::BackingOff {
                step: kept.step.max(1),
                since: now,
                until,
            },
            ticked: now,
            ..Self::default()
        }
    }

    /// Since when it backs off, and until when; with no end while a probe decides (spec A-31).
    pub fn backs_off(&self) -> Option<(Tick, Option<Tick>)> {
        match self.phase {
            Phase::Open => None,
            Phase::BackingOff { since, until, .. } => Some((since, Some(until))),
            Phase::Probing { since, .. } => Some((since, None)),
        }
    }

    /// What of it is to be kept.
    pub fn keep(&self, now: Tick) -> Option<Kept> {
        match self.phase {
            Phase::Open => None,
            Phase::BackingOff { step, until, .. } => Some(Kept {
                step,
                remaining: now.until(until),
            }),
            Phase::Probing { step, .. } => Some(Kept {
                step,
                remaining: Duration::ZERO,
            }),
        }
    }

    /// An executor runs, since then.
    pub fn running(&mut self, id: ExecutorId, since: Tick, stable_after: Duration) {
        // One that stayed long ago and of which there is news says nothing of those that end early now.
        let stayed_before = since + stable_after <= self.ticked;
        if stayed_before || self.judged.contains_key(&id) {
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
        early: bool,
        target: u32,
        backoff: &Backoff,
        now: Tick,
    ) -> Option<Change> {
        if let Some(since) = self.young.remove(&id) {
            self.young_order.remove(&(since, id));
        }
        if self.judged.contains_key(&id) {
            return None;
        }
        let change = self.judge(id, early, target, backoff, now);
        let within = early && self.phase != Phase::Open;
        self.judged.insert(id, within.then_some(self.period));
        change
    }

    /// The backoff period in which an executor ended early, where it did so in one.
    pub fn period_of(&self, id: ExecutorId) -> Option<Period> {
        self.judged.get(&id).copied().flatten()
    }

    fn judge(
        &mut self,
        id: ExecutorId,
        early: bool,
        target: u32,
        backoff: &Backoff,
        now: Tick,
    ) -> Option<Change> {
        match self.phase {
            Phase::Open if early => {
                self.early += 1;
                if self.early <= (target / TOLERATED_SHARE).max(1) {
                    return None;
                }
                let until = now + backoff.delay(1);
                self.period.0 += 1;
                self.phase = Phase::BackingOff {
                    step: 1,
                    since: now,
                    until,
                };
                Some(Change::Began { until })
            }
            Phase::Probing { step, since, probe } if probe == Some(id) => {
                self.phase = if early {
                    self.period.0 += 1;
                    let step = step.saturating_add(1);
                    Phase::BackingOff {
                        step,
                        since,
                        until: now + backoff.delay(step),
                    }
                } else {
                    Phase::Probing {
                        step,
                        since,
                        probe: None,
                    }
                };
                None
            }
            Phase::Open | Phase::BackingOff { .. } | Phase::Probing { .. } => None,
        }
    }

    /// An executor has left the snapshot.
    pub fn left(&mut self, id: ExecutorId) {
        self.judged.remove(&id);
        if let Some(since) = self.young.remove(&id) {
            self.young_order.remove(&(since, id));
        }
    }

    /// Time passes: who has run for long enough has stayed.
    pub fn tick(&mut self, stable_after: Duration, now: Tick) -> Option<Change> {
        let mut change = None;
        self.ticked = now;
        while let Some(&(since, id)) = self.young_order.first()
            && now.since(since) >= stable_after
        {
            self.young_order.pop_first();
            self.young.remove(&id);
            match self.phase {
                Phase::Open => self.early = 0,
                Phase::Probing { since, probe, .. }
                    if probe == Some(id) && !planted::is(Planted::BackoffForEver) =>
                {
                    (self.phase, self.early) = (Phase::Open, 0);
                    change = Some(Change::Ended {
                        after: now.since(since),
                    });
                }
                Phase::BackingOff { .. } | Phase::Probing { .. } => {}
            }
        }
        if let Phase::BackingOff { step, since, until } = self.phase
            && now >= until
        {
            self.phase = Phase::Probing {
                step,
                since,
                probe: None,
            };
        }
        change
    }

    /// How many may be asked for.
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

    /// An executor is asked for; during a backoff it is the probe.
    pub fn requested(&mut self, id: ExecutorId) {
        if let Phase::Probing { probe, .. } = &mut self.phase {
            probe.get_or_insert(id);
        }
    }
}

#[cfg(test)]
mod tests;
