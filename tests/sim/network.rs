//! The simulated network between a driver and the API server: a `tower` service that delays, fails or alters requests
//! as the current network conditions say, and records which writes the server carried out for which driver.

mod answers;
mod falsify;
mod lines;
mod shared;

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use boatswain::clock::Clock;
use bytes::Bytes;
use devcluster::{DevCluster, Key, State};
use http::header::DATE;
use http::request::Parts;
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use jiff::fmt::rfc2822::DateTimePrinter;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep};
use tower::{BoxError, Service, ServiceExt};

pub use lines::LONGEST_LINE_DELAY;
pub use shared::{Outage, Shared};

use crate::network_conditions::{RequestFault, RequestOutcome};
use crate::objects::{NAMESPACE, text};
use crate::requests::{CompletedWrite, RequestKind, addressed_object};
use crate::tokens::Issuer;
use crate::trace::trace_line;
use crate::webhook::Webhook;

/// What is read to verify tokens.
const KEY_PATHS: [&str; 2] = ["/.well-known/openid-configuration", "/openid/v1/jwks"];

/// One driver's connection to the API server.
#[derive(Clone)]
pub struct Network {
    shared: Arc<Mutex<Shared>>,
    wake: Arc<Notify>,
    cluster: DevCluster,
    router: Router,
    /// A second cluster that answers lists from earlier states, as a lagging watch cache does.
    cache: DevCluster,
    issuer: Issuer,
    /// The server's clock, which is right.
    clock: Clock,
    driver: usize,
    /// The driver's token (see [`crate::credentials`]).
    token: u64,
}

type Answer = Result<Response<Body>, BoxError>;

impl Network {
    /// A network whose requests belong to no driver yet; see [`Network::of`].
    pub fn new(
        cluster: DevCluster,
        cache: DevCluster,
        wake: Arc<Notify>,
        issuer: &Issuer,
        clock: Clock,
        seed: u64,
    ) -> Self {
        Self {
            shared: Arc::new(Mutex::new(Shared::new(seed))),
            wake,
            router: cluster.router(),
            cluster,
            cache,
            issuer: issuer.clone(),
            clock,
            driver: 0,
            token: 0,
        }
    }

    /// The connection of this driver.
    pub fn of(&self, driver: usize) -> Self {
        Self {
            driver,
            ..self.clone()
        }
    }

    pub fn driver(&self) -> usize {
        self.driver
    }

    /// The same connection, with the token that is in the file now.
    pub fn with_token_of_file(&self) -> Self {
        Self {
            token: self.shared().tokens.read(self.driver),
            ..self.clone()
        }
    }

