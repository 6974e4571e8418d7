//! Executors that end early, again and again, are not asked for again and again (spec A-30).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::model::backoff::Backoff;
use crate::model::{ExecutorId, Tick};
use crate::planted::{self, Planted};

/// Of this part of the target that many may end early before a profile backs off: 5 %, and at least one.
const TOLERATED_SHARE: u32 = 20;

/// What is known of a profile's early ends.
#[derive(Debug, Default)]
pub struct CrashLoop {
    phase: Phase,
    /// Early ends since the last executor that stayed.
    early: u32,
    /// Executors that were judged and have not left the snapshot, so its size follows the dying; with the backoff
    /// period in which each ended early.
    counted: BTreeMap<ExecutorId, Option<Period>>,
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
        if stayed_before || self.counted.contains_key(&id) {
            return;
        }
        if self.young.insert(id, since).is_none() {
            self.young_order.insert((since, id));
        }
    }

    /// An executor does not count any more: it ended, early or not, or is about to. Each is judged once, however
    /// often it is seen.
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
        if self.counted.contains_key(&id) {
            return None;
        }
        let change = self.judge(id, early, target, backoff, now);
        let within = early && self.phase != Phase::Open;
        self.counted.insert(id, within.then_some(self.period));
        change
    }

    /// The backoff period in which an executor ended early, where it did so in one.
    pub fn period_of(&self, id: ExecutorId) -> Option<Period> {
        self.counted.get(&id).copied().flatten()
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
        self.counted.remove(&id);
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
mod tests {
    use super::*;

    const BACKOFF: Backoff = Backoff {
        initial: Duration::from_secs(1),
        max: Duration::from_secs(300),
    };
    const STABLE: Duration = Duration::from_secs(60);

    fn id(n: u64) -> ExecutorId {
        ExecutorId::new(n).unwrap()
    }

    fn at(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    fn end_early(looping: &mut CrashLoop, n: u64, target: u32, second: u64) -> Option<Change> {
        looping.ended(id(n), true, target, &BACKOFF, at(second))
    }

    /// A profile of four that has begun to back off at second 0.
    fn backing_off() -> CrashLoop {
        let mut looping = CrashLoop::default();
        assert_eq!(end_early(&mut looping, 1, 4, 0), None);
        assert_eq!(
            end_early(&mut looping, 2, 4, 0),
            Some(Change::Began { until: at(1) })
        );
        looping
    }

    // spec: A-30
    #[test]
    fn it_backs_off_when_more_than_one_and_more_than_a_twentieth_of_the_target_ended_early() {
        let mut small = CrashLoop::default();
        end_early(&mut small, 1, 4, 0);
        assert_eq!(small.permission(), Permission::Free);
        end_early(&mut small, 2, 4, 0);
        assert_eq!(small.permission(), Permission::NoneUntil(at(1)));

        let mut large = CrashLoop::default();
        for n in 1..=50 {
            end_early(&mut large, n, 1_000, 0);
        }
        assert_eq!(large.permission(), Permission::Free);
        end_early(&mut large, 51, 1_000, 0);
        assert_eq!(large.permission(), Permission::NoneUntil(at(1)));
    }

    // spec: A-30
    #[test]
    fn an_end_that_is_seen_twice_is_counted_once() {
        let mut looping = CrashLoop::default();
        for _ in 0..9 {
            end_early(&mut looping, 1, 4, 0);
        }
        assert_eq!(looping.permission(), Permission::Free);
    }

    // spec: A-30
    #[test]
    fn an_executor_that_stays_forgives_the_early_ends_before_it() {
        let mut looping = CrashLoop::default();
        end_early(&mut looping, 1, 4, 0);
        looping.running(id(2), at(1), STABLE);
        looping.tick(STABLE, at(61));
        end_early(&mut looping, 3, 4, 62);
        assert_eq!(looping.permission(), Permission::Free);
    }

    // spec: A-30
    #[test]
    fn after_the_backoff_one_probe_goes_out_and_the_rest_follow_when_it_stays() {
        let mut looping = backing_off();
        looping.tick(STABLE, at(1));
        assert_eq!(looping.permission(), Permission::OneProbe);
        looping.requested(id(3));
        assert_eq!(looping.permission(), Permission::ProbeIsOut);
        looping.running(id(3), at(2), STABLE);
        assert_eq!(looping.tick(STABLE, at(61)), None);
        let ended = Some(Change::Ended {
            after: Duration::from_secs(62),
        });
        assert_eq!(looping.tick(STABLE, at(62)), ended);
        assert_eq!(looping.permission(), Permission::Free);
    }

    // spec: A-30
    #[test]
    fn each_probe_that_ends_early_doubles_the_wait_up_to_five_minutes() {
        let mut looping = backing_off();
        let (mut second, mut waits) = (1, Vec::new());
        for n in 3..14 {
            looping.tick(STABLE, at(second));
            looping.requested(id(n));
            end_early(&mut looping, n, 4, second);
            let Permission::NoneUntil(until) = looping.permission() else {
                panic!("{looping:?}")
            };
            let next = until.since(at(0)).as_secs();
            waits.push(next - second);
            second = next;
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
    }

    // spec: A-30
    #[test]
    fn a_probe_that_goes_for_any_other_reason_is_followed_by_another() {
        let mut looping = backing_off();
        looping.tick(STABLE, at(1));
        looping.requested(id(3));
        looping.ended(id(3), false, 4, &BACKOFF, at(2));
        assert_eq!(looping.permission(), Permission::OneProbe);
    }

    // spec: A-30
    #[test]
    fn many_ends_within_one_backoff_period_are_one_step() {
        let mut looping = backing_off();
        for n in 3..30 {
            end_early(&mut looping, n, 4, 0);
        }
        assert_eq!(looping.permission(), Permission::NoneUntil(at(1)));
    }

    // spec: A-30, L-30
    #[test]
    fn early_ends_of_one_backoff_period_are_known_to_be_of_one() {
        let mut looping = backing_off();
        let open = looping.period_of(id(1));
        let first = looping.period_of(id(2));
        assert!(open.is_none() && first.is_some());
        end_early(&mut looping, 3, 4, 0);
        looping.ended(id(4), false, 4, &BACKOFF, at(0));
        assert_eq!(
            (looping.period_of(id(3)), looping.period_of(id(4))),
            (first, None)
        );
        looping.tick(STABLE, at(1));
        looping.requested(id(5));
        end_early(&mut looping, 6, 4, 1);
        assert_eq!(looping.period_of(id(6)), first, "not the probe");
        end_early(&mut looping, 5, 4, 2);
        assert!(
            looping.period_of(id(5)) > first,
            "the probe makes the next step"
        );
    }

    // spec: A-30, O-30
    #[test]
    fn a_restart_does_not_forget_the_backoff() {
        let mut looping = backing_off();
        for (n, second) in [(3, 1), (4, 3), (5, 7)] {
            looping.tick(STABLE, at(second));
            looping.requested(id(n));
            end_early(&mut looping, n, 4, second);
        }
        let kept = looping.keep(at(10)).unwrap();
        assert_eq!(
            kept,
            Kept {
                step: 4,
                remaining: Duration::from_secs(5)
            }
        );
        let resumed = CrashLoop::resume(kept, &BACKOFF, at(0));
        assert_eq!(resumed.permission(), Permission::NoneUntil(at(5)));
    }
}
