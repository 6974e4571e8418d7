//! Calls to an embedded cluster, for tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::time::Duration;

use boatswain_model::{ExecutorId, Incarnation};

use crate::pod_template::{Common, EXECUTOR_CONTAINER, Template};
use crate::{Calls, CallsSpec, Clients, LabelScheme, PodBody, ProfileSpec};

/// The shortest wait after a first failure.
pub const FIRST: Duration = Duration::from_millis(500);

/// The parameters of calls for an application in the namespace `default`.
pub fn calls_spec() -> CallsSpec {
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

pub fn calls_to(clients: Clients) -> Calls {
    Calls::new(clients, calls_spec())
}

/// Removes the finalizer of a claim that was deleted, as a controller does that does not run here, so that it is gone.
pub async fn finish_deletion(clients: &Clients, name: &str) {
    let path = format!("/api/v1/namespaces/default/persistentvolumeclaims/{name}");
    let request = http::Request::patch(path)
        .header("content-type", "application/merge-patch+json")
        .body(br#"{"metadata": {"finalizers": null}}"#.to_vec().into())
        .unwrap();
    let answer = clients.reads.send(request).await.unwrap();
    assert_eq!(answer.status(), http::StatusCode::OK);
}

/// The body of an executor's pod.
pub fn executor(id: u64) -> PodBody {
    let common = Common {
        app_id: "etl-7f3a".into(),
        app_name: "etl".to_owned(),
        namespace: "default".to_owned(),
        prefix: "etl".to_owned(),
        labels: LabelScheme::Boatswain,
        incarnation: Incarnation(3),
        record_uid: "record-uid".into(),
        driver_url: None,
        token: None,
        agent: None,
        injection: None,
        protects: false,
        ca_file: None,
        config_map: None,
        avoid: Default::default(),
        preferred: Default::default(),
    };
    let mut spec = ProfileSpec::default();
    (spec.container).insert("image".to_owned(), "busybox:1.36".into());
    Template::new(&common, &BTreeMap::from([("default".into(), spec)]))
        .unwrap()
        .pod(&"default".into(), ExecutorId::new(id).unwrap())
        .unwrap()
}
