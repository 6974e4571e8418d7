//! The wires between the drivers and the server. They know who made which object, and check that no driver writes to
//! one that another made.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use boatswain::kubernetes::Clients;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tower::{BoxError, ServiceExt, service_fn};

use crate::objects::{NAMESPACE, label, text};
use crate::trace::trace_line;

/// How long a request or an answer takes at most.
const LONGEST_DELAY: Duration = Duration::from_millis(200);

/// The share of writes whose answer is lost.
const LOST_ANSWERS: f64 = 0.03;

/// Who made an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    First,
    Second,
    Third,
    Nobody,
}

#[derive(Clone)]
pub struct Wires(Arc<Mutex<State>>);

struct State {
    rng: StdRng,
    faulty: bool,
    /// Who made the object of this path.
    owners: BTreeMap<String, Owner>,
    /// The writes that the server carried out.
    writes: usize,
    violation: Option<String>,
}

impl Wires {
    pub fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng: StdRng::seed_from_u64(seed),
            faulty: true,
            owners: BTreeMap::new(),
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

    pub fn end_faults(&self) {
        self.state().faulty = false;
    }

    /// Notes a pod that no driver made.
    pub fn is_of_nobody(&self, pod: &str) {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}");
        self.state().owners.insert(path, Owner::Nobody);
    }

    /// Whether this owner made an object of this name.
    pub fn is_of(&self, name: &str, owner: Owner) -> bool {
        let is_named = |path: &str| path.rsplit('/').next() == Some(name);
        (self.state().owners.iter()).any(|(path, its)| *its == owner && is_named(path))
    }

    /// The clients of a driver.
    pub fn connect(&self, owner: Owner, driver: usize, router: Router) -> Clients {
        let wires = self.clone();
        let service = service_fn(move |request: Request<kube::client::Body>| {
            let (wires, router) = (wires.clone(), router.clone());
            async move {
                let (answer, answered) = oneshot::channel();
                // It goes on after the client has gone, as a request on a wire does.
                tokio::spawn(async move {
                    let done = wires.deliver(owner, driver, router, request).await;
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

    fn delay(&self) -> Duration {
        (self.state().rng).random_range(Duration::ZERO..LONGEST_DELAY)
    }

    async fn deliver(
        self,
        owner: Owner,
        driver: usize,
        router: Router,
        request: Request<kube::client::Body>,
    ) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        let is_write = method != Method::GET && !path.contains("/events");
        sleep(self.delay()).await;
        let sent: Value = match is_write {
            true => serde_json::from_slice(&body).unwrap_or_default(),
            false => Value::Null,
        };
        let answer = router
            .oneshot(Request::from_parts(parts, Body::from(body)))
            .await?;
        if is_write {
            let code = answer.status();
            trace_line!("d{driver} {method} {path}: {}", code.as_u16());
            if code.is_success() {
                self.check(owner, driver, &method, &path, &sent, code);
            }
            let mut state = self.state();
            if state.faulty && state.rng.random_bool(LOST_ANSWERS) {
                return Err(io::Error::from(io::ErrorKind::ConnectionReset).into());
            }
        }
        sleep(self.delay()).await;
        Ok(answer)
    }

    /// Checks a write that the server carried out.
    // spec: I-7, O-58
    fn check(
        &self,
        owner: Owner,
        driver: usize,
        method: &Method,
        path: &str,
        sent: &Value,
        code: StatusCode,
    ) {
        let mut state = self.state();
        state.writes += 1;
        let object = match *method == Method::POST {
            true => format!("{path}/{}", text(sent, "/metadata/name")),
            false => path.to_owned(),
        };
        let known = state.owners.get(&object).copied();
        let violation = if owner == Owner::Third {
            Some(format!("I-7: d{driver} of {owner:?} wrote {object}"))
        } else if label(sent, "boatswain.dev/profile") == super::records::FALSE_PROFILE {
            Some(format!("O-58: d{driver} uses an unproven profile"))
        } else if code != StatusCode::CREATED && known != Some(owner) {
            Some(format!(
                "I-7: {method} {object} of d{driver}, which is of {owner:?}, and the object of {known:?}"
            ))
        } else {
            None
        };
        if let Some(violation) = violation {
            state.violation.get_or_insert(violation);
        }
        if code == StatusCode::CREATED {
            state.owners.insert(object, owner);
        }
    }
}
