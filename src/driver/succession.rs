//! Takes over the application record, which is the only way to start (spec O-31).

pub mod authority;
mod leftovers;
mod own_pod;
mod record;
mod standby;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use thiserror::Error;
use tokio::time::Instant;

use crate::actors::record_keeper::keeping::{Keeping, Over};
use crate::config::{Config, Gang, Where};
use crate::exit::Exit;
use crate::kubernetes::calls::ConfigMap;
use crate::kubernetes::owned_resources::{Content, OwnedResource};
use crate::kubernetes::pod_template::{EXECUTOR_CONTAINER, owner_reference};
use crate::kubernetes::record::{Record, RecordPlace, record_name};
use crate::kubernetes::{Calls, CallsSpec, Clients, Failure, FailureKind, LabelScheme};
use crate::model::{AppId, PodUid, ProfileName, ResourceVersion};
use crate::planted::{self, Planted};
use crate::telemetry::millis;
use boatswain_agent::backoff::Backoff;

use super::Environment;
use super::owned_resources;
use super::owner_chain::OwnerChain;
use super::profile_proofs::ProfileProofs;
use super::provisioners;
use super::rights;
use record::{Taken, take_over};

pub(super) use leftovers::delete as delete_leftovers;
pub(super) use own_pod::controller_is_gone;
pub(super) use standby::{become_active, end_of_predecessor, predecessor, wait_for_lease};

/// The backoff of calls at the start.
const RETRY: Backoff = Backoff {
    initial: Duration::from_millis(100),
    max: Duration::from_secs(5),
};

pub struct Application {
    pub calls: Calls,
    pub namespace: String,
    /// The prefix of all the application's object names.
    pub prefix: String,
    pub labels: LabelScheme,
    /// The record as this incarnation has written it.
    pub record: Record,
    /// The record of earlier incarnations; `None` at the first start.
    pub inherited: Option<Record>,
    /// The metadata of the record's ConfigMap.
    pub place: RecordPlace,
    /// The record's uid and version.
    pub uid: PodUid,
    pub version: ResourceVersion,
    /// The driver's pod and its controllers; `None` outside a cluster.
    pub owner_chain: Option<OwnerChain>,
    pub owned_resources: Vec<OwnedResource>,
    /// The profiles of the configuration, without those that were added while a driver ran.
    pub configured: BTreeSet<ProfileName>,
}

#[derive(Debug, Error)]
#[error("{message}")]
pub struct StartError {
    /// The exit code for this kind of error.
    pub exit: Exit,
    message: String,
}

impl StartError {
    fn new(exit: Exit, message: String) -> Self {
        Self { exit, message }
    }
}

/// What a start finds before it writes anything.
pub struct Found {
    pub calls: Calls,
    place: RecordPlace,
    began: Instant,
    /// The driver's pod and its controllers; `None` outside a cluster.
    pub owner_chain: Option<OwnerChain>,
    /// The application record; `None` at the first start.
    pub record: Option<ConfigMap>,
}

/// Reads what is there. Nothing is written.
///
/// # Errors
/// If the cluster stays unreachable or refuses a call.
pub async fn find_application(
    config: &Config,
    environment: &Environment,
) -> Result<Found, StartError> {
    let began = Instant::now();
    let (calls, place) = calls(config, &environment.clients);
    let retries = Retries::since(began, config, environment);

    let version = retries
        .call("the cluster", || calls.server_version())
        .await?;
    let duration_ms = millis(began.elapsed());
    let (server, namespace) = (&environment.clients.server, &place.namespace);
    tracing::info!(server, version, namespace, duration_ms, "cluster reached");

    ensure_pod_groups_are_served(config, &calls, &retries).await?;

    let owner_chain = own_pod::owner_chain(config, &calls, &retries, namespace).await?;
    let owner = owner_chain
        .as_ref()
        .map(|owner_chain| json!(owner_chain.top));
    let record = record::read(&calls, &retries, &place).await?;
    if let Some(map) = &record {
        record::refuse_another_name(map, config)?;
    }
    Ok(Found {
        calls,
        place: RecordPlace { owner, ..place },
        began,
        owner_chain,
        record,
    })
}

/// Without PodGroups, pods that name one would be scheduled one by one, or not at all (spec A-104).
async fn ensure_pod_groups_are_served(
    config: &Config,
    calls: &Calls,
    retries: &Retries<'_>,
) -> Result<(), StartError> {
    if config.scheduling.gang != Gang::Kubernetes {
        return Ok(());
    }
    match retries
        .call("scheduling.k8s.io", || calls.pod_groups())
        .await?
    {
        Some(version) => {
            tracing::info!(
                version,
                "gangs are scheduled by Kubernetes, by its PodGroups"
            );
            Ok(())
        }
        None => Err(StartError::new(
            Exit::Configuration,
            rights::no_pod_groups(),
        )),
    }
}

