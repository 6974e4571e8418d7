//! A driver's backend for tests, and the messages of executors to it.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{Actor, Addr, Context, Handler};

use crate::actors::driver_backend::commands::messages::{KeepHeld, Stop};
use crate::actors::driver_backend::profiles::{self, KeepProfile};
use crate::actors::driver_backend::{self, commands, readiness, registry, sessions};
use crate::actors::pod_allocator::messages::KnowProfile;
use crate::actors::snapshot_store::delivery::Timing;
use crate::actors::snapshot_store::ledger::Ledger;
use crate::actors::snapshot_store::{self, SnapshotStore};
use crate::clock::Clock;
use crate::kubernetes::pod_template::TemplateError;
use crate::model::{AppId, Incarnation};

/// Sessions with the default times; registration is optional.
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

/// Accepts the messages to the record keeper, and the one that ends the driver.
struct Keeper;

impl Actor for Keeper {
    type Context = Context<Self>;
}

impl Handler<KeepHeld> for Keeper {
    type Result = ();

    fn handle(&mut self, _: KeepHeld, _: &mut Self::Context) {}
}

impl Handler<KeepProfile> for Keeper {
    type Result = ();

    fn handle(&mut self, _: KeepProfile, _: &mut Self::Context) {}
}

impl Handler<KnowProfile> for Keeper {
    type Result = Result<(), TemplateError>;

    fn handle(&mut self, _: KnowProfile, _: &mut Self::Context) -> Self::Result {
        Ok(())
    }
}

impl Handler<Stop> for Keeper {
    type Result = ();

    fn handle(&mut self, _: Stop, _: &mut Self::Context) {}
}

/// When batches are delivered to the subscribers of a test's store.
pub(crate) const TIMING: Timing = Timing {
    interval: Duration::from_secs(1),
    quiet_latency: Duration::from_millis(10),
    min_gap: Duration::from_millis(50),
    max_buffered: 1_000,
};

/// A store of this ledger, without a source of lists and without metrics.
pub(crate) fn store(ledger: Ledger, clock: Clock) -> Addr<SnapshotStore> {
    let (watch, meter) = (None, None);
    let wiring = snapshot_store::Wiring {
        ledger,
        clock,
        watch,
        meter,
    };
    SnapshotStore::new(wiring).start()
}

/// A DriverBackend over a store, with the default times, without autoscaling and rolling
/// replacement, and without persistence.
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
        adding: profiles::Wiring {
            read: Box::new(|_, _| panic!("no profile is added here")),
            added: BTreeMap::new(),
            keep: Keeper.start().recipient(),
            provisioner: Keeper.start().recipient(),
        },
    }
}
