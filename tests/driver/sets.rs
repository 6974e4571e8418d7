//! Tests of drivers whose executors' pods are made by StatefulSets or Deployments (spec A-80).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actix::{Actor, Context, Handler};
use boatswain::actors::snapshot_store::messages::{Next, Round};
use boatswain::clock::Clock;
use boatswain::config::{Config, OnSignal};
use boatswain::driver::{Environment, Handle, start_in};
use boatswain::exit::Exit;
use boatswain::kubernetes::Clients;
use boatswain::model::{Ending, LossClass};
use boatswain::server::api::tokens::Tokens;
use devcluster::{DevCluster, NodeKind, SimulatedNode};
use http::{Method, Request};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::{BoxError, ServiceExt as _, service_fn};

use crate::seconds;

/// The reported ends: driver, executor, the pod's uid, and the reason.
type Ends = Rc<RefCell<Vec<(u64, u64, String, LossClass)>>>;

struct Reader(u64, Ends);

impl Actor for Reader {
    type Context = Context<Self>;
}

impl Handler<Round> for Reader {
    type Result = Next;

    fn handle(&mut self, Round(batch): Round, _: &mut Self::Context) -> Next {
        for Ending { entry, reason } in batch.ends() {
            let uid = entry.uid().map(ToString::to_string).unwrap_or_default();
            let end = (self.0, entry.id.get(), uid, reason.class);
            self.1.borrow_mut().push(end);
        }
        Next::default()
    }
}

/// A cluster whose pods run soon, and its drivers.
struct World {
    cluster: DevCluster,
    strategy: &'static str,
    ends: Ends,
    starts: u64,
}

struct Running {
    handle: Handle,
    task: JoinHandle<Exit>,
    dead: Arc<AtomicBool>,
}

impl World {
    fn new(strategy: &'static str) -> Self {
        let cluster = devcluster::start(devcluster::Options {
            node: NodeKind::Simulated(SimulatedNode::default()),
            // The drivers' own wall clock; otherwise tokens would not be valid yet.
            wall_clock_start: Some(jiff::Timestamp::UNIX_EPOCH),
            ..devcluster::Options::default()
        });
        Self {
            cluster,
            strategy,
            ends: Ends::default(),
            starts: 0,
        }
    }

    fn driver(&mut self, more: &[&str]) -> Running {
        self.starts += 1;
        let mut sets = vec![
            "app.id=etl-1".to_owned(),
            "app.name=etl".to_owned(),
            format!("allocation.strategy={}", self.strategy),
            "profiles.default.image=none".to_owned(),
            "profiles.default.executors=3".to_owned(),
            "shutdown.on_signal=hand-over".to_owned(),
        ];
        sets.extend(more.iter().map(|set| (*set).to_owned()));
        let config = Config::from_toml("", "none.toml", [], &sets).unwrap();
        let (router, dead) = (self.cluster.router(), Arc::new(AtomicBool::new(false)));
        let is_dead = Arc::clone(&dead);
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (router, is_dead) = (router.clone(), Arc::clone(&is_dead));
            async move {
                if is_dead.load(Ordering::Relaxed) {
                    return std::future::pending().await;
                }
                let response = router.oneshot(request.map(axum::body::Body::new)).await?;
                Ok::<_, BoxError>(response)
            }
        });
        let environment = Environment {
            clients: Clients::in_process(service, "default"),
            clock: Clock::starting_at(jiff::Timestamp::UNIX_EPOCH),
            seed: self.starts,
            holder: self.starts,
        };
        let (handle, running) = start_in(config, environment);
        let reader = Reader(self.starts, Rc::clone(&self.ends));
        handle.observe(reader.start().recipient());
        let task = actix::spawn(running);
        Running { handle, task, dead }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Value {
        let kind = match method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let body = body.map_or_else(axum::body::Body::empty, |body| body.to_string().into());
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", kind).body(body).unwrap();
        let response = self.cluster.router().oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap_or_default()
    }

    fn set(&self) -> String {
        format!(
            "/apis/apps/v1/namespaces/default/{}s/etl-default",
            self.strategy
        )
    }

    /// The names of the pods that are not being deleted, with the ids in their labels.
    async fn pods(&self) -> BTreeMap<String, String> {
        let list = self.ask(Method::GET, PODS, None).await;
        let pods = list["items"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
            .map(|pod| {
                let id = &pod["metadata"]["labels"]["boatswain.dev/executor-id"];
                (text(&pod["metadata"]["name"]), text(id))
            })
            .collect()
    }

    async fn ids(&self) -> Vec<u64> {
        let pods = self.pods().await;
        let mut ids: Vec<u64> = pods.values().map(|id| id.parse().unwrap_or(0)).collect();
        ids.sort_unstable();
        ids
    }
}

const PODS: &str = "/api/v1/namespaces/default/pods";

