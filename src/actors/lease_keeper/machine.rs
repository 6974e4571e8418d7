//! Decides the next call about the Lease: `(state, answer, now) → effects` (spec O-32). One call is in flight at a time.
//! After an unclear answer the Lease is read before it is written.
//!
//! No clock of another machine is compared with: a holder counts from before it sent its renewal, a candidate from when
//! it last saw the Lease change, so the holder's time is over first.

mod values;

use std::sync::Arc;
use std::time::Duration;

use crate::kubernetes::calls::{Lease, LeaseSpec, micro_time};
use crate::kubernetes::{Failure, FailureKind};
use crate::model::{Now, Tick};

pub use values::{Answer, Effect, Identity, LeaseTimes, Loss, Op};

/// The longest duration of another holder that a candidate waits for.
const LONGEST: Duration = Duration::from_secs(3600);

/// The longest pause after a failed call.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Candidate,
    /// `since`: when the last renewal that succeeded was sent.
    Holder {
        since: Tick,
    },
    /// It gives the Lease up.
    Releasing {
        since: Tick,
    },
    Over,
}

/// The Lease as last seen.
#[derive(Debug)]
struct Seen {
    lease: Lease,
    /// When it was first seen like this, or found to be missing.
    since: Tick,
    /// It does not exist any more.
    deleted: bool,
    /// When it was last looked for in vain.
    looked: Tick,
}

#[derive(Debug)]
pub struct Machine {
    settings: LeaseTimes,
    identity: Arc<str>,
    role: Role,
    seen: Option<Seen>,
    /// The holder that was last reported.
    reported: Option<Arc<str>>,
    must_read: bool,
    /// The next renewal, or the next look of a candidate.
    due: Tick,
    /// After a failure nothing is sent before this time.
    not_before: Tick,
    /// The call in flight, when it was sent, and whether it frees the Lease.
    sent: Option<(Tick, bool)>,
    failed: u32,
}

impl Machine {
    pub fn new(settings: LeaseTimes) -> Self {
        Self {
            identity: settings.identity.text(),
            settings,
            role: Role::Candidate,
            seen: None,
            reported: None,
            must_read: true,
            due: Tick::default(),
            not_before: Tick::default(),
            sent: None,
            failed: 0,
        }
    }

    /// Whether the Lease has to be watched: only a candidate learns anything from that.
    pub fn wants_watch(&self) -> bool {
        self.role == Role::Candidate
    }

    /// When this driver stops writing, if it holds the Lease.
    fn ends(&self) -> Option<Tick> {
        match self.role {
            Role::Holder { since } | Role::Releasing { since } => {
                Some(since + self.settings.renew_deadline)
            }
            Role::Candidate | Role::Over => None,
        }
    }

    /// Looks at the clock. A holder whose time is over has lost the Lease, whatever an answer says that arrives later.
    pub fn tick(&mut self, now: Now) -> Vec<Effect> {
        if self.ends().is_none_or(|ends| now.tick < ends) {
            return Vec::new();
        }
        let effect = match self.role {
            Role::Releasing { .. } => Effect::Released,
            _ => Effect::Lost(Loss::Expired),
        };
        self.role = Role::Over;
        vec![effect]
    }

    /// The next call, if one is due.
    pub fn next(&mut self, now: Now) -> Option<Op> {
        if self.sent.is_some() || now.tick < self.not_before {
            return None;
        }
        let op = match self.role {
            Role::Over => return None,
            Role::Candidate if self.must_read => Op::Get,
            Role::Candidate if self.may_take(now.tick) => self.claim(Some(&self.identity), now),
            Role::Candidate if now.tick >= self.due => Op::Get,
            Role::Candidate => return None,
            Role::Holder { .. } | Role::Releasing { .. } if self.must_read => Op::Get,
            Role::Holder { .. } if now.tick >= self.due => self.claim(Some(&self.identity), now),
            Role::Holder { .. } => return None,
            Role::Releasing { .. } => self.claim(None, now),
        };
        let frees = matches!(self.role, Role::Releasing { .. }) && op != Op::Get;
        self.sent = Some((now.tick, frees));
        Some(op)
    }

    /// When [`Self::tick`] or [`Self::next`] has something to do, if no answer arrives before.
    pub fn next_at(&self) -> Option<Tick> {
        let call = match self.role {
            Role::Over => return None,
            _ if self.sent.is_some() => None,
            _ if self.must_read => Some(self.not_before),
            Role::Candidate => {
                let taken = self.free_at().unwrap_or(self.due);
                Some(taken.min(self.due).max(self.not_before))
            }
            Role::Holder { .. } => Some(self.due.max(self.not_before)),
            Role::Releasing { .. } => Some(self.not_before),
        };
        call.into_iter().chain(self.ends()).min()
    }

