//! What is known of the keys that the cluster publishes for tokens, and when they are read (spec O-54). Pure.

use std::sync::Arc;
use std::time::Duration;

use super::access::Denied;
use super::service_account::{Trusted, is_token};
use crate::actors::executor_registry::registry::NoKeys;
use crate::kubernetes::{Failure, FailureKind};
use crate::model::Tick;

/// The least interval between the end of a fetch of the keys and the next one. An unknown key may be a new one, but
/// forged key ids must not cause a request to the cluster each. After a failed fetch also the longest interval, so that
/// it is noticed without a token that the keys are to be had again.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(10);

/// How long keys are used before they are fetched again. A key that was withdrawn verifies nothing any more after that.
pub(super) const REFRESH: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct Published {
    trusted: Option<Arc<Trusted>>,
    fetch: Fetch,
    /// Why the last fetch failed.
    trouble: Option<NoKeys>,
    /// Whether a token could not be verified because of that.
    was_lacked: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Fetch {
    #[default]
    Never,
    UnderWay,
    Ended(Tick),
}

/// What has to happen before a token is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing: these keys decide.
    Verify(Arc<Trusted>),
    Deny(Denied),
    /// It waits for the fetch that is under way.
    Wait,
    /// A fetch begins, and it waits for that.
    Fetch,
}

impl Published {
    /// What has to happen before this token is verified. Only one whose key is unknown waits.
    pub(super) fn way(&mut self, token: &str, now: Tick) -> Way {
        if !is_token(token) {
            return Way::Deny(Denied::NoToken);
        }
        if let Some(trusted) = &self.trusted
            && trusted.knows_key_of(token)
        {
            return Way::Verify(Arc::clone(trusted));
        }
        match (self.fetch, &self.trusted) {
            (Fetch::UnderWay, _) => Way::Wait,
            (Fetch::Ended(at), Some(trusted))
                if now.since(at) < ASK_AGAIN && self.trouble.is_none() =>
            {
                // The key that it names is not published.
                Way::Verify(Arc::clone(trusted))
            }
            (Fetch::Ended(at), _) if now.since(at) < ASK_AGAIN => {
                self.was_lacked = true;
                Way::Deny(Denied::NoKeys)
            }
            _ => {
                self.fetch = Fetch::UnderWay;
                Way::Fetch
            }
        }
    }

    /// Whether a fetch that is due by time begins.
    pub(super) fn refresh(&mut self, now: Tick) -> bool {
        let is_due = matches!(self.fetch, Fetch::Ended(at) if now.since(at) >= ASK_AGAIN);
        if is_due {
            self.fetch = Fetch::UnderWay;
        }
        is_due
    }

    /// A fetch takes long, and tokens wait for it.
    pub(super) fn overdue(&mut self) {
        self.was_lacked = true;
        self.trouble = self.trouble.or(Some(NoKeys::Unanswered));
    }

    /// A fetch has ended; `waited`: tokens waited for it. Returns the keys or why there are none for those tokens, and
    /// the time until the next fetch. Earlier keys stay valid where it failed.
    pub(super) fn fetched(
        &mut self,
        fetched: Result<Trusted, NoKeys>,
        waited: bool,
        now: Tick,
    ) -> (Result<Arc<Trusted>, Denied>, Duration) {
        self.fetch = Fetch::Ended(now);
        match fetched {
            Ok(trusted) => {
                let trusted = Arc::new(trusted);
                self.trusted = Some(Arc::clone(&trusted));
                self.trouble = None;
                self.was_lacked = false;
                (Ok(trusted), REFRESH)
            }
            Err(trouble) => {
                self.trouble = Some(trouble);
                self.was_lacked |= waited;
                (Err(Denied::NoKeys), ASK_AGAIN)
            }
        }
    }

    /// Why the last fetch failed.
    pub(super) fn trouble(&self) -> Option<NoKeys> {
        self.trouble
    }

    /// Why a token could not be verified; `None` if all could, or can again (spec B-13).
    pub(super) fn lacking(&self) -> Option<NoKeys> {
        self.trouble.filter(|_| self.was_lacked)
    }
}

