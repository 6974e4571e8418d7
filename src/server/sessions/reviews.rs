//! Remembers which callers' tokens the API server accepted when it was last asked (spec O-64). Pure.
//!
//! The keys that the cluster publishes show who a token was issued for, but not that its account or pod was deleted
//! since.

use std::collections::BTreeMap;
use std::time::Duration;

use ring::digest::{SHA256, digest};

use crate::kubernetes::{Failure, Kind};
use crate::model::Tick;

/// How long an accepted token is not asked about again.
const FRESH: Duration = Duration::from_secs(60);

/// How long no token is asked about after a call that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// How long no token is asked about after the API server refused the call. Rights may be granted later.
const AFTER_REFUSAL: Duration = Duration::from_secs(600);

/// The most tokens that are remembered; the one that was asked about first is forgotten first.
const MOST: usize = 256;

/// The SHA-256 hash of a token.
type Hash = [u8; 32];

#[derive(Debug, Default)]
pub(super) struct Reviews {
    known: BTreeMap<Hash, Known>,
    /// Until when the published keys alone decide.
    keys_decide_until: Option<Tick>,
    /// Whether the last call was refused for want of a right.
    is_forbidden: bool,
}

#[derive(Debug)]
struct Known {
    accepted: bool,
    at: Tick,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Accepted,
    Revoked,
    /// The API server must be asked.
    Unknown,
}

impl Reviews {
    /// The verdict on a token whose signature is right.
    pub(super) fn verdict(&self, token: &str, now: Tick) -> Verdict {
        let known = self.known.get(&hash(token));
        let keys_decide = self.keys_decide_until.is_some_and(|until| now < until);
        match known {
            // A token that was revoked is never accepted again.
            Some(known) if !known.accepted => Verdict::Revoked,
            Some(known) if now.since(known.at) < FRESH => Verdict::Accepted,
            _ if keys_decide => Verdict::Accepted,
            _ => Verdict::Unknown,
        }
    }

    /// Remembers the API server's answer about a token. Returns whether the token is accepted: also if there is no
    /// answer, because its signature is right.
    pub(super) fn learn(&mut self, token: &str, answer: &Result<bool, Failure>, now: Tick) -> bool {
        let failure = match answer {
            Ok(accepted) => {
                self.keys_decide_until = None;
                self.is_forbidden = false;
                self.remember(hash(token), *accepted, now);
                return *accepted;
            }
            Err(failure) => failure,
        };
        let forbidden = failure.kind == Kind::Rights;
        if forbidden && !std::mem::replace(&mut self.is_forbidden, true) {
            tracing::info!(
                hint = "bind the driver's service account to the ClusterRole system:auth-delegator, and a caller's \
                        token is refused within a minute after its account or pod was deleted",
                "callers' tokens are verified by the published keys alone: the right to create tokenreviews is missing"
            );
        }
        let pause = if forbidden {
            AFTER_REFUSAL
        } else {
            AFTER_FAILURE
        };
        self.keys_decide_until = Some(now + pause);
        true
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

    fn failure(kind: Kind) -> Result<bool, Failure> {
        Err(Failure::new(kind, "a call failed"))
    }

    // spec: O-64
    #[test]
    fn an_accepted_token_is_asked_about_again_after_a_minute_and_a_revoked_one_never() {
        let mut reviews = Reviews::default();
        assert_eq!(reviews.verdict("a", at(0)), Verdict::Unknown);
        assert!(reviews.learn("a", &Ok(true), at(0)));
        assert_eq!(reviews.verdict("a", at(59_999)), Verdict::Accepted);
        assert_eq!(reviews.verdict("b", at(59_999)), Verdict::Unknown);
        assert_eq!(reviews.verdict("a", at(60_000)), Verdict::Unknown);
        assert!(!reviews.learn("a", &Ok(false), at(60_000)));
        assert_eq!(reviews.verdict("a", at(9_000_000)), Verdict::Revoked);
    }

    // spec: O-64
    #[test]
    fn without_an_answer_the_published_keys_decide_for_a_while_but_not_about_a_revoked_token() {
        for (kind, pause) in [(Kind::Rights, 600_000), (Kind::Unreachable, 10_000)] {
            let mut reviews = Reviews::default();
            assert!(!reviews.learn("revoked", &Ok(false), at(0)));
            assert!(reviews.learn("a", &failure(kind), at(0)), "{kind:?}");
            assert_eq!(reviews.verdict("b", at(pause - 1)), Verdict::Accepted);
            assert_eq!(reviews.verdict("revoked", at(1)), Verdict::Revoked);
            assert_eq!(reviews.verdict("b", at(pause)), Verdict::Unknown);
        }
    }

    // spec: O-64
    #[test]
    fn the_token_that_was_asked_about_first_is_forgotten_first() {
        let mut reviews = Reviews::default();
        for n in 0..=MOST as u64 {
            reviews.learn(&n.to_string(), &Ok(true), at(n));
        }
        assert_eq!(reviews.known.len(), MOST);
        assert_eq!(reviews.verdict("0", at(300)), Verdict::Unknown);
        assert_eq!(reviews.verdict("1", at(300)), Verdict::Accepted);
    }
}
