//! The simulated network between a driver and the API server: a `tower` service that delays, fails or alters requests
//! as the current fault injection says, and records which writes the server carried out for which driver.

mod answers;
mod lies;
mod lines;
mod shared;

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use devcluster::{DevCluster, Key, State};
use http::request::Parts;
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;
use tower::{BoxError, Service, ServiceExt};

pub use lines::LATEST as LATEST_LINE;
pub use shared::{Down, Net};

use crate::network_conditions::{Fate, Ill};
use crate::objects::{NAMESPACE, text};
use crate::requests::{Done, Kind, uid_meant};
use crate::trace::say;
use crate::webhook::Webhook;

/// One driver's connection to the API server.
#[derive(Clone)]
pub struct Network {
    net: Arc<Mutex<Net>>,
    wake: Arc<Notify>,
    cluster: DevCluster,
    router: Router,
    /// A second cluster that answers lists from earlier states, as a lagging watch cache does.
    cache: DevCluster,
    driver: usize,
}

type Answer = Result<Response<Body>, BoxError>;

impl Network {
    /// A network whose requests belong to no driver yet; see [`Network::of`].
    pub fn new(cluster: DevCluster, cache: DevCluster, wake: Arc<Notify>, seed: u64) -> Self {
        Self {
            net: Arc::new(Mutex::new(Net::new(seed))),
            wake,
            router: cluster.router(),
            cluster,
            cache,
            driver: 0,
        }
    }

    /// The connection of this driver.
    pub fn of(&self, driver: usize) -> Self {
        Self {
            driver,
            ..self.clone()
        }
    }

    /// State shared by all connections. No lock is held across an await point, so this never blocks.
    pub fn net(&self) -> MutexGuard<'_, Net> {
        self.net.lock().unwrap()
    }

    /// Delivers a request to the server and its answer to the client. It continues after the client has gone, as a
    /// request on the wire does.
    async fn carry(
        self,
        number: u64,
        parts: Parts,
        body: Bytes,
        fate: Fate,
        answer: oneshot::Sender<Answer>,
    ) {
        let late = matches!(
            fate,
            Fate::Unanswered { there } | Fate::Well { there, .. } if there > timeout_of(&parts.uri)
        );
        let there = match fate {
            Fate::Well { there, .. }
            | Fate::Answered { there, .. }
            | Fate::AnsweredAfter { there, .. }
            | Fate::BrokenBefore { there }
            | Fate::BrokenAfter { there }
            | Fate::Unanswered { there }
            | Fate::Garbled { there, .. }
            | Fate::Stale { there, .. }
            | Fate::Falsified { there, .. }
            | Fate::EndsAtOnce { there } => there,
            Fate::Refused => Duration::from_millis(1),
            Fate::Swallowed => return,
        };
        sleep(there).await;
        // A request in flight when the server goes down does not arrive.
        let down = self.net().down;
        let done = match (down, fate) {
            (Some(Down::Silent), _) => return,
            (Some(Down::Refusing), _) => Err(answers::reset()),
            (None, Fate::Well { back, .. }) => {
                let response = self.carry_out(number, parts, body, late).await;
                sleep(back).await;
                Ok(response)
            }
            (
                None,
                Fate::Answered {
                    ill,
                    code,
                    retry_after,
                    ..
                },
            ) => Ok(answers::refusal(ill, code, retry_after)),
            (None, Fate::AnsweredAfter { code, .. }) => {
                self.carry_out(number, parts, body, late).await;
                Ok(answers::refusal(Ill::ErrorAfter, code, None))
            }
            (None, Fate::Refused) => Err(answers::refused()),
            (None, Fate::BrokenBefore { .. }) => Err(answers::reset()),
            (None, Fate::BrokenAfter { .. }) => {
                self.carry_out(number, parts, body, late).await;
                Err(answers::reset())
            }
            (None, Fate::Unanswered { .. }) => {
                self.carry_out(number, parts, body, late).await;
                return;
            }
            (None, Fate::Swallowed) => return,
            (None, Fate::Garbled { half, .. }) => {
                let response = self.carry_out(number, parts, body, late).await;
                Ok(answers::garbled(response, half).await)
            }
            (None, Fate::Stale { by, .. }) => {
                let past = self.net().past(by);
                Ok(match past {
                    Some(state) => self.answer_from_cache(parts, state).await,
                    None => self.carry_out(number, parts, body, late).await,
                })
            }
            (None, Fate::Falsified { how, pick, .. }) => {
                let response = self.carry_out(number, parts, body, late).await;
                Ok(lies::falsified(response, how, pick).await)
            }
            (None, Fate::EndsAtOnce { .. }) => {
                let (parts, _) = self.carry_out(number, parts, body, late).await.into_parts();
                Ok(Response::from_parts(parts, Body::empty()))
            }
        };
        // The client may have dropped the request.
        let _ = answer.send(done);
    }

    async fn carry_out(
        &self,
        number: u64,
        parts: Parts,
        body: Bytes,
        late: bool,
    ) -> Response<Body> {
        let kind = Kind::of(&parts);
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        let before = match (&kind, kind.name()) {
            (Kind::Set { resource, name }, _) => {
                let state = self.cluster.state().await;
                let set = state.get(&Key::new(*resource, NAMESPACE, name));
                set.map(|set| set.value().clone())
            }
            (_, Some(name)) => {
                let state = self.cluster.state().await;
                state.pod(NAMESPACE, name).cloned()
            }
            (_, None) => None,
        };
        let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
        let webhook = (self.net().webhook).filter(|_| kind == Kind::Create);
        let body = match webhook {
            Some(webhook) => {
                let mut changed = sent.clone();
                webhook.change(&mut changed);
                changed.to_string().into()
            }
            None => body,
        };
        let streamed = query(&parts.uri).any(|part| part == "sendInitialEvents=true");
        if streamed && !self.net().streams {
            say!("d{} #{number} a streamed list: refused", self.driver);
            return answers::no_streams();
        }
        let response = call(&self.router, parts, body).await;
        let code = response.status().as_u16();
        if kind == Kind::Watch {
            return self.watched(response, number, streamed);
        }
        if kind == Kind::Read {
            say!("d{} #{number} {method} {path} -> {code}", self.driver);
        }
        if kind.is_write() {
            let state = self.cluster.state().await;
            let version = state.resource_version();
            let made = state
                .pod(NAMESPACE, text(&sent, "/metadata/name"))
                .filter(|_| kind == Kind::Create && code == 201)
                .map(|pod| text(pod, "/metadata/uid").to_owned());
            let driver = self.driver;
            say!(
                "d{driver} #{number} {method} {path} {} -> {code} @{version}",
                uid_meant(&sent)
            );
            let relabelled = webhook.is_some_and(Webhook::relabels);
            self.net().done.push(Done {
                driver,
                kind,
                code,
                late,
                sent,
                before,
                made,
                relabelled,
            });
            self.wake.notify_one();
        }
        self.spring();
        response
    }

    /// Counts down to the kill at a request. The driver is killed before it receives the answer.
    fn spring(&self) {
        let mut net = self.net();
        match net.trap {
            Some(0) => {
                (net.trap, net.sprung) = (None, Some(self.driver));
                self.wake.notify_one();
            }
            Some(more) => net.trap = Some(more - 1),
            None => {}
        }
    }

    /// Answers a list from an earlier state.
    async fn answer_from_cache(&self, mut parts: Parts, state: State) -> Response<Body> {
        let version = state.resource_version();
        say!("d{} a list from the past, @{version}", self.driver);
        self.cache.restore(state).await;
        // The cache treats its state as current, so the request must not name a version.
        parts.uri = without_version(&parts.uri);
        call(&self.cache.router(), parts, Bytes::new()).await
    }

    fn watched(&self, response: Response<Body>, number: u64, lists: bool) -> Response<Body> {
        let watch = {
            let mut net = self.net();
            net.watches += 1;
            net.watches
        };
        let (parts, body) = response.into_parts();
        let body = body.into_data_stream();
        let lines = lines::lines(body, self.clone(), watch, number, lists);
        Response::from_parts(parts, Body::from_stream(lines))
    }
}

