//! All wiring in one function that takes the configuration apart field by field.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::api;
use crate::config::{self, Config, ScaleDown, Where};
use crate::driver_backend::autoscaling::{self, Bounds};
use crate::driver_backend::messages::{HearOfEnds, SetTargets};
use crate::driver_backend::profiles::{self, TellOfProfiles, Understood};
use crate::driver_backend::rolling::{self, Policy};
use crate::driver_backend::{self, DriverBackend, steering};
use crate::kubernetes::pod_template::{Common, TemplateError, Toleration};
use crate::kubernetes::{Calls, ProfileSpec, Record};
use crate::lifecycle_manager::{self, LifecycleManager, duties};
use crate::metrics::Meter;
use crate::model::backoff::Backoff;
use crate::model::{Now, ProfileName};
use crate::pod_allocator::crash_loop::Kept;
use crate::pod_allocator::{self, PodAllocator, Pods, allocation, pace, victims};
use crate::poll_source::lister::Lister;
use crate::poll_source::{self, PollSource};
use crate::record_keeper::keeping::Keeping;
use crate::record_keeper::{self, RecordKeeper};
use crate::sessions::Sessions;
use crate::sessions::access::{Access, TokenKeys};
use crate::snapshot_store::delivery::Timing;
use crate::snapshot_store::ledger::{Identity, Inheritance, Ledger};
use crate::snapshot_store::messages::{LookNow, MeasureNow};
use crate::snapshot_store::{SnapshotStore, TellOfEpochs, TellOfRounds};
use crate::watch_source::WatchSource;

use super::door::{self, Door};
use super::succession::{self, Application};
use super::{Command, Environment, Reporter};

/// While the API server refuses or does not answer creates; short, for executors are to be there at once when it is
/// back, and one request every few seconds burdens nobody.
const TROUBLE: Backoff = Backoff {
    initial: Duration::from_millis(200),
    max: Duration::from_secs(5),
};

/// Between repeats of a create whose outcome is unknown.
const REPEAT: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(15),
};

/// Between tries of the same delete, label or look-up.
const DUTY: Backoff = Backoff {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(30),
};

/// A create may still commit this long after the server's own timeout, counted from when it was sent: as long as it may
/// have been on its way. One that was on its way for longer makes a ghost (spec E-3).
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// The image of an executor where the configuration needs none: the embedded cluster's node runs the command.
const NO_IMAGE: &str = "none";

/// The actors of a driver that runs.
pub struct Actors {
    pub(super) watch: Option<Addr<WatchSource>>,
    pub(super) poll: Addr<PollSource>,
    pub(super) store: Addr<SnapshotStore>,
    pub(super) allocator: Addr<PodAllocator>,
    pub(super) record: Addr<RecordKeeper>,
    pub(super) backend: Addr<DriverBackend>,
    pub(super) meter: Addr<Meter>,
    pub(super) sessions: Option<Sessions>,
    pub(super) calls: Calls,
    pub(super) page_size: u32,
    pub(super) request_timeout: Duration,
}

impl Actors {
    /// Carries out a command that does not stop the driver.
    pub(super) async fn command(&self, command: Command) {
        // An asker who is gone does not want the answer any more.
        match command {
            Command::SetTargets(targets, answer) => {
                if let Ok(set) = self.backend.send(SetTargets(targets)).await {
                    let _ = answer.send(set);
                }
            }
            Command::Look(answer) => {
                if let Ok(look) = self.store.send(LookNow).await {
                    let _ = answer.send(look.0);
                }
            }
            Command::Measure(answer) => {
                if let Ok(measures) = self.store.send(MeasureNow).await {
                    let _ = answer.send(measures);
                }
            }
            Command::Sessions(answer) => {
                let router = self.sessions.as_ref().map(Sessions::router);
                let _ = answer.send(router);
            }
            Command::HearOfEnds(reader) => self.backend.do_send(HearOfEnds(reader)),
            Command::Routes(tokens, answer) => {
                let routes = api::router(self.backend.clone(), self.meter.clone(), tokens);
                let _ = answer.send(routes);
            }
            Command::Stop(_) => {}
        }
    }
}

