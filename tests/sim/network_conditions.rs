//! Fault injection for API requests and watch lines: the probability of each fault, and the draw for a single request
//! or line.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::requests::Kind;

/// The network conditions: the probability of each fault in thousandths; otherwise a request or line succeeds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Weather {
    /// The longest delay in each direction of a request that succeeds.
    pub delay: Duration,
    /// Faults of requests.
    pub ills: Vec<(Ill, u32)>,
    /// Faults of watch lines.
    pub lines: Vec<(LineIll, u32)>,
}

/// A fault of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ill {
    /// 429, with or without Retry-After; not carried out.
    Busy,
    /// 503 with Retry-After; not carried out.
    Unavailable,
    /// 500, 503 or 504; not carried out.
    Error,
    /// 500, 503 or 504 after the request was carried out.
    ErrorAfter,
    /// 401: the credentials are rejected.
    Credentials,
    /// 403: RBAC denies the request.
    Rights,
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
    Refused,
    /// The connection breaks before the request is carried out.
    BrokenBefore,
    /// The connection breaks after the request was carried out.
    BrokenAfter,
    /// Carried out within the server's own time limit, but never answered.
    Unanswered,
    /// Reaches the server long after the client's timeout and is carried out then.
    Straggling,
    /// Delayed by a heavy-tailed random time: usually short, sometimes minutes.
    Slow,
    /// Neither carried out nor answered.
    Swallowed,
    /// Carried out; the answer is truncated or not JSON.
    Garbled,
    /// A list that allows a cached answer comes from a lagging cache.
    Stale,
    /// A list that allows a cached answer lacks an object.
    Lacking,
    /// A list contains an object that cannot be decoded.
    Unreadable,
    /// 410 for a page token.
    TokenExpired,
    /// 410 for the start of a watch.
    VersionGone,
    /// A watch ends as soon as it has begun.
    EndsAtOnce,
}

/// A fault of a watch line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineIll {
    /// Half of the line arrives, then the stream ends.
    Torn,
    /// A line that is not JSON precedes it.
    Garbage,
    /// An event of an unknown type precedes it.
    UnknownType,
    /// It arrives late.
    Late,
    /// It never arrives.
    Lost,
    /// It arrives twice.
    Twice,
    /// It arrives after its successor.
    Overtaken,
    /// It arrives again after several others.
    Again,
    /// 410 arrives instead, then the stream ends.
    Expired,
    /// Its object cannot be decoded.
    Unreadable,
}

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Carried out and answered.
    Well { there: Duration, back: Duration },
    /// Answered with this code and not carried out.
    Answered {
        there: Duration,
        ill: Ill,
        code: u16,
        retry_after: Option<u64>,
    },
    /// Carried out, then answered with this code.
    AnsweredAfter { there: Duration, code: u16 },
    /// Connection refused.
    Refused,
    /// The connection breaks before the request is carried out.
    BrokenBefore { there: Duration },
    /// The connection breaks after the request was carried out.
    BrokenAfter { there: Duration },
    /// Carried out after this long, never answered.
    Unanswered { there: Duration },
    /// Neither carried out nor answered.
    Swallowed,
    /// Carried out; the answer is unusable.
    Garbled { there: Duration, half: bool },
    /// Answered from a cache that lags by this share of the remembered states, in thousandths.
    Stale { there: Duration, by: u32 },
    /// Answered with a list that differs from the server's state.
    Falsified {
        there: Duration,
        how: Falsehood,
        pick: u32,
    },
    /// Answered, but the answer's stream ends immediately.
    EndsAtOnce { there: Duration },
}

/// What is wrong with a list or a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Falsehood {
    /// An object is missing.
    Lacking,
    /// An object cannot be decoded.
    Unreadable,
}

/// The longest delay of a message that arrives at all.
pub const LONGEST_DELAY: Duration = Duration::from_secs(180);

impl Weather {
    /// No faults, and delays of a few milliseconds.
    pub fn calm() -> Self {
        Self {
            delay: Duration::from_millis(5),
            ..Self::default()
        }
    }

    pub fn is_calm(&self) -> bool {
        *self == Self::calm()
    }

    /// Whether a list or watch may misstate the server's state, rather than only be late or repeated.
    pub fn lies(&self) -> bool {
        let ill = |(ill, _): &(Ill, u32)| matches!(ill, Ill::Lacking | Ill::Unreadable);
        let line = |(ill, _): &(LineIll, u32)| {
            matches!(
                ill,
                LineIll::Lost | LineIll::Overtaken | LineIll::Unreadable
            )
        };
        self.ills.iter().any(ill) || self.lines.iter().any(line)
    }

