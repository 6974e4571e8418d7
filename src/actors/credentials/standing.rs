//! The state of the driver's credentials: pure (spec A-22).

use std::time::Duration;

use crate::model::Tick;

/// What an answer shows about the credentials of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// The credentials are valid, even if the call failed for another reason.
    Accepted,
    /// 401.
    Refused,
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
pub enum Standing {
    #[default]
    Good,
    /// Being reloaded.
    Renewing {
        /// When they were first refused.
        since: Tick,
    },
    /// Reloaded, and not yet tried.
    Renewed {
        /// When they were first refused.
        since: Tick,
        /// When they were reloaded. Answers to earlier calls say nothing about them.
        at: Tick,
    },
    /// Refused after reloading. From now on only the client itself reloads them.
    Refused {
        /// When they were first refused.
        since: Tick,
    },
}

impl Standing {
    /// Processes the answer to a call that took `took`.
    pub fn heard(&mut self, heard: Heard, took: Duration, now: Tick) -> Option<Step> {
        match (*self, heard) {
            (Self::Good, Heard::Refused) => {
                *self = Self::Renewing { since: now };
                Some(Step::Renew)
            }
            (Self::Renewed { since, at }, heard) if took <= now.since(at) => match heard {
                Heard::Refused => {
                    *self = Self::Refused { since };
                    Some(Step::SayRefused)
                }
                Heard::Accepted => {
                    *self = Self::Good;
                    Some(Step::SayAccepted(now.since(since)))
                }
            },
            (Self::Refused { since }, Heard::Accepted) => {
                *self = Self::Good;
                Some(Step::SayAccepted(now.since(since)))
            }
            _ => None,
        }
    }

    /// The credentials were reloaded, or could not be.
    pub fn renewed(&mut self, now: Tick) {
        if let Self::Renewing { since } = *self {
            *self = Self::Renewed { since, at: now };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use http::{Request, Response, StatusCode};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;
    use crate::kubernetes::{Clients, Kind};
    use crate::testing::calls_to;

    fn at(seconds: u64) -> Tick {
        Tick::after_start(Duration::from_secs(seconds))
    }

    const SHORT: Duration = Duration::from_millis(5);

    // spec: A-22
    #[test]
    fn refused_credentials_are_reloaded_once_and_then_the_refusal_is_logged() {
        let mut standing = Standing::default();
        assert_eq!(standing.heard(Heard::Accepted, SHORT, at(1)), None);
        assert_eq!(
            standing.heard(Heard::Refused, SHORT, at(10)),
            Some(Step::Renew)
        );
        assert_eq!(
            standing.heard(Heard::Refused, SHORT, at(10)),
            None,
            "one renewal"
        );
        standing.renewed(at(11));
        let slow = Duration::from_secs(5);
        assert_eq!(
            standing.heard(Heard::Refused, slow, at(12)),
            None,
            "it was made before"
        );
        assert_eq!(
            standing.heard(Heard::Refused, SHORT, at(13)),
            Some(Step::SayRefused)
        );
        for second in 14..1_000 {
            assert_eq!(
                standing.heard(Heard::Refused, SHORT, at(second)),
                None,
                "said once"
            );
        }
        let over = Some(Step::SayAccepted(Duration::from_secs(990)));
        assert_eq!(standing.heard(Heard::Accepted, SHORT, at(1_000)), over);
        assert_eq!(
            standing.heard(Heard::Refused, SHORT, at(1_001)),
            Some(Step::Renew),
            "and anew"
        );
    }

    // spec: A-22
    #[tokio::test(start_paused = true)]
    async fn all_copies_of_the_calls_use_the_reloaded_credentials() {
        let answers = |code: StatusCode| {
            let service = service_fn(move |_: Request<Body>| async move {
                let body = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"no","details":{"kind":"pods","name":"a-exec-1"}}"#;
                let mut answer = Response::new(axum::body::Body::from(body));
                *answer.status_mut() = code;
                Ok::<_, std::io::Error>(answer)
            });
            Clients::in_process(service, "default")
        };
        let mut clients = answers(StatusCode::UNAUTHORIZED);
        let good = answers(StatusCode::NOT_FOUND);
        clients.renew = Some(Arc::new(move || {
            let good = good.clone();
            async move { Ok(good) }.boxed()
        }));
        let calls = calls_to(clients);
        let copy = calls.clone();
        let refused = copy.get_pod("a-exec-1").await.unwrap_err();
        assert_eq!(refused.kind, Kind::Credentials);
        assert_eq!(calls.renew_credentials().await, Ok(true));
        assert_eq!(copy.get_pod("a-exec-1").await, Ok(None));
        assert_eq!(
            calls.renew_credentials().await,
            Ok(false),
            "there is nothing to read"
        );
    }
}
