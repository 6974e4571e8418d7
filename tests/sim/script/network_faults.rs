//! Draws network faults and delays.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;

use crate::network_conditions::{LineFault, NetworkConditions, RequestFault};

/// The faults of requests, except those that prevent a driver's start; these are drawn separately.
const REQUEST_FAULTS: [RequestFault; 17] = [
    RequestFault::TooManyRequests,
    RequestFault::Unavailable,
    RequestFault::Error,
    RequestFault::ErrorAfter,
    RequestFault::Quota,
    RequestFault::ConnectionRefused,
    RequestFault::ResetBefore,
    RequestFault::ResetAfter,
    RequestFault::Unanswered,
    RequestFault::AfterTimeout,
    RequestFault::Slow,
    RequestFault::Dropped,
    RequestFault::Corrupted,
    RequestFault::Stale,
    RequestFault::TokenExpired,
    RequestFault::VersionGone,
    RequestFault::EndsAtOnce,
];

const REFUSALS: [RequestFault; 6] = [
    RequestFault::Unauthorized,
    RequestFault::RbacDenied,
    RequestFault::Admission,
    RequestFault::Webhook,
    RequestFault::Invalid,
    RequestFault::NamespaceTerminating,
];

const FALSIFICATIONS: [RequestFault; 2] =
    [RequestFault::ObjectMissing, RequestFault::ObjectUndecodable];

const LINE_FAULTS: [LineFault; 10] = [
    LineFault::Truncated,
    LineFault::Garbage,
    LineFault::UnknownType,
    LineFault::Late,
    LineFault::Lost,
    LineFault::Duplicated,
    LineFault::Reordered,
    LineFault::Repeated,
    LineFault::Expired,
    LineFault::ObjectUndecodable,
];

/// One kind of fault, or many kinds at once.
pub fn draw(rng: &mut StdRng) -> NetworkConditions {
    if rng.random_bool(0.4) {
        return all_kinds(rng);
    }
    let share: u32 = rng.random_range(50..1_000);
    let mut conditions = NetworkConditions::faultless();
    match rng.random_range(0..100) {
        0..=54 => conditions
            .request_faults
            .push((one(rng, &REQUEST_FAULTS), share)),
        55..=64 => conditions.request_faults.push((one(rng, &REFUSALS), share)),
        65..=69 => conditions
            .request_faults
            .push((one(rng, &FALSIFICATIONS), share)),
        70..=94 => conditions.line_faults.push((one(rng, &LINE_FAULTS), share)),
        _ => conditions.delay = Duration::from_millis(2 * u64::from(share)),
    }
    conditions
}

/// Some of every kind.
fn all_kinds(rng: &mut StdRng) -> NetworkConditions {
    let share: u32 = rng.random_range(5..60);
    let of_all = |(at, fault): (usize, &RequestFault)| match fault {
        RequestFault::AfterTimeout => (*fault, share / 4),
        RequestFault::Stale => (*fault, 3 * share),
        // The shares differ, so that together they do not use up all of a request's probability.
        _ => (*fault, share - at as u32 % 3),
    };
    let mut request_faults: Vec<_> = REQUEST_FAULTS.iter().enumerate().map(of_all).collect();
    if rng.random_bool(0.2) {
        request_faults.push((one(rng, &REFUSALS), share));
    }
    if rng.random_bool(0.2) {
        request_faults.push((one(rng, &FALSIFICATIONS), share));
    }
    NetworkConditions {
        delay: Duration::from_millis(200),
        request_faults,
        line_faults: LINE_FAULTS.iter().map(|fault| (*fault, share)).collect(),
    }
}

fn one<T: Copy>(rng: &mut StdRng, of: &[T]) -> T {
    of[rng.random_range(0..of.len())]
}
