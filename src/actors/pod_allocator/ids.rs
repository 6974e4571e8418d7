//! Assigns executor ids: above all used ones and within the reserved ones (spec O-30, O-31).

use std::time::Duration;

use crate::model::{ExecutorId, Tick};

use super::decision::{Action, Decision, Notice};

/// With fewer ids than this left more are reserved, so that no request waits for it (spec O-30).
pub const RESERVE_BELOW: u64 = 500;

/// How many ids are reserved at a time (spec O-30).
pub const RESERVED_BLOCK: u64 = 1_000;

/// The most ids reserved ahead of need, so that a mistyped target does not use up millions.
pub const MOST_AHEAD: u64 = 10_000;

pub const RESERVE_AGAIN_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Ids {
    begun: bool,
    next: Option<ExecutorId>,
    reserved: Option<ExecutorId>,
    reservation: Reservation,
    said_out_of_ids: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reservation {
    None,
    Asked,
    Failed,
    NotBefore(Tick),
}

impl Ids {
    /// Ids up to this one are reserved. The first free one is known after adoption.
    pub fn reserved(up_to: Option<ExecutorId>) -> Self {
        Self {
            begun: false,
            next: None,
            reserved: up_to,
            reservation: Reservation::None,
            said_out_of_ids: false,
        }
    }

    /// At the first call: adoption has found the first unused id; `None`: all are used. Used ids above the reserved
    /// ones are reserved at once: a successor may start before anything is requested and no longer
    /// find their pods (spec I-1).
    pub fn begin(&mut self, first_free: Option<ExecutorId>, now: Tick, decision: &mut Decision) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        self.next = first_free;
        let last_used = first_free.and_then(|first| ExecutorId::new(first.get() - 1));
        if let Some(last) = last_used.filter(|last| Some(*last) > self.reserved) {
            let up_to = last.get().saturating_add(RESERVED_BLOCK);
            self.reserve(
                ExecutorId::new(up_to).unwrap_or(ExecutorId::MAX),
                now,
                decision,
            );
        }
    }

    /// A reservation up to this id was written; `None`: it failed.
    pub fn answered(&mut self, up_to: Option<ExecutorId>) {
        self.reservation = if up_to > self.reserved {
            Reservation::None
        } else {
            Reservation::Failed
        };
        self.reserved = self.reserved.max(up_to);
    }

    /// The next id; no id is returned twice.
    pub fn take(&mut self) -> Option<ExecutorId> {
        let id = self.next.filter(|id| Some(*id) <= self.reserved)?;
        self.next = id.next();
        Some(id)
    }

    /// How many ids may be assigned now. Reserves more in time.
    pub fn assignable(&mut self, wanted: u32, now: Tick, decision: &mut Decision) -> u32 {
        let Some(next) = self.next else {
            if !std::mem::replace(&mut self.said_out_of_ids, true) {
                decision.say(Notice::OutOfIds);
            }
            return 0;
        };
        let reserved = self.reserved.map_or(0, ExecutorId::get);
        let left = (reserved + 1).saturating_sub(next.get());
        let ahead = u64::from(wanted).clamp(RESERVE_BELOW, MOST_AHEAD);
        if left < ahead {
            let up_to = (next.get() - 1).saturating_add(ahead + RESERVED_BLOCK);
            self.reserve(
                ExecutorId::new(up_to).unwrap_or(ExecutorId::MAX),
                now,
                decision,
            );
        }
        u32::try_from(left).unwrap_or(u32::MAX)
    }

    fn reserve(&mut self, up_to: ExecutorId, now: Tick, decision: &mut Decision) {
        match self.reservation {
            Reservation::Asked => return,
            Reservation::NotBefore(at) if now < at => return decision.wake_at(Some(at), now),
            Reservation::Failed => {
                let at = now + RESERVE_AGAIN_AFTER;
                self.reservation = Reservation::NotBefore(at);
                return decision.wake_at(Some(at), now);
            }
            Reservation::None | Reservation::NotBefore(_) => {}
        }
        if Some(up_to) > self.reserved {
            self.reservation = Reservation::Asked;
            decision.actions.push(Action::Reserve(up_to));
        }
    }
}
