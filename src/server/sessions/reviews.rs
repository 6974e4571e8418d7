//! Remembers which callers' tokens the API server accepted when it was last asked (spec O-119). Pure.
//!
//! The keys that the cluster publishes show who a token was issued for, but not that its account or pod was deleted
//! since.

use std::collections::BTreeMap;
use std::time::Duration;

use ring::digest::{SHA256, digest};

use super::access::Denied;
use crate::kubernetes::{Failure, FailureKind};
use crate::model::Tick;

/// How long an accepted token is not asked about again.
const FRESH: Duration = Duration::from_secs(60);

/// How long no token is asked about after a call that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// How long no token is asked about after the API server refused the call: doubling from the one to the other. Rights
/// may be granted later.
const AFTER_REFUSAL: Duration = Duration::from_secs(10);
const AFTER_REFUSALS: Duration = Duration::from_secs(60);

/// How long the published keys alone decide about a token, since it was issued or since the API server accepted it last:
/// they do not show that its account was deleted. It is how long a token lives unless its owner wants another time.
const KEYS_ALONE: Duration = Duration::from_secs(3_600);

const REVOKED: Denied =
    Denied::Untrue("the API server accepts it no more: its account or its pod may be deleted");

const TOO_OLD: Denied = Denied::Untrue(
    "it is more than an hour old, and the driver has no right to ask whether its account still exists: present a newer \
     one, or let the driver create tokenreviews",
);

/// The most tokens that are remembered; the one that was asked about first is forgotten first.
const MOST: usize = 256;

/// The SHA-256 hash of a token.
type Hash = [u8; 32];

#[derive(Debug, Default)]
pub(super) struct Reviews {
    known: BTreeMap<Hash, Known>,
    /// Until when the published keys alone decide.
    keys_decide_until: Option<Tick>,
    /// How often in a row the call was refused for want of a right.
    refusals: u32,
}

#[derive(Debug)]
struct Known {
    accepted: bool,
    at: Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    Denied(Denied),
    /// The API server must be asked.
    Unknown,
}

impl Reviews {
    /// The verdict on a token whose signature is right, and which was issued this long ago.
    pub(super) fn verdict(&self, token: &str, age: Duration, now: Tick) -> Verdict {
        let known = self.known.get(&hash(token));
        let keys_decide = self.keys_decide_until.is_some_and(|until| now < until);
        match known {
            // A token that was revoked is never accepted again.
            Some(known) if !known.accepted => Verdict::Denied(REVOKED),
            Some(known) if now.since(known.at) < FRESH => Verdict::Accepted,
            _ if keys_decide => match self.by_keys(known, age, now) {
                Ok(()) => Verdict::Accepted,
                Err(denied) => Verdict::Denied(denied),
            },
            _ => Verdict::Unknown,
        }
    }

    /// Whether the published keys alone may decide about this token.
    fn by_keys(&self, known: Option<&Known>, age: Duration, now: Tick) -> Result<(), Denied> {
        let accepted = known.filter(|known| known.accepted);
        let since = accepted.map_or(age, |known| now.since(known.at).min(age));
        match since < KEYS_ALONE {
            true => Ok(()),
            false if self.refusals > 0 => Err(TOO_OLD),
            false => Err(Denied::NoReview),
        }
    }

    /// Remembers the API server's answer about a token that was issued this long ago. If there is no answer, the token
    /// is accepted because its signature is right, unless it is too old for that.
    pub(super) fn learn(
        &mut self,
        token: &str,
        age: Duration,
        answer: &Result<bool, Failure>,
        now: Tick,
    ) -> Result<(), Denied> {
        let failure = match answer {
            Ok(accepted) => {
                self.keys_decide_until = None;
                if std::mem::take(&mut self.refusals) > 0 {
                    tracing::info!("callers' tokens are shown to the API server from now on");
                }
                self.remember(hash(token), *accepted, now);
                return if *accepted { Ok(()) } else { Err(REVOKED) };
            }
            Err(failure) => failure,
        };
        let pause = match failure.kind {
            FailureKind::Rights => self.refused(),
            _ => AFTER_FAILURE,
        };
        self.keys_decide_until = Some(now + pause);
        self.by_keys(self.known.get(&hash(token)), age, now)
    }

    /// Counts a refusal for want of a right. Returns how long no token is asked about.
    fn refused(&mut self) -> Duration {
        if self.refusals == 0 {
            tracing::info!(
                hint = "bind the driver's service account to the ClusterRole system:auth-delegator, and a caller's \
                        token is refused within a minute after its account or pod was deleted, instead of an hour",
                "callers' tokens are verified by the published keys alone: the right to create tokenreviews is missing"
            );
        }
        let pause = AFTER_REFUSAL * 2_u32.saturating_pow(self.refusals.min(8));
        self.refusals = self.refusals.saturating_add(1);
        pause.min(AFTER_REFUSALS)
    }

    fn remember(&mut self, token: Hash, accepted: bool, now: Tick) {
        if self.known.len() >= MOST && !self.known.contains_key(&token) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.at);
            if let Some(oldest) = oldest.map(|(hash, _)| *hash) {
                self.known.remove(&oldest);
            }
        }
        self.known.insert(token, Known { accepted, at: now });
    }
}

