//! Tests of the sessions' routes with a running ExecutorRegistry and SnapshotStore; executors connect
//! over in-memory pipes.

use std::time::Duration;

use actix::Actor;
use axum::body::Body;
use futures::{SinkExt as _, StreamExt as _};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Message};
use tower::ServiceExt as _;

use super::*;
use crate::actors::event_history::messages::{Explain, ReadEvents};
use crate::actors::executor_registry::registry::WhyDoubt;
use crate::actors::lifecycle_manager::messages::{Instruct, Order};
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::Tell;
use crate::clock::Clock;
use crate::config::{Config, Registration};
use crate::metrics::Measure;
use crate::model::AppId;
use crate::model::Tick;
use crate::model::news::{News, Outcome};
use crate::secret::seal::Key;
use crate::testing::{Backend, Scenario, backend, id, store};

mod hostile;
mod token;

/// A driver with a number of running executors, and its sessions.
struct Driver {
    store: Addr<SnapshotStore>,
    backend: Backend,
    sessions: Sessions,
    key: Key,
}

/// A WebSocket over an in-memory pipe.
type Socket = WebSocketStream<DuplexStream>;

impl Driver {
    async fn with(executors: u64) -> Self {
        Self::with_room(executors, 100).await
    }

    async fn with_room(executors: u64, room: usize) -> Self {
        tokio::time::pause();
        let mut scenario = Scenario::new(&[("default", 8)]);
        for n in 1..=executors {
            let profile = "default".into();
            scenario.requested(n, Outcome::Sent { profile });
            scenario.created(n);
            scenario.runs(n);
        }
        let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let store = store(scenario.ledger, clock);
        let mut config = Config::default();
        config.backend.sessions.registration = Some(Registration::Required);
        let backend = backend(&store, clock, &[("default", 8)], config);
        let key = Key::new(b"key");
        let access = Access::Derived(AppId::from("app"), key.clone());
        let limits = Limits {
            sessions: room,
            ..Limits::of(4_096, 0)
        };
        let sessions = Sessions::new(
            backend.registry.clone(),
            access,
            limits,
            backend.metrics.clone(),
        );
        a_moment().await;
        Self {
            store,
            backend,
            sessions,
            key,
        }
    }

    fn token(&self, n: u64) -> String {
        self.key.token(&AppId::from("app"), id(n))
    }

    /// A new connection to the routes.
    fn connect(&self) -> DuplexStream {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let service = TowerToHyperService::new(self.sessions.router());
        tokio::spawn(async move {
            let builder = hyper::server::conn::http1::Builder::new();
            let connection = builder.serve_connection(TokioIo::new(far), service);
            let _ = connection.with_upgrades().await;
        });
        near
    }

    async fn socket_with(&self, token: &str) -> Result<Socket, tungstenite::Error> {
        let request = Request::get("ws://driver/v1/session")
            .header("host", "driver")
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header(
                "sec-websocket-key",
                tungstenite::handshake::client::generate_key(),
            )
            .header("authorization", format!("Bearer {token}"));
        let request = request.body(()).unwrap();
        let opened = tokio_tungstenite::client_async(request, self.connect()).await;
        opened.map(|(socket, _)| socket)
    }

    async fn socket(&self, n: u64) -> Socket {
        self.socket_with(&self.token(n)).await.unwrap()
    }

    /// The connection of an executor that has registered.
    async fn registered(&self, n: u64) -> Socket {
        let mut socket = self.socket(n).await;
        let answer = ask(&mut socket, &registration(n)).await;
        assert_eq!(answer["type"], "registered", "{answer}");
        socket
    }

    /// Sends a message as a request of its own.
    async fn post(&self, token: &str, body: impl Into<Body>) -> (StatusCode, Value) {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri("/v1/session/messages");
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(body.into()).unwrap();
        let response = self.sessions.router().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    /// What the driver shows of an executor's session.
    async fn shown(&self, n: u64) -> Value {
        let all = ReadEvents {
            after: None,
            most: 1,
        };
        let listed = self.backend.history.send(all).await.unwrap();
        let shown = listed
            .living
            .iter()
            .find(|view| view.executor == n)
            .unwrap();
        json!(shown.session)
    }
}

fn registration(n: u64) -> Value {
    json!({
        "type": "register", "app": "app", "executor": n, "pod_uid": format!("u{n}"),
        "address": "10.0.0.1:1", "slots": 2,
    })
}

async fn tell(socket: &mut Socket, message: &Value) {
    socket
        .send(Message::text(message.to_string()))
        .await
        .unwrap();
}

async fn hear(socket: &mut Socket) -> Value {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
            Some(Ok(Message::Close(frame))) => {
                let frame = frame.unwrap();
                return json!({"close": u16::from(frame.code), "why": frame.reason.as_str()});
            }
            Some(Ok(_)) => {}
            Some(Err(_)) | None => return json!("gone"),
        }
    }
}

