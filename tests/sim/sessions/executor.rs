//! A simulated executor's side of the session protocol, from its start to the end of its pod.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use futures::{SinkExt, StreamExt};
use http::Request;
use http_body_util::BodyExt;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::io::DuplexStream;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};
use tower::ServiceExt;

use super::{Temper, Way};
use crate::objects::text;

/// A reachable driver answers within this time.
const ANSWER: Duration = Duration::from_secs(6);

/// Buffer size of a connection in bytes.
const BUFFER: usize = 64 * 1024;

/// The identity of an executor, and its random source.
pub struct Executor {
    way: Way,
    uid: String,
    app: String,
    id: u64,
    token: String,
    rng: StdRng,
}

/// What the executor does after a session.
enum Next {
    /// Reconnects after this long.
    Again(Duration),
    /// Exits; the flag says whether the driver refused it for good.
    Exit(bool),
}

impl Executor {
    /// An executor with the identity in its pod's environment; `None` if that has none.
    pub fn of(pod: &Value, way: Way, seed: u64) -> Option<Self> {
        let env = pod.pointer("/spec/containers/0/env")?.as_array()?;
        let value = |name: &str| {
            let found = env.iter().find(|entry| text(entry, "/name") == name)?;
            Some(text(found, "/value").to_owned())
        };
        Some(Self {
            way,
            uid: text(pod, "/metadata/uid").to_owned(),
            app: value("BOATSWAIN_APP_ID")?,
            id: value("BOATSWAIN_EXECUTOR_ID")?.parse().ok()?,
            token: value("BOATSWAIN_TOKEN")?,
            rng: StdRng::seed_from_u64(seed),
        })
    }

    /// Runs until the driver asks it to exit, or until the task is aborted because the pod has ended.
    pub async fn live(mut self, temper: Temper) {
        let began = Instant::now();
        match temper {
            Temper::Mute => self.fall_silent(),
            Temper::Sound { after } => sleep(after).await,
            Temper::Lapses { .. } | Temper::Lies | Temper::AsksToGo { .. } => {}
        }
        if temper == Temper::Mute {
            return;
        }
        let until = match temper {
            Temper::Lapses { after } => Some(began + after),
            _ => None,
        };
        let mut asks = match temper {
            Temper::AsksToGo { after } => Some(began + after),
            _ => None,
        };
        if temper == Temper::Lies {
            self.lie().await;
        }
        let by_requests = self.rng.random_bool(0.4);
        loop {
            let next = match until {
                Some(until) => {
                    tokio::select! {
                        biased;
                        () = sleep_until(until) => {
                            self.fall_silent();
                            return std::future::pending().await;
                        }
                        next = self.session(by_requests, &mut asks) => next,
                    }
                }
                None => self.session(by_requests, &mut asks).await,
            };
            match next {
                Next::Again(pause) => sleep(pause).await,
                Next::Exit(unwanted) => {
                    self.way.exit(&self.uid, unwanted);
                    return;
                }
            }
        }
    }

    fn fall_silent(&self) {
        self.way.net().silent.insert(self.uid.clone());
    }

    async fn session(&mut self, by_requests: bool, asks: &mut Option<Instant>) -> Next {
        let Some(driver) = self.way.driver() else {
            return Next::Again(Duration::from_secs(1));
        };
        let next = match by_requests {
            true => self.by_requests(&driver, asks).await,
            false => self.by_connection(&driver, asks).await,
        };
        next.unwrap_or_else(|| Next::Again(self.pause()))
    }

    fn pause(&mut self) -> Duration {
        Duration::from_millis(self.rng.random_range(200..5_000))
    }

    /// A session over HTTP requests; `None` if it broke off.
    async fn by_requests(&mut self, driver: &Router, asks: &mut Option<Instant>) -> Option<Next> {
        let answers = self.post(driver, &self.registration()).await?;
        let (session, interval) = match self.begun(&answers) {
            Ok(begun) => begun,
            Err(next) => return Some(next),
        };
        loop {
            sleep(self.jitter(interval)).await;
            // The executor may have to continue with another driver.
            let driver = self.way.driver()?;
            let message = self.message(Some(session), asks);
            let answers = self.post(&driver, &message).await?;
            if let Some(next) = self.heeds(&answers) {
                return Some(next);
            }
        }
    }

