//! Each row of the table of causes, as a server shows it.

mod in_time;

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::Router;
use axum::response::IntoResponse as _;
use http::{StatusCode, Uri};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::reading::Reader;
use super::*;
use crate::driver::owner_chain::OwnerChain;
use crate::kubernetes::Clients;
use crate::kubernetes::calls::Reference;
use crate::testing::calls_to;

const POD: &str = "pods/driver-0";
const JOB: &str = "jobs/etl";
const SET: &str = "replicasets/etl-5f";
const DEPLOYMENT: &str = "deployments/etl";
const STATEFUL: &str = "statefulsets/etl";

/// What the server has from an instant on, by the end of its path.
#[derive(Clone)]
struct Object {
    from: Duration,
    path: &'static str,
    /// `None`: it is gone.
    value: Option<Value>,
}

fn now(path: &'static str, value: Value) -> Object {
    at(0, path, Some(value))
}

fn at(ms: u64, path: &'static str, value: Option<Value>) -> Object {
    Object {
        from: Duration::from_millis(ms),
        path,
        value,
    }
}

fn uid(path: &str) -> String {
    format!("uid-of-{path}")
}

fn reference(path: &str) -> Reference {
    let (resource, name) = path.split_once('/').unwrap();
    let (api_version, kind) = match resource {
        "pods" => ("v1", "Pod"),
        "jobs" => ("batch/v1", "Job"),
        "replicasets" => ("apps/v1", "ReplicaSet"),
        "deployments" => ("apps/v1", "Deployment"),
        "statefulsets" => ("apps/v1", "StatefulSet"),
        _ => ("example.com/v1", "Engine"),
    };
    Reference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: uid(path),
    }
}

/// An object with this controller. `more` is merged into it.
fn object(path: &'static str, owner: Option<&str>, more: Value) -> Value {
    let of = reference(path);
    let mut owners = Vec::new();
    if let Some(owner) = owner {
        let mut owner = serde_json::to_value(reference(owner)).unwrap();
        owner["controller"] = true.into();
        owners.push(owner);
    }
    let mut object = json!({
        "apiVersion": of.api_version, "kind": of.kind,
        "metadata": {"name": of.name, "uid": of.uid, "ownerReferences": owners},
        "spec": {}, "status": {},
    });
    for (part, fields) in more.as_object().unwrap() {
        for (key, value) in fields.as_object().unwrap() {
            object[part][key] = value.clone();
        }
    }
    object
}

fn deleted() -> Value {
    json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})
}

fn condition(kind: &str, status: &str) -> Value {
    json!({"status": {"conditions": [{"type": kind, "status": status}]}})
}

/// An evicted pod.
fn evicted(owner: Option<&str>) -> Object {
    let mut pod = object(POD, owner, deleted());
    pod["status"] = condition("DisruptionTarget", "True")["status"].clone();
    now(POD, pod)
}

/// A pod that was deleted without a reason.
fn deleted_pod(owner: Option<&str>) -> Object {
    now(POD, object(POD, owner, deleted()))
}

/// A pod that nothing says anything about, as when the kubelet ends it by itself.
fn untouched(owner: Option<&str>) -> Object {
    let spec = json!({"spec": {"restartPolicy": "Never"}, "status": {"phase": "Running"}});
    now(POD, object(POD, owner, spec))
}

/// A Deployment and its ReplicaSet.
fn deployment(more: Value) -> [Object; 2] {
    [
        now(
            SET,
            object(SET, Some(DEPLOYMENT), json!({"spec": {"replicas": 0}})),
        ),
        now(DEPLOYMENT, object(DEPLOYMENT, None, more)),
    ]
}

/// A server's answers. Nothing else is there.
fn server(objects: Vec<Object>, began: Instant) -> Router {
    let objects = Arc::new(objects);
    Router::new().fallback(move |uri: Uri| {
        let objects = Arc::clone(&objects);
        async move {
            let path = uri.path();
            let found = objects
                .iter()
                .rfind(|object| path.ends_with(object.path) && object.from <= began.elapsed());
            match found.and_then(|found| found.value.clone()) {
                Some(value) => Json(value).into_response(),
                None => {
                    let mut ends = path.rsplit('/');
                    let (name, resource) = (ends.next().unwrap(), ends.next().unwrap());
                    let status = json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
                        "reason": "NotFound", "message": format!("{resource} {name:?} not found"),
                        "details": {"name": name, "kind": resource},
                    });
                    (StatusCode::NOT_FOUND, Json(status)).into_response()
                }
            }
        }
    })
}

fn reader(router: Router, top: &str, more: &[&str]) -> Reader {
    let service =
        tower::ServiceExt::map_request(router, |request: http::Request<kube::client::Body>| {
            request.map(axum::body::Body::new)
        });
    let sets = ["driver.pod_name=driver-0", "profiles.default.image=none"];
    let sets: Vec<_> = (sets.iter().chain(more))
        .map(|set| (*set).to_owned())
        .collect();
    let config = crate::config::Config::from_toml("", "none.toml", [], &sets).unwrap();
    let calls = calls_to(Clients::in_process(service, "default"));
    let mut reader = Reader::new(&config, calls).unwrap();
    reader.set_owner_chain(Some(&OwnerChain {
        pod: reference(POD),
        top: reference(top),
    }));
    reader
}

