//! All wiring in one function that takes the configuration apart field by field.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Recipient};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::actors::autoscaler::{self, Autoscaler};
use crate::actors::commands::messages::SetTargets;
use crate::actors::commands::{self, Commands};
use crate::actors::credentials::Credentials;
use crate::actors::driver_backend::{self, DriverBackend};
use crate::actors::event_history::{self, EventHistory};
use crate::actors::event_recorder::EventRecorder;
use crate::actors::event_recorder::events::Events;
use crate::actors::executor_registry::{self, ExecutorRegistry};
use crate::actors::lifecycle_manager::{self, LifecycleManager, pending_actions};
use crate::actors::metrics::Meter;
use crate::actors::metrics::messages::{TellOfDepths, TellOfSessions};
use crate::actors::pod_allocator::{self, PodAllocator, Pods, allocation};
use crate::actors::pod_groups::GroupKeeper;
use crate::actors::poll_source::PollSource;
use crate::actors::poll_source::lister::Lister;
use crate::actors::profiles::messages::ProfileAdded;
use crate::actors::profiles::{self, Profiles};
use crate::actors::record_keeper::keeping::Keeping;
use crate::actors::record_keeper::owned_resources::OwnedResources;
use crate::actors::record_keeper::{self, RecordKeeper};
use crate::actors::roller::{self, Roller};
use crate::actors::set_scaler::{self, SetScaler};
use crate::actors::snapshot_store::delivery::Timing;
use crate::actors::snapshot_store::ledger::{Identity, Ledger};
use crate::actors::snapshot_store::messages::{LookNow, MeasureNow};
use crate::actors::snapshot_store::{SnapshotStore, TellOfEpochs, TellOfRounds};
use crate::actors::watch_source::WatchSource;
use crate::config::{self, Config, Gang, Registration, Where};
use crate::kubernetes::Calls;
use crate::kubernetes::pod_template::{Common, TemplateError};
use crate::kubernetes::record::Held;
use crate::kubernetes::set_template::Sets;
use crate::model::ProfileName;
use crate::server::api;
use crate::server::sessions::Sessions;
use crate::server::sessions::access::{Access, TokenKeys};

use super::listener::{self, Listener};
use super::observer::Observer;
use super::owned_resources;
use super::profile_spec;
use super::provisioners::{self, Provisioner};
use super::settings;
use super::succession::{self, Application};
use super::{Command, Environment, Reporter};

/// A create may still commit this long after the server's own timeout, counted from when it was sent: as long as it may
/// have been on its way. One that was on its way for longer makes an orphan pod (spec E-3).
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// The actors of a driver that runs.
pub struct Actors {
    pub(super) watch: Option<Addr<WatchSource>>,
    pub(super) poll: Addr<PollSource>,
    pub(super) store: Addr<SnapshotStore>,
    pub(super) provisioner: Provisioner,
    pub(super) record: Addr<RecordKeeper>,
    pub(super) backend: Addr<DriverBackend>,
    pub(super) history: Addr<EventHistory>,
    pub(super) commands: Addr<Commands>,
    pub(super) autoscaler: Addr<Autoscaler>,
    pub(super) profiles: Addr<Profiles>,
    pub(super) meter: Addr<Meter>,
    pub(super) sessions: Option<Sessions>,
    pub(super) calls: Calls,
    pub(super) page_size: u32,
    /// Whether executors may leave claims on volumes behind.
    pub(super) has_claims: bool,
    pub(super) request_timeout: Duration,
    pub(super) decommission_timeout: Duration,
}

impl Actors {
    /// The actors that the API asks.
    pub(super) fn api(&self) -> api::Actors {
        api::Actors {
            backend: self.backend.clone(),
            history: self.history.clone(),
            commands: self.commands.clone(),
            autoscaler: self.autoscaler.clone(),
            profiles: self.profiles.clone(),
            meter: self.meter.clone(),
        }
    }

