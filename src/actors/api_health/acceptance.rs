//! Whether the API server accepts the driver's credentials, and when they are reloaded: pure (spec A-22).

use std::time::Duration;

use boatswain_agent::backoff::Backoff;

use crate::kubernetes::FailureKind;
use crate::model::Tick;

/// How long after a reload the credentials are reloaded again while they are refused.
const AGAIN: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(30),
};

/// What an answer shows about the credentials of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialAnswer {
    /// The credentials are valid, even if the call failed for another reason.
    Accepted,
    /// 401.
    Refused,
}

impl CredentialAnswer {
    /// By the outcome of an answered call. `None` if the call may not have been authenticated: a server that shuts down
    /// and a proxy before it answer 429 or 503 without looking at the credentials.
    pub fn of(failure: Option<FailureKind>) -> Option<Self> {
        match failure {
            Some(FailureKind::Credentials) => Some(Self::Refused),
            Some(FailureKind::Wait) => None,
            _ => Some(Self::Accepted),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Renew,
    /// Log that the reloaded credentials are refused too.
    SayRefused,
    /// Log that the credentials are accepted again, after this time.
    SayAccepted(Duration),
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Acceptance {
    #[default]
    Good,
    Refused(Refusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// When the credentials were first refused.
    since: Tick,
    /// How often they were reloaded since.
    reloads: u32,
    phase: Phase,
    /// Whether it was logged that reloading does not help.
    said: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Reloading,
    Reloaded {
        /// When they were reloaded. Answers to earlier calls say nothing about them.
        at: Tick,
        /// When they are reloaded again, if they are refused.
        again: Tick,
        refused: bool,
    },
}

impl Acceptance {
    /// Processes the answer to a call that took `took`.
    pub fn called(&mut self, heard: CredentialAnswer, took: Duration, now: Tick) -> Option<Step> {
        let Self::Refused(refusal) = self else {
            if heard == CredentialAnswer::Accepted {
                return None;
            }
            *self = Self::Refused(Refusal {
                since: now,
                reloads: 0,
                phase: Phase::Reloading,
                said: false,
            });
            return Some(Step::Renew);
        };
        let Phase::Reloaded { at, refused, .. } = &mut refusal.phase else {
            return None;
        };
        if took > now.since(*at) {
            return None;
        }
        match heard {
            CredentialAnswer::Refused => {
                *refused = true;
                let said = std::mem::replace(&mut refusal.said, true);
                (!said).then_some(Step::SayRefused)
            }
            CredentialAnswer::Accepted => {
                let after = now.since(refusal.since);
                *self = Self::Good;
                Some(Step::SayAccepted(after))
            }
        }
    }

    /// The credentials were reloaded, or could not be. `random` is in [0, 1).
    pub fn renewed(&mut self, random: f64, now: Tick) {
        if let Self::Refused(refusal) = self {
            refusal.reloads = refusal.reloads.saturating_add(1);
            refusal.phase = Phase::Reloaded {
                at: now,
                again: now + AGAIN.jittered(refusal.reloads, random),
                refused: false,
            };
        }
    }

    /// Decides, while the credentials are refused, whether to reload them again: when one of their files has changed
    /// since the last reload, or when they were refused after it and the backoff is over.
    pub fn looked(&mut self, changed: bool, now: Tick) -> Option<Step> {
        let Self::Refused(refusal) = self else {
            return None;
        };
        let Phase::Reloaded { again, refused, .. } = refusal.phase else {
            return None;
        };
        (changed || (refused && now >= again)).then(|| {
            refusal.phase = Phase::Reloading;
            Step::Renew
        })
    }

    pub fn is_refused(&self) -> bool {
        *self != Self::Good
    }

    /// Whether this is the first reload since the credentials were refused.
    pub fn is_first_reload(&self) -> bool {
        !matches!(self, Self::Refused(refusal) if refusal.reloads > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    const SHORT: Duration = Duration::from_millis(5);

    fn refused(acceptance: &mut Acceptance, second: u64) -> Option<Step> {
        acceptance.called(CredentialAnswer::Refused, SHORT, at(second))
    }

    // spec: A-22
    #[test]
    fn only_an_answer_to_an_authenticated_call_shows_that_the_credentials_are_accepted() {
        assert_eq!(CredentialAnswer::of(None), Some(CredentialAnswer::Accepted));
        assert_eq!(
            CredentialAnswer::of(Some(FailureKind::Rights)),
            Some(CredentialAnswer::Accepted)
        );
        assert_eq!(
            CredentialAnswer::of(Some(FailureKind::Credentials)),
            Some(CredentialAnswer::Refused)
        );
        assert_eq!(CredentialAnswer::of(Some(FailureKind::Wait)), None);
    }

    // spec: A-22
    #[test]
    fn refused_credentials_are_reloaded_at_once_and_a_second_refusal_is_logged_once() {
        let mut acceptance = Acceptance::default();
        assert_eq!(
            acceptance.called(CredentialAnswer::Accepted, SHORT, at(1)),
            None
        );
        assert_eq!(refused(&mut acceptance, 10), Some(Step::Renew));
        assert_eq!(refused(&mut acceptance, 10), None, "one reload at a time");
        acceptance.renewed(0.0, at(11));
        let slow = Duration::from_secs(5);
        assert_eq!(
            acceptance.called(CredentialAnswer::Refused, slow, at(12)),
            None,
            "it was made before"
        );
        assert_eq!(refused(&mut acceptance, 13), Some(Step::SayRefused));
        for second in 14..1_000 {
            assert_eq!(refused(&mut acceptance, second), None, "said once");
        }
        let over = Some(Step::SayAccepted(Duration::from_secs(990)));
        assert_eq!(
            acceptance.called(CredentialAnswer::Accepted, SHORT, at(1_000)),
            over
        );
        assert_eq!(
            refused(&mut acceptance, 1_001),
            Some(Step::Renew),
            "and anew"
        );
    }

    // spec: A-22
    #[test]
    fn credentials_are_reloaded_with_backoff_for_as_long_as_they_are_refused() {
        let mut acceptance = Acceptance::default();
        refused(&mut acceptance, 0);
        acceptance.renewed(0.0, at(0));
        let (mut last, mut waits) = (0, Vec::new());
        for second in 1..200 {
            refused(&mut acceptance, second);
            if acceptance.looked(false, at(second)) == Some(Step::Renew) {
                waits.push(second - last);
                last = second;
                acceptance.renewed(0.0, at(second));
            }
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30, 30, 30]);
    }

    // spec: A-22
    #[test]
    fn credentials_that_no_call_has_tried_are_reloaded_only_if_a_file_changed() {
        let mut acceptance = Acceptance::default();
        refused(&mut acceptance, 0);
        assert_eq!(
            acceptance.looked(true, at(0)),
            None,
            "they are being reloaded"
        );
        acceptance.renewed(0.0, at(0));
        for second in 1..100 {
            assert_eq!(acceptance.looked(false, at(second)), None);
        }
        assert_eq!(acceptance.looked(true, at(100)), Some(Step::Renew));
        acceptance.renewed(0.0, at(100));
        acceptance.called(CredentialAnswer::Accepted, SHORT, at(101));
        assert_eq!(acceptance.looked(true, at(102)), None, "they are accepted");
    }
}