/// What a signal means for a driver whose top controller at its start was `top`, and how long it took to learn.
async fn learned(
    objects: impl IntoIterator<Item = Object>,
    top: &str,
    more: &[&str],
) -> (Stop, Duration) {
    let began = Instant::now();
    let reader = reader(server(objects.into_iter().collect(), began), top, more);
    let meaning = reader.learn().await;
    (meaning, began.elapsed())
}

async fn meaning_of(objects: impl IntoIterator<Item = Object>, top: &str) -> Stop {
    let (meaning, took) = learned(objects, top, &[]).await;
    assert!(took <= Duration::from_secs(2), "{took:?}");
    meaning
}

// spec: O-66
#[tokio::test(start_paused = true)]
async fn a_driver_whose_controller_goes_on_hands_over_whatever_ended_its_pod() {
    let owners: [(&str, Vec<Object>); 4] = [
        (JOB, vec![now(JOB, object(JOB, None, json!({})))]),
        (
            STATEFUL,
            vec![now(STATEFUL, object(STATEFUL, None, json!({})))],
        ),
        // In a rollout the pod's own ReplicaSet is scaled to 0.
        (SET, deployment(json!({"spec": {"replicas": 1}})).into()),
        // The ReplicaSet was deleted by hand: the Deployment makes another one.
        (SET, deployment(json!({}))[1..].into()),
    ];
    for (owner, objects) in owners {
        let top = if owner == SET { DEPLOYMENT } else { owner };
        // An eviction, by hand, by the kubelet itself.
        for pod in [
            evicted(Some(owner)),
            deleted_pod(Some(owner)),
            untouched(Some(owner)),
        ] {
            let mut objects = objects.clone();
            objects.push(pod.clone());
            let meaning = meaning_of(objects, top).await;
            assert_eq!(meaning, Stop::HandOver, "{owner} {:?}", pod.value);
        }
        // The pod was deleted by force, or another one has its name.
        let mut another = object(POD, Some(owner), json!({}));
        another["metadata"]["uid"] = "another".into();
        for pod in [None, Some(another)] {
            let mut objects = objects.clone();
            objects.push(at(0, POD, pod));
            assert_eq!(meaning_of(objects, top).await, Stop::HandOver, "{owner}");
        }
    }
}

// spec: O-66
#[tokio::test(start_paused = true)]
async fn a_driver_whose_controller_is_gone_or_going_ends_the_application() {
    for owner in [JOB, STATEFUL, DEPLOYMENT] {
        let (mut another, leaving) = (
            object(owner, None, json!({})),
            object(owner, None, deleted()),
        );
        another["metadata"]["uid"] = "another".into();
        for top in [None, Some(another), Some(leaving)] {
            for of_pod in [owner, SET] {
                if (of_pod == SET) != (owner == DEPLOYMENT) {
                    continue;
                }
                let set = now(SET, object(SET, Some(DEPLOYMENT), json!({})));
                let objects = [deleted_pod(Some(of_pod)), set, at(0, owner, top.clone())];
                assert_eq!(meaning_of(objects, owner).await, Stop::DONE, "{top:?}");
                let objects = [deleted_pod(Some(of_pod)), at(0, owner, top.clone())];
                assert_eq!(meaning_of(objects, owner).await, Stop::DONE, "{top:?}");
            }
        }
    }
}

// spec: O-66
#[tokio::test(start_paused = true)]
async fn a_driver_whose_job_is_over_ends_the_application() {
    for kind in ["FailureTarget", "SuccessCriteriaMet", "Complete", "Failed"] {
        for pod in [deleted_pod(Some(JOB)), evicted(Some(JOB))] {
            let over = now(JOB, object(JOB, None, condition(kind, "True")));
            assert_eq!(meaning_of([pod.clone(), over], JOB).await, Stop::DONE);
            let not_over = now(JOB, object(JOB, None, condition(kind, "False")));
            assert_eq!(meaning_of([pod, not_over], JOB).await, Stop::HandOver);
        }
    }
    // A suspended Job that is over stays over.
    let mut job = object(JOB, None, condition("Failed", "True"));
    job["spec"]["suspend"] = true.into();
    let objects = [deleted_pod(Some(JOB)), now(JOB, job)];
    assert_eq!(meaning_of(objects, JOB).await, Stop::DONE);
}