/// Starts all actors.
///
/// # Errors
/// Where the API server would refuse the executors' pods.
pub(super) fn wire(
    config: Config,
    environment: Environment,
    application: Application,
    door: Option<&Door>,
    reporter: &Addr<Reporter>,
) -> Result<Actors, TemplateError> {
    let Environment {
        clients: _,
        clock,
        seed,
        holder: _,
    } = environment;
    let Application {
        calls,
        namespace,
        prefix,
        labels,
        record,
        inherited,
        place,
        uid,
        version,
    } = application;
    let driver_url = door.map(|door| door::url(&config, door.server.address()));
    let token = door.map(|door| door.token_source(&record.app_id));
    let agent = door.and_then(|_| door::agent(&config));
    let speaking = door::speaking(&config, &record, &prefix);
    let wanted = succession::targets(&config, &record);
    let place_of_pods = Where::of(&config);
    let mut targets = wanted.clone();
    if record.held.is_some() {
        targets.values_mut().for_each(|target| *target = 0);
    }
    let Config {
        app,
        cluster,
        embedded: _,
        driver: _,
        executors: _,
        profiles,
        watch,
        poll,
        allocation: up,
        lifecycle,
        failures,
        backend: going,
        adoption: _,
        autoscaling: demand,
        roll,
        api: _,
        shutdown: _,
        log: _,
    } = config;
    let mut seeds = StdRng::seed_from_u64(seed);
    let mut rng = || StdRng::from_rng(&mut seeds);
    let now = clock.now();
    let shared: Arc<str> = Arc::from(prefix.as_str());

    let identity = Identity {
        app: record.app_id.clone(),
        prefix: Arc::clone(&shared),
        incarnation: record.incarnation,
        server_timeout: cluster.request_timeout + SETTLED_AFTER,
        default_profile: ProfileName::from(config::DEFAULT_PROFILE),
    };
    let ledger = Ledger::new(
        identity,
        inheritance(inherited.as_ref()),
        targets,
        uid.clone(),
        now,
    );
    let store = SnapshotStore::new(ledger, clock).start();

    let timing = Timing {
        interval: lifecycle.interval,
        quiet_latency: up.quiet_latency,
        min_gap: up.min_gap,
        max_buffered: lifecycle.max_buffered as usize,
    };
    let meter = Meter::new(
        &record.app_id,
        record.incarnation,
        store.clone(),
        clock,
        timing,
    )
    .start();
    store.do_send(TellOfRounds(meter.clone().recipient()));
    // It is told of calls, and needs what makes them.
    let backend_context = Context::<DriverBackend>::new();
    let backend = backend_context.address();
    let (metered, doubted) = (meter.clone(), backend.clone());
    let calls = calls.observed(Arc::new(move |call| {
        metered.do_send(call);
        doubted.do_send(call);
    }));

    let lister = Lister {
        calls: calls.clone(),
        begin: store.clone().recipient(),
        arrived: store.clone().recipient(),
        page_size: poll.page_size,
        streams: true,
    };
    let watching = watch
        .enabled
        .then(|| WatchSource::new(lister.clone(), store.clone().recipient(), rng()).start());
    if let Some(watching) = &watching {
        store.do_send(TellOfEpochs(watching.clone().recipient()));
    }
    let polling = PollSource::new(lister, poll_pace(&poll, watch.enabled), rng()).start();

    let keeper = RecordKeeper::new(record_keeper::Wiring {
        keeping: Keeping::new(record.clone(), place, uid.clone(), version),
        calls: calls.clone(),
        prefix: prefix.clone(),
        clock,
        timing,
        store: store.clone(),
        over: reporter.clone().recipient(),
    })
    .start();
    backend_context.run(DriverBackend::new(driver_backend::Wiring {
        app: record.app_id.clone(),
        incarnation: record.incarnation,
        profiles: bounds(&profiles),
        targets: wanted,
        store: store.clone(),
        keep: keeper.clone().recipient(),
        clock,
        timing,
        sessions: speaking,
        steering: steering::Wiring {
            settings: steering::Settings {
                kill_grace: going.kill_grace,
                decommission_timeout: going.decommission_timeout,
                ttl: app.ttl,
            },
            held: record.held.clone(),
            keep: keeper.clone().recipient(),
            stop: reporter.clone().recipient(),
        },
        autoscaling: demand.enabled.then(|| scaling(&demand)),
        rolling: (!roll.interval.is_zero()).then(|| rolling(&roll)),
        adding: profiles::Wiring {
            read: Box::new(move |name, described| understood(place_of_pods, name, described)),
            added: record.profiles.clone(),
            keep: keeper.clone().recipient(),
        },
    }));

    backend.do_send(HearOfEnds(meter.clone().recipient()));

    LifecycleManager::new(lifecycle_manager::Wiring {
        duties: duties::Duties::new(duty_settings(&cluster, &up, &lifecycle), rng()),
        calls: calls.clone(),
        prefix: shared,
        labels,
        clock,
        timing,
        store: store.clone(),
        backend: backend.clone().recipient(),
        sessions: backend.clone().recipient(),
        drain_label: label(&going.decommission_label),
    })
    .start();

    let common = Common {
        app_id: record.app_id.clone(),
        app_name: app.name,
        namespace,
        prefix,
        labels,
        incarnation: record.incarnation,
        record_uid: uid,
        driver_url,
        token,
        agent,
    };
    let pods = Pods::new(common, specs(profiles))?;
    let settings = allocation_settings(&cluster, &up, &failures, going.decommission_timeout);
    let kept = kept_backoffs(&record, now);
    let allocation = allocation::Allocation::new(settings, rng(), record.reserved, &kept, now.tick);
    let allocator = PodAllocator::new(pod_allocator::Wiring {
        allocation,
        calls: calls.clone(),
        pods,
        clock,
        timing: Timing {
            interval: up.interval,
            ..timing
        },
        store: store.clone(),
        reserve: keeper.clone().recipient(),
        keep: keeper.clone().recipient(),
        cannot_start: reporter.clone().recipient(),
    })
    .start();
    backend.do_send(TellOfProfiles(allocator.clone().recipient()));
    let sessions = door.map(|door| {
        let access = match &door.key {
            Some(key) => Access::Derived(record.app_id.clone(), key.clone()),
            None => {
                let audience = door::audience(&record.app_id);
                Access::Kubernetes(TokenKeys::new(calls.clone(), clock, audience).start())
            }
        };
        Sessions::new(backend.clone(), access)
    });
    Ok(Actors {
        watch: watching,
        poll: polling,
        store,
        allocator,
        record: keeper,
        backend,
        meter,
        sessions,
        calls,
        page_size: poll.page_size,
        request_timeout: cluster.request_timeout,
    })
}

