//! Tests of the driver with the sessions of its executors.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use actix::{Actor, Context, Handler};
use axum::Router;
use axum::body::Body;
use boatswain::actors::snapshot_store::messages::{Next, Round};
use boatswain::clock::Clock;
use boatswain::config::Config;
use boatswain::driver::{Environment, Handle, start_in};
use boatswain::exit::Exit;
use boatswain::kubernetes::Clients;
use boatswain::model::LossClass;
use devcluster::DevCluster;
use http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use crate::{cluster, seconds};

/// Records the reported ends.
struct Reader(Rc<RefCell<Vec<(u64, LossClass)>>>);

impl Actor for Reader {
    type Context = Context<Self>;
}

impl Handler<Round> for Reader {
    type Result = Next;

    fn handle(&mut self, Round(batch): Round, _: &mut Self::Context) -> Next {
        let ends = (batch.ends()).map(|end| (end.entry.id.get(), end.reason.class));
        self.0.borrow_mut().extend(ends);
        Next::default()
    }
}

/// A cluster whose pods run at once, and the directory of the key for tokens.
struct World {
    cluster: DevCluster,
    directory: tempfile::TempDir,
}

/// A running driver and the ends that it has reported.
struct Running {
    handle: Handle,
    task: JoinHandle<Exit>,
    ends: Rc<RefCell<Vec<(u64, LossClass)>>>,
    router: Router,
}

impl World {
    fn new() -> Self {
        tokio::time::pause();
        let cluster = cluster();
        let directory = tempfile::tempdir().unwrap();
        Self { cluster, directory }
    }

    fn clients(&self) -> Clients {
        Clients::in_process(self.cluster.router(), "default")
    }

    async fn driver(&self, executors: u32, holder: u64) -> Running {
        let key = self.directory.path().join("key");
        let sets = [
            "profiles.default.image=none".to_owned(),
            format!("profiles.default.executors={executors}"),
            "backend.listen=127.0.0.1:0".to_owned(),
            "backend.auth=derived".to_owned(),
            format!("backend.key_file={}", key.display()),
            "shutdown.on_signal=hand-over".to_owned(),
        ];
        let config = Config::from_toml("", "none.toml", [], &sets).unwrap();
        let environment = Environment {
            clients: self.clients(),
            clock: Clock::starting_at(jiff::Timestamp::UNIX_EPOCH),
            seed: 1,
            holder,
        };
        let (handle, running) = start_in(config, environment);
        let ends = Rc::new(RefCell::new(Vec::new()));
        handle.observe(Reader(Rc::clone(&ends)).start().recipient());
        let task = actix::spawn(running);
        tokio::time::sleep(Duration::from_secs(2)).await;
        let router = handle.sessions().await.unwrap();
        Running {
            handle,
            task,
            ends,
            router,
        }
    }

    /// The environment and the uid of each executor's pod.
    async fn pods(&self) -> BTreeMap<u64, (BTreeMap<String, String>, String)> {
        let request = Request::get("/api/v1/namespaces/default/pods");
        let request = request.body(kube::client::Body::empty()).unwrap();
        let response = self.clients().reads.send(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let list: Value = serde_json::from_slice(&body).unwrap();
        let pods = list["items"].as_array().unwrap().iter();
        pods.map(|pod| {
            let env = pod["spec"]["containers"][0]["env"]
                .as_array()
                .unwrap()
                .iter();
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let env = env.map(|v| (text(&v["name"]), text(&v["value"])));
            let env: BTreeMap<String, String> = env.collect();
            let id = env["BOATSWAIN_EXECUTOR_ID"].parse().unwrap();
            (id, (env, text(&pod["metadata"]["uid"])))
        })
        .collect()
    }

    /// Registers executor `n` with the settings from its pod's environment.
    async fn registers(&self, driver: &Running, n: u64) -> Session {
        let (env, pod_uid) = self.pods().await.remove(&n).unwrap();
        assert!(env["BOATSWAIN_DRIVER_URL"].starts_with("http://127.0.0.1:"));
        let mut session = Session {
            router: driver.router.clone(),
            token: env["BOATSWAIN_TOKEN"].clone(),
            number: Value::Null,
        };
        let answer = session
            .sends(json!({
                "type": "register", "app": env["BOATSWAIN_APP_ID"], "executor": n, "pod_uid": pod_uid,
            }))
            .await;
        assert_eq!(answer["type"], "registered", "{answer}");
        session.number = answer["session"].clone();
        session
    }
}

#[derive(Clone)]
struct Session {
    router: Router,
    token: String,
    number: Value,
}

impl Session {
    async fn sends(&self, message: Value) -> Value {
        let request = Request::post("/v1/session/messages")
            .header("authorization", format!("Bearer {}", self.token))
            .body(Body::from(message.to_string()))
            .unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        answer["messages"][0].clone()
    }

    /// Sends heartbeats until the test ends.
    fn lives(self) {
        actix::spawn(async move {
            loop {
                let beat = json!({"type": "heartbeat", "session": self.number, "busy_slots": 1});
                self.sends(beat).await;
                tokio::time::sleep(Duration::from_secs(10)).await;
            }
        });
    }
}

// spec: B-1, B-12, A-1
#[actix::test]
async fn a_silent_executor_is_given_up_reported_and_replaced() {
    let world = World::new();
    let driver = world.driver(3, 1).await;
    for n in 1..=2 {
        world.registers(&driver, n).await.lives();
    }
    let silent = world.registers(&driver, 3).await;
    seconds(118).await;
    assert_eq!(*driver.ends.borrow(), []);
    seconds(5).await;
    assert_eq!(*driver.ends.borrow(), [(3, LossClass::HeartbeatTimeout)]);
    let there: Vec<u64> = world.pods().await.into_keys().collect();
    assert_eq!(there, [1, 2, 4]);
    let beat = json!({"type": "heartbeat", "session": silent.number, "busy_slots": 0});
    assert_eq!(silent.sends(beat).await["type"], "register");
}

// spec: A-52
#[actix::test]
async fn an_executor_that_never_registers_is_given_up_where_the_driver_listens() {
    let world = World::new();
    let driver = world.driver(2, 1).await;
    world.registers(&driver, 1).await.lives();
    seconds(310).await;
    assert_eq!(*driver.ends.borrow(), [(2, LossClass::RegistrationTimeout)]);
}

// spec: O-99, A-44, I-9, I-12
#[actix::test]
async fn a_successor_gives_up_no_executor_that_registers_again() {
    let world = World::new();
    let first = world.driver(3, 1).await;
    for n in 1..=3 {
        world.registers(&first, n).await;
    }
    let before: Vec<u64> = world.pods().await.into_keys().collect();
    first.handle.stop();
    assert_eq!(first.task.await.unwrap(), Exit::Superseded);
    // The executors register late.
    seconds(300).await;
    let second = world.driver(3, 2).await;
    seconds(200).await;
    for n in 1..=3 {
        world.registers(&second, n).await.lives();
    }
    seconds(1_000).await;
    assert_eq!(
        (&*first.ends.borrow(), &*second.ends.borrow()),
        (&vec![], &vec![])
    );
    assert_eq!(world.pods().await.into_keys().collect::<Vec<_>>(), before);
}
