//! Fault injection for API requests and watch lines: the probability of each fault, and the draw for a single request
//! or line.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::requests::RequestKind;

/// The network conditions: the probability of each fault in thousandths; otherwise a request or line succeeds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkConditions {
    /// The longest delay in each direction of a request that succeeds.
    pub delay: Duration,
    /// Faults of requests.
    pub request_faults: Vec<(RequestFault, u32)>,
    /// Faults of watch lines.
    pub line_faults: Vec<(LineFault, u32)>,
}

/// A fault of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestFault {
    /// 429, with or without Retry-After; not carried out.
    TooManyRequests,
    /// 503 with Retry-After; not carried out.
    Unavailable,
    /// 500, 503 or 504; not carried out.
    Error,
    /// 500, 503 or 504 after the request was carried out.
    ErrorAfter,
    /// 401: the credentials are rejected.
    Unauthorized,
    /// 403: RBAC denies the request.
    RbacDenied,
    /// 403 for creates of pods and sets: the quota is used up.
    Quota,
    /// 403 for creates: an admission plugin rejects the pod.
    Admission,
    /// 400 for creates: a webhook rejects the pod.
    Webhook,
    /// 422 for creates: the pod is invalid.
    Invalid,
    /// 403 for creates: the namespace is being deleted.
    NamespaceTerminating,
    /// Connection refused; the request is never sent.
    ConnectionRefused,
    /// The connection breaks before the request is carried out.
    ResetBefore,
    /// The connection breaks after the request was carried out.
    ResetAfter,
    /// Carried out within the server's own time limit, but never answered.
    Unanswered,
    /// Reaches the server long after the client's timeout and is carried out then.
    AfterTimeout,
    /// Delayed by a heavy-tailed random time: usually short, sometimes minutes.
    Slow,
    /// Neither carried out nor answered.
    Dropped,
    /// Carried out; the answer is truncated or not JSON.
    Corrupted,
    /// A list that allows a cached answer is answered from a lagging cache.
    Stale,
    /// An object is missing from a list that allows a cached answer.
    ObjectMissing,
    /// A list contains an object that cannot be decoded.
    ObjectUndecodable,
    /// 410 for a page token.
    TokenExpired,
    /// 410 for the start of a watch.
    VersionGone,
    /// A watch ends as soon as it has begun.
    EndsAtOnce,
}

/// A fault of a watch line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineFault {
    /// Half of the line arrives, then the stream ends.
    Truncated,
    /// A line that is not JSON precedes it.
    Garbage,
    /// An event of an unknown type precedes it.
    UnknownType,
    /// It arrives late.
    Late,
    /// It never arrives.
    Lost,
    /// It arrives twice.
    Duplicated,
    /// It arrives after its successor.
    Reordered,
    /// It arrives again after several others.
    Repeated,
    /// 410 arrives instead, then the stream ends.
    Expired,
    /// Its object cannot be decoded.
    ObjectUndecodable,
}

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// Carried out and answered.
    Normal {
        request_delay: Duration,
        response_delay: Duration,
    },
    /// Answered with this code and not carried out.
    Answered {
        request_delay: Duration,
        fault: RequestFault,
        code: u16,
        retry_after: Option<u64>,
    },
    /// Carried out, then answered with this code.
    AnsweredAfter { request_delay: Duration, code: u16 },
    /// Connection refused.
    ConnectionRefused,
    /// The connection breaks before the request is carried out.
    ResetBefore { request_delay: Duration },
    /// The connection breaks after the request was carried out.
    ResetAfter { request_delay: Duration },
    /// Carried out after this long, never answered.
    Unanswered { request_delay: Duration },
    /// Neither carried out nor answered.
    Dropped,
    /// Carried out; the answer is unusable.
    Corrupted { request_delay: Duration, half: bool },
    /// Answered from a cache that lags by this share of the remembered states, in thousandths.
    Stale { request_delay: Duration, by: u32 },
    /// Answered with a list that differs from the server's state.
    Falsified {
        request_delay: Duration,
        how: Falsification,
        pick: u32,
    },
    /// Answered, but the answer's stream ends immediately.
    EndsAtOnce { request_delay: Duration },
}

/// What is wrong with a list or a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Falsification {
    /// An object is missing.
    ObjectMissing,
    /// An object cannot be decoded.
    ObjectUndecodable,
}

