//! A simulated executor's side of the session protocol, from its start to the end of its pod.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use boatswain_agent::protocol::NO_KEYS;
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
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use tower::ServiceExt;

use super::{Behaviour, ExitCause, SessionLink};
use crate::node::restarts_containers;
use crate::objects::text;
use crate::tokens::RENEWED_AFTER;

/// A reachable driver answers within this time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(6);

/// Buffer size of a connection in bytes.
const BUFFER_SIZE: usize = 64 * 1024;

/// For this long an executor gets and loses work at random; then it has work, or none, for good.
pub const UNSTEADY: Duration = Duration::from_secs(180);

/// No run has this many executors.
const NO_SUCH_EXECUTOR: u64 = 1_000_000;

/// The identity of an executor, and its random source.
pub struct Executor {
    link: SessionLink,
    pod: Value,
    uid: String,
    app: String,
    /// The executor's id; `None` in a pod of a set, which does not know it.
    id: Option<u64>,
    credential: Credential,
    /// The agent's `--driver-timeout`.
    driver_timeout: Option<Duration>,
    /// The number of the driver that it spoke to last.
    driver: Option<usize>,
    /// When the driver was last heard, or when the executor started.
    last_heard: Instant,
    started: Instant,
    rng: StdRng,
}

/// How an executor proves who it is.
enum Credential {
    /// By a token in its environment.
    Environment(String),
    /// By a token of its pod's service account, which is renewed.
    Account { token: String, issued: Instant },
}

/// What the executor does after a session.
enum Next {
    /// Reconnects after this long.
    Reconnect(Duration),
    /// Exits.
    Exit(ExitCause),
}

impl Executor {
    /// An executor with the identity in its pod's environment; `None` if that has none. In a pod of a set it does not
    /// contain the executor's id.
    pub fn of(
        pod: &Value,
        link: SessionLink,
        seed: u64,
        driver_timeout: Option<Duration>,
    ) -> Option<Self> {
        let env = pod.pointer("/spec/containers/0/env")?.as_array()?;
        let value = |name: &str| {
            let found = env.iter().find(|entry| text(entry, "/name") == name)?;
            Some(text(found, "/value").to_owned())
        };
        Some(Self {
            uid: text(pod, "/metadata/uid").to_owned(),
            app: value("BOATSWAIN_APP_ID")?,
            id: match value("BOATSWAIN_EXECUTOR_ID") {
                Some(id) => Some(id.parse().ok()?),
                None if restarts_containers(pod) => None,
                None => return None,
            },
            credential: match value("BOATSWAIN_TOKEN") {
                Some(token) => Credential::Environment(token),
                None => Credential::Account {
                    token: link.account_token(pod)?,
                    issued: Instant::now(),
                },
            },
            pod: pod.clone(),
            link,
            driver_timeout,
            driver: None,
            last_heard: Instant::now(),
            started: Instant::now(),
            rng: StdRng::seed_from_u64(seed),
        })
    }

    /// The token as it is now.
    fn token(&mut self) -> String {
        match &mut self.credential {
            Credential::Environment(token) => token.clone(),
            Credential::Account { token, issued } => {
                if issued.elapsed() > RENEWED_AFTER
                    && let Some(renewed) = self.link.account_token(&self.pod)
                {
                    (*token, *issued) = (renewed, Instant::now());
                }
                token.clone()
            }
        }
    }

    /// Runs until the driver requests its exit, or until the task is aborted because the pod has ended.
    pub async fn run(mut self, behaviour: Behaviour) {
        let began = Instant::now();
        match behaviour {
            Behaviour::Silent => self.fall_silent(),
            Behaviour::Correct { after } => sleep(after).await,
            Behaviour::FallsSilent { .. }
            | Behaviour::SendsInvalid
            | Behaviour::RequestsDecommission { .. } => {}
        }
        if behaviour == Behaviour::Silent {
            return;
        }
        let until = match behaviour {
            Behaviour::FallsSilent { after } => Some(began + after),
            _ => None,
        };
        let mut decommission_at = match behaviour {
            Behaviour::RequestsDecommission { after } => Some(began + after),
            _ => None,
        };
        if behaviour == Behaviour::SendsInvalid {
            self.send_invalid_messages().await;
        }
        let by_requests = self.rng.random_bool(0.4);
        loop {
            let heard_before = self.last_heard;
            let next = match until {
                Some(until) => {
                    tokio::select! {
                        biased;
                        () = sleep_until(until) => {
                            self.fall_silent();
                            return std::future::pending().await;
                        }
                        next = self.session(by_requests, &mut decommission_at) => next,
                    }
                }
                None => self.session(by_requests, &mut decommission_at).await,
            };
            match next {
                // As the agent does, it tries a driver again before it considers it away.
                Next::Reconnect(_) if self.last_heard == heard_before && self.is_driver_away() => {
                    self.link.exit(&self.uid, ExitCause::NoDriver, self.driver);
                    return;
                }
                Next::Reconnect(pause) => sleep(pause).await,
                Next::Exit(why) => {
                    self.link.exit(&self.uid, why, self.driver);
                    return;
                }
            }
        }
    }

