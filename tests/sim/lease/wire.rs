//! The wires between the drivers and the server, each of which can be interrupted by itself. They check each write that
//! the server carries out.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use boatswain::kubernetes::Clients;
use futures::StreamExt as _;
use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tower::{BoxError, ServiceExt, service_fn};

use crate::objects::NAMESPACE;
use crate::trace::trace_line;

/// How long a request or an answer takes at most.
const LONGEST_DELAY: Duration = Duration::from_millis(400);

/// The drivers' `ha.lease_duration`.
const LEASE_DURATION: Duration = Duration::from_secs(30);

/// How long a write is held up that was sent by a process just before it was paused.
const HELD_UP: Duration = Duration::from_secs(50);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wire {
    #[default]
    Works,
    /// Connections are refused.
    Refuses,
    /// Nothing arrives.
    Silent,
    /// Requests arrive, answers do not.
    Deaf,
}

#[derive(Clone)]
pub struct Wires(Arc<Mutex<State>>);

struct State {
    rng: StdRng,
    wires: Vec<Wire>,
    /// The driver that holds the Lease on the server, or held it last.
    holder: Option<usize>,
    /// The next guarded write of this driver is held up.
    hold_up: Option<usize>,
    /// Until then two drivers may hold the Lease, because it was deleted.
    excused_until: Option<Instant>,
    /// The guarded writes that the server carried out.
    writes: usize,
    violation: Option<String>,
}

impl Wires {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng: StdRng::seed_from_u64(seed),
            wires: Vec::new(),
            holder: None,
            hold_up: None,
            excused_until: None,
            writes: 0,
            violation: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn violation(&self) -> Option<String> {
        self.state().violation.clone()
    }

    pub fn writes(&self) -> usize {
        self.state().writes
    }

    pub fn holder(&self) -> Option<usize> {
        self.state().holder
    }

    pub fn set(&self, driver: usize, wire: Wire) {
        self.state().wires[driver - 1] = wire;
    }

    pub fn lease_deleted(&self) {
        self.state().excused_until = Some(Instant::now() + LEASE_DURATION);
    }

    pub fn hold_up(&self, driver: Option<usize>) {
        self.state().hold_up = driver;
    }

    /// The clients of the next driver.
    pub fn connect(&self, router: Router) -> Clients {
        let mut state = self.state();
        state.wires.push(Wire::Works);
        let driver = state.wires.len();
        let wires = self.clone();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (wires, router) = (wires.clone(), router.clone());
            async move {
                let (answer, answered) = oneshot::channel();
                // It goes on after the client has gone, as a request on a wire does.
                tokio::spawn(async move {
                    let done = wires.deliver(driver, router, request).await;
                    let _ = answer.send(done);
                });
                match answered.await {
                    Ok(done) => done,
                    Err(_) => std::future::pending().await,
                }
            }
        });
        Clients::in_process(service, NAMESPACE)
    }

    fn wire(&self, driver: usize) -> Wire {
        self.state().wires[driver - 1]
    }

    fn delay(&self) -> Duration {
        (self.state().rng).random_range(Duration::ZERO..LONGEST_DELAY)
    }

    async fn deliver(
        self,
        driver: usize,
        router: Router,
        request: Request<kube::client::Body>,
    ) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let path = parts.uri.path().to_owned();
        let writes = parts.method != Method::GET;
        let about_lease = path.contains("/leases");
        let guarded = writes && !about_lease && !path.contains("/events");
        let held_up = guarded
            && self
                .state()
                .hold_up
                .take_if(|held| *held == driver)
                .is_some();
        match self.wire(driver) {
            Wire::Refuses => return Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()),
            Wire::Silent => return std::future::pending().await,
            Wire::Works | Wire::Deaf => {}
        }
        sleep(self.delay()).await;
        if held_up {
            trace_line!("d{driver} {} {path} is held up", parts.method);
            sleep(HELD_UP).await;
        }
        let method = parts.method.clone();
        let holder = (about_lease && writes).then(|| holder_of(&body)).flatten();
        let request = Request::from_parts(parts, Body::from(body));
        let answer = router.oneshot(request).await?;
        if writes && answer.status().is_success() {
            trace_line!("d{driver} {method} {path}");
            let mut state = self.state();
            if holder.is_some() {
                state.holder = holder;
            }
            if guarded {
                state.writes += 1;
                let held_by = state.holder;
                let excused = state
                    .excused_until
                    .is_some_and(|until| Instant::now() < until);
                if !held_up && !excused && held_by.is_some_and(|holder| holder != driver) {
                    let why = format!(
                        "O-32: {method} {path} of driver {driver} was carried out while {held_by:?} held the lease"
                    );
                    state.violation.get_or_insert(why);
                }
            }
        }
        sleep(self.delay()).await;
        if self.wire(driver) != Wire::Works {
            return std::future::pending().await;
        }
        let (parts, body) = answer.into_parts();
        // An interrupted wire ends no stream: nothing comes any more.
        let frames = body.into_data_stream().then(move |frame| {
            let wires = self.clone();
            async move {
                if wires.wire(driver) != Wire::Works {
                    std::future::pending::<()>().await;
                }
                frame
            }
        });
        Ok(Response::from_parts(parts, Body::from_stream(frames)))
    }
}

/// The number of the driver that a written Lease names; `None` if it is freed.
fn holder_of(lease: &[u8]) -> Option<usize> {
    let lease: Value = serde_json::from_slice(lease).ok()?;
    usize::from_str_radix(lease["spec"]["holderIdentity"].as_str()?, 16).ok()
}
