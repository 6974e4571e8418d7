//! The actors' settings, from the configuration and the application record: pure functions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::actors::driver_backend::status::views::ContainerView;
use crate::actors::failures;
use crate::actors::failures::rules::{Rule, Verdict};
use crate::actors::lifecycle_manager::{kept, pending_actions};
use crate::actors::pod_allocator::caps::Caps;
use crate::actors::pod_allocator::claims::Reuse;
use crate::actors::pod_allocator::crash_loop::BackoffState;
use crate::actors::pod_allocator::messages::NewLimits;
use crate::actors::pod_allocator::{allocation, claims, gang, pace, victims, waiting};
use crate::actors::poll_source;
use crate::actors::profile_messages::{AddedProfile, Bounds};
use crate::config::{self, FailureAction, Gang, ScaleDown, Where};
use crate::kubernetes::calls::PodGroups;
use crate::kubernetes::pod_template::gangs::{GangScheduler, Gangs};
use crate::kubernetes::workloads::Queue;
use crate::kubernetes::{ProfileSpec, Record};
use crate::model::failures::Growth;
use crate::model::ledger::Inheritance;
use crate::model::{Now, ProfileName};
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

use super::profile_spec;

/// The backoff after a refused or unanswered create. It is short, so that executors exist soon
/// after the server is back; one request every few seconds is no burden to it.
const CREATE_RETRY: Backoff = Backoff {
    initial: Duration::from_millis(200),
    max: Duration::from_secs(5),
};

/// The backoff of a create whose outcome is unknown.
const REPEATED_CREATE: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(15),
};

/// The backoff of deletes, label patches and look-ups.
const LIFECYCLE_RETRY: Backoff = Backoff {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(30),
};

/// The longest that a probe has to run because an earlier incarnation wrote it: as long as
/// `failures.stable_after` can be.
const LONGEST_TRIAL: Duration = Duration::from_secs(24 * 3600);

pub(super) fn bounds(
    profiles: &BTreeMap<ProfileName, config::Profile>,
) -> BTreeMap<ProfileName, Bounds> {
    (profiles.iter())
        .map(|(name, profile)| (name.clone(), bounds_of(profile)))
        .collect()
}

pub(super) fn containers(
    profiles: &BTreeMap<ProfileName, config::Profile>,
) -> BTreeMap<ProfileName, ContainerView> {
    let specs = profile_spec::specs(profiles.clone());
    (specs.iter())
        .map(|(name, spec)| (name.clone(), ContainerView::of(spec)))
        .collect()
}

fn bounds_of(profile: &config::Profile) -> Bounds {
    Bounds {
        slots: profile.slots,
        least: profile.min_executors,
        most: profile.max_executors,
    }
}

/// Reads a profile that is added at run time.
///
/// # Errors
/// The mistakes in the description.
pub(super) fn understood(
    place: &Where,
    name: &ProfileName,
    described: &serde_json::Value,
) -> Result<AddedProfile, Vec<config::Mistake>> {
    let profile = place.profile(name.as_str(), described)?;
    Ok(added(name.clone(), profile))
}

/// A profile that is added at run time.
pub(super) fn added(name: ProfileName, profile: config::Profile) -> AddedProfile {
    AddedProfile {
        name,
        kept: None,
        executors: profile.executors,
        bounds: bounds_of(&profile),
        max_pending: profile.max_pending,
        min_available: profile.min_available,
        spec: profile_spec::spec(profile),
    }
}

/// What the ledger inherits from earlier incarnations. The first incarnation inherits nothing,
/// since it reserved the ids in its record itself.
pub(super) fn inheritance(inherited: Option<&Record>) -> Inheritance {
    inherited.map_or_else(Inheritance::default, |record| Inheritance {
        reserved: record.reserved,
        ended: record.ended.clone(),
        bound: record.bound.clone(),
        reported: record.reported.clone(),
        ends: record.ends.clone(),
    })
}

pub(super) fn poll_pace(config: &config::Config) -> poll_source::Pace {
    if config.poll.enabled {
        poll_source::Pace {
            interval: config.poll.interval,
            from_cache: config.tuning.from_cache,
            makes_first_list: !config.watch.enabled,
        }
    } else {
        poll_source::Pace::SWEEP
    }
}

/// How long after it was sent a create may still commit: the server's own timeout, and the time for which it may have
/// been in transit. A create that was in transit for longer makes an orphan pod (spec E-3).
pub(super) fn server_timeout(cluster: &config::Cluster) -> Duration {
    cluster.request_timeout + Duration::from_secs(1)
}

pub(super) fn lifecycle_settings(
    config: &config::Config,
    adoption_grace: Option<Duration>,
) -> pending_actions::PodRules {
    let (cluster, allocation) = (&config.cluster, &config.allocation);
    pending_actions::PodRules {
        keep: keep_policy(&config.lifecycle),
        max_in_flight: allocation.usual_in_flight() as usize,
        server_timeout: server_timeout(cluster),
        creation_timeout: allocation.creation_timeout,
        backoff: LIFECYCLE_RETRY,
        adoption_grace,
        left_to_sets: super::provisioners::left_to_sets(allocation.strategy),
        reads_events: config.api.evidence,
        protects_busy: config.nodes.protect_busy,
    }
}

