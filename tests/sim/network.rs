//! The network between a driver and the API server: a service in which requests meet their fates, and which remembers
//! what was done by whom.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream};
use boatswain::devcluster::{DevCluster, State};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::request::Parts;
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::time::sleep;
use tower::{BoxError, Service, ServiceExt};

use crate::requests::{Done, Kind, uid_meant};
use crate::trace::say;
use crate::weather::{ChunkFate, Fate, Weather};

/// So many earlier states are remembered, for lists from a cache that lags behind.
const REMEMBERED: usize = 20;

/// What all connections share.
pub struct Net {
    pub weather: Weather,
    /// Whether the server streams lists, or refuses to (spec W-4).
    pub streams: bool,
    rng: StdRng,
    /// How many requests were made.
    count: u64,
    /// Watches opened so far, and up to which of them they are silent, or tear at the next chunk.
    watches: u64,
    silent_to: u64,
    torn_to: u64,
    /// Earlier states of the server, oldest first.
    states: VecDeque<State>,
    /// What the server did for drivers since the world last looked.
    pub done: Vec<Done>,
    /// A driver is killed when so many more requests were carried out.
    pub trap: Option<u32>,
    /// It has.
    pub sprung: Option<usize>,
}

/// One driver's way to the API server.
#[derive(Clone)]
pub struct Network {
    net: Arc<Mutex<Net>>,
    wake: Arc<Notify>,
    cluster: DevCluster,
    router: Router,
    /// Answers lists from earlier states.
    cache: DevCluster,
    driver: usize,
}

type Answer = Result<Response<Body>, BoxError>;

impl Net {
    /// Every watch that is open now stays open and says nothing more.
    pub fn silence_watches(&mut self) {
        self.silent_to = self.watches;
    }

    /// Every watch that is open now ends within its next line.
    pub fn tear_watches(&mut self) {
        self.torn_to = self.watches;
    }

    /// Remembers a state.
    pub fn remember(&mut self, state: State) {
        let newer = (self.states.back())
            .is_none_or(|last| last.resource_version() != state.resource_version());
        if newer {
            self.states.push_back(state);
        }
        if self.states.len() > REMEMBERED {
            self.states.pop_front();
        }
    }

    /// What was before is no part of the server's history any more.
    pub fn forget(&mut self) {
        self.states.clear();
    }

    fn past(&self, by: u32) -> Option<State> {
        let back = self.states.len() * by as usize / 1_000;
        self.states
            .get(self.states.len().checked_sub(1 + back)?)
            .cloned()
    }
}

impl Network {
    /// The way of no driver in particular.
    pub fn new(cluster: DevCluster, cache: DevCluster, wake: Arc<Notify>, seed: u64) -> Self {
        let net = Net {
            weather: Weather::CALM,
            streams: !seed.is_multiple_of(3),
            rng: StdRng::seed_from_u64(seed),
            count: 0,
            watches: 0,
            silent_to: 0,
            torn_to: 0,
            states: VecDeque::new(),
            done: Vec::new(),
            trap: None,
            sprung: None,
        };
        Self {
            net: Arc::new(Mutex::new(net)),
            wake,
            router: cluster.router(),
            cluster,
            cache,
            driver: 0,
        }
    }

    /// The way of this driver.
    pub fn of(&self, driver: usize) -> Self {
        Self {
            driver,
            ..self.clone()
        }
    }