    /// Something was seen by the watch; `None`: the Lease was deleted.
    pub fn watched(&mut self, lease: Option<Lease>, now: Now) -> Vec<Effect> {
        // A holder learns the truth from its renewals. What the watch shows may be old.
        if self.role != Role::Candidate {
            return Vec::new();
        }
        match lease {
            Some(lease) => self.observe(lease, now.tick),
            None => self.must_read = true,
        }
        self.report()
    }

    /// Gives the Lease up, so that another driver takes over at once.
    pub fn release(&mut self) -> Vec<Effect> {
        match self.role {
            Role::Holder { since } => {
                self.role = Role::Releasing { since };
                Vec::new()
            }
            Role::Candidate => match self.sent {
                // It may be the write that makes this the holder.
                Some((since, _)) => {
                    self.role = Role::Releasing { since };
                    Vec::new()
                }
                None => {
                    self.role = Role::Over;
                    vec![Effect::Released]
                }
            },
            Role::Releasing { .. } | Role::Over => Vec::new(),
        }
    }

    pub fn answered(&mut self, answer: Answer, now: Now) -> Vec<Effect> {
        let mut effects = self.tick(now);
        // An answer to no call is a repeated one.
        let Some((sent, frees)) = self.sent.take() else {
            return effects;
        };
        if self.role == Role::Over {
            return effects;
        }
        if let Answer::Failed(failure) = answer {
            effects.extend(self.failed(failure, now.tick));
            return effects;
        }
        if std::mem::take(&mut self.failed) > 0 {
            effects.push(Effect::Recovered);
        }
        self.must_read = false;
        self.not_before = now.tick;
        effects.extend(match answer {
            Answer::Written(lease) if frees => {
                self.observe(lease, now.tick);
                self.role = Role::Over;
                vec![Effect::Released]
            }
            Answer::Written(lease) if lease.spec.holder.as_ref() == Some(&self.identity) => {
                self.observe(lease, now.tick);
                self.held(sent, now.tick)
            }
            Answer::Written(lease) | Answer::Got(Some(lease)) => {
                self.observe(lease, now.tick);
                self.read(now.tick)
            }
            Answer::Got(None) => self.missing(now.tick),
            Answer::Failed(_) => Vec::new(),
        });
        effects
    }

    /// A write with this driver as the holder was answered.
    fn held(&mut self, since: Tick, now: Tick) -> Vec<Effect> {
        self.due = since + self.settings.retry_period;
        match self.role {
            // The answer was too late to be of use. The Lease is this driver's, so it is renewed at once.
            Role::Candidate if now >= since + self.settings.renew_deadline => return Vec::new(),
            Role::Candidate | Role::Holder { .. } => self.role = Role::Holder { since },
            Role::Releasing { .. } => {
                self.role = Role::Releasing { since };
                return Vec::new();
            }
            Role::Over => return Vec::new(),
        }
        vec![Effect::Held { since }]
    }

    /// The Lease was read.
    fn read(&mut self, now: Tick) -> Vec<Effect> {
        let holder = self
            .seen
            .as_ref()
            .and_then(|seen| seen.lease.spec.holder.clone());
        let another = holder.filter(|holder| *holder != self.identity);
        match (self.role, another) {
            (Role::Candidate, _) => {
                self.due = now + self.settings.retry_period;
                self.report()
            }
            // That it is still this driver's does not make it valid for longer; a renewal does.
            (Role::Holder { .. }, None) => {
                self.due = now;
                Vec::new()
            }
            (Role::Holder { .. }, Some(by)) => {
                self.role = Role::Over;
                vec![Effect::Lost(Loss::Taken { by })]
            }
            (Role::Releasing { .. }, None) if self.is_held_by_this() => Vec::new(),
            (Role::Releasing { .. }, _) => {
                self.role = Role::Over;
                vec![Effect::Released]
            }
            (Role::Over, _) => Vec::new(),
        }
    }

    /// There is no Lease. Who may have held it last, and may still write, is not known.
    fn missing(&mut self, now: Tick) -> Vec<Effect> {
        let gap = self.longest_gap();
        if let Some(seen) = &mut self.seen {
            // Between two looks it may have been made and deleted again.
            if !seen.deleted || now.since(seen.looked) > gap {
                seen.since = now;
            }
            (seen.deleted, seen.looked) = (true, now);
        }
        match self.role {
            Role::Candidate => {
                self.due = now + self.settings.retry_period;
                Vec::new()
            }
            Role::Holder { .. } => {
                self.due = now;
                Vec::new()
            }
            Role::Releasing { .. } => {
                self.role = Role::Over;
                vec![Effect::Released]
            }
            Role::Over => Vec::new(),
        }
    }

