//! Tests of service account tokens, and of the keys that a cluster publishes.

use axum::extract::Request as Call;
use axum::middleware::{Next, from_fn, map_response};
use axum::response::Response;
use http::header::{DATE, HeaderValue};
use http_body_util::BodyExt as _;
use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

use super::*;
use crate::actors::executor_registry::registry::Proof;
use crate::kubernetes::{Calls, Clients};
use crate::server::sessions::access::{TokenKeys, account};
use crate::testing::calls_to;
use devcluster::{self, DevCluster, NodeKind, Options};

const AUDIENCE: &str = "boatswain.dev/app";

/// An embedded cluster.
struct Cluster(DevCluster);

impl Cluster {
    fn start() -> Self {
        Self(devcluster::start(Options {
            node: NodeKind::None,
            ..Options::default()
        }))
    }

    fn calls(&self) -> Calls {
        calls_to(Clients::in_process(self.0.router(), "default"))
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let clients = Clients::in_process(self.0.router(), "default");
        let request = Request::post(format!("/api/v1/namespaces/default{path}"))
            .header("content-type", "application/json")
            .body(kube::client::Body::from(body.to_string().into_bytes()))
            .unwrap();
        let response = clients.reads.send(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    }

    /// Creates a pod, and a token of this audience for it. Returns the pod's uid and the token.
    async fn token(&self, pod: &str, audience: &str) -> (String, String) {
        let container = json!({"name": "executor", "image": "none"});
        let body = json!({"metadata": {"name": pod}, "spec": {"containers": [container]}});
        let made = self.post("/pods", &body).await;
        let uid = made["metadata"]["uid"].as_str().unwrap().to_owned();
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
        let body = json!({"spec": {"audiences": [audience], "boundObjectRef": bound}});
        let answer = self.post("/serviceaccounts/default/token", &body).await;
        let token = answer["status"]["token"].as_str();
        (token.unwrap_or_else(|| panic!("{answer}")).to_owned(), uid)
    }
}

fn access(cluster: &Cluster) -> Access {
    let keys = TokenKeys::new(cluster.calls(), Clock::system(), AUDIENCE.to_owned());
    Access::Kubernetes(keys.start())
}

// spec: O-112
#[actix::test]
async fn a_pods_own_token_proves_its_name_and_uid() {
    let cluster = Cluster::start();
    let access = access(&cluster);
    let (token, uid) = cluster.token("a-exec-1", AUDIENCE).await;
    let uid = uid.as_str().into();
    let name = "a-exec-1".into();
    assert_eq!(access.prove(&token).await, Ok(Proof::Pod { name, uid }));
    let (other, _) = cluster.token("a-exec-2", "somebody else").await;
    let denied = access.prove(&other).await.unwrap_err();
    assert!(denied.to_string().contains("another audience"), "{denied}");
    assert_eq!(access.prove("nonsense").await, Err(Denied::NoToken));
}

// spec: O-68, O-112
#[actix::test]
async fn a_token_is_valid_by_the_api_servers_clock_whatever_the_drivers_shows() {
    tokio::time::pause();
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    for hours in [-30, 0, 30] {
        let cluster = Cluster(devcluster::start(Options {
            node: NodeKind::None,
            wall_clock_start: Some(start),
            ..Options::default()
        }));
        let began = Instant::now();
        let dated = map_response(move |mut response: Response| async move {
            let now = start + began.elapsed();
            let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&now);
            let date = HeaderValue::from_str(&date.unwrap()).unwrap();
            response.headers_mut().insert(DATE, date);
            response
        });
        let clients = Clients::in_process(cluster.0.router().layer(dated), "default");
        let clock = Clock::starting_at(start + SignedDuration::from_hours(hours));
        let keys = TokenKeys::new(calls_to(clients), clock, AUDIENCE.to_owned());
        let access = Access::Kubernetes(keys.start());
        let (token, _) = cluster.token("a-exec-1", AUDIENCE).await;
        let proof = access.prove(&token).await;
        assert!(proof.is_ok(), "{hours}: {proof:?}");
        // It is valid for an hour, and the tolerance is 5 minutes.
        tokio::time::advance(Duration::from_secs(64 * 60)).await;
        let proof = access.prove(&token).await;
        assert!(proof.is_ok(), "{hours}: {proof:?}");
        tokio::time::advance(Duration::from_secs(2 * 60)).await;
        let denied = access.prove(&token).await.unwrap_err();
        assert!(denied.to_string().contains("has expired"), "{denied}");
    }
}