pub(super) fn allocation_settings(
    cluster: &config::Cluster,
    allocation: &config::Allocation,
    (failures, configured): (&config::Failures, &BTreeSet<ProfileName>),
    caps: Caps,
    decommission_timeout: Duration,
    claims: claims::ClaimRules,
    gang: Option<gang::GangRules>,
) -> allocation::AllocationRules {
    allocation::AllocationRules {
        batch_size: allocation.batch_size,
        limits: pace::Limits {
            max_in_flight: allocation.max_in_flight,
            max_rate: allocation.max_rate,
            backoff: CREATE_RETRY,
        },
        stable_after: failures.stable_after,
        crash_backoff: crash_backoff(failures),
        repeat_backoff: REPEATED_CREATE,
        creation_timeout: allocation.creation_timeout,
        server_timeout: server_timeout(cluster),
        victims: victims::SurplusRules {
            cancel_delay: allocation.cancel_delay,
            pending_only: allocation.scale_down == ScaleDown::PendingOnly,
            decommission_timeout,
        },
        failures: failure_settings(failures, configured),
        waiting: waiting(allocation),
        caps,
        claims,
        gang,
    }
}

pub(super) fn keep_policy(lifecycle: &config::Lifecycle) -> kept::Policy {
    kept::Policy {
        which: match lifecycle.keep {
            config::Keep::None => kept::Which::None,
            config::Keep::Failed => kept::Which::Failed,
            config::Keep::All => kept::Which::All,
        },
        most: lifecycle.keep_most as usize,
        longest: lifecycle.keep_for,
    }
}

fn crash_backoff(failures: &config::Failures) -> Backoff {
    Backoff {
        initial: failures.backoff_initial,
        max: failures.backoff_max,
    }
}

fn waiting(allocation: &config::Allocation) -> waiting::WaitLimits {
    waiting::WaitLimits {
        pending_timeout: allocation.pending_timeout,
        stuck_after: allocation.stuck_after,
    }
}

/// The settings of the provisioner that can change while it runs (spec C-6).
pub(super) fn new_limits(config: &config::Config) -> NewLimits {
    let (allocation, failures) = (&config.allocation, &config.failures);
    let profiles = config.profiles.iter();
    NewLimits {
        batch_size: allocation.batch_size,
        max_rate: allocation.max_rate,
        max_pending: allocation.max_pending,
        max_pending_of: profiles
            .map(|(name, profile)| (name.clone(), profile.max_pending))
            .collect(),
        over_life: config.app.max_executors,
        waiting: waiting(allocation),
        cancel_delay: allocation.cancel_delay,
        crash_backoff: crash_backoff(failures),
        max_failures: failures.max,
        look_every: config.poll.interval,
    }
}

/// `configured`: the profiles of the configuration.
pub(super) fn failure_settings(
    failures: &config::Failures,
    configured: &BTreeSet<ProfileName>,
) -> failures::FailureBudget {
    failures::FailureBudget {
        max: failures.max,
        window: failures.window,
        rules: failures.rules.iter().map(rule).collect(),
        configured: configured.clone(),
        alone: failures.on_exceeded == config::OnExceeded::Profile,
        node_max: failures.node_max_failures,
        node_if_possible: failures.node_avoidance == config::NodeAvoidance::Preferred,
        growth: BTreeMap::new(),
    }
}

/// The profiles whose executors' memory grows (spec L-43).
pub(super) fn growth(
    profiles: &BTreeMap<ProfileName, config::Profile>,
) -> BTreeMap<ProfileName, Growth> {
    (profiles.iter())
        .filter_map(|(name, profile)| Some((name.clone(), profile.growth()?)))
        .collect()
}

/// The memory limits, in bytes, that earlier drivers have reached and the configuration allows.
pub(super) fn memory_limits(
    profiles: &BTreeMap<ProfileName, config::Profile>,
    record: &Record,
) -> BTreeMap<ProfileName, u64> {
    if planted::is(Planted::GrowthForgotten) {
        return BTreeMap::new();
    }
    let growth = growth(profiles);
    (record.failures.memory_limits())
        .filter_map(|(name, limit)| Some((name.clone(), growth.get(name)?.resume(limit)?)))
        .collect()
}

pub(super) fn caps(
    app: &config::App,
    allocation: &config::Allocation,
    profiles: &BTreeMap<ProfileName, config::Profile>,
) -> Caps {
    Caps {
        pending: allocation.max_pending,
        pending_of: (profiles.iter())
            .filter_map(|(name, profile)| Some((name.clone(), profile.max_pending?)))
            .collect(),
        over_life: app.max_executors,
    }
}