/// How many executors of each profile there may be.
fn bounds(profiles: &BTreeMap<ProfileName, config::Profile>) -> BTreeMap<ProfileName, Bounds> {
    (profiles.iter())
        .map(|(name, profile)| (name.clone(), bounds_of(profile)))
        .collect()
}

fn bounds_of(profile: &config::Profile) -> Bounds {
    Bounds {
        slots: profile.slots,
        least: profile.min_executors,
        most: profile.max_executors,
    }
}

fn scaling(demand: &config::Autoscaling) -> autoscaling::Settings {
    autoscaling::Settings {
        ratio: demand.ratio,
        backlog_timeout: demand.backlog_timeout,
        sustained_timeout: demand.sustained_timeout,
        idle_timeout: demand.idle_timeout,
        demand_ttl: demand.demand_ttl,
    }
}

/// A profile that is described while the driver runs.
fn understood(
    place: Where,
    name: &ProfileName,
    described: &serde_json::Value,
) -> Result<Understood, Vec<config::Mistake>> {
    let profile = place.profile(name.as_str(), described)?;
    Ok(Understood {
        executors: profile.executors,
        bounds: bounds_of(&profile),
        spec: spec(profile),
    })
}

fn rolling(roll: &config::Roll) -> rolling::Settings {
    rolling::Settings {
        interval: roll.interval,
        policy: match roll.policy {
            config::RollPolicy::Id => Policy::Id,
            config::RollPolicy::Oldest => Policy::Oldest,
        },
    }
}

/// A label that the configuration has as one text.
fn label(text: &str) -> (String, String) {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    (key.to_owned(), value.to_owned())
}

