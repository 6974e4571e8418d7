//! The table of all metrics, named by the conventions of Prometheus. A line is all that a metric needs, beside the
//! place that counts it.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

use super::{ByProfile, Labelled, PREFIX};

/// Buckets for the duration of calls, in seconds.
const CALL: [f64; 11] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
];

/// Buckets for the time from an executor's request to its running, in seconds.
const START: [f64; 11] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0,
];

/// Buckets for the duration of rounds, in seconds.
const ROUND: [f64; 9] = [
    0.000_1, 0.000_25, 0.001, 0.002_5, 0.01, 0.025, 0.1, 0.25, 1.0,
];

const SECONDS: Option<Unit> = Some(Unit::Seconds);

/// Declares each metric: its field, its type, how it begins, its name without the prefix, its unit and its help.
macro_rules! metrics {
    ($($field:ident: $kind:ty = $begin:expr, $name:literal, $unit:expr, $help:literal;)*) => {
        pub struct Families {
            pub(super) registry: Registry,
            $(#[doc = $help] pub $field: $kind,)*
        }

        impl Families {
            /// Registers all metrics here.
            pub(super) fn in_registry(mut registry: Registry) -> Self {
                let ours = registry.sub_registry_with_prefix(PREFIX);
                $(
                    let $field: $kind = $begin;
                    add(ours, $name, $unit, $help, $field.clone());
                )*
                Self { registry, $($field,)* }
            }

            /// Removes what is counted by profile alone, of a removed profile (spec B-52).
            pub fn remove_profile(&self, profile: &str) {
                $(self.$field.remove_profile(profile);)*
            }
        }
    };
}

fn add(
    registry: &mut Registry,
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
    metric: impl Metric,
) {
    match unit {
        None => registry.register(name, help, metric),
        Some(unit) => registry.register_with_unit(name, help, unit, metric),
    }
}

metrics! {
    targets: Labelled<Gauge, 1> = Labelled::by(["profile"]),
        "target_executors", None, "How many executors are wanted";
    executors: Labelled<Gauge, 2> = Labelled::by(["profile", "state"]),
        "executors", None, "How many executors there are, by state";
    ended: Labelled<Counter, 3> = Labelled::by(["profile", "reason", "failure"]),
        "executors_ended", None, "Executors that have ended, by reason";
    starts: Labelled<Histogram, 1> = Labelled::made(["profile"], || Histogram::new(START)),
        "executor_start", SECONDS, "Time from the request for an executor until it runs";
    registrations: Labelled<Histogram, 1> = Labelled::made(["profile"], || Histogram::new(START)),
        "executor_registration", SECONDS, "Time from the request for an executor until it registers";
    // Without a value where there is no certificate.
    certificate: Labelled<Gauge, 1> = Labelled::by(["listeners"]),
        "tls_certificate_expiration_timestamp", SECONDS,
        "When the certificate of API and sessions expires, in seconds since 1970";
    sessions: Labelled<Gauge, 1> = Labelled::by(["state"]),
        "sessions", None, "Sessions of executors, by state";
    degraded: Labelled<Gauge, 1> = Labelled::by(["why"]),
        "degraded", None, "Whether no executor is given up for its silence, by why that is so";
    ready: Gauge = Gauge::default(),
        "ready", None, "Whether the application may begin: 0 or 1";
    held: Gauge = Gauge::default(),
        "held", None, "Whether the application is held: 0 or 1";
    paused: Labelled<Gauge, 2> = Labelled::by(["profile", "cause"]),
        "profile_paused", None, "1 while missing executors are not requested, by why that is so";
    failed: Labelled<Gauge, 1> = Labelled::by(["profile"]),
        "profile_failed", None, "1 while a profile has failed and has no executors";
    failures: Labelled<Gauge, 1> = Labelled::by(["profile"]),
        "failures", None, "Failures that count towards the limit now";
    allowed: Labelled<Gauge, 1> = Labelled::by(["profile"]),
        "failures_allowed", None, "The most failures that may count; one more ends the application or the profile";
    messages: Labelled<Counter, 1> = Labelled::by(["type"]),
        "session_messages", None, "Messages from executors, including heartbeats";
    refused: Labelled<Counter, 1> = Labelled::by(["code"]),
        "session_messages_refused", None, "Messages to the sessions' endpoints that were refused";
    depths: Labelled<Gauge, 1> = Labelled::by(["queue"]),
        "queue_depth", None, "Work that is queued or in progress, by queue";
    mailboxes: Labelled<Histogram, 1> = Labelled::made(["actor"], || Histogram::new(ROUND)),
        "mailbox_wait", SECONDS, "How long an actor took to answer a message that needs no work";
    calls: Labelled<Counter, 3> = Labelled::by(["verb", "resource", "outcome"]),
        "api_calls", None, "Calls to the API server, by outcome";
    call_times: Labelled<Histogram, 2> = Labelled::made(["verb", "resource"], || Histogram::new(CALL)),
        "api_call", SECONDS, "How long calls to the API server took";
    rounds: Labelled<Histogram, 1> = Labelled::made(["subscriber"], || Histogram::new(ROUND)),
        "round", SECONDS, "How long a subscriber took to decide on a batch";
    orphans: Gauge = Gauge::default(),
        "orphans", None, "Orphan pods of this application, which are being deleted";
    entries: Gauge = Gauge::default(),
        "snapshot_entries", None, "Entries in the ledger, including executors that ended recently";
    snapshot_age: Gauge = Gauge::default(),
        "snapshot_age", SECONDS, "Time since the last change in the ledger";
    waiting: Gauge = Gauge::default(),
        "snapshots_waiting", None, "The largest number of snapshots that wait for a subscriber";
    adopted: Gauge = Gauge::default(),
        "adopted", None, "Whether this driver has taken over: 0 or 1";
    drifts: Counter = Counter::default(),
        "watch_drifts", None, "Changes that a list showed and the watch missed";
    bookmark_age: Gauge = Gauge::default(),
        "watch_bookmark_age", SECONDS,
        "Time since the last bookmark of the watch, which the server sends about every minute";
    list_age: Gauge = Gauge::default(),
        "full_list_age", SECONDS,
        "Time since the start of the last list that proves which pods do not exist";
}