fn rule(rule: &config::FailureRule) -> Rule {
    Rule {
        exit_codes: rule.exit_codes.iter().copied().collect(),
        classes: rule.classes.iter().copied().collect(),
        conditions: rule.conditions.iter().cloned().collect(),
        action: match rule.action {
            FailureAction::Ignore => Verdict::Ignore,
            FailureAction::Count => Verdict::Count,
            FailureAction::Stop => Verdict::Stop,
        },
    }
}

pub(super) fn known_to_the_allocator(record: &Record, now: Now) -> allocation::Inherited {
    allocation::Inherited {
        reserved: record.reserved,
        backoffs: kept_backoffs(record, now),
        failures: record.failures.clone(),
        ends: record.ends.clone(),
        made: record.made(),
    }
}

/// How long a gang may take to be complete; `None` without gangs. `registered`: executors count
/// only once they have registered.
pub(super) fn gangs(scheduling: &config::Scheduling, registered: bool) -> Option<gang::GangRules> {
    scheduling.gang.is_on().then_some(gang::GangRules {
        timeout: scheduling.gang_timeout,
        registered,
    })
}

/// `None`: executors are requested without a queue (spec A-90).
pub(super) fn queue(scheduling: &config::Scheduling) -> Option<Queue> {
    let name = scheduling.queue_name.clone();
    let name = name.filter(|_| scheduling.queue == config::Queue::Kueue)?;
    Some(Queue {
        name,
        priority: scheduling.queue_priority,
    })
}

/// The number of executors below which those of a profile are useless (spec B-63).
pub(super) fn least(
    profiles: &BTreeMap<ProfileName, config::Profile>,
) -> BTreeMap<ProfileName, u32> {
    (profiles.iter())
        .map(|(name, profile)| (name.clone(), profile.min_executors))
        .collect()
}

/// The number of executors that evictions leave (spec K-12).
pub(super) fn min_available(
    profiles: &BTreeMap<ProfileName, config::Profile>,
) -> BTreeMap<ProfileName, u32> {
    (profiles.iter())
        .filter_map(|(name, profile)| Some((name.clone(), profile.min_available?)))
        .collect()
}

/// The backoffs of an earlier incarnation, whose ends are wall-clock times. PodAllocator limits the
/// remaining time to each backoff's maximum.
fn kept_backoffs(record: &Record, now: Now) -> BTreeMap<ProfileName, BackoffState> {
    let remaining = |until: jiff::Timestamp| {
        Duration::try_from(until.duration_since(now.wall)).unwrap_or(Duration::ZERO)
    };
    (record.backoffs.iter())
        .map(|(profile, saved)| {
            let kept = BackoffState {
                step: saved.step,
                remaining: remaining(saved.until),
                trial: (saved.trial_ms).map(|ms| Duration::from_millis(ms).min(LONGEST_TRIAL)),
            };
            (profile.clone(), kept)
        })
        .collect()
}

/// The PodGroups that a gang scheduler reads; `None` without any (spec A-82).
pub(super) fn pod_groups(scheduling: &config::Scheduling) -> Option<PodGroups> {
    match scheduling.gang {
        Gang::Off | Gang::On | Gang::Yunikorn => None,
        Gang::Volcano => Some(PodGroups::Volcano),
        Gang::Kubernetes => Some(PodGroups::KUBERNETES),
    }
}

/// Marks the pods of these profiles for a gang scheduler (spec A-82). Returns their gangs, to which
/// profiles that are added later are added; `None` if no gang scheduler is informed of gangs.
pub(super) fn mark_gangs(
    scheduling: &config::Scheduling,
    least: &BTreeMap<ProfileName, u32>,
    specs: &mut BTreeMap<ProfileName, ProfileSpec>,
) -> Option<Gangs> {
    let scheduler = match scheduling.gang {
        Gang::Off | Gang::On => return None,
        Gang::Yunikorn => GangScheduler::Yunikorn,
        Gang::Volcano => GangScheduler::Volcano,
        Gang::Kubernetes => GangScheduler::Kubernetes,
    };
    let mut gangs = Gangs::new(scheduler, scheduling.gang_timeout.as_secs());
    gangs.add_all(least, specs);
    Some(gangs)
}

pub(super) fn claims(
    claims: &config::Claims,
    prefix: &str,
    profiles: &BTreeMap<ProfileName, ProfileSpec>,
) -> claims::ClaimRules {
    let templates = |spec: &ProfileSpec| spec.claims.iter().map(|c| c.template.clone()).collect();
    claims::ClaimRules {
        prefix: Arc::from(prefix),
        reuse: match (claims.reuse, claims.wait) {
            (false, _) => Reuse::Never,
            (true, false) => Reuse::IfFree,
            (true, true) => Reuse::OrWait,
        },
        profiles: (profiles.iter())
            .map(|(name, spec)| (name.clone(), templates(spec)))
            .collect(),
    }
}
