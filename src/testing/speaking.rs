//! How executors speak to the driver of a test.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::driver_backend::{readiness, registry, sessions};
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
            registered: true,
        },
    }
}