// spec: O-66, O-96
#[tokio::test(start_paused = true)]
async fn a_job_that_deletes_its_pod_first_and_says_why_later_is_read_twice() {
    let pod = deleted_pod(Some(JOB));
    let alive = now(JOB, object(JOB, None, json!({})));
    let failing = object(JOB, None, condition("FailureTarget", "True"));
    let suspended = object(JOB, None, json!({"spec": {"suspend": true}}));
    for (later, meaning) in [
        (Some(failing), Stop::DONE),
        (Some(suspended), Stop::LetGo),
        (None, Stop::DONE),
    ] {
        let objects = [pod.clone(), alive.clone(), at(1_000, JOB, later)];
        let (learned, took) = learned(objects, JOB, &[]).await;
        assert_eq!((learned, took), (meaning, Duration::from_millis(1_500)));
    }
    // An eviction says why before it deletes, and other controllers before they delete.
    let deployment = deployment(json!({}));
    let set = [deployment[0].clone(), deployment[1].clone()];
    for (objects, top) in [
        (vec![evicted(Some(JOB)), alive.clone()], JOB),
        (vec![untouched(Some(JOB)), alive.clone()], JOB),
        (
            [vec![deleted_pod(Some(SET))], set.to_vec()].concat(),
            DEPLOYMENT,
        ),
    ] {
        let learned = learned(objects, top, &[]).await;
        assert_eq!(learned, (Stop::HandOver, Duration::ZERO));
    }
}

// spec: O-66, O-67
#[tokio::test(start_paused = true)]
async fn a_driver_that_is_not_wanted_for_now_lets_its_executors_go() {
    let zero = json!({"spec": {"replicas": 0}});
    let [set, scaled] = deployment(zero.clone());
    let cases: [(&str, Vec<Object>); 5] = [
        (
            JOB,
            vec![now(
                JOB,
                object(JOB, None, json!({"spec": {"suspend": true}})),
            )],
        ),
        (
            JOB,
            vec![now(
                JOB,
                object(JOB, None, json!({"spec": {"parallelism": 0}})),
            )],
        ),
        (
            STATEFUL,
            vec![now(STATEFUL, object(STATEFUL, None, zero.clone()))],
        ),
        (SET, vec![set, scaled]),
        // A ReplicaSet of its own.
        (SET, vec![now(SET, object(SET, None, zero))]),
    ];
    for (owner, objects) in cases {
        for pod in [
            deleted_pod(Some(owner)),
            evicted(Some(owner)),
            untouched(Some(owner)),
        ] {
            let top = if objects.len() > 1 { DEPLOYMENT } else { owner };
            let meaning = meaning_of(objects.iter().cloned().chain([pod]), top).await;
            assert_eq!(meaning, Stop::LetGo, "{owner}");
        }
    }
}

// spec: O-66
#[tokio::test(start_paused = true)]
async fn a_job_without_a_try_left_starts_no_successor() {
    let job = |limit: Option<i64>, failed: i64, policy: Value| {
        let spec = json!({"backoffLimit": limit, "podFailurePolicy": policy});
        now(
            JOB,
            object(
                JOB,
                None,
                json!({"spec": spec, "status": {"failed": failed}}),
            ),
        )
    };
    let rules = json!({"rules": []});
    for (limit, failed, policy, meaning) in [
        (Some(0), 0, Value::Null, Stop::LetGo),
        (Some(2), 1, Value::Null, Stop::HandOver),
        (Some(2), 2, Value::Null, Stop::LetGo),
        (None, 5, Value::Null, Stop::HandOver),
        (None, 6, Value::Null, Stop::LetGo),
        (Some(0), 0, rules, Stop::HandOver),
    ] {
        let objects = [evicted(Some(JOB)), job(limit, failed, policy)];
        assert_eq!(
            meaning_of(objects, JOB).await,
            meaning,
            "{limit:?} {failed}"
        );
    }
    // The kubelet starts the container again in the same pod.
    let restarts = json!({"spec": {"restartPolicy": "OnFailure"}});
    let pod = now(POD, object(POD, Some(JOB), restarts));
    let objects = [pod, job(Some(0), 0, Value::Null)];
    assert_eq!(meaning_of(objects, JOB).await, Stop::HandOver);
}

// spec: O-66
#[tokio::test(start_paused = true)]
async fn a_pod_without_a_controller_is_followed_only_by_its_own_restart() {
    for policy in ["Always", "OnFailure", "Never"] {
        let restart = json!({"spec": {"restartPolicy": policy}});
        let alive = object(POD, None, restart.clone());
        let mut leaving = object(POD, None, restart);
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let in_place = match policy {
            "Never" => Stop::DONE,
            _ => Stop::HandOver,
        };
        for (pod, meaning) in [
            (Some(alive), in_place),
            (Some(leaving), Stop::DONE),
            (None, Stop::DONE),
        ] {
            assert_eq!(meaning_of([at(0, POD, pod.clone())], POD).await, meaning);
            // With the lease, another bare pod may stand by.
            let (learned, _) = learned([at(0, POD, pod)], POD, &["ha.lease=true"]).await;
            assert_eq!(learned, Stop::HandOver);
        }
    }
}

// spec: O-66
#[tokio::test(start_paused = true)]
async fn a_driver_under_an_unknown_controller_hands_over() {
    let engine = "engines/etl";
    let set = now(
        SET,
        object(SET, Some(engine), json!({"spec": {"replicas": 0}})),
    );
    for (objects, top) in [
        (vec![deleted_pod(Some(engine))], engine),
        (vec![deleted_pod(Some(SET)), set], engine),
        (vec![deleted_pod(Some(SET))], engine),
        (vec![], engine),
    ] {
        assert_eq!(meaning_of(objects, top).await, Stop::HandOver);
    }
}