    /// A session over a WebSocket; `None` if it broke off.
    async fn by_connection(&mut self, driver: &Router, asks: &mut Option<Instant>) -> Option<Next> {
        let mut socket = timeout(ANSWER, self.connect(driver)).await.ok()??;
        let registration = Message::text(self.registration().to_string());
        timeout(ANSWER, socket.send(registration))
            .await
            .ok()?
            .ok()?;
        let answers = vec![timeout(ANSWER, hear(&mut socket)).await.ok()??];
        let (_, interval) = match self.begun(&answers) {
            Ok(begun) => begun,
            Err(next) => return Some(next),
        };
        // Connections also break without a fault of the driver's.
        let breaks = Instant::now() + Duration::from_secs(self.rng.random_range(20..2_000));
        let mut beat = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = sleep_until(breaks) => return None,
                () = sleep_until(beat) => {
                    let _reached = self.way.driver()?;
                    let message = Message::text(self.message(None, asks).to_string());
                    timeout(ANSWER, socket.send(message)).await.ok()?.ok()?;
                    beat = Instant::now() + self.jitter(interval);
                }
                heard = hear(&mut socket) => {
                    if let Some(next) = self.heeds(&[heard?]) {
                        return Some(next);
                    }
                }
            }
        }
    }

    async fn connect(&self, driver: &Router) -> Option<WebSocketStream<DuplexStream>> {
        let (ours, theirs) = tokio::io::duplex(BUFFER);
        let service = TowerToHyperService::new(driver.clone());
        tokio::spawn(
            http1::Builder::new()
                .serve_connection(TokioIo::new(theirs), service)
                .with_upgrades(),
        );
        let request = Request::get("ws://driver/v1/session")
            .header("host", "driver")
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "c2ltdWxhdGVkIGV4ZWN1dA==")
            .header("authorization", format!("Bearer {}", self.token))
            .body(())
            .ok()?;
        Some(client_async(request, ours).await.ok()?.0)
    }

    /// The driver's answers to a message sent as a request; `None` if there were none.
    async fn post(&self, driver: &Router, message: &Value) -> Option<Vec<Value>> {
        let request = Request::post("/v1/session/messages")
            .header("authorization", format!("Bearer {}", self.token))
            .body(Body::from(message.to_string()))
            .ok()?;
        let answering = async {
            let response = match driver.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never as Infallible {},
            };
            let body = response.into_body().collect().await.ok()?.to_bytes();
            let answer: Value = serde_json::from_slice(&body).ok()?;
            Some(answer["messages"].as_array()?.clone())
        };
        timeout(ANSWER, answering).await.ok()?
    }

    fn registration(&self) -> Value {
        json!({"type": "register", "app": self.app, "executor": self.id, "pod_uid": self.uid, "slots": 2})
    }

    fn message(&mut self, session: Option<u64>, asks: &mut Option<Instant>) -> Value {
        let mut message = match asks.take_if(|at| *at <= Instant::now()) {
            Some(_) => json!({"type": "decommission-me", "why": "it has had enough"}),
            None => json!({"type": "heartbeat", "busy_slots": self.rng.random_range(0..=2)}),
        };
        if let Some(session) = session {
            message["session"] = session.into();
        }
        message
    }

    fn jitter(&mut self, interval: Duration) -> Duration {
        interval.mul_f64(self.rng.random_range(0.9..1.1))
    }

    /// The session id and the heartbeat interval from the answer to a registration, or what to do instead.
    fn begun(&mut self, answers: &[Value]) -> Result<(u64, Duration), Next> {
        let first = answers.first().unwrap_or(&Value::Null);
        match text(first, "/type") {
            "registered" => {
                let number = |name: &str| first[name].as_u64().unwrap_or_default();
                let interval = Duration::from_millis(number("heartbeat_interval_ms"));
                match self.heeds(&answers[1..]) {
                    Some(next) => Err(next),
                    None => Ok((number("session"), interval)),
                }
            }
            "later" => {
                let pause = first["in_ms"].as_u64().unwrap_or(1_000);
                Err(Next::Again(Duration::from_millis(pause)))
            }
            _ => Err(self
                .heeds(answers)
                .unwrap_or_else(|| Next::Again(self.pause()))),
        }
    }

    /// What the driver's messages make the executor do, if anything.
    fn heeds(&mut self, told: &[Value]) -> Option<Next> {
        for message in told {
            match text(message, "/type") {
                "register" => return Some(Next::Again(Duration::ZERO)),
                "superseded" => return Some(Next::Again(Duration::from_secs(10))),
                "stop" | "decommission" => return Some(Next::Exit(false)),
                "refused" if message["exit"] == true => return Some(Next::Exit(true)),
                "refused" => return Some(Next::Again(Duration::from_secs(10))),
                _ => {}
            }
        }
        None
    }

    /// Sends invalid messages and checks that the driver rejects them.
    // spec: B-2, B-5, B-11, I-11
    async fn lie(&mut self) {
        let Some(driver) = self.way.driver() else {
            return;
        };
        let another = self.id + self.rng.random_range(1..5);
        let register = |field: &str, value: Value| {
            let mut message = self.registration();
            message[field] = value;
            message
        };
        // Before a pod is bound, any uid may be the right one, so this may be accepted.
        self.post(&driver, &register("pod_uid", "a-lie".into()))
            .await;
        let lies = [
            register("executor", another.into()),
            register("app", "a-lie".into()),
            register("slots", (-1).into()),
            json!({"type": "heartbeat", "session": 1, "busy_slots": 0}),
            json!({"type": "heartbeat", "busy_slots": -3}),
            json!({"type": "what is this"}),
            json!([1, 2]),
        ];
        for lie in lies {
            let answers = self.post(&driver, &lie).await.unwrap_or_default();
            let taken = (answers.iter())
                .any(|answer| matches!(text(answer, "/type"), "registered" | "ack"));
            if taken {
                let violation = format!("B-5: executor {} said {lie}: {answers:?}", self.id);
                self.way.net().violations.push(violation);
            }
        }
    }
}

/// The driver's next message; `None` if the connection has ended.
async fn hear(socket: &mut WebSocketStream<DuplexStream>) -> Option<Value> {
    loop {
        match socket.next().await?.ok()? {
            Message::Text(text) => return serde_json::from_str(&text).ok(),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}