fn hash(token: &str) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    fn failure(kind: FailureKind) -> Result<bool, Failure> {
        Err(Failure::new(kind, "a call failed"))
    }

    const YOUNG: Duration = Duration::from_secs(10);

    fn verdict(reviews: &Reviews, token: &str, now: u64) -> Verdict {
        reviews.verdict(token, YOUNG, at(now))
    }

    fn learn(
        reviews: &mut Reviews,
        token: &str,
        answer: Result<bool, Failure>,
        now: u64,
    ) -> Result<(), Denied> {
        reviews.learn(token, YOUNG, &answer, at(now))
    }

    // spec: O-119
    #[test]
    fn an_accepted_token_is_asked_about_again_after_a_minute_and_a_revoked_one_never() {
        let mut reviews = Reviews::default();
        assert_eq!(verdict(&reviews, "a", 0), Verdict::Unknown);
        assert_eq!(learn(&mut reviews, "a", Ok(true), 0), Ok(()));
        assert_eq!(verdict(&reviews, "a", 59_999), Verdict::Accepted);
        assert_eq!(verdict(&reviews, "b", 59_999), Verdict::Unknown);
        assert_eq!(verdict(&reviews, "a", 60_000), Verdict::Unknown);
        assert_eq!(learn(&mut reviews, "a", Ok(false), 60_000), Err(REVOKED));
        assert_eq!(verdict(&reviews, "a", 9_000_000), Verdict::Denied(REVOKED));
    }

    // spec: O-120
    #[test]
    fn without_an_answer_the_published_keys_decide_for_a_while_but_not_about_a_revoked_token() {
        for kind in [FailureKind::Rights, FailureKind::Unreachable] {
            let mut reviews = Reviews::default();
            assert!(learn(&mut reviews, "revoked", Ok(false), 0).is_err());
            assert_eq!(
                learn(&mut reviews, "a", failure(kind), 0),
                Ok(()),
                "{kind:?}"
            );
            assert_eq!(verdict(&reviews, "b", 9_999), Verdict::Accepted);
            assert_eq!(verdict(&reviews, "revoked", 1), Verdict::Denied(REVOKED));
            assert_eq!(verdict(&reviews, "b", 10_000), Verdict::Unknown);
        }
    }

    // spec: O-120
    #[test]
    fn a_right_that_is_missing_is_asked_for_again_within_a_minute_however_often_it_was() {
        let mut reviews = Reviews::default();
        let mut now = 0;
        for pause in [10_000, 20_000, 40_000, 60_000, 60_000, 60_000] {
            assert_eq!(
                learn(&mut reviews, "a", failure(FailureKind::Rights), now),
                Ok(())
            );
            assert_eq!(verdict(&reviews, "a", now + pause - 1), Verdict::Accepted);
            now += pause;
            assert_eq!(verdict(&reviews, "a", now), Verdict::Unknown);
        }
        // Once it is granted, tokens are asked about at once, and a later refusal begins anew.
        assert_eq!(learn(&mut reviews, "a", Ok(true), now), Ok(()));
        assert_eq!(verdict(&reviews, "b", now), Verdict::Unknown);
        assert_eq!(
            learn(&mut reviews, "b", failure(FailureKind::Rights), now),
            Ok(())
        );
        assert_eq!(verdict(&reviews, "b", now + 10_000), Verdict::Unknown);
    }

    // spec: O-120
    #[test]
    fn the_published_keys_alone_decide_about_a_token_for_an_hour_only() {
        let hour = KEYS_ALONE;
        for (kind, denied) in [
            (FailureKind::Rights, TOO_OLD),
            (FailureKind::Unreachable, Denied::NoReview),
        ] {
            let mut reviews = Reviews::default();
            let answer = failure(kind);
            let young = hour.checked_sub(Duration::from_millis(1)).unwrap();
            assert_eq!(reviews.learn("a", young, &answer, at(0)), Ok(()));
            assert_eq!(reviews.learn("a", hour, &answer, at(1)), Err(denied));
            assert_eq!(reviews.verdict("a", hour, at(2)), Verdict::Denied(denied));
            // What the API server has accepted counts from then on.
            assert_eq!(reviews.learn("a", hour, &Ok(true), at(10_000)), Ok(()));
            assert_eq!(reviews.learn("a", 2 * hour, &answer, at(3_609_999)), Ok(()));
            let late = reviews.learn("a", 2 * hour, &answer, at(3_610_000));
            assert_eq!(late, Err(denied));
        }
    }

    // spec: O-119
    #[test]
    fn the_token_that_was_asked_about_first_is_forgotten_first() {
        let mut reviews = Reviews::default();
        for n in 0..=MOST as u64 {
            assert_eq!(learn(&mut reviews, &n.to_string(), Ok(true), n), Ok(()));
        }
        assert_eq!(reviews.known.len(), MOST);
        assert_eq!(verdict(&reviews, "0", 300), Verdict::Unknown);
        assert_eq!(verdict(&reviews, "1", 300), Verdict::Accepted);
    }
}
