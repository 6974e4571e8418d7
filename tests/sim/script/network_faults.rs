//! Draws network faults and delays.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::network_conditions::{Ill, LineIll, Weather};

/// The faults of requests, except those that prevent a driver's start; these are drawn separately.
const ILLS: [Ill; 17] = [
    Ill::Busy,
    Ill::Unavailable,
    Ill::Error,
    Ill::ErrorAfter,
    Ill::Quota,
    Ill::Refused,
    Ill::BrokenBefore,
    Ill::BrokenAfter,
    Ill::Unanswered,
    Ill::Straggling,
    Ill::Slow,
    Ill::Swallowed,
    Ill::Garbled,
    Ill::Stale,
    Ill::TokenExpired,
    Ill::VersionGone,
    Ill::EndsAtOnce,
];

const REFUSALS: [Ill; 6] = [
    Ill::Credentials,
    Ill::Rights,
    Ill::Admission,
    Ill::Webhook,
    Ill::Invalid,
    Ill::NamespaceTerminating,
];

const FALSEHOODS: [Ill; 2] = [Ill::Lacking, Ill::Unreadable];

const LINE_ILLS: [LineIll; 10] = [
    LineIll::Torn,
    LineIll::Garbage,
    LineIll::UnknownType,
    LineIll::Late,
    LineIll::Lost,
    LineIll::Twice,
    LineIll::Overtaken,
    LineIll::Again,
    LineIll::Expired,
    LineIll::Unreadable,
];

/// One kind of fault, or many kinds at once.
pub fn weather(rng: &mut StdRng) -> Weather {
    if rng.random_bool(0.4) {
        return storm(rng);
    }
    let share: u32 = rng.random_range(50..1_000);
    let mut weather = Weather::calm();
    match rng.random_range(0..100) {
        0..=54 => weather.ills.push((one(rng, &ILLS), share)),
        55..=64 => weather.ills.push((one(rng, &REFUSALS), share)),
        65..=69 => weather.ills.push((one(rng, &FALSEHOODS), share)),
        70..=94 => weather.lines.push((one(rng, &LINE_ILLS), share)),
        _ => weather.delay = Duration::from_millis(2 * u64::from(share)),
    }
    weather
}

/// Some of every kind.
fn storm(rng: &mut StdRng) -> Weather {
    let share: u32 = rng.random_range(5..60);
    let of_all = |(at, ill): (usize, &Ill)| match ill {
        Ill::Straggling => (*ill, share / 4),
        Ill::Stale => (*ill, 3 * share),
        // The shares differ, so that together they do not use up all of a request's probability.
        _ => (*ill, share - at as u32 % 3),
    };
    let mut ills: Vec<_> = ILLS.iter().enumerate().map(of_all).collect();
    if rng.random_bool(0.2) {
        ills.push((one(rng, &REFUSALS), share));
    }
    if rng.random_bool(0.2) {
        ills.push((one(rng, &FALSEHOODS), share));
    }
    Weather {
        delay: Duration::from_millis(200),
        ills,
        lines: LINE_ILLS.iter().map(|ill| (*ill, share)).collect(),
    }
}

fn one<T: Copy>(rng: &mut StdRng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())]
}