impl Running {
    async fn target(&self, executors: u32) {
        let targets = BTreeMap::from([("default".into(), executors)]);
        self.handle.set_targets(targets).await.unwrap().unwrap();
    }

    /// Asks the driver's API, and expects success.
    async fn api(&self, method: Method, path: &str, body: Value) {
        let tokens = Tokens::parse("all\n", "tokens").unwrap();
        let request = Request::builder().method(method).uri(path);
        let request = request.header("authorization", "Bearer all");
        let request = request
            .body(axum::body::Body::from(body.to_string()))
            .unwrap();
        let routes = self.handle.routes(tokens).await.unwrap();
        let answer = routes.oneshot(request).await.unwrap();
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
    }

    async fn live(&self) -> u32 {
        let snapshot = self.handle.look().await.unwrap();
        snapshot.counts(&"default".into()).live()
    }

    /// Ends like a killed process: no further request reaches the server.
    fn dies(self) {
        self.dead.store(true, Ordering::Relaxed);
        self.task.abort();
    }
}

const STRATEGIES: [&str; 2] = ["statefulset", "deployment"];

// spec: A-80, B-1, A-83, E-4
#[actix::test]
async fn a_set_makes_pods_and_each_gets_an_executor_id() {
    tokio::time::pause();
    for strategy in STRATEGIES {
        let mut world = World::new(strategy);
        let driver = world.driver(&[]);
        seconds(5).await;
        assert_eq!(world.ids().await, [1, 2, 3], "{strategy}");
        assert_eq!(driver.live().await, 3);
        let set = world.ask(Method::GET, &world.set(), None).await;
        assert_eq!(set["metadata"]["ownerReferences"][0]["kind"], "ConfigMap");
        driver.target(5).await;
        seconds(5).await;
        assert_eq!(world.ids().await, [1, 2, 3, 4, 5]);
        driver.target(2).await;
        seconds(5).await;
        assert_eq!(world.ids().await.len(), 2);
        let told: Vec<LossClass> = world.ends.borrow().iter().map(|end| end.3).collect();
        assert_eq!(told, [LossClass::ScaledDown; 3], "{strategy}");
        driver.dies();
    }
}

// spec: A-80, I-9, A-83
#[actix::test]
async fn a_successor_finds_the_executors_and_they_keep_their_ids() {
    tokio::time::pause();
    for strategy in STRATEGIES {
        let mut world = World::new(strategy);
        let first = world.driver(&[]);
        seconds(5).await;
        let before = world.pods().await;
        first.dies();
        seconds(30).await;
        let second = world.driver(&[]);
        seconds(60).await;
        assert_eq!(world.pods().await, before, "{strategy}");
        assert_eq!(second.live().await, 3);
        assert_eq!(*world.ends.borrow(), []);
        second.dies();
    }
}

// spec: A-80
#[actix::test]
async fn another_template_replaces_all_executors() {
    tokio::time::pause();
    for strategy in STRATEGIES {
        let mut world = World::new(strategy);
        world.driver(&[]).dies_after(5).await;
        let second = world.driver(&["profiles.default.image=other"]);
        seconds(120).await;
        let list = world.ask(Method::GET, PODS, None).await;
        for pod in list["items"].as_array().unwrap() {
            assert_eq!(pod["spec"]["containers"][0]["image"], "other", "{strategy}");
        }
        let ids = world.ids().await;
        assert_eq!(ids.len(), 3);
        assert!(ids.iter().all(|id| *id > 3), "{ids:?}");
        second.dies();
    }
}

impl Running {
    async fn dies_after(self, n: u64) {
        seconds(n).await;
        self.dies();
    }
}