    /// Whether the agent has not heard the driver for too long.
    fn is_driver_away(&self) -> bool {
        let timeout = self.driver_timeout;
        timeout.is_some_and(|timeout| self.last_heard.elapsed() >= timeout)
    }

    fn fall_silent(&self) {
        self.link.state().silent.insert(self.uid.clone());
    }

    /// The present driver's session endpoint, if it can be reached.
    fn reach(&mut self) -> Option<Router> {
        let (number, router) = self.link.driver()?;
        self.driver = Some(number);
        Some(router)
    }

    async fn session(&mut self, by_requests: bool, decommission_at: &mut Option<Instant>) -> Next {
        let Some(driver) = self.reach() else {
            return Next::Reconnect(Duration::from_secs(1));
        };
        let next = match by_requests {
            true => self.by_requests(&driver, decommission_at).await,
            false => self.by_connection(&driver, decommission_at).await,
        };
        next.unwrap_or_else(|| Next::Reconnect(self.pause()))
    }

    fn pause(&mut self) -> Duration {
        Duration::from_millis(self.rng.random_range(200..5_000))
    }

    /// A session over HTTP requests; `None` if it broke off.
    async fn by_requests(
        &mut self,
        driver: &Router,
        decommission_at: &mut Option<Instant>,
    ) -> Option<Next> {
        let registration = self.registration();
        let answers = self.post(driver, &registration).await?;
        let (session, interval) = match self.session_from(&answers) {
            Ok(session) => session,
            Err(next) => return Some(next),
        };
        loop {
            sleep(self.jitter(interval)).await;
            // The executor may have to continue with another driver.
            let driver = self.reach()?;
            let message = self.message(Some(session), decommission_at);
            let answers = self.post(&driver, &message).await?;
            if let Some(next) = self.react(&answers) {
                return Some(next);
            }
        }
    }

