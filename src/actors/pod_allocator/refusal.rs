//! Waits between requests of a profile that the API server refuses (spec ).

use std::sync::Arc;
use std::time::Duration;

use crate::model::Tick;
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

/// The wait after a refused template; only a change of it or of the cluster helps (spec A-23).
const BLOCKED_FOR: Duration = Duration::from_secs(300);

/// The wait after a refused template of which executors were accepted before, so that the cluster has changed and may
/// change again (spec A-114).
const ACCEPTED_BEFORE: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(10),
};

/// The least time between two tries, however often more is wanted.
const SPACING: Duration = Duration::from_secs(1);

/// The wait after a refusal that may end by itself (spec A-21).
const REFUSED: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(60),
};

/// How long nothing may have been refused before a pause has ended. A quota that gives and takes all the time accepts
/// each try and refuses the next request: that is one pause (spec A-31).
const QUIET: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalKind {
    /// A quota is used up. The end of an executor may free some of it.
    Quota,
    /// The template is invalid or was refused by admission.
    Blocked,
    /// The driver lacks permissions.
    Rights,
    /// The driver's credentials are not accepted.
    Credentials,
    /// The namespace is missing or terminating.
    Namespace,
}

impl RefusalKind {
    /// Whether it ends a driver that never had an executor, if it meets every profile (spec A-24).
    pub fn is_fatal_at_start(self) -> bool {
        match self {
            RefusalKind::Blocked | RefusalKind::Rights | RefusalKind::Namespace => true,
            RefusalKind::Quota | RefusalKind::Credentials => false,
        }
    }
}

/// The wait of one profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalPause {
    pub kind: RefusalKind,
    /// The server's message.
    pub why: Arc<str>,
    pub since: Tick,
    /// Nothing is requested before this time.
    pub until: Tick,
    failures: u32,
    /// When the last answer came.
    answered: Tick,
    /// When the one request that tests the refusal was sent.
    trying: Option<Tick>,
    /// Since when requests are accepted again, and as many are sent as are wanted.
    lifted: Option<Tick>,
}

impl RefusalPause {
    /// `accepted`: whether the same was accepted before.
    pub fn begin(kind: RefusalKind, why: Arc<str>, accepted: bool, now: Tick) -> Self {
        Self {
            kind,
            why,
            since: now,
            until: now + wait(kind, accepted, 1),
            failures: 1,
            answered: now,
            trying: None,
            lifted: None,
        }
    }

    /// Records another refusal, of a request sent at `sent`. Returns whether its kind is new.
    /// While requests are held back, answers to those that were sent before the test request are ignored.
    pub fn again(
        &mut self,
        kind: RefusalKind,
        why: Arc<str>,
        accepted: bool,
        sent: Tick,
        now: Tick,
    ) -> bool {
        if !self.is_news(sent) {
            return false;
        }
        self.trying = None;
        let another = kind != self.kind;
        let was_lifted = self.lifted.take().is_some();
        self.failures = if another || was_lifted {
            1
        } else {
            self.failures.saturating_add(1)
        };
        (self.kind, self.why) = (kind, why);
        self.answered = now;
        self.until = now + wait(kind, accepted, self.failures);
        another
    }

    /// An executor of the profile has ended, so a quota may have room. The cluster recalculates the
    /// quota some time after the end, so the backoff begins again at its shortest step (spec A-21).
    pub fn executor_ended(&mut self, now: Tick) {
        if self.kind == RefusalKind::Quota {
            self.until = self.until.min(now);
            self.failures = 0;
        }
    }

    /// Somebody has changed what is wanted, and may have changed the cluster before (spec A-114).
    pub fn try_soon(&mut self, now: Tick) {
        self.until = self.until.min(now.max(self.answered + SPACING));
    }

    /// The try was accepted, and more is held back, which may be tried at once.
    pub fn accepted_one(&mut self, now: Tick) {
        (self.trying, self.until, self.failures) = (None, now, 0);
    }

    /// The try was accepted, and nothing is held back: requests are sent as ever, but the pause has not ended yet.
    pub fn lift(&mut self, now: Tick) {
        self.trying = None;
        self.lifted.get_or_insert(now);
    }

    /// Whether requests are held back, but for the test request.
    pub fn holds_back(&self) -> bool {
        self.lifted.is_none()
    }

    /// When it will have ended, if nothing is refused until then; and how long it will have held requests back.
    pub fn ends_at(&self) -> Option<(Tick, Duration)> {
        let lifted = self.lifted?;
        Some((lifted + QUIET, lifted.since(self.since)))
    }

    /// When the next test request may be sent; `None` while one decides, and while requests are accepted.
    pub fn next_try(&self) -> Option<Tick> {
        (self.holds_back() && !self.is_trying()).then_some(self.until)
    }

    /// Whether a test request may be sent now.
    pub fn allows_a_try(&self, now: Tick) -> bool {
        now >= self.until && self.trying.is_none() && !planted::is(Planted::RefusedForEver)
    }

    /// Whether the test request is in flight.
    pub fn is_trying(&self) -> bool {
        self.trying.is_some()
    }

    pub fn try_one(&mut self, now: Tick) {
        self.trying = Some(now);
    }

    /// Whether a request sent at `sent` is the test request, not one from before the refusal.
    pub fn is_answer_to_the_try(&self, sent: Tick) -> bool {
        self.trying.is_some_and(|tried| sent >= tried)
    }

    /// Whether a refusal of a request sent at `sent` says more than is known.
    pub fn is_news(&self, sent: Tick) -> bool {
        !self.holds_back() || self.is_answer_to_the_try(sent)
    }

    /// A request sent at `sent` got another answer than a refusal of this kind, or none.
    pub fn try_over(&mut self, sent: Tick) {
        if self.is_answer_to_the_try(sent) {
            self.trying = None;
        }
    }
}