async fn ask(socket: &mut Socket, message: &Value) -> Value {
    tell(socket, message).await;
    hear(socket).await
}

/// Advances the time, because batches are sent on a timer.
async fn a_moment() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

// spec: B-1, B-10, B-14, B-21
#[actix::test]
async fn an_executor_registers_sends_heartbeats_and_is_disabled_when_its_connection_is_lost() {
    let driver = Driver::with(2).await;
    let mut socket = driver.socket(1).await;
    let answer = ask(&mut socket, &registration(1)).await;
    assert_eq!(
        (&answer["type"], &answer["executor"]),
        (&json!("registered"), &json!(1))
    );
    assert_eq!(answer["heartbeat_interval_ms"], 10_000);
    let beat = json!({"type": "heartbeat", "busy_slots": 1, "metrics": {"gc_ms": 1.5}});
    assert_eq!(ask(&mut socket, &beat).await, json!({"type": "ack"}));
    let shown = driver.shown(1).await;
    assert_eq!(
        (&shown["state"], &shown["busy_slots"]),
        (&json!("connected"), &json!(1))
    );
    assert_eq!(
        (&shown["slots"], &shown["metrics"]["gc_ms"]),
        (&json!(2), &json!(1.5))
    );
    assert_eq!(driver.shown(2).await, Value::Null);
    drop(socket);
    a_moment().await;
    assert_eq!(driver.shown(1).await["state"], "disabled");
}

// spec: O-61
#[actix::test]
async fn an_executor_without_a_connection_registers_and_sends_heartbeats_by_request() {
    let driver = Driver::with(1).await;
    let token = driver.token(1);
    let (status, answer) = driver.post(&token, registration(1).to_string()).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    let session = &answer["messages"][0]["session"];
    let beat = json!({"type": "heartbeat", "session": session, "busy_slots": 0});
    let (_, answer) = driver.post(&token, beat.to_string()).await;
    assert_eq!(answer, json!({"messages": [{"type": "ack"}]}));
    assert_eq!(driver.shown(1).await["state"], "asking");
}

