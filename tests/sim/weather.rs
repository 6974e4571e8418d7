//! What befalls requests, and the lines of watches: drawn for each of them from what the weather allows.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::requests::Kind;

/// How likely each thing is to befall a request or a line, in thousandths; what is left goes well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Weather {
    /// The longest delay of what goes well, each way.
    pub delay: Duration,
    /// What befalls requests.
    pub ills: Vec<(Ill, u32)>,
    /// What befalls the lines of watches.
    pub lines: Vec<(LineIll, u32)>,
}

/// What can befall a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ill {
    /// 429, with Retry-After or without, and not carried out.
    Busy,
    /// 503 with Retry-After, and not carried out.
    Unavailable,
    /// 500, 503 or 504, and not carried out.
    Error,
    /// 500, 503 or 504, after it was carried out.
    ErrorAfter,
    /// 401: the credentials are not accepted.
    Credentials,
    /// 403: the right is not granted.
    Rights,
    /// 403 for creates, those of sets too: the quota is used up.
    Quota,
    /// 403 for creates: an admission plugin refuses the pod.
    Admission,
    /// 400 for creates: a webhook refuses the pod.
    Webhook,
    /// 422 for creates: the pod is invalid.
    Invalid,
    /// 403 for creates: the namespace is being deleted.
    NamespaceTerminating,
    /// Nobody listens: never sent.
    Refused,
    /// The connection breaks before the request is carried out.
    BrokenBefore,
    /// It breaks after that.
    BrokenAfter,
    /// Carried out within the server's own timeout; the answer never comes.
    Unanswered,
    /// It comes to the server when the client has long given up, and is carried out then.
    Straggling,
    /// It takes as long as it takes: mostly not very long, sometimes minutes.
    Slow,
    /// Neither carried out nor answered.
    Swallowed,
    /// Carried out; the answer is cut short or no JSON.
    Garbled,
    /// A list that may come from a cache comes from one that lags behind.
    Stale,
    /// A list that may come from a cache lacks an object or two.
    Lacking,
    /// A list has an object that cannot be read.
    Unreadable,
    /// 410 for a page token.
    TokenExpired,
    /// 410 for a watch that begins.
    VersionGone,
    /// A watch ends as soon as it has begun.
    EndsAtOnce,
}

/// What can befall a line of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineIll {
    /// Half of it comes, and then the end.
    Torn,
    /// It is preceded by a line that is no JSON.
    Garbage,
    /// It is preceded by an event of a type that nobody knows.
    UnknownType,
    /// It comes late.
    Late,
    /// It never comes.
    Lost,
    /// It comes twice.
    Twice,
    /// It comes after the one that follows it.
    Overtaken,
    /// It comes again after many others.
    Again,
    /// 410 comes instead, and then the end.
    Expired,
    /// Its object cannot be read.
    Unreadable,
}

/// What befalls one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out and answered.
    Well { there: Duration, back: Duration },
    /// It is answered so, and not carried out.
    Answered {
        there: Duration,
        ill: Ill,
        code: u16,
        retry_after: Option<u64>,
    },
    /// It is carried out, and then answered so.
    AnsweredAfter { there: Duration, code: u16 },
    /// Nobody listens.
    Refused,
    /// The connection breaks before it is carried out.
    BrokenBefore { there: Duration },
    /// The connection breaks after it was carried out.
    BrokenAfter { there: Duration },
    /// Carried out after this long, never answered.
    Unanswered { there: Duration },
    /// Neither carried out nor answered.
    Swallowed,
    /// Carried out; the answer is of no use.
    Garbled { there: Duration, half: bool },
    /// Answered from a cache that lags behind by this share of what is remembered, in thousandths.
    Stale { there: Duration, by: u32 },
    /// The list that answers it is not quite what the server has.
    Falsified {
        there: Duration,
        how: Falsehood,
        pick: u32,
    },
    /// It is answered, and the answer's stream ends there.
    EndsAtOnce { there: Duration },
}

/// What is wrong with a list, or a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Falsehood {
    /// It lacks an object or two.
    Lacking,
    /// An object cannot be read.
    Unreadable,
}

/// Longer than this nothing takes that arrives at all.
pub const LONGEST_DELAY: Duration = Duration::from_secs(180);

impl Weather {
    /// Nothing goes wrong, and everything takes a few milliseconds.
    pub fn calm() -> Self {
        Self {
            delay: Duration::from_millis(5),
            ..Self::default()
        }
    }

    /// Whether anything goes wrong.
    pub fn is_calm(&self) -> bool {
        *self == Self::calm()
    }

    /// Whether a list or a watch may say what is not so, and not only late or twice.
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

    /// Draws what befalls a request that the server gives itself so much time for.
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

    /// Draws what befalls a line of a watch; what is listed by one must be true.
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
    /// Whether it can befall requests of this kind.
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
        // Drawn from the share too, so that every fate costs the same number of draws.
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
                // A Pareto distribution: half take less than 0.7 s, one of a hundred more than 30 s.
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
