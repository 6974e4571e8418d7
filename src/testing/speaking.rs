//! A driver's backend for tests, and how executors speak to it.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler};

use crate::actors::driver_backend::commands::messages::{KeepHeld, Stop};
use crate::actors::driver_backend::messages::KeepTargets;
use crate::actors::driver_backend::{self, commands, readiness, registry, sessions};
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::delivery::Timing;
use crate::clock::Clock;
use crate::model::{AppId, Incarnation};

/// With the usual times; nobody has to register.
pub(crate) fn speaking() -> sessions::Wiring {
    sessions::Wiring {
        registry: registry::Settings {
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
        },
        readiness: readiness::Settings {
            ratio: 80,
            max_wait: Duration::from_secs(30),
            gangs: BTreeMap::new(),
            registered: true,
        },
    }
}

/// Takes what a record keeper would keep, and what would end the driver.
struct Keeper;

impl Actor for Keeper {
    type Context = Context<Self>;
}

impl Handler<KeepTargets> for Keeper {
    type Result = ();

    fn handle(&mut self, _: KeepTargets, _: &mut Self::Context) {}
}

impl Handler<KeepHeld> for Keeper {
    type Result = ();

    fn handle(&mut self, _: KeepHeld, _: &mut Self::Context) {}
}

impl Handler<Stop> for Keeper {
    type Result = ();

    fn handle(&mut self, _: Stop, _: &mut Self::Context) {}
}

/// When subscribers of a test's store are told.
pub(crate) const TIMING: Timing = Timing {
    interval: Duration::from_secs(1),
    quiet_latency: Duration::from_millis(10),
    min_gap: Duration::from_millis(50),
    max_buffered: 1_000,
};

/// A DriverBackend over a store, with the usual times; nothing scales or rolls by itself, and nobody keeps anything.
pub(crate) fn backend(
    store: &Addr<SnapshotStore>,
    clock: Clock,
    targets: &[(&str, u32)],
) -> driver_backend::Wiring {
    driver_backend::Wiring {
        app: AppId::from("app"),
        incarnation: Incarnation(1),
        profiles: BTreeMap::new(),
        targets: targets.iter().map(|(p, n)| ((*p).into(), *n)).collect(),
        store: store.clone(),
        keep: Keeper.start().recipient(),
        clock,
        timing: TIMING,
        sessions: speaking(),
        commands: commands::Wiring {
            settings: commands::Settings {
                kill_grace: Duration::from_secs(5),
                decommission_timeout: Duration::from_secs(60),
                ttl: None,
            },
            held: None,
            keep: Keeper.start().recipient(),
            stop: Keeper.start().recipient(),
        },
        autoscaling: None,
        rolling: None,
    }
}
