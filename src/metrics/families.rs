//! The numbers, by Prometheus' rules for names and units.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::messages::CallMade;
use crate::model::{AppId, Incarnation, LossClass, ProfileName, Snapshot, Tick};

/// Seconds that a call may take.
const CALL_SECONDS: [f64; 11] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5, 10.0,
];

/// Seconds that an executor may take from being asked for to running.
const START_SECONDS: [f64; 11] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 180.0, 600.0,
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

/// Every number there is.
pub struct Families {
    registry: Registry,
    targets: Family<OfProfile, Gauge>,
    executors: Family<OfState, Gauge>,
    ended: Family<OfEnd, Counter>,
    starts: Family<OfProfile, Histogram>,
    calls: Family<OfOutcome, Counter>,
    call_times: Family<OfCall, Histogram>,
    ghosts: Gauge,
    entries: Gauge,
    adopted: Gauge,
    drifts: Gauge,
    list_age: Gauge,
}

impl Families {
    /// With nothing counted yet, for that start of that application's driver.
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
            ghosts: Gauge::default(),
            entries: Gauge::default(),
            adopted: Gauge::default(),
            drifts: Gauge::default(),
            list_age: Gauge::default(),
        };
        let registry = &mut it.registry;
        registry.register("build", "This driver", Info::new(build.to_vec()));
        registry.register(
            "target_executors",
            "How many executors are wanted",
            it.targets.clone(),
        );
        registry.register(
            "executors",
            "How many executors there are, by state",
            it.executors.clone(),
        );
        registry.register(
            "executors_ended",
            "Executors that have ended, by reason",
            it.ended.clone(),
        );
        registry.register_with_unit(
            "executor_start",
            "From the request for an executor to its running",
            Unit::Seconds,
            it.starts.clone(),
        );
        registry.register(
            "api_calls",
            "Calls to the API server, by what became of them",
            it.calls.clone(),
        );
        registry.register_with_unit(
            "api_call",
            "How long calls to the API server took",
            Unit::Seconds,
            it.call_times.clone(),
        );
        registry.register(
            "ghosts",
            "Pods of this application that are nobody's, and are being deleted",
            it.ghosts.clone(),
        );
        registry.register(
            "snapshot_entries",
            "Executors in the ledger, those that have just ended among them",
            it.entries.clone(),
        );
        registry.register(
            "adopted",
            "Whether this driver has taken over: 0 or 1",
            it.adopted.clone(),
        );
        registry.register(
            "watch_drifts",
            "Changes that a list showed and the watch never did",
            it.drifts.clone(),
        );
        registry.register_with_unit(
            "full_list_age",
            "Since the last list that proved what is not there was asked for",
            Unit::Seconds,
            it.list_age.clone(),
        );
        it
    }

    /// An executor runs, so long after it was asked for.
    pub fn started(&self, profile: &ProfileName, after: Duration) {
        let profile = profile.to_string();
        self.starts
            .get_or_create(&OfProfile { profile })
            .observe(after.as_secs_f64());
    }

    /// An executor has ended.
    pub fn ended(&self, profile: &ProfileName, class: LossClass, failure: bool) {
        let of = OfEnd {
            profile: profile.to_string(),
            reason: class.to_string(),
            failure: if failure { "true" } else { "false" },
        };
        self.ended.get_or_create(&of).inc();
    }

    /// A call is over.
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

    /// How things are now.
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
            for (state, number) in [
                ("requested", counts.sent),
                ("unanswered", counts.unknown),
                ("pending", counts.pending),
                ("running", counts.running),
                ("in-doubt", counts.doubtful),
                ("leaving", counts.leaving + counts.terminating),
            ] {
                self.executors.get_or_create(&of(state)).set(number.into());
            }
        }
        self.ghosts.set(whole(snapshot.ghosts.len()));
        self.entries.set(whole(snapshot.entries.len()));
        self.adopted.set(snapshot.adopted.into());
        self.drifts
            .set(i64::try_from(snapshot.drifts).unwrap_or(i64::MAX));
        if let Some(list) = &snapshot.full_list {
            let age = now.since(list.asked).as_secs();
            self.list_age.set(i64::try_from(age).unwrap_or(i64::MAX));
        }
    }

    /// All of it, as Prometheus reads it.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
