//! Test environment: the embedded cluster, whose node takes time to start and stop pods, a driver on it, and clients
//! of the driver's API.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use boatswain::clock::Clock;
use boatswain::config::Config;
use boatswain::driver::{self, Environment, Handle};
use boatswain::exit::Exit;
use boatswain::kubernetes::Clients;
use boatswain::server::api::tokens::Tokens;
use devcluster::{self, DevCluster, NodeKind, Options, SimulatedNode};
use futures::StreamExt;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, LocalSet};
use tokio::time::{sleep, timeout};
use tower::ServiceExt;

use crate::contract;

const NAMESPACE: &str = "default";

/// The executors' pods are named `t-exec-1` and so on.
const CONFIG: &str = r#"
[app]
name = "t"
[cluster]
mode = "embedded"
[embedded]
node = "simulated"
[profiles.default]
executors = 3
termination_grace = "30s"
"#;

/// How long a pod takes to stop, if its grace period allows that.
pub const STOPS_AFTER: Duration = Duration::from_secs(20);

/// Longer than any wait in these tests.
const PATIENCE: Duration = Duration::from_secs(3600);

pub struct World {
    cluster: DevCluster,
    clock: Clock,
    drivers: u64,
}

pub struct Driver {
    handle: Handle,
    running: JoinHandle<Exit>,
    cluster: DevCluster,
}

/// A cluster, and a driver with these settings. Pauses the clock.
pub async fn driver(sets: &[&str]) -> (World, Driver) {
    tokio::time::pause();
    let mut world = World::new();
    let driver = world.start(sets).await;
    driver.until_running(3).await;
    (world, driver)
}

impl World {
    pub fn new() -> Self {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let node = SimulatedNode {
            start_delay: Duration::from_secs(2),
            stop_delay: STOPS_AFTER,
            ..SimulatedNode::default()
        };
        let cluster = devcluster::start(Options {
            node: NodeKind::Simulated(node),
            wall_clock_start: Some(start),
            ..Options::default()
        });
        Self {
            cluster,
            clock: Clock::starting_at(start),
            drivers: 0,
        }
    }

    /// Starts the next driver and waits until it has taken over.
    pub async fn start(&mut self, sets: &[&str]) -> Driver {
        let driver = self.begin(sets);
        driver
            .until("it has taken over", |status| status["adopted"] == true)
            .await;
        driver
    }

    /// Starts the next driver without waiting for it.
    pub fn begin(&mut self, sets: &[&str]) -> Driver {
        let sets: Vec<String> = sets.iter().map(|set| (*set).to_owned()).collect();
        let config = Config::from_toml(CONFIG, "t.toml", [], &sets).unwrap();
        self.drivers += 1;
        let environment = Environment {
            clients: Clients::in_process(self.cluster.router(), NAMESPACE),
            clock: self.clock,
            seed: self.drivers,
            holder: self.drivers,
        };
        let (handle, running) = driver::start_in(config, environment);
        Driver {
            handle,
            // In a task set of its own, so that nothing of it continues after its exit, as with a process.
            running: actix::spawn(async { LocalSet::new().run_until(running).await }),
            cluster: self.cluster.clone(),
        }
    }