// spec: O-112
#[actix::test]
async fn new_keys_are_fetched_and_forged_key_ids_cause_few_fetches() {
    tokio::time::pause();
    let (cluster, other) = (Cluster::start(), Cluster::start());
    let access = access(&cluster);
    let (foreign, _) = other.token("a-exec-1", AUDIENCE).await;
    let denied = access.prove(&foreign).await.unwrap_err();
    assert!(denied.to_string().contains("publishes"), "{denied}");
    // The keys are cached now, so the token is verified without a request.
    let (token, _) = cluster.token("a-exec-1", AUDIENCE).await;
    assert!(access.prove(&token).await.is_ok());
    assert!(access.prove(&foreign).await.is_err());
    tokio::time::sleep(Duration::from_secs(11)).await;
    // The keys are fetched again, without success; the cached keys stay valid.
    assert!(access.prove(&foreign).await.is_err());
    assert!(access.prove(&token).await.is_ok());
}

// spec: O-112
#[actix::test]
async fn without_keys_an_executor_is_deferred() {
    let (token, _) = Cluster::start().token("a-exec-1", AUDIENCE).await;
    let calls = calls_to(Clients::in_process(Router::new(), "default"));
    let keys = TokenKeys::new(calls, Clock::system(), AUDIENCE.to_owned());
    let access = Access::Kubernetes(keys.start());
    assert_eq!(access.prove(&token).await, Err(Denied::NoKeys));
}

/// Access by the keys of a cluster that publishes them slowly, the number of fetches, and the delay of each fetch.
fn slow_access(cluster: &Cluster) -> (Access, watch::Receiver<u32>, watch::Sender<Duration>) {
    let (slowness, delay) = watch::channel(Duration::ZERO);
    let (fetches, fetched) = watch::channel(0);
    let fetches = Arc::new(fetches);
    let slowly = from_fn(move |call: Call, next: Next| {
        let (delay, fetches) = (*delay.borrow(), Arc::clone(&fetches));
        async move {
            if call.uri().path().ends_with("openid-configuration") {
                fetches.send_modify(|count| *count += 1);
                tokio::time::sleep(delay).await;
            }
            next.run(call).await
        }
    });
    let router = cluster.0.router().layer(slowly);
    let calls = calls_to(Clients::in_process(router, "default"));
    let keys = TokenKeys::new(calls, Clock::system(), AUDIENCE.to_owned());
    (Access::Kubernetes(keys.start()), fetched, slowness)
}

// spec: O-54
#[actix::test]
async fn a_known_key_never_waits_for_the_fetch_that_an_invented_one_caused() {
    tokio::time::pause();
    let (cluster, other) = (Cluster::start(), Cluster::start());
    let (access, _, slowness) = slow_access(&cluster);
    let (token, _) = cluster.token("a-exec-1", AUDIENCE).await;
    let (forged, _) = other.token("a-exec-1", AUDIENCE).await;
    assert!(access.prove(&token).await.is_ok());
    tokio::time::sleep(Duration::from_secs(11)).await;
    slowness.send_replace(Duration::from_secs(9));
    let (fetching, forger) = (access.clone(), forged.clone());
    let waiting = tokio::spawn(async move { fetching.prove(&forger).await });
    tokio::time::sleep(Duration::from_millis(1)).await;
    let began = Instant::now();
    assert!(access.prove(&token).await.is_ok());
    assert!(began.elapsed() < Duration::from_millis(10), "{began:?}");
    // The proof of an unknown key waits for the fetch, but not for long; then the executor has to try again.
    assert_eq!(waiting.await.unwrap(), Err(Denied::NoKeys));
    assert!(began.elapsed() < Duration::from_secs(5));
}