/// Raises the incarnation in the record, or creates the record.
///
/// # Errors
/// If the cluster stays unreachable or refuses a call, or the record cannot be taken over.
pub async fn take_over_application(
    found: Found,
    config: &Config,
    environment: &Environment,
) -> Result<Application, StartError> {
    let Found {
        calls,
        place,
        began,
        owner_chain,
        record: map,
    } = found;
    let retries = Retries::since(began, config, environment);
    let pod = owner_chain.as_ref().map(|owner_chain| &owner_chain.pod);
    let Taken {
        record,
        inherited,
        map,
    } = take_over(config, &calls, &retries, &place, map, pod, environment).await?;
    tracing::info!(
        app = record.app_id.as_str(),
        incarnation = record.incarnation.0,
        record = record_name(&place.prefix),
        duration_ms = millis(began.elapsed()),
        "application taken over"
    );
    Ok(Application {
        calls: calls.of_app(record.app_id.clone()),
        namespace: place.namespace.clone(),
        prefix: place.prefix.clone(),
        labels: place.labels,
        record,
        inherited,
        place,
        uid: map.uid,
        version: map.version,
        owner_chain,
        owned_resources: Vec::new(),
        configured: config.profiles.keys().cloned().collect(),
    })
}

/// The application's calls, and the place of its record.
pub(super) fn calls(config: &Config, clients: &Clients) -> (Calls, RecordPlace) {
    let namespace = config.cluster.namespace.clone();
    let place = RecordPlace {
        namespace: namespace.unwrap_or_else(|| clients.default_namespace.clone()),
        prefix: config.pod_name_prefix(),
        app_name: config.app.name.clone(),
        labels: label_scheme(config),
        owner: None,
    };
    let spec = CallsSpec {
        namespace: place.namespace.clone(),
        // Without a configured id, the record has it. Reading the record needs none.
        app_id: config.app.id.clone().unwrap_or_else(|| AppId::from("")),
        prefix: place.prefix.clone(),
        labels: place.labels,
        container: EXECUTOR_CONTAINER.to_owned(),
        check_all_containers: config.lifecycle.check_all_containers,
        request_timeout: config.cluster.request_timeout,
    };
    let calls = Calls::new(clients.clone(), spec);
    let calls = match provisioners::set_kind(config.allocation.strategy) {
        Some(_) => calls.of_sets(),
        None => calls,
    };
    (calls, place)
}

/// Creates the owned resources before the first executor is requested, and corrects those of an
/// earlier driver (spec K-8, K-9). `secret` is the one of the driver's own CA.
///
/// # Errors
/// If the cluster stays unreachable or refuses a call.
pub async fn ensure_owned_resources(
    config: &Config,
    environment: &Environment,
    application: &mut Application,
    content: Option<&Content>,
    secret: Option<OwnedResource>,
) -> Result<(), StartError> {
    let app_id = &application.record.app_id;
    let mut wanted = owned_resources::all(config, &application.place, app_id, content);
    wanted.extend(secret);
    let retries = Retries::since(Instant::now(), config, environment);
    let owner = owner_reference(&application.prefix, &application.uid);
    let made = wanted
        .iter()
        .filter(|_| !planted::is(Planted::ConfigMapForgotten));
    for owned_resource in made {
        let what = format!("{} {}", owned_resource.resource, owned_resource.name);
        let calls = &application.calls;
        retries
            .call(&what, || calls.ensure(owned_resource, &owner))
            .await?;
    }
    application.owned_resources = wanted;
    Ok(())
}

/// Reads the record again after a slow start: the watch on the record begins later, and shows only
/// what changes from then on (spec O-31).
///
/// # Errors
/// If another driver has taken over, or the cluster stays unreachable or refuses the call.
pub async fn read_again(
    config: &Config,
    environment: &Environment,
    application: &Application,
) -> Result<(), StartError> {
    let retries = Retries::since(Instant::now(), config, environment);
    // The record keeper creates a lost record again (spec K-13).
    let Some(map) = record::read(&application.calls, &retries, &application.place).await? else {
        return Ok(());
    };
    let keeping = Keeping::new(
        application.record.clone(),
        application.place.clone(),
        application.uid.clone(),
        application.version.clone(),
    );
    match keeping.over(&map) {
        Some(Over::Superseded { by }) => Err(StartError::new(
            Exit::Superseded,
            format!("another driver, incarnation {by}, has taken over while this one started"),
        )),
        // The record keeper reads the record, too, and ends the driver in order.
        _ => Ok(()),
    }
}

/// Ends the removal of each profile that the configuration has now (spec B-56). The change waits for the next write.
pub(super) fn end_removals(record: &mut Record, configured: &BTreeSet<ProfileName>) {
    let again: Vec<ProfileName> = record.removing.intersection(configured).cloned().collect();
    for profile in again {
        record.remove_profile(&profile);
    }
}

