//! The actors of a driver that the servers ask, for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Actor, Addr, AsyncContext, Context, Handler};
use tokio::sync::{mpsc, watch};

use crate::actors::api_health::Health;
use crate::actors::autoscaler::{self, Autoscaler, scaler};
use crate::actors::commands::messages::{ForgetTargets, KeepHeld};
use crate::actors::commands::{self, Commands};
use crate::actors::driver_backend::{self, DriverBackend, readiness};
use crate::actors::event_history::{self, EventHistory};
use crate::actors::executor_registry::messages::ReadRecord;
use crate::actors::executor_registry::{self, ExecutorRegistry, registry};
use crate::actors::profiles::messages::Bounds;
use crate::actors::snapshot_store::{self, SnapshotStore};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::model::delivery::Timing;
use crate::model::ledger::Ledger;
use crate::model::{AppId, Incarnation};

/// The usual times; no executor has to register.
fn accounts() -> registry::Settings {
    registry::Settings {
        app: AppId::from("app"),
        prefix: "a".to_owned(),
        incarnation: Incarnation(1),
        heartbeat_interval: Duration::from_secs(10),
        heartbeat_timeout: Duration::from_secs(120),
        loss_reason_timeout: Duration::from_secs(60),
        mass_loss: 20,
        registration_timeout: None,
        adoption_grace: Duration::from_secs(60),
        properties: BTreeMap::new(),
        graces: BTreeMap::new(),
    }
}

/// Takes what RecordKeeper would keep.
struct Keeper;

impl Actor for Keeper {
    type Context = Context<Self>;
}

impl Handler<KeepHeld> for Keeper {
    type Result = ();

    fn handle(&mut self, _: KeepHeld, _: &mut Self::Context) {}
}

impl Handler<ForgetTargets> for Keeper {
    type Result = ();

    fn handle(&mut self, _: ForgetTargets, _: &mut Self::Context) {}
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
    pub(crate) status: Addr<DriverBackend>,
    pub(crate) history: Addr<EventHistory>,
    pub(crate) registry: Addr<ExecutorRegistry>,
    pub(crate) commands: Addr<Commands>,
    pub(crate) autoscaler: Addr<Autoscaler>,
    pub(crate) metrics: Metrics,
    /// Whether history and status have seen the adoption.
    pub(crate) adopted: [watch::Receiver<bool>; 2],
}

/// Commands over a store, with the usual times.
fn commands(
    store: &Addr<SnapshotStore>,
    events: &Addr<EventHistory>,
    clock: Clock,
    targets: &[(&str, u32)],
) -> commands::Wiring {
    let bounds = Bounds {
        slots: 2,
        least: 0,
        most: 1_000,
    };
    commands::Wiring {
        settings: commands::Settings {
            kill_grace: Duration::from_secs(5),
            decommission_timeout: Duration::from_secs(60),
            ttl: None,
        },
        profiles: targets.iter().map(|(p, _)| ((*p).into(), bounds)).collect(),
        held: None,
        keep_held: Keeper.start().recipient(),
        forget: Keeper.start().recipient(),
        stop: mpsc::unbounded_channel().0,
        events: events.clone().recipient(),
        store: store.clone(),
        clock,
        timing: TIMING,
    }
}

/// A driver's backend over a store, with the usual times; nothing is kept over a restart.
pub(crate) fn backend(
    store: &Addr<SnapshotStore>,
    clock: Clock,
    targets: &[(&str, u32)],
    scaling: Option<scaler::Settings>,
) -> Backend {
    let (store, timing, counted) = (store.clone(), TIMING, metrics());
    let (status_context, history_context) = (
        Context::<DriverBackend>::new(),
        Context::<EventHistory>::new(),
    );
    let (status, history) = (status_context.address(), history_context.address());
    let registry = ExecutorRegistry::new(executor_registry::Wiring {
        registry: accounts(),
        decommission_timeout: Duration::from_secs(60),
        store: store.clone(),
        record: Keeper.start().recipient(),
        events: history.clone().recipient(),
        changes: status.clone().recipient(),
        clock,
        timing,
        metrics: counted.clone(),
        api_server: watch::channel(Health::default()).1,
    })
    .start();
    let events = EventHistory::new(event_history::Wiring {
        incarnation: Incarnation(1),
        past: Vec::new(),
        sessions: registry.clone().recipient(),
        store: store.clone(),
        clock,
        timing,
    });
    let wiring = commands(&store, &history, clock, targets);
    let bounds = wiring.profiles.clone();
    let commands = Commands::new(wiring).start();
    let backend = DriverBackend::new(driver_backend::Wiring {
        app: AppId::from("app"),
        incarnation: Incarnation(1),
        readiness: readiness::Settings {
            ratio: 80,
            max_wait: Duration::from_secs(30),
            gangs: BTreeMap::new(),
            registered: true,
        },
        wanted: targets.iter().map(|(_, n)| *n).sum(),
        held: commands.clone().recipient(),
        events: history.clone().recipient(),
        store: store.clone(),
        clock,
        timing,
    });
    let adopted = [events.adopted(), backend.adopted()];
    history_context.run(events);
    status_context.run(backend);
    let autoscaler = Autoscaler::new(autoscaler::Wiring {
        prefer: None,
        settings: scaling,
        profiles: bounds,
        decommission_timeout: Duration::from_secs(60),
        store,
        clock,
        timing,
    })
    .start();
    Backend {
        status,
        history,
        registry,
        commands,
        autoscaler,
        metrics: counted,
        adopted,
    }
}
