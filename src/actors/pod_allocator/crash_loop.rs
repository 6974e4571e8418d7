//! Crash-loop backoff: a profile whose executors end early is requested less often (spec A-30).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::{ExecutorId, Tick};
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

/// A profile backs off when more than 1/20 of its target (5 %), and more than one, ended early.
const TOLERATED_SHARE: u32 = 20;

/// The early ends of one profile.
#[derive(Debug, Default)]
pub struct CrashLoop {
    phase: Phase,
    /// Early ends since the last executor that ran for `stable_after`.
    early: u32,
    /// Executors that were judged and have not left the snapshot, with the backoff period in which
    /// each ended early. An executor is judged when it stops counting towards the target, because
    /// it is replaced then. Its end is reported later, so the same executor is seen here again.
    judged: BTreeMap<ExecutorId, Option<Period>>,
    /// How many backoff periods have begun.
    period: Period,
    /// Executors that have run for less than `stable_after`.
    young: BTreeMap<ExecutorId, Tick>,
    young_order: BTreeSet<(Tick, ExecutorId)>,
    /// When `tick` last ran. Executors that were stable by then are not processed again.
    ticked: Tick,
}

/// The number of a backoff period. A period lasts from one step of the backoff to the next. Only
/// one of the early ends in a period counts as a failure (spec A-30, L-30).
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

/// How many executors may be requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    Free,
    /// None before this time.
    NoneUntil(Tick),
    /// One, as a probe.
    OneProbe,
    /// None: a probe is running.
    ProbeIsOut,
}

/// A backoff began or ended (spec A-31).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Began {
        /// When the first probe may be requested.
        until: Tick,
    },
    /// The probe ran for `stable_after`.
    Ended { after: Duration },
}

/// What the record keeps over a restart (spec O-30).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// How often in a row the profile backed off.
    pub step: u32,
    /// The rest of the current backoff.
    pub remaining: Duration,
}

impl CrashLoop {
    /// Continues from what an earlier incarnation wrote.
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

    /// Since when the profile backs off, and until when; `None` while a probe decides (spec A-31).
    pub fn backs_off(&self) -> Option<(Tick, Option<Tick>)> {
        match self.phase {
            Phase::Open => None,
            Phase::BackingOff { since, until, .. } => Some((since, Some(until))),
            Phase::Probing { since, .. } => Some((since, None)),
        }
    }

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

    /// An executor has been running since then.
    pub fn running(&mut self, id: ExecutorId, since: Tick, stable_after: Duration) {
        // Late news of a long stable executor says nothing about the early ends now.
        let stayed_before = since + stable_after <= self.ticked;
        if stayed_before || self.judged.contains_key(&id) {
            return;
        }
        if self.young.insert(id, since).is_none() {
            self.young_order.insert((since, id));
        }
    }

    /// An executor no longer counts: it has ended or will end soon. Each is judged only once,
    /// however often its entry changes.
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

    /// The backoff period in which an executor ended early, if any.
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

    /// Processes executors that have run for `stable_after`, and the end of a backoff.
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

    /// Records a request. During a backoff it is the probe.
    pub fn requested(&mut self, id: ExecutorId) {
        if let Phase::Probing { probe, .. } = &mut self.phase {
            probe.get_or_insert(id);
        }
    }
}

#[cfg(test)]
mod tests;
