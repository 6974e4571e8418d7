//! Defaults for tests: a configuration from a text, and calls for an application.

use std::time::Duration;

use crate::config::Config;
use crate::kubernetes::pod_template::EXECUTOR_CONTAINER;
use crate::kubernetes::{Calls, CallsSpec, Clients, LabelScheme};

pub(crate) fn config(text: &str) -> Config {
    Config::from_toml(text, "a.toml", [], &[]).unwrap_or_else(|error| panic!("{error}"))
}

/// The parameters of calls for an application in the namespace `default`.
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

pub(crate) fn calls_to(clients: Clients) -> Calls {
    Calls::new(clients, calls_spec())
}

/// Waits until a claim that was deleted is gone: until its finalizer is removed, it exists.
pub(crate) async fn claim_is_gone(calls: &Calls, name: &str) {
    let gone = async {
        while calls.get_claim(name).await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    };
    let gone = tokio::time::timeout(super::SERVER_TIMEOUT, gone).await;
    assert!(gone.is_ok(), "claim {name} is still there");
}