    /// Creates a pod that is not an executor's.
    pub async fn make_pod(&self, name: &str) {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "driver", "image": "none"}]},
        });
        let request = Request::post(format!("/api/v1/namespaces/{NAMESPACE}/pods"))
            .header("content-type", "application/json")
            .body(Body::from(pod.to_string()))
            .unwrap();
        let response = self.cluster.router().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::CREATED);
    }

    /// Reports a pod's status, as a node does.
    pub async fn set_pod_status(&self, name: &str, status: &Value) {
        let uri = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}/status");
        let request = Request::patch(uri)
            .header("content-type", "application/merge-patch+json")
            .body(Body::from(json!({"status": status}).to_string()))
            .unwrap();
        let response = self.cluster.router().oneshot(request).await.unwrap();
        assert!(response.status().is_success(), "{}", response.status());
    }

    /// An executor's program ends with code 1.
    pub async fn fail(&self, executor: u64) {
        let ended = json!({"terminated": {"exitCode": 1, "reason": "Error"}});
        let container = json!({
            "name": "executor", "image": "none", "imageID": "", "ready": false, "restartCount": 0, "state": ended,
        });
        let status = json!({"phase": "Failed", "containerStatuses": [container]});
        self.set_pod_status(&format!("t-exec-{executor}"), &status)
            .await;
    }

    /// Creates an object from one that was read, and returns it.
    async fn create_again(&self, what: &str, mut object: Value) -> Value {
        let metadata = object["metadata"].as_object_mut().unwrap();
        for of_the_server in ["uid", "resourceVersion", "creationTimestamp"] {
            metadata.remove(of_the_server);
        }
        let request = Request::post(format!("/api/v1/namespaces/{NAMESPACE}/{what}"))
            .header("content-type", "application/json")
            .body(Body::from(object.to_string()))
            .unwrap();
        let (status, created) = answer_to_any(&self.cluster, request).await;
        assert_eq!(status, StatusCode::CREATED, "{created}");
        created
    }

    /// Creates a record, and pods that it owns, from what was read of another cluster.
    pub async fn restore(&self, mut record: Value, pods: &[Value]) {
        // The driver's own pod and controllers are others now.
        record["metadata"]["ownerReferences"] = json!([]);
        let record = self.create_again("configmaps", record).await;
        for pod in pods {
            let mut pod = pod.clone();
            pod["metadata"]["ownerReferences"][0]["uid"] = record["metadata"]["uid"].clone();
            pod["spec"].as_object_mut().unwrap().remove("nodeName");
            pod.as_object_mut().unwrap().remove("status");
            self.create_again("pods", pod).await;
        }
    }

    /// The executors' pods.
    pub async fn executor_pods(&self) -> Vec<Value> {
        let list = get(
            &self.cluster,
            "pods?labelSelector=boatswain.dev/role%3Dexecutor",
        )
        .await;
        list["items"].as_array().unwrap().clone()
    }

    /// Creates or updates an object.
    pub async fn apply(&self, what: &str, object: &Value) {
        let (folder, _) = what.split_once('/').unwrap();
        let paths = format!("/api/v1/namespaces/{NAMESPACE}");
        for request in [
            Request::post(format!("{paths}/{folder}")).header("content-type", "application/json"),
            Request::patch(format!("{paths}/{what}"))
                .header("content-type", "application/merge-patch+json"),
        ] {
            let request = request.body(Body::from(object.to_string())).unwrap();
            let response = self.cluster.router().oneshot(request).await.unwrap();
            if response.status() != StatusCode::CONFLICT {
                assert!(response.status().is_success(), "{}", response.status());
                return;
            }
        }
        panic!("{what} can be neither created nor updated");
    }

    /// The application record; null if there is none.
    pub async fn record(&self) -> Value {
        get(&self.cluster, "configmaps/t-app").await
    }
}

impl Driver {
    async fn routes(&self) -> Option<Router> {
        let tokens = Tokens::parse("all\nlooks read\n", "tokens").unwrap();
        self.handle.routes(tokens).await
    }

    async fn ask(&self, method: &Method, path: &str, body: &Value) -> (StatusCode, Value) {
        let token = match *method {
            Method::GET => "looks",
            _ => "all",
        };
        let request = Request::builder()
            .method(method.clone())
            .uri(path)
            .header("authorization", format!("Bearer {token}"))
            .body(Body::from(body.to_string()))
            .unwrap();
        match self.routes().await {
            Some(routes) => answer_to(routes, request).await,
            None => (StatusCode::SERVICE_UNAVAILABLE, Value::Null),
        }
    }

    /// The API's OpenAPI document.
    pub async fn document(&self) -> Value {
        let (_, document) = self.ask(&Method::GET, "/openapi.json", &Value::Null).await;
        document
    }

    /// Calls the driver's API and checks the answer against the OpenAPI document.
    pub async fn call(&self, method: Method, path: &str, body: Value) -> (StatusCode, Value) {
        let document = self.document().await;
        let (status, answer) = self.ask(&method, path, &body).await;
        // A driver that has ended serves no document.
        if !document.is_null() {
            contract::holds(&document, &method, path, status, &answer);
        }
        (status, answer)
    }

    pub async fn get(&self, path: &str) -> Value {
        let (_, answer) = self.call(Method::GET, path, Value::Null).await;
        answer
    }

    /// Posts a request that must succeed, and returns the answer.
    pub async fn post(&self, path: &str, body: Value) -> Value {
        let (status, answer) = self.call(Method::POST, path, body).await;
        assert!(status.is_success(), "{path}: {status} {answer}");
        answer
    }