// spec: O-54
#[actix::test]
async fn keys_are_fetched_one_at_a_time_and_rarely_whatever_is_invented() {
    tokio::time::pause();
    let (cluster, other) = (Cluster::start(), Cluster::start());
    let (access, fetched, slowness) = slow_access(&cluster);
    let (token, _) = cluster.token("a-exec-1", AUDIENCE).await;
    let (forged, _) = other.token("a-exec-1", AUDIENCE).await;
    slowness.send_replace(Duration::from_secs(8));
    for _ in 0..90 {
        let (access, forged) = (access.clone(), forged.clone());
        tokio::spawn(async move { access.prove(&forged).await });
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    // A fetch takes 8 s, and the next one begins 10 s after its end.
    assert_eq!(*fetched.borrow(), 5);
    let began = Instant::now();
    assert!(access.prove(&token).await.is_ok());
    assert!(began.elapsed() < Duration::from_millis(10));
}

// spec: O-54
#[actix::test]
async fn a_new_key_is_known_once_the_fetch_that_is_under_way_has_ended() {
    tokio::time::pause();
    let cluster = Cluster::start();
    let (access, fetched, slowness) = slow_access(&cluster);
    slowness.send_replace(Duration::from_secs(1));
    let (token, _) = cluster.token("a-exec-1", AUDIENCE).await;
    let proofs = (0..10).map(|_| access.prove(&token));
    let proofs = futures::future::join_all(proofs).await;
    assert!(proofs.iter().all(Result::is_ok), "{proofs:?}");
    assert_eq!(*fetched.borrow(), 1);
}

const CALLERS: &str = "boatswain.dev/default/app";

impl Cluster {
    async fn delete(&self, path: &str) {
        let clients = Clients::in_process(self.0.router(), "default");
        let request = Request::delete(format!("/api/v1/namespaces/default{path}"))
            .body(kube::client::Body::empty())
            .unwrap();
        let response = clients.reads.send(request).await.unwrap();
        assert!(response.status().is_success(), "{response:?}");
    }

    /// The keys of this cluster. Each review of a token is answered by the cluster after this time, or with this
    /// status code.
    fn reviewed(&self, delay: Duration, code: Option<u16>) -> Addr<TokenKeys> {
        let layer = from_fn(move |call: Call, next: Next| async move {
            if !call.uri().path().ends_with("/tokenreviews") {
                return next.run(call).await;
            }
            tokio::time::sleep(delay).await;
            match code {
                None => next.run(call).await,
                Some(code) => {
                    let status = json!({"kind": "Status", "status": "Failure", "code": code});
                    let mut response = Response::new(status.to_string().into());
                    *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
                    let json = HeaderValue::from_static("application/json");
                    response.headers_mut().insert("content-type", json);
                    response
                }
            }
        });
        let clients = Clients::in_process(self.0.router().layer(layer), "default");
        TokenKeys::new(calls_to(clients), Clock::system(), AUDIENCE.to_owned()).start()
    }
}

// spec: O-119
#[actix::test]
async fn a_callers_token_is_refused_within_a_minute_after_its_pod_was_deleted() {
    tokio::time::pause();
    let cluster = Cluster::start();
    let keys = cluster.reviewed(Duration::ZERO, None);
    let (token, _) = cluster.token("engine", CALLERS).await;
    let audience = CALLERS.into();
    let default = Ok("default/default".to_owned());
    assert_eq!(account(&keys, &token, &audience).await, default);
    cluster.delete("/pods/engine?gracePeriodSeconds=0").await;
    assert_eq!(account(&keys, &token, &audience).await, default);
    tokio::time::sleep(Duration::from_secs(61)).await;
    let denied = account(&keys, &token, &audience).await.unwrap_err();
    assert!(denied.to_string().contains("no more"), "{denied}");
    let (other, _) = cluster.token("engine-2", CALLERS).await;
    assert_eq!(account(&keys, &other, &audience).await, default);
}

// spec: O-120
#[actix::test]
async fn a_callers_token_is_verified_by_the_published_keys_where_no_review_is_to_be_had() {
    tokio::time::pause();
    let hour = Duration::from_secs(3_600);
    for (delay, code) in [
        (Duration::ZERO, Some(403)),
        (Duration::ZERO, Some(500)),
        (hour, None),
    ] {
        let cluster = Cluster::start();
        let keys = cluster.reviewed(delay, code);
        let (token, _) = cluster.token("engine", CALLERS).await;
        let audience = CALLERS.into();
        let default = Ok("default/default".to_owned());
        assert_eq!(
            account(&keys, &token, &audience).await,
            default,
            "{delay:?} {code:?}"
        );
        let (foreign, _) = cluster.token("engine-2", AUDIENCE).await;
        let denied = account(&keys, &foreign, &audience).await.unwrap_err();
        assert!(denied.to_string().contains("another audience"), "{denied}");
    }
}
