//! The metrics, named by the conventions of Prometheus.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

use super::messages::SessionMeasures;
use crate::actors::snapshot_store::messages::{Measures, RoundMade, Subscriber};
use crate::kubernetes::calls::CallMade;
use crate::model::{AppId, Incarnation, LossClass, ProfileName, Snapshot, Tick};

mod table;

/// Buckets for the duration of calls, in seconds.
const CALL_SECONDS: [f64; 11] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
];

/// Buckets for the time from an executor's request to its running, in seconds.
const START_SECONDS: [f64; 11] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0,
];

/// Buckets for the duration of rounds, in seconds.
const ROUND_SECONDS: [f64; 9] = [
    0.000_1, 0.000_25, 0.001, 0.002_5, 0.01, 0.025, 0.1, 0.25, 1.0,
];

/// The states in which executors are counted.
const STATES: [&str; 6] = [
    "requested",
    "unanswered",
    "pending",
    "running",
    "uncertain",
    "leaving",
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfProfile {
    profile: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    profile: String,
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfEnd {
    profile: String,
    reason: String,
    failure: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCall {
    verb: &'static str,
    resource: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfOutcome {
    verb: &'static str,
    resource: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRound {
    subscriber: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfActor {
    actor: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQueue {
    queue: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfSession {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfDoubt {
    why: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfMessage {
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRefusal {
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfCertificate {
    listeners: &'static str,
}

#[derive(Debug)]
struct Boxed(Box<dyn Metric>);

impl EncodeMetric for Boxed {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }

    fn metric_type(&self) -> MetricType {
        self.0.metric_type()
    }
}

/// A row of the table of metrics: the name without the prefix, the help, the unit, and the metric.
type Line = (&'static str, &'static str, Option<Unit>, Box<dyn Metric>);

/// All metrics of the driver.
pub struct Families {
    registry: Registry,
    targets: Family<OfProfile, Gauge>,
    executors: Family<OfState, Gauge>,
    ended: Family<OfEnd, Counter>,
    starts: Family<OfProfile, Histogram>,
    calls: Family<OfOutcome, Counter>,
    call_times: Family<OfCall, Histogram>,
    orphans: Gauge,
    entries: Gauge,
    adopted: Gauge,
    drifts: Gauge,
    list_age: Gauge,
    rounds: Family<OfRound, Histogram>,
    snapshot_age: Gauge,
    waiting: Gauge,
    bookmark_age: Gauge,
    registrations: Family<OfProfile, Histogram>,
    sessions: Family<OfSession, Gauge>,
    degraded: Family<OfDoubt, Gauge>,
    messages: Family<OfMessage, Counter>,
    refused: Family<OfRefusal, Counter>,
    depths: Family<OfQueue, Gauge>,
    mailboxes: Family<OfActor, Histogram>,
    /// Without a value where there is no certificate.
    certificate: Family<OfCertificate, Gauge>,
}

impl Families {
    pub fn new(app: &AppId, incarnation: Incarnation) -> Self {
        let build = [
            ("version", env!("CARGO_PKG_VERSION").to_owned()),
            ("app", app.to_string()),
            ("incarnation", incarnation.to_string()),
        ];
        let mut it = Self {
            registry: Registry::with_prefix("boatswain"),
            targets: Family::default(),
            executors: Family::default(),
            ended: Family::default(),
            starts: Family::new_with_constructor(|| Histogram::new(START_SECONDS)),
            calls: Family::default(),
            call_times: Family::new_with_constructor(|| Histogram::new(CALL_SECONDS)),
            orphans: Gauge::default(),
            entries: Gauge::default(),
            adopted: Gauge::default(),
            drifts: Gauge::default(),
            list_age: Gauge::default(),
            rounds: Family::new_with_constructor(|| Histogram::new(ROUND_SECONDS)),
            snapshot_age: Gauge::default(),
            waiting: Gauge::default(),
            bookmark_age: Gauge::default(),
            registrations: Family::new_with_constructor(|| Histogram::new(START_SECONDS)),
            sessions: Family::default(),
            degraded: Family::default(),
            messages: Family::default(),
            refused: Family::default(),
            depths: Family::default(),
            mailboxes: Family::new_with_constructor(|| Histogram::new(ROUND_SECONDS)),
            certificate: Family::default(),
        };
        it.registry
            .register("build", "This driver", Info::new(build.to_vec()));
        for (name, help, unit, metric) in it.table() {
            let metric = Boxed(metric);
            match unit {
                None => it.registry.register(name, help, metric),
                Some(unit) => it.registry.register_with_unit(name, help, unit, metric),
            }
        }
        it
    }

    /// An executor runs, this long after its request.
    pub fn started(&self, profile: &ProfileName, after: Duration) {
        let profile = profile.to_string();
        self.starts
            .get_or_create(&OfProfile { profile })
            .observe(after.as_secs_f64());
    }

    /// An executor has registered, this long after its request.
    pub fn registered(&self, profile: &ProfileName, after: Duration) {
        let profile = profile.to_string();
        self.registrations
            .get_or_create(&OfProfile { profile })
            .observe(after.as_secs_f64());
    }

    /// An actor took this long to answer a message that needs no work.
    pub fn answered(&self, actor: &'static str, took: Duration) {
        self.mailboxes
            .get_or_create(&OfActor { actor })
            .observe(took.as_secs_f64());
    }

    pub fn expires(&self, at: jiff::Timestamp) {
        let of = OfCertificate {
            listeners: "api,sessions",
        };
        self.certificate.get_or_create(&of).set(at.as_second());
    }

    pub fn depths(&self, depths: &[(&'static str, usize)]) {
        for (queue, depth) in depths {
            let queue = OfQueue { queue };
            self.depths.get_or_create(&queue).set(whole(*depth));
        }
    }

    pub fn sessions(&self, measures: &SessionMeasures) {
        for (state, number) in [
            ("connected", measures.connected),
            ("asking", measures.asking),
            ("disabled", measures.disabled),
            ("unregistered", measures.unregistered),
        ] {
            self.sessions
                .get_or_create(&OfSession { state })
                .set(whole(number));
        }
        for (why, is) in &measures.degraded {
            let why = OfDoubt { why };
            self.degraded.get_or_create(&why).set(i64::from(*is));
        }
        for (r#type, total) in &measures.heard {
            raise(&self.messages.get_or_create(&OfMessage { r#type }), *total);
        }
        for (code, total) in &measures.refused {
            let code = code.clone();
            raise(&self.refused.get_or_create(&OfRefusal { code }), *total);
        }
    }

    pub fn ended(&self, profile: &ProfileName, class: LossClass, failure: bool) {
        let of = OfEnd {
            profile: profile.to_string(),
            reason: class.to_string(),
            failure: if failure { "true" } else { "false" },
        };
        self.ended.get_or_create(&of).inc();
    }

    pub fn called(&self, call: &CallMade) {
        let (verb, resource, outcome) = (call.verb, call.resource, call.outcome);
        self.calls
            .get_or_create(&OfOutcome {
                verb,
                resource,
                outcome,
            })
            .inc();
        self.call_times
            .get_or_create(&OfCall { verb, resource })
            .observe(call.took.as_secs_f64());
    }

    pub fn decided(&self, round: RoundMade) {
        let subscriber = match round.subscriber {
            Subscriber::Allocator => "allocator",
            Subscriber::Lifecycle => "lifecycle",
            Subscriber::Record => "record",
            Subscriber::Registry => "registry",
            Subscriber::History => "history",
            Subscriber::Backend => "backend",
            Subscriber::Metrics => "metrics",
            Subscriber::Observer => "observer",
        };
        self.rounds
            .get_or_create(&OfRound { subscriber })
            .observe(round.took.as_secs_f64());
    }

    /// Removes all values of a removed profile (spec B-52).
    pub fn forget(&self, profile: &ProfileName) {
        let of = OfProfile {
            profile: profile.to_string(),
        };
        self.targets.remove(&of);
        self.starts.remove(&of);
        self.registrations.remove(&of);
        for state in STATES {
            let profile = of.profile.clone();
            self.executors.remove(&OfState { profile, state });
        }
        for class in LossClass::ALL {
            for failure in ["true", "false"] {
                let (profile, reason) = (of.profile.clone(), class.to_string());
                self.ended.remove(&OfEnd {
                    profile,
                    reason,
                    failure,
                });
            }
        }
    }

    /// The size of the store, and when it last received something.
    pub fn measure(&self, measures: &Measures, now: Tick) {
        self.waiting.set(whole(measures.waiting));
        for (gauge, at) in [
            (&self.snapshot_age, measures.changed),
            (&self.bookmark_age, measures.bookmark),
        ] {
            if let Some(at) = at {
                gauge.set(i64::try_from(now.since(at).as_secs()).unwrap_or(i64::MAX));
            }
        }
    }

    pub fn show(&self, snapshot: &Snapshot, now: Tick) {
        for (profile, target) in &snapshot.targets {
            let of = |state| OfState {
                profile: profile.to_string(),
                state,
            };
            let counts = snapshot.counts(profile);
            self.targets
                .get_or_create(&OfProfile {
                    profile: profile.to_string(),
                })
                .set(target.executors.into());
            let numbers = [
                counts.sent,
                counts.unknown,
                counts.pending,
                counts.running,
                counts.uncertain,
                counts.leaving + counts.terminating,
            ];
            for (state, number) in STATES.into_iter().zip(numbers) {
                self.executors.get_or_create(&of(state)).set(number.into());
            }
        }
        self.orphans.set(whole(snapshot.orphans.len()));
        self.entries.set(whole(snapshot.entries.len()));
        self.adopted.set(snapshot.adopted.into());
        self.drifts
            .set(i64::try_from(snapshot.drifts).unwrap_or(i64::MAX));
        if let Some(list) = &snapshot.full_list {
            let age = now.since(list.asked).as_secs();
            self.list_age.set(i64::try_from(age).unwrap_or(i64::MAX));
        }
    }

    /// All metrics in the text format of Prometheus.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// Raises a counter to a total that is counted elsewhere.
fn raise(counter: &Counter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