    /// Waits until the status satisfies a condition, and returns it.
    pub async fn until(&self, what: &str, so: impl Fn(&Value) -> bool) -> Value {
        let found = timeout(PATIENCE, async {
            loop {
                let (_, status) = self.ask(&Method::GET, "/v1/status", &Value::Null).await;
                if so(&status) {
                    return status;
                }
                sleep(Duration::from_millis(100)).await;
            }
        });
        found
            .await
            .unwrap_or_else(|_| panic!("waited in vain until {what}"))
    }

    /// Waits until exactly this many executors run and there are no others.
    pub async fn until_running(&self, executors: u64) -> Value {
        self.until(
            &format!("{executors} run and none else are there"),
            |status| {
                let profile = &status["profiles"]["default"];
                let others = ["pending", "requested", "unanswered", "uncertain", "leaving"];
                profile["running"] == executors && others.iter().all(|state| profile[*state] == 0)
            },
        )
        .await
    }

    /// The target of the only profile.
    pub async fn target(&self) -> u64 {
        let targets = self.get("/v1/targets").await;
        targets["targets"]["default"].as_u64().unwrap()
    }

    /// The ids of the live executors that are not leaving.
    pub async fn living(&self) -> Vec<u64> {
        let executors = self.get("/v1/executors").await;
        (executors["executors"].as_array().unwrap().iter())
            .filter(|executor| executor["state"] != "leaving")
            .map(|executor| executor["executor"].as_u64().unwrap())
            .collect()
    }

    /// How an executor ended.
    pub async fn end_of(&self, executor: u64) -> Value {
        let found = timeout(PATIENCE, async {
            loop {
                let path = format!("/v1/executors/{executor}");
                let (_, scenario) = self.ask(&Method::GET, &path, &Value::Null).await;
                let events = scenario["events"].as_array().cloned().unwrap_or_default();
                if let Some(end) = events.into_iter().find(|event| event["event"] == "ended") {
                    return end;
                }
                sleep(Duration::from_millis(100)).await;
            }
        });
        found
            .await
            .unwrap_or_else(|_| panic!("executor {executor} never ended"))
    }

    /// All events so far.
    pub async fn events(&self) -> Vec<Value> {
        self.events_after(Some("1-0")).await
    }

    /// The events after this one; without one, `living` first.
    pub async fn events_after(&self, last: Option<&str>) -> Vec<Value> {
        let mut request = Request::get("/v1/events").header("authorization", "Bearer looks");
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Body::empty()).unwrap();
        let response = self.routes().await.unwrap().oneshot(request).await.unwrap();
        let mut frames = response.into_body().into_data_stream();
        let mut text = String::new();
        while let Ok(Some(Ok(frame))) = timeout(Duration::from_secs(1), frames.next()).await {
            text.push_str(std::str::from_utf8(&frame).unwrap());
        }
        (text.lines())
            .filter_map(|line| line.strip_prefix("data: "))
            .filter_map(|data| serde_json::from_str(data).ok())
            .collect()
    }

    /// An executor's pod as the cluster has it.
    pub async fn pod(&self, executor: u64) -> Value {
        get(&self.cluster, &format!("pods/t-exec-{executor}")).await
    }

    /// The text of an answer that is not JSON.
    pub async fn text(&self, path: &str) -> (StatusCode, String) {
        let request = Request::get(path).header("authorization", "Bearer looks");
        let request = request.body(Body::empty()).unwrap();
        let response = self.routes().await.unwrap().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// Ends like a killed process: nothing of it continues.
    pub fn kill(self) {
        self.running.abort();
    }

    pub async fn exit(self) -> Exit {
        timeout(PATIENCE, self.running).await.unwrap().unwrap()
    }
}

async fn answer_to(routes: Router, request: Request<Body>) -> (StatusCode, Value) {
    let response = routes.oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (
        status,
        serde_json::from_slice(&bytes).unwrap_or(Value::Null),
    )
}

async fn answer_to_any(cluster: &DevCluster, request: Request<Body>) -> (StatusCode, Value) {
    let response = cluster.router().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap())
}

async fn get(cluster: &DevCluster, what: &str) -> Value {
    let uri = format!("/api/v1/namespaces/{NAMESPACE}/{what}");
    let request = Request::get(uri).body(Body::empty()).unwrap();
    let response = cluster.router().oneshot(request).await.unwrap();
    if response.status() == StatusCode::NOT_FOUND {
        return Value::Null;
    }
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

pub fn nothing() -> Value {
    json!({})
}