    /// State shared by all connections. No lock is held across an await point, so this never blocks.
    pub fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }

    /// Delivers a request to the server and its answer to the client. It continues after the client has gone, as a
    /// request on the wire does.
    async fn deliver(
        self,
        number: u64,
        parts: Parts,
        body: Bytes,
        outcome: RequestOutcome,
        answer: oneshot::Sender<Answer>,
    ) {
        let late = match outcome {
            RequestOutcome::Unanswered { request_delay }
            | RequestOutcome::Normal { request_delay, .. } => {
                request_delay > timeout_of(&parts.uri)
            }
            _ => false,
        };
        let Some(request_delay) = outcome.request_delay() else {
            return;
        };
        sleep(request_delay).await;
        // A request in flight when the server goes down does not arrive.
        let outage = self.shared().outage;
        let result = match (outage, outcome) {
            (Some(Outage::Silent), _) => return,
            (Some(Outage::Refusing), _) => Err(answers::reset()),
            (None, RequestOutcome::Normal { response_delay, .. }) => {
                let response = self.execute(number, parts, body, late, request_delay).await;
                sleep(response_delay).await;
                Ok(response)
            }
            (
                None,
                RequestOutcome::Answered {
                    fault,
                    code,
                    retry_after,
                    ..
                },
            ) => Ok(answers::refusal(fault, code, retry_after)),
            (None, RequestOutcome::AnsweredAfter { code, .. }) => {
                self.execute(number, parts, body, late, request_delay).await;
                Ok(answers::refusal(RequestFault::ErrorAfter, code, None))
            }
            (None, RequestOutcome::ConnectionRefused) => Err(answers::refused()),
            (None, RequestOutcome::ResetBefore { .. }) => Err(answers::reset()),
            (None, RequestOutcome::ResetAfter { .. }) => {
                self.execute(number, parts, body, late, request_delay).await;
                Err(answers::reset())
            }
            (None, RequestOutcome::Unanswered { .. }) => {
                self.execute(number, parts, body, late, request_delay).await;
                return;
            }
            (None, RequestOutcome::Dropped) => return,
            (None, RequestOutcome::Corrupted { half, .. }) => {
                let response = self.execute(number, parts, body, late, request_delay).await;
                Ok(answers::corrupted(response, half).await)
            }
            (None, RequestOutcome::Stale { by, .. }) => {
                let earlier = self.shared().earlier_state(by);
                Ok(match earlier {
                    Some(state) => self.answer_from_cache(parts, state).await,
                    None => self.execute(number, parts, body, late, request_delay).await,
                })
            }
            (None, RequestOutcome::Falsified { how, pick, .. }) => {
                let response = self.execute(number, parts, body, late, request_delay).await;
                Ok(falsify::falsified_list(response, how, pick).await)
            }
            (None, RequestOutcome::EndsAtOnce { .. }) => {
                let (parts, _) = self
                    .execute(number, parts, body, late, request_delay)
                    .await
                    .into_parts();
                Ok(Response::from_parts(parts, Body::empty()))
            }
        };
        let is_refused = outcome.is_refusal_of_token() && self.shared().tokens.refuses(self.token);
        // The client may have dropped the request.
        if answer.send(result).is_ok() && is_refused {
            (self.shared().tokens).note_refusal(self.driver, self.token);
        }
    }

    async fn execute(
        &self,
        number: u64,
        parts: Parts,
        body: Bytes,
        late: bool,
        request_delay: Duration,
    ) -> Response<Body> {
        let sent_at = Instant::now() - request_delay;
        let kind = RequestKind::of(&parts);
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        let before = self.addressed(&kind).await;
        let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
        let webhook = (self.shared().webhook).filter(|_| kind == RequestKind::CreatePod);
        let body = match webhook {
            Some(webhook) => {
                let mut changed = sent.clone();
                webhook.change(&mut changed);
                changed.to_string().into()
            }
            None => body,
        };
        let streamed = query(&parts.uri).any(|part| part == "sendInitialEvents=true");
        if streamed && !self.shared().streams {
            trace_line!("d{} #{number} a streamed list: refused", self.driver);
            return answers::no_streams();
        }
        let withheld = (self.issuer.withheld()).filter(|_| KEY_PATHS.contains(&&*path));
        let mut response = match withheld {
            Some(code) => answers::no_keys(code),
            None => call(&self.router, parts, body).await,
        };
        let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&self.clock.now().wall);
        (response.headers_mut()).insert(DATE, date.unwrap().parse().unwrap());
        let code = response.status().as_u16();
        if path == "/openid/v1/jwks" && code == 200 {
            *response.body_mut() = Body::from(self.issuer.published().to_string());
            response.headers_mut().remove("content-length");
        }
        if kind == RequestKind::Watch {
            if path.ends_with("/pods") && !streamed {
                let mut shared = self.shared();
                let opened = (Instant::now(), shared.watches + 1);
                shared.watch_opened.insert(self.driver, opened);
            }
            return self.inject_into_watch(response, number, streamed);
        }
        if kind == RequestKind::Read {
            if path.ends_with("/configmaps/sim-app") {
                (self.shared().record_read).insert(self.driver, Instant::now());
            }
            trace_line!("d{} #{number} {method} {path} -> {code}", self.driver);
        }
        if kind.is_write() {
            let state = self.cluster.state().await;
            let version = state.resource_version();
            let created_uid = state
                .pod(NAMESPACE, text(&sent, "/metadata/name"))
                .filter(|_| kind == RequestKind::CreatePod && code == 201)
                .map(|pod| text(pod, "/metadata/uid").to_owned());
            let driver = self.driver;
            trace_line!(
                "d{driver} #{number} {method} {path} {} -> {code} @{version}",
                addressed_object(&sent)
            );
            if code == 200 && loses_race(&kind, &before, &state) {
                trace_line!("   it has lost a race with the pod's removal");
                response = answers::without_version(response).await;
            }
            let relabelled = webhook.is_some_and(Webhook::relabels);
            self.shared().completed_writes.push(CompletedWrite {
                driver,
                kind,
                code,
                late,
                sent_at,
                sent,
                before,
                created_uid,
                relabelled,
            });
            self.wake.notify_one();
        }
        self.count_down_to_kill();
        response
    }

    /// The pod or set that a request names.
    async fn addressed(&self, kind: &RequestKind) -> Option<Value> {
        match (kind, kind.name()) {
            (RequestKind::WriteSet { resource, name }, _) => {
                let state = self.cluster.state().await;
                let set = state.get(&Key::new(*resource, NAMESPACE, name));
                set.map(|set| set.value().clone())
            }
            (_, Some(name)) => {
                let state = self.cluster.state().await;
                state.pod(NAMESPACE, name).cloned()
            }
            (_, None) => None,
        }
    }

    /// Counts down to the kill at a request. The driver is killed before it receives the answer.
    fn count_down_to_kill(&self) {
        let mut shared = self.shared();
        match shared.kill_countdown {
            Some(0) => {
                (shared.kill_countdown, shared.killed) = (None, Some(self.driver));
                self.wake.notify_one();
            }
            Some(more) => shared.kill_countdown = Some(more - 1),
            None => {}
        }
    }

    /// Answers a list from an earlier state.
    async fn answer_from_cache(&self, mut parts: Parts, state: State) -> Response<Body> {
        let version = state.resource_version();
        trace_line!("d{} a list from an earlier state, @{version}", self.driver);
        self.cache.restore(state).await;
        // The cache treats its state as current, so the request must not name a version.
        parts.uri = without_version(&parts.uri);
        call(&self.cache.router(), parts, Bytes::new()).await
    }

    fn inject_into_watch(
        &self,
        response: Response<Body>,
        number: u64,
        lists: bool,
    ) -> Response<Body> {
        let watch = {
            let mut shared = self.shared();
            shared.watches += 1;
            shared.watches
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
        let kind = RequestKind::of(&parts);
        let (number, outcome) = {
            let mut shared = self.shared();
            let shared = &mut *shared;
            shared.count += 1;
            let timeout = timeout_of(&parts.uri);
            let outcome = match (
                shared.outage,
                shared.conditions.outcome(&mut shared.rng, &kind, timeout),
            ) {
                (Some(Outage::Refusing), _) => RequestOutcome::ConnectionRefused,
                (Some(Outage::Silent), _) => RequestOutcome::Dropped,
                (None, outcome) if shared.tokens.refuses(self.token) => outcome.without_token(),
                (None, outcome) if shared.refuses_deletes && kind.deletes_pods() => {
                    outcome.without_right()
                }
                (None, outcome) => outcome,
            };
            if shared.outage.is_some() {
                (shared.called_in_outage.entry(self.driver)).or_insert_with(Instant::now);
            }
            let injected = match outcome {
                RequestOutcome::Answered { fault, .. } => Some(fault),
                RequestOutcome::ConnectionRefused => Some(RequestFault::ConnectionRefused),
                RequestOutcome::Normal { .. } => None,
                _ => Some(RequestFault::Error),
            };
            let refuses_template = |fault: &RequestFault| {
                matches!(
                    fault,
                    RequestFault::Admission | RequestFault::Webhook | RequestFault::Invalid
                )
            };
            shared.refused_templates +=
                usize::from(injected.as_ref().is_some_and(refuses_template));
            shared
                .injected_faults
                .entry(self.driver)
                .or_default()
                .extend(injected);
            (shared.count, outcome)
        };
        if !matches!(outcome, RequestOutcome::Normal { .. }) {
            trace_line!(
                "d{} #{number} {} {}: {outcome:?}",
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
            network.deliver(number, parts, body, outcome, answer).await;
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

/// Whether a delete that has removed its pod is answered as if another one had removed it meanwhile: for one pod in eight.
fn loses_race(kind: &RequestKind, before: &Option<Value>, after: &State) -> bool {
    let (RequestKind::DeletePod { name }, Some(before)) = (kind, before) else {
        return false;
    };
    let is_chosen = text(before, "/metadata/uid").ends_with(['0', '1']);
    is_chosen && after.pod(NAMESPACE, name).is_none()
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
