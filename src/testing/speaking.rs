//! The actors of a driver that the servers ask, for tests.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler};
use tokio::sync::{mpsc, watch};

use crate::actors::api_health::Health;
use crate::actors::driver_backend::autoscaler::Autoscaler;
use crate::actors::driver_backend::commands::Commands;
use crate::actors::driver_backend::leaving_nodes::LeavingNodes;
use crate::actors::driver_backend::pools::Pools;
use crate::actors::driver_backend::profiles::{Known, Profiles};
use crate::actors::driver_backend::roller::Roller;
use crate::actors::driver_backend::status::{Identity, Status};
use crate::actors::driver_backend::{self, DriverBackend, Receivers};
use crate::actors::event_history::{self, EventHistory};
use crate::actors::executor_registry::messages::ReadRecord;
use crate::actors::executor_registry::registry::Registry;
use crate::actors::executor_registry::{self, ExecutorRegistry};
use crate::actors::profile_messages::Bounds;
use crate::actors::record_keeper::messages::RecordProfiles;
use crate::actors::snapshot_store::messages::{Subscribe, Subscriber};
use crate::actors::snapshot_store::{self, SnapshotStore};
use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::model::delivery::Timing;
use crate::model::ledger::Ledger;
use crate::model::{AppId, Incarnation};

/// Takes what RecordKeeper would keep.
struct Keeper;

impl Actor for Keeper {
    type Context = Context<Self>;
}

impl Handler<RecordProfiles> for Keeper {
    type Result = ();

    fn handle(&mut self, _: RecordProfiles, _: &mut Self::Context) {}
}

impl Handler<ReadRecord> for Keeper {
    type Result = bool;

    fn handle(&mut self, _: ReadRecord, _: &mut Self::Context) -> bool {
        true
    }
}

/// When batches are delivered to the subscribers of a test's store.
pub(crate) const TIMING: Timing = Timing {
    interval: Duration::from_secs(1),
    quiet_latency: Duration::from_millis(10),
    min_gap: Duration::from_millis(50),
    max_buffered: 1_000,
};

/// Metrics that nobody reads.
pub(crate) fn metrics() -> Metrics {
    Metrics::new(&AppId::from("app"), Incarnation(1))
}

/// A store of this ledger, without a source of lists.
pub(crate) fn store(ledger: Ledger, clock: Clock) -> Addr<SnapshotStore> {
    let wiring = snapshot_store::Wiring {
        ledger,
        clock,
        watch: None,
        metrics: metrics(),
    };
    SnapshotStore::new(wiring).start()
}

/// The actors of a driver's backend.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) backend: Addr<DriverBackend>,
    pub(crate) history: Addr<EventHistory>,
    pub(crate) registry: Addr<ExecutorRegistry>,
    pub(crate) metrics: Metrics,
    /// Whether history and status have seen the adoption.
    pub(crate) adopted: [watch::Receiver<bool>; 2],
}

/// A profile of each of these targets, to which none can be added.
pub(crate) fn profiles(targets: &[(&str, u32)]) -> Profiles {
    let bounds = Bounds {
        slots: 2,
        least: 0,
        most: 1_000,
    };
    Profiles::new(
        Box::new(|_, _| panic!("no profile is added here")),
        Box::new(|_, _| None),
        Known {
            bounds: targets.iter().map(|(p, _)| ((*p).into(), bounds)).collect(),
            ..Known::default()
        },
    )
}

fn identity() -> Identity {
    Identity {
        app: AppId::from("app"),
        incarnation: Incarnation(1),
        namespace: "default".to_owned(),
        api_server: "http://127.0.0.1:6443".to_owned(),
    }
}

/// A driver's backend over a store, with the usual times; nothing is kept over a restart.
pub(crate) fn backend(
    store: &Addr<SnapshotStore>,
    clock: Clock,
    targets: &[(&str, u32)],
    config: Config,
) -> Backend {
    backend_with(store, clock, targets, config, |_| ())
}

/// The same with this change.
pub(crate) fn backend_with(
    store: &Addr<SnapshotStore>,
    clock: Clock,
    targets: &[(&str, u32)],
    config: Config,
    change: impl FnOnce(&mut driver_backend::Wiring),
) -> Backend {
    let config = Arc::new(config);
    let (store, counted, now) = (store.clone(), metrics(), clock.now().tick);
    let (backend_context, history_context) = (
        Context::<DriverBackend>::new(),
        Context::<EventHistory>::new(),
    );
    let (backend, history) = (backend_context.address(), history_context.address());
    let registry = ExecutorRegistry::new(executor_registry::Wiring {
        registry: Registry::new(
            AppId::from("app"),
            "a".to_owned(),
            Incarnation(1),
            Arc::clone(&config),
        ),
        store: store.clone(),
        record: Keeper.start().recipient(),
        events: history.clone().recipient(),
        changes: backend.clone().recipient(),
        clock,
        metrics: counted.clone(),
        api_server: watch::channel(Health::default()).1,
    })
    .start();
    let events = EventHistory::new(event_history::Wiring {
        app: AppId::from("app"),
        incarnation: Incarnation(1),
        past: Vec::new(),
        sessions: registry.clone().recipient(),
        clock,
    });
    let mut wiring = driver_backend::Wiring {
        profiles: profiles(targets),
        commands: Commands::new(Arc::clone(&config), now),
        autoscaler: Autoscaler::new(Arc::clone(&config)),
        pools: Pools::new(Arc::clone(&config)),
        leaving_nodes: LeavingNodes::new(Arc::clone(&config)),
        roller: (!config.roll.interval.is_zero()).then(|| Roller::new(Arc::clone(&config), now)),
        status: Status::new(
            identity(),
            config,
            targets.iter().map(|(_, n)| *n).sum(),
            watch::channel(Health::default()).1,
        ),
        to: Receivers {
            added: Vec::new(),
            record: Keeper.start().recipient(),
            gone: Vec::new(),
            prefer: None,
            sessions: registry.clone().recipient(),
            stop: mpsc::unbounded_channel().0,
            events: history.clone().recipient(),
            store,
        },
        clock,
    };
    for (subscriber, recipient) in [
        (Subscriber::Registry, registry.clone().recipient()),
        (Subscriber::History, history.clone().recipient()),
        (Subscriber::Backend, backend.clone().recipient()),
    ] {
        wiring.to.store.do_send(Subscribe {
            subscriber,
            timing: TIMING,
            recipient,
        });
    }
    change(&mut wiring);
    let driver_backend = DriverBackend::new(wiring);
    let adopted = [events.adopted(), driver_backend.adopted()];
    history_context.run(events);
    backend_context.run(driver_backend);
    Backend {
        backend,
        history,
        registry,
        metrics: counted,
        adopted,
    }
}
