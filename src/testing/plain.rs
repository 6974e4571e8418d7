//! Defaults for tests: a configuration from a text, and calls for an application.

use std::time::Duration;

use devcluster::DevCluster;

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

/// Removes the finalizer of a claim that was deleted, as a controller does that does not run here, so that it is gone.
pub(crate) async fn finish_deletion(cluster: &DevCluster, name: &str) {
    let path = format!("/api/v1/namespaces/default/persistentvolumeclaims/{name}");
    let request = http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(br#"{"metadata": {"finalizers": null}}"#.to_vec().into())
        .unwrap();
    let clients = Clients::in_process(cluster.router(), "default");
    let answer = clients.reads.send(request).await.unwrap();
    assert_eq!(answer.status(), http::StatusCode::OK);
}