    /// Carries out a command that does not stop the driver.
    pub(super) async fn command(&self, command: Command) {
        // An asker who is gone does not want the answer any more.
        match command {
            Command::SetTargets(targets, answer) => {
                if let Ok(set) = self.commands.send(SetTargets(targets)).await {
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
            Command::Observe(reader) => drop(Observer::new(reader, self.store.clone()).start()),
            Command::Routes(tokens, answer) => {
                let _ = answer.send(api::router(self.api(), tokens));
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
    listener: Option<&Listener>,
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
        owner_chain,
        owned_resources,
    } = application;
    let driver_url =
        listener.map(|listener| listener::url(&config, listener.address, &prefix, &namespace));
    let has_claims = owned_resources::has_claims(&config);
    let mounts_a_map = owned_resources
        .iter()
        .any(|one| one.resource == "configmaps");
    let token = listener.map(|listener| listener.token_source(&record.app_id));
    let agent = listener.and_then(|_| listener::agent(&config));
    let (accounts, readiness) = listener::speaking(&config, &record, &prefix);
    let wanted = succession::targets(&config, &record);
    let place_of_pods = Where::of(&config);
    let set_kind = provisioners::set_kind(config.allocation.strategy);
    provisioners::announce(&config);
    // Profiles may have come and gone since then.
    let held = record.held.clone().map(|held| Held {
        targets: wanted.clone(),
        ..held
    });
    let Config {
        app,
        cluster,
        embedded: _,
        driver: _,
        executors: _,
        profiles,
        claims,
        config_map,
        watch,
        poll,
        allocation: up,
        scheduling,
        lifecycle,
        failures,
        backend: going,
        adoption,
        autoscaling: demand,
        roll,
        api: _,
        shutdown: _,
        log: _,
    } = config;
    let registered = going.sessions.registration() == Registration::Required;
    let adoption_grace = registered.then_some(adoption.grace);
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
        settings::inheritance(inherited.as_ref()),
        wanted.clone(),
        uid.clone(),
        now,
    );
    let ledger = match set_kind {
        Some(_) => ledger.of_sets(),
        None => ledger,
    };
    let ledger = match held {
        Some(_) => ledger.with_executors_held(),
        None => ledger,
    };
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
    // Each of these sends to actors that are started later.
    let (backend_context, history_context) = (
        Context::<DriverBackend>::new(),
        Context::<EventHistory>::new(),
    );
    let (backend, history) = (backend_context.address(), history_context.address());
    let registry = ExecutorRegistry::new(executor_registry::Wiring {
        registry: accounts,
        decommission_timeout: going.decommission_timeout,
        store: store.clone(),
        events: history.clone().recipient(),
        changes: backend.clone().recipient(),
        clock,
        timing,
    })
    .start();
    history_context.run(EventHistory::new(event_history::Wiring {
        incarnation: record.incarnation,
        sessions: registry.clone().recipient(),
        store: store.clone(),
        clock,
        timing,
    }));
    let (metered, doubted) = (meter.clone(), registry.clone());
    let credentials = Credentials::new(calls.clone(), clock).start();
    let calls = calls.observed(Arc::new(move |call| {
        metered.do_send(call);
        doubted.do_send(call);
        credentials.do_send(call);
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
    let polling = PollSource::new(lister, settings::poll_pace(&poll, watch.enabled), rng()).start();

    let keeper = RecordKeeper::new(record_keeper::Wiring {
        keeping: Keeping::new(record.clone(), place, uid.clone(), version),
        owned_resources: OwnedResources::new(owned_resources, has_claims),
        calls: calls.clone(),
        prefix: prefix.clone(),
        clock,
        timing,
        store: store.clone(),
        over: reporter.clone().recipient(),
    })
    .start();
    let bounds = settings::bounds(&profiles);
    let wanted_in_all = (wanted.values()).fold(0, |sum: u32, n| sum.saturating_add(*n));
    let commands = Commands::new(commands::Wiring {
        settings: commands::Settings {
            kill_grace: going.kill_grace,
            decommission_timeout: going.decommission_timeout,
            ttl: app.ttl,
        },
        profiles: bounds.clone(),
        held,
        keep_held: keeper.clone().recipient(),
        stop: reporter.clone().recipient(),
        events: history.clone().recipient(),
        store: store.clone(),
        clock,
        timing,
    })
    .start();
    backend_context.run(DriverBackend::new(driver_backend::Wiring {
        app: record.app_id.clone(),
        incarnation: record.incarnation,
        readiness,
        wanted: wanted_in_all,
        held: commands.clone().recipient(),
        events: history.clone().recipient(),
        store: store.clone(),
        clock,
        timing,
    }));
    let autoscaler = Autoscaler::new(autoscaler::Wiring {
        settings: demand.enabled.then(|| settings::scaling(&demand)),
        profiles: bounds,
        decommission_timeout: going.decommission_timeout,
        store: store.clone(),
        clock,
        timing,
    })
    .start();
    if !roll.interval.is_zero() {
        let roller = Roller::new(roller::Wiring {
            settings: settings::rolling(&roll),
            decommission_timeout: going.decommission_timeout,
            sessions: registry.clone().recipient(),
            store: store.clone(),
            clock,
            timing,
        });
        roller.start();
    }
    meter.do_send(TellOfSessions(registry.clone().recipient()));

    let lifecycle_manager = LifecycleManager::new(lifecycle_manager::Wiring {
        pending_actions: pending_actions::PendingActions::new(
            settings::lifecycle_settings(&cluster, &up, &lifecycle, adoption_grace),
            rng(),
        ),
        calls: calls.clone(),
        prefix: shared,
        labels,
        clock,
        timing,
        store: store.clone(),
        sessions: registry.clone().recipient(),
        drain_label: settings::label(&going.decommission_label),
    })
    .start();

    let least = settings::least(&profiles);
    let caps = settings::caps(&app, &up, &profiles);
    let event_recorder = owner_chain.map(|owner_chain| {
        let instance = record.holder.as_deref().unwrap_or("boatswain").to_owned();
        let events = Events::new(owner_chain.pod, namespace.clone(), instance);
        EventRecorder::new(events, calls.clone(), clock)
            .start()
            .recipient()
    });
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
        config_map: mounts_a_map.then_some(config_map.mount_path),
        avoid: Default::default(),
    };
    let names: Vec<ProfileName> = profiles.keys().cloned().collect();
    let mut specs = profile_spec::specs(profiles);
    let gangs = settings::mark_gangs(&scheduling, &least, &mut specs);
    let mut group_keeper: Option<Recipient<ProfileAdded>> = None;
    if scheduling.gang == Gang::Volcano {
        let (prefix, event_recorder) = (common.prefix.clone(), event_recorder.clone());
        let keeper = GroupKeeper::new(
            calls.clone(),
            prefix,
            least.clone(),
            store.clone(),
            event_recorder,
        );
        group_keeper = Some(keeper.start().recipient());
    }
    let timing_of_pods = Timing {
        interval: up.interval,
        ..timing
    };
    let provisioner: Provisioner = if let Some(kind) = set_kind {
        let sets = Sets::new(kind, common, &specs)?;
        let failures = settings::failure_settings(&failures);
        let scaling = provisioners::scaling(
            kind,
            &sets,
            &names,
            (&up, &poll, &going),
            (failures, &record, now),
        );
        let scaler = SetScaler::new(set_scaler::Wiring {
            scaling,
            sets,
            calls: calls.clone(),
            clock,
            timing: timing_of_pods,
            store: store.clone(),
            reserve: keeper.clone().recipient(),
            keep_failures: keeper.clone().recipient(),
            stop: commands.clone().recipient(),
        });
        scaler.start().into()
    } else {
        let claims = settings::claims(&claims, &common.prefix, &specs);
        let pods = Pods::new(common, specs)?;
        let settings = settings::allocation_settings(
            &cluster,
            &up,
            &failures,
            caps,
            going.decommission_timeout,
            claims,
            settings::gangs(&scheduling, registered),
        );
        let known = settings::known_to_the_allocator(&record, now);
        let allocation = allocation::Allocation::new(settings, rng(), &known, &least, now);
        let allocator = PodAllocator::new(pod_allocator::Wiring {
            allocation,
            calls: calls.clone(),
            pods,
            clock,
            timing: timing_of_pods,
            store: store.clone(),
            reserve: keeper.clone().recipient(),
            keep: keeper.clone().recipient(),
            keep_failures: keeper.clone().recipient(),
            cannot_start: reporter.clone().recipient(),
            stop: commands.clone().recipient(),
            paused: backend.clone().recipient(),
            event_recorder,
        });
        allocator.start().into()
    };
    for (actor, asked) in [
        ("allocator", provisioner.depths.clone()),
        ("lifecycle", lifecycle_manager.recipient()),
        ("registry", registry.clone().recipient()),
        ("history", history.clone().recipient()),
    ] {
        meter.do_send(TellOfDepths { actor, asked });
    }
    let mut recipients = vec![
        provisioner.profiles.clone(),
        keeper.clone().recipient(),
        registry.clone().recipient(),
        autoscaler.clone().recipient(),
    ];
    recipients.extend(group_keeper);
    recipients.push(commands.clone().recipient());
    let profiles = Profiles::new(profiles::Wiring {
        read: Box::new(move |name, described| settings::understood(place_of_pods, name, described)),
        names: names.into_iter().collect(),
        added: record.profiles.clone(),
        gangs,
        recipients,
    })
    .start();
    let sessions = listener.map(|listener| {
        let access = match &listener.key {
            Some(key) => Access::Derived(record.app_id.clone(), key.clone()),
            None => {
                let audience = listener::audience(&record.app_id);
                Access::Kubernetes(TokenKeys::new(calls.clone(), clock, audience).start())
            }
        };
        Sessions::new(registry, access)
    });
    Ok(Actors {
        watch: watching,
        poll: polling,
        store,
        provisioner,
        record: keeper,
        backend,
        history,
        commands,
        autoscaler,
        profiles,
        meter,
        sessions,
        calls,
        page_size: poll.page_size,
        has_claims,
        request_timeout: cluster.request_timeout,
        decommission_timeout: going.decommission_timeout,
    })
}