fn wait(kind: RefusalKind, accepted: bool, failures: u32) -> Duration {
    match kind {
        RefusalKind::Blocked if accepted => ACCEPTED_BEFORE.delay(failures),
        RefusalKind::Blocked => BLOCKED_FOR,
        RefusalKind::Quota
        | RefusalKind::Rights
        | RefusalKind::Credentials
        | RefusalKind::Namespace => REFUSED.delay(failures),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    /// Sends a test request at this second, which is refused.
    fn refuse(pause: &mut RefusalPause, kind: RefusalKind, second: u64) -> bool {
        assert!(pause.allows_a_try(at(second)), "{pause:?} at {second}");
        pause.try_one(at(second));
        assert!(!pause.allows_a_try(at(second)), "one at a time");
        pause.again(kind, "no".into(), false, at(second), at(second))
    }

    // spec: A-21
    #[test]
    fn a_quota_is_tried_again_after_one_second_doubling_to_a_minute() {
        let mut pause = RefusalPause::begin(RefusalKind::Quota, "full".into(), false, at(0));
        let (mut second, mut waits) = (0, Vec::new());
        for _ in 0..8 {
            waits.push(at(second).until(pause.until).as_secs());
            second += waits.last().unwrap();
            refuse(&mut pause, RefusalKind::Quota, second);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    // spec: A-21
    #[test]
    fn a_quota_is_tried_at_once_when_an_executor_ends_and_a_second_later() {
        let mut pause = RefusalPause::begin(RefusalKind::Quota, "full".into(), false, at(0));
        for second in [1, 3, 7, 15, 31] {
            refuse(&mut pause, RefusalKind::Quota, second);
        }
        assert!(!pause.allows_a_try(at(40)));
        pause.executor_ended(at(40));
        refuse(&mut pause, RefusalKind::Quota, 40);
        assert_eq!(pause.until, at(41), "the quota is reckoned a moment later");
    }

    // spec: A-23
    #[test]
    fn a_refused_template_blocks_its_profile_for_five_minutes_even_if_executors_end() {
        let mut pause = RefusalPause::begin(RefusalKind::Blocked, "invalid".into(), false, at(0));
        pause.executor_ended(at(10));
        assert!(!pause.allows_a_try(at(299)));
        assert!(pause.allows_a_try(at(300)));
    }

    // spec: A-21
    #[test]
    fn answers_to_requests_sent_before_the_refusal_are_ignored() {
        let mut pause = RefusalPause::begin(RefusalKind::Quota, "full".into(), false, at(5));
        for _ in 0..31 {
            let old = "old".into();
            assert!(!pause.again(RefusalKind::Blocked, old, false, at(5), at(5)));
        }
        assert_eq!((pause.kind, pause.until), (RefusalKind::Quota, at(6)));
        pause.try_one(at(6));
        pause.try_over(at(5));
        assert!(!pause.allows_a_try(at(9)), "the try is still out");
        pause.try_over(at(6));
        assert!(pause.allows_a_try(at(9)));
    }

    // spec: A-31
    #[test]
    fn a_pause_has_ended_when_nothing_was_refused_for_ten_seconds() {
        let quota = RefusalKind::Quota;
        let mut pause = RefusalPause::begin(quota, "full".into(), false, at(0));
        assert_eq!(pause.ends_at(), None);
        assert_eq!(pause.next_try(), Some(at(1)));
        pause.try_one(at(1));
        pause.lift(at(1));
        assert!(!pause.holds_back());
        assert_eq!(pause.next_try(), None);
        assert_eq!(pause.ends_at(), Some((at(11), Duration::from_secs(1))));
        // The next request is refused: the same pause goes on, with its shortest wait.
        let more: Arc<str> = "full".into();
        assert!(!pause.again(quota, Arc::clone(&more), false, at(5), at(5)));
        assert!(pause.holds_back());
        assert_eq!((pause.since, pause.until), (at(0), at(6)));
        assert!(
            !pause.again(quota, more, false, at(5), at(6)),
            "and those with it are ignored"
        );
        assert_eq!(pause.until, at(6));
        assert_eq!(pause.ends_at(), None);
    }

    // spec: A-114
    #[test]
    fn a_template_that_was_accepted_before_is_tried_again_within_seconds() {
        let (kind, no) = (RefusalKind::Blocked, || Arc::from("no"));
        let mut pause = RefusalPause::begin(kind, no(), true, at(0));
        let (mut now, mut waits) = (at(0), Vec::new());
        for _ in 0..7 {
            waits.push(now.until(pause.until).as_secs());
            now = pause.until;
            pause.try_one(now);
            pause.again(kind, no(), true, now, now);
        }
        assert_eq!(waits, [1, 2, 4, 8, 10, 10, 10]);
    }

    // spec: A-114
    #[test]
    fn a_command_has_a_refused_profile_tried_at_once_but_not_twice_a_second() {
        let mut pause = RefusalPause::begin(RefusalKind::Blocked, "no".into(), false, at(0));
        pause.try_soon(at(20));
        refuse(&mut pause, RefusalKind::Blocked, 20);
        assert_eq!(pause.until, at(320));
        pause.try_soon(at(20));
        assert_eq!(pause.until, at(21));
    }

    // spec: A-31
    #[test]
    fn another_kind_of_refusal_begins_its_own_wait() {
        let mut pause = RefusalPause::begin(RefusalKind::Quota, "full".into(), false, at(0));
        assert!(!refuse(&mut pause, RefusalKind::Quota, 1));
        assert!(refuse(&mut pause, RefusalKind::Blocked, 3));
        assert_eq!(pause.until, at(303));
    }
}
