//! The provisioner: PodAllocator, or SetScaler by sets (spec A-80).

use std::time::Duration;

use actix::{Actor, Addr, Context, Handler, Recipient};
use tokio::sync::watch;

use crate::actors::failures::{self, Failures};
use crate::actors::pod_allocator::messages::{
    GroupsRefused, NewLimits, PreferNodes, StopRequesting,
};
use crate::actors::profile_messages::{ProfileAdded, ProfileGone};
use crate::actors::set_scaler::decision::{Scaling, SetRules};
use crate::actors::snapshot_store::messages::Round;
use crate::config::{self, Strategy};
use crate::kubernetes::SetKind;
use crate::kubernetes::calls::ServerIsBack;
use crate::kubernetes::set_template::Sets;
use crate::metrics::Measure;
use crate::model::{Now, ProfileName};
use boatswain_agent::backoff::Backoff;

/// How long a set has to delete a surplus executor, before the driver deletes it.
const LEFT_TO_SETS: Duration = Duration::from_secs(30);

/// The backoff of calls about a set.
const TRIES: Backoff = Backoff {
    initial: Duration::from_millis(200),
    max: Duration::from_secs(30),
};

pub(super) struct Provisioner {
    pub(super) stop: Recipient<StopRequesting>,
    /// How much is left to await after that: requests in flight or, at the end, sets.
    pub(super) left: watch::Receiver<u32>,
    pub(super) round: Recipient<Round>,
    pub(super) measure: Recipient<Measure>,
    pub(super) profiles: Recipient<ProfileAdded>,
    pub(super) gone: Recipient<ProfileGone>,
    pub(super) limits: Recipient<NewLimits>,
    /// `None` with sets, all pods of which have the same template.
    pub(super) prefer: Option<Recipient<PreferNodes>>,
    /// The same.
    pub(super) groups: Option<Recipient<GroupsRefused>>,
    pub(super) server_is_back: Recipient<ServerIsBack>,
}

impl Provisioner {
    pub(super) fn new<A>(
        addr: &Addr<A>,
        prefer: Option<Recipient<PreferNodes>>,
        groups: Option<Recipient<GroupsRefused>>,
        left: watch::Receiver<u32>,
    ) -> Self
    where
        A: Actor<Context = Context<A>>
            + Handler<StopRequesting>
            + Handler<Round>
            + Handler<Measure>
            + Handler<ProfileAdded>
            + Handler<ProfileGone>
            + Handler<NewLimits>
            + Handler<ServerIsBack>,
    {
        Self {
            stop: addr.clone().recipient(),
            left,
            round: addr.clone().recipient(),
            measure: addr.clone().recipient(),
            profiles: addr.clone().recipient(),
            gone: addr.clone().recipient(),
            limits: addr.clone().recipient(),
            prefer,
            groups,
            server_is_back: addr.clone().recipient(),
        }
    }
}

/// `None` if PodAllocator creates the pods.
pub(super) fn set_kind(strategy: Strategy) -> Option<SetKind> {
    match strategy {
        Strategy::Direct => None,
        Strategy::StatefulSet => Some(SetKind::StatefulSet),
        Strategy::Deployment => Some(SetKind::Deployment),
    }
}

/// `None` without sets.
pub(super) fn left_to_sets(strategy: Strategy) -> Option<Duration> {
    set_kind(strategy).map(|_| LEFT_TO_SETS)
}

/// Logs what is left to Kubernetes if sets make the pods.
pub(super) fn log_strategy(strategy: Strategy) {
    if let Some(kind) = set_kind(strategy) {
        let kind = kind.kind();
        tracing::info!(
            strategy = kind,
            "Kubernetes makes the executors' pods, one set a profile, and starts them again: boatswain does not \
             choose their names, limit how fast or how many are requested, back off, or give up those that do not start"
        );
    }
}

pub(super) fn scaling(
    kind: SetKind,
    sets: &Sets,
    profiles: &[ProfileName],
    config: (&config::Allocation, &config::Poll, &config::Backend),
    failures: (failures::FailureBudget, &crate::kubernetes::Record, Now),
) -> Scaling {
    let (allocation, poll, backend) = config;
    let (failures, record, now) = failures;
    let settings = SetRules {
        kind,
        prefix: sets.prefix().to_owned(),
        look_every: poll.interval,
        backoff: TRIES,
        settled_after: allocation.creation_timeout,
        max_in_flight: allocation.usual_in_flight(),
        decommission_timeout: backend.decommission_timeout,
    };
    let hashes = profiles.iter().filter_map(|profile| {
        let hash = sets.hash(profile)?.to_owned();
        Some((profile.clone(), hash))
    });
    let failures = Failures::resume(failures, &record.failures, now).catch_up(&record.ends, now);
    Scaling::new(settings, hashes.collect(), record.reserved, failures)
}
