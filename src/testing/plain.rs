//! What a test says nothing special about: a configuration from a text, calls about an application.

use std::time::Duration;

use crate::config::Config;
use crate::kubernetes::pod_template::EXECUTOR_CONTAINER;
use crate::kubernetes::{Calls, CallsSpec, Clients, LabelScheme};

/// The configuration that this text is.
pub(crate) fn config(text: &str) -> Config {
    Config::from_toml(text, "a.toml", [], &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// What calls know of an application in the namespace `default`.
pub(crate) fn calls_spec() -> CallsSpec {
    CallsSpec {
        namespace: "default".to_owned(),
        app_id: "app".into(),
        prefix: "a".to_owned(),
        labels: LabelScheme::Boatswain,
        container: EXECUTOR_CONTAINER.to_owned(),
        check_all_containers: true,
        request_timeout: Duration::from_secs(10),
    }
}

/// Calls about that application.
pub(crate) fn calls_to(clients: Clients) -> Calls {
    Calls::new(clients, calls_spec())
}