/// What earlier incarnations knew. A first one inherits nothing: the block that it has just reserved is its own.
fn inheritance(inherited: Option<&Record>) -> Inheritance {
    inherited.map_or_else(Inheritance::default, |record| Inheritance {
        reserved: record.reserved,
        ended: record.ended.clone(),
        bound: record.bound.clone(),
    })
}

fn poll_pace(poll: &config::Poll, watched: bool) -> poll_source::Pace {
    if poll.enabled {
        poll_source::Pace {
            interval: poll.interval,
            from_cache: poll.from_cache,
            makes_first_list: !watched,
        }
    } else {
        poll_source::Pace::SWEEP
    }
}

fn duty_settings(
    cluster: &config::Cluster,
    up: &config::Allocation,
    lifecycle: &config::Lifecycle,
) -> duties::Settings {
    duties::Settings {
        delete_on_termination: lifecycle.delete_on_termination,
        max_in_flight: up.max_in_flight as usize,
        server_timeout: cluster.request_timeout + SETTLED_AFTER,
        creation_timeout: up.creation_timeout,
        backoff: DUTY,
    }
}

fn allocation_settings(
    cluster: &config::Cluster,
    up: &config::Allocation,
    failures: &config::Failures,
    decommission_timeout: Duration,
) -> allocation::Settings {
    allocation::Settings {
        batch_size: up.batch_size,
        limits: pace::Limits {
            max_in_flight: up.max_in_flight,
            max_rate: up.max_rate,
            backoff: TROUBLE,
        },
        stable_after: failures.stable_after,
        crash_backoff: Backoff {
            initial: failures.backoff_initial,
            max: failures.backoff_max,
        },
        repeat_backoff: REPEAT,
        creation_timeout: up.creation_timeout,
        server_timeout: cluster.request_timeout + SETTLED_AFTER,
        victims: victims::Settings {
            cancel_delay: up.cancel_delay,
            pending_only: up.scale_down == ScaleDown::PendingOnly,
            decommission_timeout,
        },
    }
}

/// Backoffs as an earlier incarnation left them; what the wall clock says of them is believed up to their maximum.
fn kept_backoffs(record: &Record, now: Now) -> BTreeMap<ProfileName, Kept> {
    let remaining = |until: jiff::Timestamp| {
        Duration::try_from(until.duration_since(now.wall)).unwrap_or(Duration::ZERO)
    };
    (record.backoffs.iter())
        .map(|(profile, saved)| {
            let kept = Kept {
                step: saved.step,
                remaining: remaining(saved.until),
            };
            (profile.clone(), kept)
        })
        .collect()
}

/// How the pods of these profiles are made.
pub(super) fn specs(
    profiles: BTreeMap<ProfileName, config::Profile>,
) -> BTreeMap<ProfileName, ProfileSpec> {
    profiles
        .into_iter()
        .map(|(name, profile)| (name, spec(profile)))
        .collect()
}

fn spec(profile: config::Profile) -> ProfileSpec {
    let config::Profile {
        executors: _,
        slots: _,
        min_executors: _,
        max_executors: _,
        image,
        command,
        args,
        env,
        cpu,
        cpu_limit,
        memory,
        memory_limit,
        node_selector,
        tolerations,
        termination_grace,
    } = profile;
    ProfileSpec {
        image: image.unwrap_or_else(|| NO_IMAGE.to_owned()),
        command,
        args,
        env,
        cpu_request_millis: cpu.map(|cpu| cpu.millis()),
        cpu_limit_millis: cpu_limit.map(|cpu| cpu.millis()),
        memory_request_bytes: memory.map(|memory| memory.bytes()),
        memory_limit_bytes: memory_limit.map(|memory| memory.bytes()),
        node_selector,
        tolerations: tolerations.into_iter().map(toleration).collect(),
        termination_grace: Some(termination_grace),
    }
}

fn toleration(toleration: config::Toleration) -> Toleration {
    let config::Toleration {
        key,
        operator,
        value,
        effect,
        tolerate_for,
    } = toleration;
    Toleration {
        key,
        operator: Some(operator.as_str().to_owned()),
        value,
        effect: effect.map(|effect| effect.as_str().to_owned()),
        toleration_seconds: tolerate_for.and_then(|time| i64::try_from(time.as_secs()).ok()),
    }
}