/// The longest delay of a message that arrives at all.
pub const LONGEST_DELAY: Duration = Duration::from_secs(180);

impl NetworkConditions {
    /// No faults, and delays of a few milliseconds.
    pub fn faultless() -> Self {
        Self {
            delay: Duration::from_millis(5),
            ..Self::default()
        }
    }

    pub fn is_faultless(&self) -> bool {
        *self == Self::faultless()
    }

    /// Whether a list or watch may misstate the server's state, rather than only be late or repeated.
    pub fn falsifies(&self) -> bool {
        let request = |(fault, _): &(RequestFault, u32)| {
            matches!(
                fault,
                RequestFault::ObjectMissing | RequestFault::ObjectUndecodable
            )
        };
        let line = |(fault, _): &(LineFault, u32)| {
            matches!(
                fault,
                LineFault::Lost | LineFault::Reordered | LineFault::ObjectUndecodable
            )
        };
        self.request_faults.iter().any(request) || self.line_faults.iter().any(line)
    }

    /// Draws what happens to a request with this time limit at the server.
    pub fn outcome(
        &self,
        rng: &mut StdRng,
        kind: &RequestKind,
        timeout: Duration,
    ) -> RequestOutcome {
        let request_delay = self.delay.mul_f64(rng.random());
        let response_delay = self.delay.mul_f64(rng.random());
        let share: f64 = rng.random();
        let mut roll = rng.random_range(0..1_000_u32);
        for (fault, per_mille) in &self.request_faults {
            if !fault.applies_to(kind) {
                continue;
            }
            if roll < *per_mille {
                return fault.outcome(request_delay, response_delay, share, timeout);
            }
            roll -= per_mille;
        }
        RequestOutcome::Normal {
            request_delay,
            response_delay,
        }
    }

    /// Draws the fault of a watch line. The initial list of a streamed list is never falsified.
    pub fn line_fault(&self, rng: &mut StdRng, lists: bool) -> Option<LineFault> {
        let mut roll = rng.random_range(0..1_000_u32);
        for (fault, per_mille) in &self.line_faults {
            let is_falsified = matches!(
                fault,
                LineFault::Lost
                    | LineFault::Reordered
                    | LineFault::Repeated
                    | LineFault::Duplicated
            );
            if roll < *per_mille {
                return (!(lists && is_falsified)).then_some(*fault);
            }
            roll -= per_mille;
        }
        None
    }
}

impl RequestOutcome {
    /// What becomes of the request if its token is refused: nothing that the server would have carried out.
    pub fn without_token(self) -> Self {
        self.refused(RequestFault::Unauthorized, 401)
    }

    /// The same for a request without the right to it.
    pub fn without_right(self) -> Self {
        self.refused(RequestFault::RbacDenied, 403)
    }

    fn refused(self, fault: RequestFault, code: u16) -> Self {
        match self {
            RequestOutcome::Normal { request_delay, .. }
            | RequestOutcome::AnsweredAfter { request_delay, .. }
            | RequestOutcome::ResetAfter { request_delay }
            | RequestOutcome::Unanswered { request_delay }
            | RequestOutcome::Corrupted { request_delay, .. }
            | RequestOutcome::Stale { request_delay, .. }
            | RequestOutcome::Falsified { request_delay, .. }
            | RequestOutcome::EndsAtOnce { request_delay }
            // What a server decides once it knows who asks and that they may.
            | RequestOutcome::Answered {
                request_delay,
                code: 400 | 403 | 410 | 422,
                ..
            } => RequestOutcome::Answered {
                request_delay,
                fault,
                code,
                retry_after: None,
            },
            RequestOutcome::Answered { .. }
            | RequestOutcome::ResetBefore { .. }
            | RequestOutcome::ConnectionRefused
            | RequestOutcome::Dropped => self,
        }
    }

    pub fn is_refusal_of_token(self) -> bool {
        matches!(self, RequestOutcome::Answered { code: 401, .. })
    }

    /// The delay until the server or the network acts on the request; `None` if neither ever does.
    pub fn request_delay(self) -> Option<Duration> {
        match self {
            RequestOutcome::Normal { request_delay, .. }
            | RequestOutcome::Answered { request_delay, .. }
            | RequestOutcome::AnsweredAfter { request_delay, .. }
            | RequestOutcome::ResetBefore { request_delay }
            | RequestOutcome::ResetAfter { request_delay }
            | RequestOutcome::Unanswered { request_delay }
            | RequestOutcome::Corrupted { request_delay, .. }
            | RequestOutcome::Stale { request_delay, .. }
            | RequestOutcome::Falsified { request_delay, .. }
            | RequestOutcome::EndsAtOnce { request_delay } => Some(request_delay),
            RequestOutcome::ConnectionRefused => Some(Duration::from_millis(1)),
            RequestOutcome::Dropped => None,
        }
    }
}

