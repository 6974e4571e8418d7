//! What befalls requests: drawn for each of them from what the weather allows.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::requests::Kind;

/// How likely each thing is to befall a request, in thousandths; what is left goes well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weather {
    /// The longest delay of what goes well, each way.
    pub delay: Duration,
    /// 429, without being carried out.
    pub busy: u32,
    /// 500, without being carried out.
    pub error: u32,
    /// 500, 503 or 504, after it was carried out.
    pub error_after: u32,
    /// 403 for creates: the quota is used up.
    pub quota: u32,
    /// Nobody listens: never sent.
    pub refused: u32,
    /// The connection breaks before the request is carried out.
    pub broken_before: u32,
    /// It breaks after that.
    pub broken_after: u32,
    /// Carried out within the server's own timeout; the answer never comes.
    pub unanswered: u32,
    /// It comes to the server when the client has long given up, and is carried out then.
    pub straggling: u32,
    /// Neither carried out nor answered.
    pub swallowed: u32,
    /// Carried out; the answer is cut short or no JSON.
    pub garbled: u32,
    /// A list that may come from a cache comes from one that lags behind.
    pub stale: u32,
    /// A chunk of a watch is half a line, and then the end.
    pub torn: u32,
    /// A chunk of a watch is preceded by a line that is none.
    pub garbage: u32,
    /// A chunk of a watch comes late.
    pub lagging: u32,
}

/// What befalls one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is carried out and answered.
    Well { there: Duration, back: Duration },
    /// It is answered so, and not carried out.
    Answered {
        there: Duration,
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
}

/// What befalls a chunk of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkFate {
    Well,
    Late(Duration),
    Torn,
    Garbage,
}

impl Weather {
    /// Nothing goes wrong, and everything takes a few milliseconds.
    pub const CALM: Self = Self {
        delay: Duration::from_millis(5),
        busy: 0,
        error: 0,
        error_after: 0,
        quota: 0,
        refused: 0,
        broken_before: 0,
        broken_after: 0,
        unanswered: 0,
        straggling: 0,
        swallowed: 0,
        garbled: 0,
        stale: 0,
        torn: 0,
        garbage: 0,
        lagging: 0,
    };

    /// Draws what befalls a request that the server gives itself so much time for.
    pub fn fate(&self, rng: &mut StdRng, kind: &Kind, timeout: Duration) -> Fate {
        let there = self.delay.mul_f64(rng.random());
        let back = self.delay.mul_f64(rng.random());
        let share: f64 = rng.random();
        let code = [500, 503, 504][rng.random_range(0..3)];
        let mut dice = rng.random_range(0..1_000_u32);
        let answered = |code, retry_after| Fate::Answered {
            there,
            code,
            retry_after,
        };
        let fates = [
            (self.refused, Fate::Refused),
            (
                self.busy,
                answered(429, (share < 0.5).then_some(1 + (share * 6.0) as u64)),
            ),
            (self.error, answered(code, None)),
            (self.error_after, Fate::AnsweredAfter { there, code }),
            (
                if *kind == Kind::Create { self.quota } else { 0 },
                answered(403, None),
            ),
            (self.broken_before, Fate::BrokenBefore { there }),
            (self.broken_after, Fate::BrokenAfter { there }),
            (
                self.unanswered,
                Fate::Unanswered {
                    there: timeout.mul_f64(share * 0.99),
                },
            ),
            (
                self.straggling,
                Fate::Unanswered {
                    there: timeout.mul_f64(1.0 + 3.0 * share),
                },
            ),
            (self.swallowed, Fate::Swallowed),
            (
                self.garbled,
                Fate::Garbled {
                    there,
                    half: share < 0.5,
                },
            ),
            (
                if *kind == Kind::CachedList {
                    self.stale
                } else {
                    0
                },
                Fate::Stale {
                    there,
                    by: (share * 1_000.0) as u32,
                },
            ),
        ];
        for (share, fate) in fates {
            if dice < share {
                return fate;
            }
            dice -= share;
        }
        Fate::Well { there, back }
    }

    /// Draws what befalls a chunk of a watch.
    pub fn chunk(&self, rng: &mut StdRng) -> ChunkFate {
        let dice = rng.random_range(0..1_000_u32);
        let share: f64 = rng.random();
        if dice < self.torn {
            ChunkFate::Torn
        } else if dice < self.torn + self.garbage {
            ChunkFate::Garbage
        } else if dice < self.torn + self.garbage + self.lagging {
            ChunkFate::Late(Duration::from_secs(5).mul_f64(share))
        } else {
            ChunkFate::Well
        }
    }
}