/// Adds the profiles that were added while an earlier driver ran (spec B-26), if they are proven to
/// be a driver's (spec O-58). The configuration has precedence.
pub(super) fn take_over_profiles(config: &mut Config, record: &Record, proofs: &ProfileProofs) {
    for (name, described) in &record.profiles {
        if config.profiles.contains_key(name) || record.removing.contains(name) {
            continue;
        }
        let proof = record.profile_proofs.get(name).map(AsRef::as_ref);
        if let Err(why) = proofs.check(&record.app_id, name, described, proof)
            && !planted::is(Planted::ProofUnchecked)
        {
            tracing::warn!(
                profile = name.as_str(),
                why,
                hint = "add it again by the API; set backend.key_file to a file that outlasts the driver",
                "a profile in the application record is not used: its executors go"
            );
            continue;
        }
        match Where::of(config).profile(name.as_str(), described) {
            Ok(profile) => {
                config.profiles.insert(name.clone(), profile);
            }
            Err(mistakes) => {
                let (profile, mistakes) = (name.as_str(), mistakes.len());
                tracing::warn!(
                    profile,
                    mistakes,
                    "a profile that was added while another driver ran is not understood: its executors go"
                );
            }
        }
    }
}

/// The wanted executors of each profile, without regard to a hold: as configured, unless targets
/// were set at run time. The API refuses targets above the profile's `max_executors`, and a record
/// cannot exceed it either.
pub fn targets(config: &Config, record: &Record) -> BTreeMap<ProfileName, u32> {
    let held = record.held.as_ref().map(|held| &held.targets);
    (config.profiles.iter())
        .map(|(name, profile)| {
            let held = held.and_then(|held| held.get(name));
            let set = held.or_else(|| record.targets.get(name)).copied();
            let most = match planted::is(Planted::TargetUnbounded) {
                true => u32::MAX,
                false => profile.max_executors,
            };
            let wanted = set.map_or(profile.executors, |set| set.min(most));
            (name.clone(), wanted)
        })
        .collect()
}

pub(super) fn label_scheme(config: &Config) -> LabelScheme {
    match config.executors.labels {
        crate::config::Labels::Boatswain => LabelScheme::Boatswain,
        crate::config::Labels::Spark => LabelScheme::Spark,
    }
}

/// The record's notation of a holder.
pub(super) fn holder(number: u64) -> Arc<str> {
    Arc::from(format!("{number:016x}"))
}

/// A new application's id: the prefix and a random suffix.
pub(super) fn new_app_id(prefix: &str, seed: u64) -> AppId {
    let mut rng = StdRng::seed_from_u64(seed);
    let suffix: String = (0..8)
        .map(|_| char::from(b"bcdfghjklmnpqrstvwxz2456789"[rng.random_range(0..27)]))
        .collect();
    AppId::from(format!("{prefix}-{suffix}"))
}

/// Retries calls while the cluster may be unreachable at the start (spec O-2).
struct Retries<'a> {
    server: &'a str,
    until: Instant,
}

impl<'a> Retries<'a> {
    fn since(began: Instant, config: &Config, environment: &'a Environment) -> Self {
        Self {
            server: &environment.clients.server,
            until: began + config.cluster.start_timeout,
        }
    }

    /// Repeats a call until it succeeds, the time is up, or a retry cannot help.
    async fn call<T, F>(&self, what: &str, mut call: impl FnMut() -> F) -> Result<T, StartError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut failures = 0;
        loop {
            match call().await {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    failures += 1;
                    self.wait(what, failures, &failure).await?;
                }
            }
        }
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// If a retry cannot help, or the time is up.
    async fn wait(&self, what: &str, failures: u32, failure: &Failure) -> Result<(), StartError> {
        let permanent = match failure.kind {
            FailureKind::Rights => Some((
                Exit::Rights,
                "grant it, or run with an account that has it: see docs/kubernetes.md, \"Rights\"",
            )),
            FailureKind::Credentials => Some((
                Exit::Rights,
                "check the kubeconfig's user, or the pod's service account",
            )),
            FailureKind::NamespaceMissing | FailureKind::NamespaceTerminating => Some((
                Exit::Configuration,
                "create the namespace, or set cluster.namespace",
            )),
            FailureKind::Invalid | FailureKind::Admission | FailureKind::Quota => {
                Some((Exit::Configuration, "the cluster refuses it as it is"))
            }
            _ => None,
        };
        if let Some((exit, hint)) = permanent {
            return Err(StartError::new(exit, format!("{what}: {failure}: {hint}")));
        }
        let pause = RETRY
            .delay(failures)
            .max(failure.retry_after.unwrap_or_default());
        if Instant::now() + pause > self.until {
            return Err(StartError::new(
                Exit::Unreachable,
                format!(
                    "{what} is out of reach at {}, {failures} tries failed: {failure}: look at cluster.kubeconfig, \
                     the network and the API server, or raise cluster.start_timeout",
                    self.server
                ),
            ));
        }
        if failures == 1 {
            tracing::warn!(server = self.server, error = %failure, "{what} is out of reach, trying again");
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}