    /// Draws what happens to a request with this time limit at the server.
    pub fn fate(&self, rng: &mut StdRng, kind: &Kind, timeout: Duration) -> Fate {
        let there = self.delay.mul_f64(rng.random());
        let back = self.delay.mul_f64(rng.random());
        let share: f64 = rng.random();
        let mut dice = rng.random_range(0..1_000_u32);
        for (ill, likely) in &self.ills {
            if !ill.befalls(kind) {
                continue;
            }
            if dice < *likely {
                return ill.fate(there, back, share, timeout);
            }
            dice -= likely;
        }
        Fate::Well { there, back }
    }

    /// Draws the fault of a watch line. The initial list of a streamed list is never falsified.
    pub fn line(&self, rng: &mut StdRng, lists: bool) -> Option<LineIll> {
        let mut dice = rng.random_range(0..1_000_u32);
        for (ill, likely) in &self.lines {
            let falsifies = matches!(
                ill,
                LineIll::Lost | LineIll::Overtaken | LineIll::Again | LineIll::Twice
            );
            if dice < *likely {
                return (!(lists && falsifies)).then_some(*ill);
            }
            dice -= likely;
        }
        None
    }
}

impl Ill {
    /// Whether the fault applies to requests of this kind.
    fn befalls(self, kind: &Kind) -> bool {
        match self {
            Ill::Quota | Ill::Admission | Ill::Webhook | Ill::Invalid => {
                matches!(kind, Kind::Create | Kind::MakeSet)
            }
            Ill::NamespaceTerminating => {
                matches!(kind, Kind::Create | Kind::MakeSet | Kind::MakeRecord)
            }
            Ill::Stale | Ill::Lacking => *kind == Kind::CachedList,
            Ill::Unreadable => matches!(kind, Kind::CachedList | Kind::List | Kind::Page),
            Ill::TokenExpired => *kind == Kind::Page,
            Ill::VersionGone | Ill::EndsAtOnce => *kind == Kind::Watch,
            _ => true,
        }
    }

    fn fate(self, there: Duration, back: Duration, share: f64, timeout: Duration) -> Fate {
        let answered = |code, retry_after| Fate::Answered {
            there,
            ill: self,
            code,
            retry_after,
        };
        // Also taken from `share`, so that every outcome consumes the same number of draws.
        let code = [500, 503, 504][(share * 300.0) as usize % 3];
        let seconds = 1 + (share * 11.0) as u64;
        let falsified = |how| Fate::Falsified {
            there,
            how,
            pick: (share * 1e6) as u32,
        };
        match self {
            Ill::Busy => answered(429, (share < 0.5).then_some(seconds)),
            Ill::Unavailable => answered(503, Some(seconds)),
            Ill::Error => answered(code, None),
            Ill::ErrorAfter => Fate::AnsweredAfter { there, code },
            Ill::Credentials => answered(401, None),
            Ill::Rights | Ill::Quota | Ill::Admission | Ill::NamespaceTerminating => {
                answered(403, None)
            }
            Ill::Webhook => answered(400, None),
            Ill::Invalid => answered(422, None),
            Ill::TokenExpired | Ill::VersionGone => answered(410, None),
            Ill::Refused => Fate::Refused,
            Ill::BrokenBefore => Fate::BrokenBefore { there },
            Ill::BrokenAfter => Fate::BrokenAfter { there },
            Ill::Unanswered => Fate::Unanswered {
                there: timeout.mul_f64(share * 0.99),
            },
            Ill::Straggling => Fate::Unanswered {
                there: timeout.mul_f64(1.0 + 3.0 * share),
            },
            Ill::Slow => {
                // A Pareto distribution: about 57 % of the requests take less than 0.7 s, and 1 % more than 30 s.
                let long =
                    Duration::from_secs_f64(0.3 / (1.0 - share).max(1e-3)).min(LONGEST_DELAY);
                Fate::Well { there: long, back }
            }
            Ill::Swallowed => Fate::Swallowed,
            Ill::Garbled => Fate::Garbled {
                there,
                half: share < 0.5,
            },
            Ill::Stale => Fate::Stale {
                there,
                by: (share * 1_000.0) as u32,
            },
            Ill::Lacking => falsified(Falsehood::Lacking),
            Ill::Unreadable => falsified(Falsehood::Unreadable),
            Ill::EndsAtOnce => Fate::EndsAtOnce { there },
        }
    }
}