    /// A session over a WebSocket; `None` if it broke off.
    async fn by_connection(
        &mut self,
        driver: &Router,
        decommission_at: &mut Option<Instant>,
    ) -> Option<Next> {
        let mut socket = timeout(ANSWER_TIMEOUT, self.connect(driver)).await.ok()??;
        let registration = Message::text(self.registration().to_string());
        timeout(ANSWER_TIMEOUT, socket.send(registration))
            .await
            .ok()?
            .ok()?;
        let answers = vec![
            timeout(ANSWER_TIMEOUT, next_message(&mut socket))
                .await
                .ok()??,
        ];
        self.last_heard = Instant::now();
        let (_, interval) = match self.session_from(&answers) {
            Ok(session) => session,
            Err(next) => return Some(next),
        };
        // Connections also break without a fault of the driver's.
        let breaks_at = Instant::now() + Duration::from_secs(self.rng.random_range(20..2_000));
        let mut heartbeat_at = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = sleep_until(breaks_at) => return None,
                () = sleep_until(heartbeat_at) => {
                    let _reached = self.link.driver()?;
                    let message = Message::text(self.message(None, decommission_at).to_string());
                    timeout(ANSWER_TIMEOUT, socket.send(message)).await.ok()?.ok()?;
                    heartbeat_at = Instant::now() + self.jitter(interval);
                }
                message = next_message(&mut socket) => {
                    self.last_heard = Instant::now();
                    if let Some(next) = self.react(&[message?]) {
                        return Some(next);
                    }
                }
            }
        }
    }

    async fn connect(&mut self, driver: &Router) -> Option<WebSocketStream<DuplexStream>> {
        let (ours, theirs) = tokio::io::duplex(BUFFER_SIZE);
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
            .header("authorization", format!("Bearer {}", self.token()))
            .body(())
            .ok()?;
        match client_async(request, ours).await {
            Ok((socket, _)) => Some(socket),
            Err(tungstenite::Error::Http(refusal)) => {
                self.is_deferred(refusal.body().as_deref().unwrap_or_default());
                None
            }
            Err(_) => None,
        }
    }

    /// The driver's answers to a message sent as a request; `None` if there were none.
    async fn post(&mut self, driver: &Router, message: &Value) -> Option<Vec<Value>> {
        let request = Request::post("/v1/session/messages")
            .header("authorization", format!("Bearer {}", self.token()))
            .body(Body::from(message.to_string()))
            .ok()?;
        let answering = async {
            let response = match driver.clone().oneshot(request).await {
                Ok(response) => response,
                Err(never) => match never as Infallible {},
            };
            Some(response.into_body().collect().await.ok()?.to_bytes())
        };
        let body = timeout(ANSWER_TIMEOUT, answering).await.ok()??;
        if self.is_deferred(&body) {
            return None;
        }
        let answer: Value = serde_json::from_slice(&body).ok()?;
        let answers = answer["messages"].as_array()?.clone();
        self.last_heard = Instant::now();
        Some(answers)
    }

    /// Whether the driver answers that it cannot verify the token now, which is a sign of life too.
    fn is_deferred(&mut self, answer: &[u8]) -> bool {
        let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
        let deferred = answer["code"] == NO_KEYS;
        if deferred {
            self.last_heard = Instant::now();
        }
        deferred
    }

    fn registration(&self) -> Value {
        let mut message =
            json!({"type": "register", "app": self.app, "pod_uid": self.uid, "slots": 2});
        match self.id {
            Some(id) => message["executor"] = id.into(),
            None => message["pod"] = text(&self.pod, "/metadata/name").into(),
        }
        message
    }

    fn message(&mut self, session: Option<u64>, decommission_at: &mut Option<Instant>) -> Value {
        let mut message = match decommission_at.take_if(|at| *at <= Instant::now()) {
            Some(_) => json!({"type": "decommission-me", "why": "requested by the executor"}),
            None => {
                let busy = self.rng.random_range(0..=2);
                let busy = match self.started.elapsed() < UNSTEADY {
                    true => busy,
                    false => {
                        i32::from(self.uid.ends_with(['0', '2', '4', '6', '8', 'a', 'c', 'e']))
                    }
                };
                json!({"type": "heartbeat", "busy_slots": busy})
            }
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
    fn session_from(&mut self, answers: &[Value]) -> Result<(u64, Duration), Next> {
        let first = answers.first().unwrap_or(&Value::Null);
        match text(first, "/type") {
            "registered" => {
                self.link.state().registered.insert(self.uid.clone());
                let number = |name: &str| first[name].as_u64().unwrap_or_default();
                let interval = Duration::from_millis(number("heartbeat_interval_ms"));
                match self.react(&answers[1..]) {
                    Some(next) => Err(next),
                    None => Ok((number("session"), interval)),
                }
            }
            "later" => {
                let pause = first["in_ms"].as_u64().unwrap_or(1_000);
                Err(Next::Reconnect(Duration::from_millis(pause)))
            }
            _ => Err(self
                .react(answers)
                .unwrap_or_else(|| Next::Reconnect(self.pause()))),
        }
    }

    /// What the driver's messages make the executor do, if anything.
    fn react(&mut self, messages: &[Value]) -> Option<Next> {
        for message in messages {
            match text(message, "/type") {
                "register" => return Some(Next::Reconnect(Duration::ZERO)),
                "superseded" => return Some(Next::Reconnect(Duration::from_secs(10))),
                "stop" | "decommission" => return Some(Next::Exit(ExitCause::Requested)),
                "refused" if message["exit"] == true => {
                    return Some(Next::Exit(ExitCause::Unwanted));
                }
                "refused" => return Some(Next::Reconnect(Duration::from_secs(10))),
                _ => {}
            }
        }
        None
    }

    /// Sends invalid messages and checks that the driver rejects them.
    // spec: B-2, B-5, B-11, I-11
    async fn send_invalid_messages(&mut self) {
        let Some(driver) = self.reach() else {
            return;
        };
        let another = self.id.unwrap_or(NO_SUCH_EXECUTOR) + self.rng.random_range(1..5);
        let register = |field: &str, value: Value| {
            let mut message = self.registration();
            message[field] = value;
            message
        };
        // Before a pod is bound, any uid may be the right one, so this may be accepted.
        let with_false_uid = register("pod_uid", "false".into());
        let invalid = [
            register("executor", another.into()),
            register("app", "false".into()),
            register("slots", (-1).into()),
            json!({"type": "heartbeat", "session": 1, "busy_slots": 0}),
            json!({"type": "heartbeat", "busy_slots": -3}),
            json!({"type": "no-such-type"}),
            json!([1, 2]),
        ];
        self.post(&driver, &with_false_uid).await;
        for message in invalid {
            let answers = self.post(&driver, &message).await.unwrap_or_default();
            let accepted = (answers.iter())
                .any(|answer| matches!(text(answer, "/type"), "registered" | "ack"));
            if accepted {
                let name = text(&self.pod, "/metadata/name");
                let violation = format!("B-5: {name} sent {message}: {answers:?}");
                self.link.state().violations.push(violation);
            }
        }
    }
}

/// The driver's next message; `None` if the connection has ended.
async fn next_message(socket: &mut WebSocketStream<DuplexStream>) -> Option<Value> {
    loop {
        match socket.next().await?.ok()? {
            Message::Text(text) => return serde_json::from_str(&text).ok(),
            Message::Close(_) => return None,
            _ => {}
        }
    }
}