// spec: B-1, A-80, O-112, A-83
#[actix::test]
async fn an_executor_that_does_not_know_its_id_gets_it_when_it_registers() {
    tokio::time::pause();
    let mut world = World::new("statefulset");
    let driver = world.driver(&["backend.listen=127.0.0.1:0"]);
    seconds(5).await;
    let sessions = driver.handle.sessions().await.unwrap();
    for (name, id) in world.pods().await {
        let pod = world
            .ask(Method::GET, &format!("{PODS}/{name}"), None)
            .await;
        let env = pod["spec"]["containers"][0]["env"].to_string();
        assert!(!env.contains("BOATSWAIN_EXECUTOR_ID"), "{env}");
        let uid = &pod["metadata"]["uid"];
        let bound = json!({"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid});
        let asked =
            json!({"spec": {"audiences": ["boatswain.dev/etl-1"], "boundObjectRef": bound}});
        let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
        let token = world.ask(Method::POST, path, Some(asked)).await;
        let token = token["status"]["token"].as_str().unwrap();
        let message = json!({"type": "register", "app": "etl-1", "pod": name, "pod_uid": uid});
        let request = Request::post("/v1/session/messages")
            .header("authorization", format!("Bearer {token}"))
            .body(axum::body::Body::from(message.to_string()))
            .unwrap();
        let response = sessions.clone().oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        let answer = &answer["messages"][0];
        assert_eq!(answer["type"], "registered", "{answer}");
        assert_eq!(answer["executor"].to_string(), id);
    }
    driver.dies();
}

// spec: A-86
#[actix::test]
async fn after_a_change_of_the_strategy_the_earlier_executors_are_surplus() {
    tokio::time::pause();
    for strategy in STRATEGIES {
        let mut world = World::new("direct");
        world.driver(&[]).dies_after(5).await;
        let earlier = world.pods().await;
        assert_eq!(earlier.len(), 3);
        world.strategy = strategy;
        let second = world.driver(&[]);
        // The deletion of a surplus pod is left to its set for 30 s.
        seconds(29).await;
        let pods = world.pods().await;
        assert_eq!(pods.len(), 6, "{strategy}: {pods:?}");
        assert!(earlier.keys().all(|name| pods.contains_key(name)));
        assert_eq!(second.live().await, 3, "the earlier ones do not count");
        seconds(5).await;
        let pods = world.pods().await;
        assert_eq!(pods.len(), 3, "{strategy}: {pods:?}");
        assert!(pods.keys().all(|name| name.starts_with("etl-default-")));
        let ends = world.ends.borrow().clone();
        // The first driver's open watch still reports.
        let ends = ends.iter().filter(|end| end.0 == 2);
        let ends: Vec<_> = ends.map(|end| (end.1, end.3)).collect();
        let surplus = |n| (n, LossClass::ScaledDown);
        assert_eq!(ends, [1, 2, 3].map(surplus), "{strategy}");
        second.dies();
    }
}

// spec: A-80, O-11
#[actix::test]
async fn the_end_of_the_application_leaves_no_objects() {
    tokio::time::pause();
    for strategy in STRATEGIES {
        let mut world = World::new(strategy);
        let driver = world.driver(&[]);
        seconds(5).await;
        driver.handle.stop_by(OnSignal::End);
        assert_eq!(driver.task.await.unwrap(), Exit::Clean, "{strategy}");
        seconds(5).await;
        assert_eq!(world.pods().await.len(), 0);
        let set = world.ask(Method::GET, &world.set(), None).await;
        assert_eq!(set["code"], 404, "{strategy}");
    }
}

// spec: A-102, K-10
#[actix::test]
async fn each_pod_of_a_stateful_set_has_its_claim_which_goes_with_the_application() {
    tokio::time::pause();
    let claims = r#"[{name = "data", mount_path = "/data", size = "1Gi"}]"#;
    let claims = format!("profiles.default.claims={claims}");
    let mut world = World::new("statefulset");
    let driver = world.driver(&[&claims]);
    seconds(5).await;
    assert_eq!(world.ids().await, [1, 2, 3]);
    assert_eq!(driver.live().await, 3);
    let path = "/api/v1/namespaces/default/persistentvolumeclaims";
    let list = world.ask(Method::GET, path, None).await;
    let bound = list["items"].as_array().unwrap().iter();
    let bound = bound.filter(|claim| claim["status"]["phase"] == "Bound");
    assert_eq!(bound.count(), 3, "{list}");
    driver.handle.stop_by(OnSignal::End);
    assert_eq!(driver.task.await.unwrap(), Exit::Clean);
    seconds(60).await;
    let list = world.ask(Method::GET, path, None).await;
    assert_eq!(list["items"], json!([]));
}

// spec: B-57, A-80
#[actix::test]
async fn the_set_of_a_removed_profile_is_deleted_when_its_executors_are_gone() {
    tokio::time::pause();
    for strategy in STRATEGIES {
        let mut world = World::new(strategy);
        let set = world.set().replace("etl-default", "etl-large");
        let first = world.driver(&[]);
        seconds(5).await;
        first
            .api(
                Method::PUT,
                "/v1/profiles/large",
                json!({"executors": 2, "image": "none"}),
            )
            .await;
        seconds(5).await;
        assert_eq!(world.ids().await.len(), 5, "{strategy}");
        first
            .api(Method::DELETE, "/v1/profiles/large", json!({}))
            .await;
        first.dies();
        let second = world.driver(&[]);
        seconds(180).await;
        assert_eq!(
            world.ask(Method::GET, &set, None).await["code"],
            404,
            "{strategy}"
        );
        assert_eq!(world.ids().await, [1, 2, 3], "{strategy}");
        assert_eq!(second.live().await, 3);
        second
            .api(
                Method::PUT,
                "/v1/profiles/large",
                json!({"executors": 1, "image": "none"}),
            )
            .await;
        seconds(5).await;
        assert_eq!(
            world.ask(Method::GET, &set, None).await["spec"]["replicas"],
            1,
            "{strategy}"
        );
        second
            .api(Method::DELETE, "/v1/profiles/large", json!({}))
            .await;
        seconds(180).await;
        assert_eq!(
            world.ask(Method::GET, &set, None).await["code"],
            404,
            "{strategy}"
        );
        second.dies();
    }
}