impl Service<Request<kube::client::Body>> for Network {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<kube::client::Body>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let kind = Kind::of(&parts);
        let (number, fate) = {
            let mut net = self.net();
            let net = &mut *net;
            net.count += 1;
            let timeout = timeout_of(&parts.uri);
            let fate = match (net.down, net.weather.fate(&mut net.rng, &kind, timeout)) {
                (Some(Down::Refusing), _) => Fate::Refused,
                (Some(Down::Silent), _) => Fate::Swallowed,
                (None, fate) => fate,
            };
            let refused = match fate {
                Fate::Answered { ill, .. } => Some(ill),
                Fate::Refused => Some(Ill::Refused),
                Fate::Well { .. } => None,
                _ => Some(Ill::Error),
            };
            net.refused.entry(self.driver).or_default().extend(refused);
            (net.count, fate)
        };
        if !matches!(fate, Fate::Well { .. }) {
            say!(
                "d{} #{number} {} {}: {fate:?}",
                self.driver,
                parts.method,
                parts.uri.path()
            );
        }
        let (answer, answered) = oneshot::channel();
        let network = self.clone();
        tokio::spawn(async move {
            // A driver's request bodies are complete when they are sent.
            let body = body.collect().await.unwrap().to_bytes();
            network.carry(number, parts, body, fate, answer).await;
        });
        Box::pin(async move {
            match answered.await {
                Ok(answer) => answer,
                Err(_) => std::future::pending().await,
            }
        })
    }
}

async fn call(router: &Router, parts: Parts, body: Bytes) -> Response<Body> {
    let request = Request::from_parts(parts, Body::from(body));
    match router.clone().oneshot(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    }
}

fn query(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&')
}

/// The server's time limit, taken from the request.
fn timeout_of(uri: &Uri) -> Duration {
    (query(uri).find_map(|part| part.strip_prefix("timeout=")))
        .and_then(|timeout| humantime::parse_duration(timeout).ok())
        .unwrap_or(Duration::from_secs(10))
}

fn without_version(uri: &Uri) -> Uri {
    let kept: Vec<&str> = query(uri)
        .filter(|part| !part.starts_with("resourceVersion"))
        .collect();
    format!("{}?{}", uri.path(), kept.join("&"))
        .parse()
        .unwrap()
}