    /// What all connections share. Nobody holds it while waiting for anything, so it is always free.
    pub fn net(&self) -> MutexGuard<'_, Net> {
        self.net.lock().unwrap()
    }

    /// The request as the server gets it, its answer as the client does; where the client has gone, it goes on.
    async fn carry(
        self,
        number: u64,
        parts: Parts,
        body: Bytes,
        fate: Fate,
        answer: oneshot::Sender<Answer>,
    ) {
        let late = matches!(fate, Fate::Unanswered { there } if there > timeout_of(&parts.uri));
        // Whoever asked may be gone.
        match fate {
            Fate::Well { there, back } => {
                sleep(there).await;
                let response = self.carry_out(number, parts, body, late).await;
                sleep(back).await;
                let _ = answer.send(Ok(response));
            }
            Fate::Answered {
                there,
                code,
                retry_after,
            } => {
                sleep(there).await;
                let _ = answer.send(Ok(refusal(code, retry_after)));
            }
            Fate::AnsweredAfter { there, code } => {
                sleep(there).await;
                self.carry_out(number, parts, body, late).await;
                let _ = answer.send(Ok(refusal(code, None)));
            }
            Fate::Refused => {
                sleep(Duration::from_millis(1)).await;
                let _ = answer.send(Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()));
            }
            Fate::BrokenBefore { there } => {
                sleep(there).await;
                let _ = answer.send(Err(reset()));
            }
            Fate::BrokenAfter { there } => {
                sleep(there).await;
                self.carry_out(number, parts, body, late).await;
                let _ = answer.send(Err(reset()));
            }
            Fate::Unanswered { there } => {
                sleep(there).await;
                self.carry_out(number, parts, body, late).await;
            }
            Fate::Swallowed => {}
            Fate::Garbled { there, half } => {
                sleep(there).await;
                let response = self.carry_out(number, parts, body, late).await;
                let _ = answer.send(Ok(garbled(response, half).await));
            }
            Fate::Stale { there, by } => {
                sleep(there).await;
                let past = self.net().past(by);
                let response = match past {
                    Some(state) => self.answer_from_cache(parts, state).await,
                    None => self.carry_out(number, parts, body, late).await,
                };
                let _ = answer.send(Ok(response));
            }
        }
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
        let before = match kind.name() {
            Some(name) => {
                let state = self.cluster.state().await;
                state.pod(crate::hand::NAMESPACE, name).cloned()
            }
            None => None,
        };
        let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
        let streamed = query(&parts.uri).any(|part| part == "sendInitialEvents=true");
        if streamed && !self.net().streams {
            say!("d{} #{number} a streamed list: refused", self.driver);
            return refusal(422, None);
        }
        let response = call(&self.router, parts, body).await;
        let code = response.status().as_u16();
        if kind == Kind::Watch {
            return self.watched(response, number);
        }
        if kind.is_write() {
            let version = self.cluster.state().await.resource_version();
            let driver = self.driver;
            say!(
                "d{driver} #{number} {method} {path} {} -> {code} @{version}",
                uid_meant(&sent)
            );
            self.net().done.push(Done {
                driver,
                kind,
                code,
                late,
                sent,
                before,
            });
            self.wake.notify_one();
        }
        self.spring();
        response
    }

    /// Counts towards the trap: a driver that falls into it never hears the answer.
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

    /// A list as it was some time ago.
    async fn answer_from_cache(&self, mut parts: Parts, state: State) -> Response<Body> {
        let version = state.resource_version();
        say!("d{} a list from the past, @{version}", self.driver);
        self.cache.restore(state).await;
        // The cache believes itself up to date, and so it is asked for no version.
        parts.uri = without_version(&parts.uri);
        call(&self.cache.router(), parts, Bytes::new()).await
    }

    fn watched(&self, response: Response<Body>, number: u64) -> Response<Body> {
        let watch = {
            let mut net = self.net();
            net.watches += 1;
            net.watches
        };
        let (parts, body) = response.into_parts();
        let lines = lines(body.into_data_stream(), self.clone(), watch, number);
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
            net.count += 1;
            let Net {
                rng,
                weather,
                count,
                ..
            } = &mut *net;
            (*count, weather.fate(rng, &kind, timeout_of(&parts.uri)))
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
            // A driver's bodies are whole when they are sent.
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

/// The lines of a watch, as the network lets them through.
fn lines(
    body: BodyDataStream,
    network: Network,
    watch: u64,
    number: u64,
) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
    let open = Some((body, network));
    stream::unfold(open, move |open| async move {
        let (mut body, network) = open?;
        let chunk = body.next().await;
        let (silent, fate) = {
            let mut net = network.net();
            let torn = watch <= net.torn_to;
            let Net {
                rng,
                weather,
                silent_to,
                ..
            } = &mut *net;
            let fate = match weather.chunk(rng) {
                _ if torn => ChunkFate::Torn,
                fate => fate,
            };
            (watch <= *silent_to, fate)
        };
        if silent {
            return std::future::pending().await;
        }
        let chunk = match chunk? {
            Ok(chunk) => chunk,
            Err(error) => return Some((Err(error.into()), None)),
        };
        if fate != ChunkFate::Well {
            say!("d{} #{number} watch: {fate:?}", network.driver);
        }
        match fate {
            ChunkFate::Well => Some((Ok(chunk), Some((body, network)))),
            ChunkFate::Late(by) => {
                sleep(by).await;
                Some((Ok(chunk), Some((body, network))))
            }
            ChunkFate::Torn => Some((Ok(chunk.slice(..chunk.len() / 2)), None)),
            ChunkFate::Garbage => {
                let both = [b"{\"type\": garbage}\n", &chunk[..]].concat();
                Some((Ok(both.into()), Some((body, network))))
            }
        }
    })
}

fn refusal(code: u16, retry_after: Option<u64>) -> Response<Body> {
    let (reason, message) = match code {
        403 => (
            "Forbidden",
            "pods \"x\" is forbidden: exceeded quota: q, used: pods=9, limited: pods=9",
        ),
        422 => (
            "Invalid",
            "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is \
             enabled",
        ),
        429 => (
            "TooManyRequests",
            "the server has received too many requests",
        ),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => (
            "Timeout",
            "request did not complete within the allotted timeout",
        ),
        _ => ("InternalError", "etcdserver: leader changed"),
    };
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": message,
    });
    let mut response = Response::builder()
        .status(code)
        .header("content-type", "application/json");
    if let Some(seconds) = retry_after {
        response = response.header("retry-after", seconds);
    }
    response.body(Body::from(status.to_string())).unwrap()
}

fn reset() -> BoxError {
    io::Error::from(io::ErrorKind::ConnectionReset).into()
}

/// An answer cut in half, or replaced by what no API server says.
async fn garbled(response: Response<Body>, half: bool) -> Response<Body> {
    let (parts, body) = response.into_parts();
    if !half {
        return Response::from_parts(parts, Body::from("<html>hello</html>"));
    }
    // Of a watch, which has no end, half is its first half line.
    let whole = match body.into_data_stream().next().await {
        Some(Ok(whole)) => whole,
        _ => Bytes::new(),
    };
    Response::from_parts(parts, Body::from(whole.slice(..whole.len() / 2)))
}

fn query(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&')
}

/// How long the server may take, as the request says.
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