/// Why a failed call has brought no keys.
pub(super) fn trouble_of(failure: &Failure) -> NoKeys {
    match (failure.code, failure.kind) {
        (Some(code), _) => NoKeys::Refused(code),
        (None, FailureKind::Garbage) => NoKeys::Unusable,
        (None, _) => NoKeys::Unanswered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    /// A token that names this key; its signature is not looked at here.
    fn token(key: &str) -> String {
        use base64::Engine as _;
        use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
        let head = format!(r#"{{"alg": "ES256", "kid": "{key}"}}"#);
        format!("{}.e30.c2ln", BASE64.encode(head))
    }

    /// A cluster that publishes these keys.
    fn keys(ids: &[&str]) -> Trusted {
        let coordinate = "A".repeat(43);
        let keys: Vec<_> = (ids.iter())
            .map(|id| {
                serde_json::json!({"kty": "EC", "crv": "P-256", "kid": id, "x": coordinate, "y": coordinate})
            })
            .collect();
        let keys = serde_json::json!({"keys": keys}).to_string();
        Trusted::read(br#"{"issuer": "me"}"#, keys.as_bytes()).unwrap()
    }

    // spec: O-115, B-13
    #[test]
    fn without_keys_tokens_are_deferred_and_the_keys_are_asked_for_again_until_they_come() {
        let mut published = Published::default();
        assert_eq!(published.way(&token("a"), at(0)), Way::Fetch);
        assert_eq!(published.way(&token("a"), at(1)), Way::Wait);
        assert_eq!(published.lacking(), None);
        let refused = Err(NoKeys::Refused(406));
        let (answer, next) = published.fetched(refused, true, at(100));
        assert_eq!((answer, next), (Err(Denied::NoKeys), ASK_AGAIN));
        assert_eq!(published.lacking(), Some(NoKeys::Refused(406)));
        let deferred = Way::Deny(Denied::NoKeys);
        assert_eq!(published.way(&token("a"), at(10_099)), deferred);
        assert!(!published.refresh(at(10_099)));
        assert!(published.refresh(at(10_100)));
        assert_eq!(published.lacking(), Some(NoKeys::Refused(406)));
        let (answer, next) = published.fetched(Ok(keys(&["a"])), false, at(10_200));
        assert_eq!((answer.is_ok(), next), (true, REFRESH));
        assert_eq!((published.lacking(), published.trouble()), (None, None));
        let way = published.way(&token("a"), at(10_201));
        assert!(matches!(way, Way::Verify(_)), "{way:?}");
    }

    // spec: O-115, B-13
    #[test]
    fn a_new_key_that_cannot_be_read_now_is_deferred_and_one_that_is_not_published_is_refused() {
        let mut published = Published::default();
        published.way(&token("a"), at(0));
        drop(published.fetched(Ok(keys(&["a"])), true, at(0)));
        // The keys were read just now, and this one is not among them.
        let way = published.way(&token("b"), at(9_999));
        assert!(matches!(way, Way::Verify(_)), "{way:?}");
        assert_eq!(published.way(&token("b"), at(10_000)), Way::Fetch);
        drop(published.fetched(Err(NoKeys::Unanswered), true, at(12_000)));
        // Nobody knows whether it is among them now.
        assert_eq!(
            published.way(&token("b"), at(13_000)),
            Way::Deny(Denied::NoKeys)
        );
        assert_eq!(published.lacking(), Some(NoKeys::Unanswered));
        // Known keys go on verifying.
        let way = published.way(&token("a"), at(13_000));
        assert!(matches!(way, Way::Verify(_)), "{way:?}");
    }

    // spec: O-54
    #[test]
    fn a_key_that_was_withdrawn_verifies_nothing_after_the_next_fetch() {
        let mut published = Published::default();
        published.way(&token("a"), at(0));
        drop(published.fetched(Ok(keys(&["a", "b"])), true, at(0)));
        assert!(published.refresh(at(600_000)));
        drop(published.fetched(Ok(keys(&["b"])), false, at(600_000)));
        let Way::Verify(trusted) = published.way(&token("a"), at(600_001)) else {
            panic!("the keys are known");
        };
        assert!(!trusted.knows_key_of(&token("a")));
    }

    // spec: B-13
    #[test]
    fn a_refresh_that_fails_while_no_token_needs_it_is_no_reason_to_doubt() {
        let mut published = Published::default();
        published.way(&token("a"), at(0));
        drop(published.fetched(Ok(keys(&["a"])), true, at(0)));
        assert!(published.refresh(at(600_000)));
        let (_, next) = published.fetched(Err(NoKeys::Refused(500)), false, at(600_000));
        assert_eq!(next, ASK_AGAIN);
        assert_eq!(published.trouble(), Some(NoKeys::Refused(500)));
        assert_eq!(published.lacking(), None);
    }

    // spec: B-13
    #[test]
    fn a_fetch_that_hangs_is_a_reason_to_doubt_before_it_has_failed() {
        let mut published = Published::default();
        published.way(&token("a"), at(0));
        published.overdue();
        assert_eq!(published.lacking(), Some(NoKeys::Unanswered));
        drop(published.fetched(Ok(keys(&["a"])), true, at(12_000)));
        assert_eq!(published.lacking(), None);
    }

    // spec: O-112
    #[test]
    fn what_is_no_token_needs_no_keys() {
        let mut published = Published::default();
        let denied = Way::Deny(Denied::NoToken);
        assert_eq!(published.way("nonsense", at(0)), denied);
        assert_eq!(published.way("a.b.c", at(0)), denied);
    }

    #[test]
    fn a_failed_call_says_why_there_are_no_keys() {
        let refused = Failure {
            code: Some(403),
            ..Failure::new(FailureKind::Rights, "no")
        };
        assert_eq!(trouble_of(&refused), NoKeys::Refused(403));
        for (kind, why) in [
            (FailureKind::Garbage, NoKeys::Unusable),
            (FailureKind::TimedOut, NoKeys::Unanswered),
            (FailureKind::Unreachable, NoKeys::Unanswered),
        ] {
            assert_eq!(trouble_of(&Failure::new(kind, "no")), why);
        }
    }
}
