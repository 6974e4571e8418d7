//! A profile whose requests are refused for a reason of their own waits (spec ).

use std::sync::Arc;
use std::time::Duration;

use crate::model::Tick;
use crate::model::backoff::Backoff;

/// A refused template waits this long, for only a change of it or of the cluster's rules can help (spec A-23).
const BLOCKED_FOR: Duration = Duration::from_secs(300);

/// Between tries after a refusal that may lift by itself (spec A-21).
const REFUSED: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
};

/// Why a profile's requests are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A quota is used up; an executor that ends may make room.
    Quota,
    /// The template was refused: invalid, or by admission.
    Blocked,
    /// The driver may not do that.
    Rights,
    /// The driver's credentials are not accepted.
    Credentials,
    /// The namespace is missing or terminating.
    Namespace,
}

impl Kind {
    /// Whether it ends a driver that never had an executor (spec A-24).
    pub fn is_fatal_at_start(self) -> bool {
        match self {
            Kind::Blocked | Kind::Rights | Kind::Namespace => true,
            Kind::Quota | Kind::Credentials => false,
        }
    }
}

/// A profile that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Why.
    pub kind: Kind,
    /// In the server's words.
    pub why: Arc<str>,
    /// Since when.
    pub since: Tick,
    /// Until when nothing is asked for.
    pub until: Tick,
    failures: u32,
    last_step: Tick,
    trying: bool,
}

impl Hold {
    /// A refusal where there was none.
    pub fn begin(kind: Kind, why: Arc<str>, now: Tick) -> Self {
        let until = now + wait(kind, 1);
        Self {
            kind,
            why,
            since: now,
            until,
            failures: 1,
            last_step: now,
            trying: false,
        }
    }

    /// Another refusal, of a request that left at `sent`; those that left before the last step are of the same one.
    pub fn again(&mut self, kind: Kind, why: Arc<str>, sent: Tick, now: Tick) {
        self.trying = false;
        if sent < self.last_step {
            return;
        }
        self.failures = if kind == self.kind {
            self.failures.saturating_add(1)
        } else {
            1
        };
        (self.kind, self.why, self.last_step) = (kind, why, now);
        self.until = now + wait(kind, self.failures);
    }

    /// An executor of the profile has ended: a quota may have room now (spec A-21).
    pub fn executor_ended(&mut self, now: Tick) {
        if self.kind == Kind::Quota {
            self.until = self.until.min(now);
        }
    }

    /// Whether one request may be tried now.
    pub fn allows_a_try(&self, now: Tick) -> bool {
        now >= self.until && !self.trying
    }

    /// One request is tried.
    pub fn try_one(&mut self) {
        self.trying = true;
    }

    /// The try was answered in another way than by a refusal of this sort, or not at all.
    pub fn try_over(&mut self) {
        self.trying = false;
    }
}

fn wait(kind: Kind, failures: u32) -> Duration {
    match kind {
        Kind::Blocked => BLOCKED_FOR,
        Kind::Quota | Kind::Rights | Kind::Credentials | Kind::Namespace => REFUSED.delay(failures),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    // spec: A-21
    #[test]
    fn a_quota_is_tried_again_after_one_second_doubling_to_a_minute_and_when_an_executor_ends() {
        let mut hold = Hold::begin(Kind::Quota, "full".into(), at(0));
        let mut waits = vec![at(0).until(hold.until).as_secs()];
        for _ in 0..7 {
            let now = hold.until;
            hold.again(Kind::Quota, "full".into(), now, now);
            waits.push(now.until(hold.until).as_secs());
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        let now = hold.last_step + Duration::from_secs(1);
        assert!(!hold.allows_a_try(now));
        hold.executor_ended(now);
        assert!(hold.allows_a_try(now));
        hold.try_one();
        assert!(!hold.allows_a_try(now), "one at a time");
    }

    // spec: A-23
    #[test]
    fn a_refused_template_blocks_its_profile_for_five_minutes_whoever_ends() {
        let mut hold = Hold::begin(Kind::Blocked, "invalid".into(), at(0));
        hold.executor_ended(at(10));
        assert!(!hold.allows_a_try(at(299)));
        assert!(hold.allows_a_try(at(300)));
    }

    // spec: A-21
    #[test]
    fn requests_refused_together_are_one_step() {
        let mut hold = Hold::begin(Kind::Quota, "full".into(), at(5));
        (0..31).for_each(|_| hold.again(Kind::Quota, "full".into(), at(4), at(5)));
        assert_eq!(hold.until, at(6));
    }
}