impl RequestFault {
    /// Whether the fault applies to requests of this kind.
    fn applies_to(self, kind: &RequestKind) -> bool {
        match self {
            RequestFault::Quota
            | RequestFault::Admission
            | RequestFault::Webhook
            | RequestFault::Invalid => {
                matches!(kind, RequestKind::CreatePod | RequestKind::CreateSet)
            }
            RequestFault::NamespaceTerminating => {
                matches!(
                    kind,
                    RequestKind::CreatePod | RequestKind::CreateSet | RequestKind::CreateRecord
                )
            }
            RequestFault::Stale | RequestFault::ObjectMissing => *kind == RequestKind::CachedList,
            RequestFault::ObjectUndecodable => matches!(
                kind,
                RequestKind::CachedList | RequestKind::List | RequestKind::Page
            ),
            RequestFault::TokenExpired => *kind == RequestKind::Page,
            RequestFault::VersionGone | RequestFault::EndsAtOnce => *kind == RequestKind::Watch,
            _ => true,
        }
    }

    fn outcome(
        self,
        request_delay: Duration,
        response_delay: Duration,
        share: f64,
        timeout: Duration,
    ) -> RequestOutcome {
        let answered = |code, retry_after| RequestOutcome::Answered {
            request_delay,
            fault: self,
            code,
            retry_after,
        };
        // Also taken from `share`, so that every outcome consumes the same number of draws.
        let code = [500, 503, 504][(share * 300.0) as usize % 3];
        let seconds = 1 + (share * 11.0) as u64;
        let falsified = |how| RequestOutcome::Falsified {
            request_delay,
            how,
            pick: (share * 1e6) as u32,
        };
        match self {
            RequestFault::TooManyRequests => answered(429, (share < 0.5).then_some(seconds)),
            RequestFault::Unavailable => answered(503, Some(seconds)),
            RequestFault::Error => answered(code, None),
            RequestFault::ErrorAfter => RequestOutcome::AnsweredAfter {
                request_delay,
                code,
            },
            RequestFault::Unauthorized => answered(401, None),
            RequestFault::RbacDenied
            | RequestFault::Quota
            | RequestFault::Admission
            | RequestFault::NamespaceTerminating => answered(403, None),
            RequestFault::Webhook => answered(400, None),
            RequestFault::Invalid => answered(422, None),
            RequestFault::TokenExpired | RequestFault::VersionGone => answered(410, None),
            RequestFault::ConnectionRefused => RequestOutcome::ConnectionRefused,
            RequestFault::ResetBefore => RequestOutcome::ResetBefore { request_delay },
            RequestFault::ResetAfter => RequestOutcome::ResetAfter { request_delay },
            RequestFault::Unanswered => RequestOutcome::Unanswered {
                request_delay: timeout.mul_f64(share * 0.99),
            },
            RequestFault::AfterTimeout => RequestOutcome::Unanswered {
                request_delay: timeout.mul_f64(1.0 + 3.0 * share),
            },
            RequestFault::Slow => {
                // A Pareto distribution: about 57 % of the requests take less than 0.7 s, and 1 % more than 30 s.
                let long =
                    Duration::from_secs_f64(0.3 / (1.0 - share).max(1e-3)).min(LONGEST_DELAY);
                RequestOutcome::Normal {
                    request_delay: long,
                    response_delay,
                }
            }
            RequestFault::Dropped => RequestOutcome::Dropped,
            RequestFault::Corrupted => RequestOutcome::Corrupted {
                request_delay,
                half: share < 0.5,
            },
            RequestFault::Stale => RequestOutcome::Stale {
                request_delay,
                by: (share * 1_000.0) as u32,
            },
            RequestFault::ObjectMissing => falsified(Falsification::ObjectMissing),
            RequestFault::ObjectUndecodable => falsified(Falsification::ObjectUndecodable),
            RequestFault::EndsAtOnce => RequestOutcome::EndsAtOnce { request_delay },
        }
    }
}