// spec: O-41
#[actix::test]
async fn sessions_and_rejected_messages_by_reason_are_counted() {
    let driver = Driver::with(3).await;
    let mut first = driver.registered(1).await;
    let _second = driver.registered(2).await;
    let _mute = driver.socket(3).await;
    let token = driver.token(3);
    driver.post(&token, registration(3).to_string()).await;
    driver.post(&token, "{}").await;
    driver.post("nonsense", "{}").await;
    ask(&mut first, &json!({"type": "heartbeat"})).await;
    let many = json!({"type": "heartbeat", "busy_slots": 9});
    ask(&mut first, &many).await;
    drop(first);
    a_moment().await;
    let metrics = driver.backend.metrics.clone();
    let measure = Measure(metrics.clone());
    driver.backend.registry.send(measure).await.unwrap();
    for (r#type, heard) in [("heartbeat", 1), ("register", 3)] {
        assert_eq!(
            metrics.messages.of([r#type.into()]).get(),
            heard,
            "{}",
            r#type
        );
    }
    for (code, refused) in [("bad-message", 3), ("not-let-in", 1)] {
        assert_eq!(metrics.refused.of([code.into()]).get(), refused, "{code}");
    }
    for state in ["connected", "asking", "disabled", "unregistered"] {
        assert_eq!(metrics.sessions.of([state.into()]).get(), 1, "{state}");
    }
    for why in WhyDoubt::WORDS {
        assert_eq!(metrics.degraded.of([why.into()]).get(), 0, "{why}");
    }
}

fn instruct(n: u64, order: Order, until: Duration) -> Instruct {
    Instruct {
        executor: id(n),
        order,
        until: Tick::after_start(until),
        why: "maintenance".to_owned(),
    }
}

// spec: B-30
#[actix::test]
async fn an_order_reaches_a_silent_executor() {
    let driver = Driver::with(2).await;
    let mut socket = driver.registered(1).await;
    for n in [1, 2] {
        let until = Duration::from_secs(62);
        let drain = instruct(n, Order::Drain, until);
        driver.backend.registry.send(drain).await.unwrap();
    }
    let told = hear(&mut socket).await;
    assert_eq!(
        (&told["type"], &told["why"]),
        (&json!("decommission"), &json!("maintenance"))
    );
    let left = told["deadline_ms"].as_u64().unwrap();
    assert!((59_000..=60_000).contains(&left), "{told}");
    let mut second = driver.registered(2).await;
    assert_eq!(hear(&mut second).await["type"], "decommission");
}

// spec: B-2
#[actix::test]
async fn an_older_session_is_superseded_and_its_connection_ends() {
    let driver = Driver::with(1).await;
    let mut older = driver.registered(1).await;
    let mut newer = driver.registered(1).await;
    assert_eq!(hear(&mut older).await, json!({"type": "superseded"}));
    assert_eq!(hear(&mut older).await["close"], 1000);
    let beat = json!({"type": "heartbeat", "busy_slots": 0});
    assert_eq!(ask(&mut newer, &beat).await, json!({"type": "ack"}));
    a_moment().await;
    assert_eq!(driver.shown(1).await["state"], "connected");
}

// spec: B-5, O-112
#[actix::test]
async fn an_executor_is_admitted_by_its_own_token_only() {
    let driver = Driver::with(2).await;
    let forged = format!("1.{}", "0".repeat(64));
    for token in ["", "x", &forged, &"9".repeat(70_000)] {
        let (status, answer) = driver.post(token, registration(1).to_string()).await;
        assert_eq!(
            (status, &answer["code"]),
            (StatusCode::UNAUTHORIZED, &json!("unauthorized"))
        );
        assert!(!answer.to_string().contains(&"0".repeat(64)), "{answer}");
        assert!(driver.socket_with(token).await.is_err(), "{token}");
    }
    let mut socket = driver.socket(2).await;
    let answer = ask(&mut socket, &registration(1)).await;
    assert_eq!(
        (&answer["type"], &answer["code"]),
        (&json!("refused"), &json!("not-yours"))
    );
    assert_eq!(driver.shown(1).await, Value::Null);
}

// spec: B-12
#[actix::test]
async fn a_silent_executor_is_given_up_and_one_that_sends_heartbeats_is_not() {
    let driver = Driver::with(2).await;
    let _silent = driver.registered(1).await;
    let mut other = driver.registered(2).await;
    let beat = json!({"type": "heartbeat", "busy_slots": 0});
    for _ in 0..13 {
        assert_eq!(ask(&mut other, &beat).await["type"], "ack");
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    let all = ReadEvents {
        after: None,
        most: 1,
    };
    let listed = driver.backend.history.send(all).await.unwrap();
    let states: Vec<_> = listed.living.iter().map(|view| view.state).collect();
    assert_eq!(states, ["leaving", "running"]);
}

// spec: B-20
#[actix::test]
async fn the_application_is_ready_when_most_have_registered() {
    use crate::actors::driver_backend::messages::GetStatus;
    let driver = Driver::with(8).await;
    let mut sockets = Vec::new();
    for n in 1..=7 {
        let ready = driver.backend.backend.send(GetStatus).await.unwrap().ready;
        assert!(!ready, "with {}", n - 1);
        sockets.push(driver.registered(n).await);
    }
    let status = driver.backend.backend.send(GetStatus).await.unwrap();
    assert!(status.ready);
    assert_eq!(status.profiles["default"].registered, 7);
}

// spec: B-4, O-11
#[actix::test]
async fn a_deleted_executor_is_ordered_to_stop_within_its_pods_grace() {
    let driver = Driver::with(1).await;
    let mut socket = driver.registered(1).await;
    let stop = instruct(1, Order::Stop, Duration::ZERO);
    driver.backend.registry.send(stop).await.unwrap();
    let told = json!({"type": "stop", "deadline_ms": 30_000, "why": "maintenance"});
    assert_eq!(hear(&mut socket).await, told);
}

// spec: O-10
#[actix::test]
async fn sessions_end_with_the_driver() {
    let driver = Driver::with(1).await;
    let mut socket = driver.registered(1).await;
    drop(driver);
    assert_eq!(hear(&mut socket).await["close"], 1001);
}

// spec: B-1, B-3, B-51
#[actix::test]
async fn an_executor_may_register_before_the_batch_and_its_history_is_in_order() {
    let driver = Driver::with(0).await;
    let profile = "default".into();
    let outcome = Outcome::Sent { profile };
    let news = News::Requested { id: id(1), outcome };
    driver.store.do_send(Tell(news));
    let mut socket = driver.socket(1).await;
    assert_eq!(
        ask(&mut socket, &registration(1)).await["type"],
        "registered"
    );
    a_moment().await;
    let explanation = driver
        .backend
        .history
        .send(Explain(id(1)))
        .await
        .unwrap()
        .unwrap();
    let scenario: Vec<Value> = explanation
        .history
        .events
        .iter()
        .map(|e| json!(e)["event"].clone())
        .collect();
    assert_eq!(scenario, ["requested", "registered"]);
    let unknown = ask(&mut driver.socket(2).await, &registration(2)).await;
    assert_eq!(
        (&unknown["code"], &unknown["exit"]),
        (&json!("unknown-executor"), &json!(true))
    );
}