    fn failed(&mut self, failure: Failure, now: Tick) -> Vec<Effect> {
        // Only a read shows whether a write was carried out, and what is there instead.
        self.must_read = true;
        self.failed = self.failed.saturating_add(1);
        let contended = matches!(
            failure.kind,
            FailureKind::Conflict | FailureKind::AlreadyExists | FailureKind::NotFound
        );
        let pause = match contended && self.failed == 1 {
            true => Duration::ZERO,
            false => self.settings.retry_period.min(AGAIN),
        };
        let asked = failure.retry_after.unwrap_or_default();
        self.not_before = now + pause.max(asked.min(self.settings.retry_period));
        let hopeless = matches!(
            failure.kind,
            FailureKind::Rights
                | FailureKind::NamespaceMissing
                | FailureKind::NamespaceTerminating
                | FailureKind::Invalid
                | FailureKind::Admission
                | FailureKind::Quota
        );
        if hopeless && self.role == Role::Candidate && self.seen.is_none() {
            self.role = Role::Over;
            return vec![Effect::Refused(failure)];
        }
        if contended || self.failed > 1 {
            return Vec::new();
        }
        vec![Effect::Troubled(failure.explained())]
    }

    fn observe(&mut self, lease: Lease, now: Tick) {
        let same = |seen: &&mut Seen| {
            !seen.deleted && (&seen.lease.uid, &seen.lease.spec) == (&lease.uid, &lease.spec)
        };
        match self.seen.as_mut().filter(same) {
            Some(seen) => seen.lease.version = lease.version,
            None => {
                self.seen = Some(Seen {
                    lease,
                    since: now,
                    deleted: false,
                    looked: now,
                });
            }
        }
    }

    fn report(&mut self) -> Vec<Effect> {
        let holder = self
            .seen
            .as_ref()
            .and_then(|seen| seen.lease.spec.holder.clone());
        let holder = holder.filter(|holder| !self.is_own(holder));
        if holder.is_none() || holder == self.reported {
            return Vec::new();
        }
        self.reported.clone_from(&holder);
        (holder.into_iter())
            .map(|holder| Effect::StandBy { holder })
            .collect()
    }

    fn is_own(&self, holder: &str) -> bool {
        *holder == *self.identity || self.settings.identity.followed(holder)
    }

    fn is_held_by_this(&self) -> bool {
        let holder = self
            .seen
            .as_ref()
            .and_then(|seen| seen.lease.spec.holder.as_ref());
        holder == Some(&self.identity)
    }

    /// When a candidate may take the Lease that it has seen; `None` if it has seen none.
    fn free_at(&self) -> Option<Tick> {
        let seen = self.seen.as_ref()?;
        let spec = &seen.lease.spec;
        let free = spec
            .holder
            .as_deref()
            .is_none_or(|holder| self.is_own(holder));
        let free = free && !seen.deleted;
        // A holder with another configuration stops writing as its own duration says.
        let duration = spec.duration.min(LONGEST).max(self.settings.duration);
        Some(if free {
            seen.since
        } else {
            seen.since + duration
        })
    }

    fn may_take(&self, now: Tick) -> bool {
        // A write of a Lease that is there is refused if it was changed since it was seen; a create is not.
        let mut deleted = self.seen.iter().filter(|seen| seen.deleted);
        let unseen = deleted.any(|seen| now.since(seen.looked) > self.longest_gap());
        !unseen && self.free_at().is_none_or(|free_at| now >= free_at)
    }

    /// The longest time between two looks for a deleted Lease.
    fn longest_gap(&self) -> Duration {
        self.settings.retry_period.saturating_mul(2)
    }

    /// The write that makes this the holder.
    fn claim(&self, holder: Option<&Arc<str>>, now: Now) -> Op {
        let time = micro_time(now.wall);
        let before = self.seen.as_ref().map(|seen| &seen.lease.spec);
        let goes_on = before.is_some_and(|before| before.holder.as_ref() == holder);
        let spec = LeaseSpec {
            holder: holder.cloned(),
            // A free Lease may be taken at once.
            duration: match holder {
                Some(_) => self.settings.duration,
                None => Duration::from_secs(1),
            },
            acquired: match before.filter(|_| goes_on || holder.is_none()) {
                Some(before) => before.acquired.clone(),
                None => Some(Arc::clone(&time)),
            },
            transitions: match before {
                Some(before) if goes_on || holder.is_none() => before.transitions,
                Some(before) => before.transitions.saturating_add(1),
                None => 0,
            },
            renewed: Some(time),
        };
        match &self.seen {
            Some(seen) if !seen.deleted => {
                let lease = &seen.lease;
                Op::Replace(spec, lease.uid.clone(), lease.version.clone())
            }
            _ => Op::Create(spec),
        }
    }
}

#[cfg(test)]
mod tests;
