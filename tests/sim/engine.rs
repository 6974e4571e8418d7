//! An engine that follows each driver's events, as an adapter does: it asks for the executors, then for the events after
//! the last one that it has, and again when the connection is lost. It is never told that a living executor is gone.
//!
//! It asks without the simulated network, so that no fault is needed to reach a driver at its first moment. Where sets
//! make the pods there is none, because pods have other names there than their executors.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use boatswain::driver::Handle;
use boatswain::model::{PodUid, Snapshot};
use boatswain::server::api::tokens::Tokens;
use devcluster::State as Server;
use futures::StreamExt;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::time::sleep;
use tower::ServiceExt;

use crate::checks::{Excuses, PREFIX, Verdict, is_healthy};
use crate::drivers::Driver;
use crate::objects::{NAMESPACE, text};
use crate::trace::trace_line;
use crate::world::World;

/// The pause before a driver is asked again.
const AGAIN: Duration = Duration::from_millis(50);

/// What a driver has told, in order.
#[derive(Default)]
pub struct Told {
    /// The last event's id.
    last: Option<String>,
    unheard: Vec<Value>,
}

/// What the engine remembers.
#[derive(Default)]
pub struct Engine {
    /// The application of the driver that was heard last, as the world counts them, and its id.
    application: u32,
    app_id: String,
    /// The executors whose pods it was told of, and whose end it was not.
    living: BTreeSet<u64>,
}

/// Follows a driver until it ends. `last` is where the engine has come with the driver before.
pub async fn follow(handle: Handle, last: Option<String>, told: Rc<RefCell<Told>>) {
    told.borrow_mut().last = last;
    loop {
        let tokens = Tokens::parse("engine read\n", "tokens").unwrap();
        if let Some(routes) = handle.routes(tokens).await {
            hear_all(&routes, &told).await;
        }
        sleep(AGAIN).await;
    }
}

/// Reads whose executors these are, their list, and then the events, until the connection is lost or refused.
async fn hear_all(routes: &Router, told: &RefCell<Told>) {
    for path in ["/v1/status", "/v1/executors"] {
        let answer = get(routes, path, None).await;
        if answer.status() != StatusCode::OK {
            return;
        }
        let Ok(answer) = answer.into_body().collect().await else {
            return;
        };
        let answer = serde_json::from_slice(&answer.to_bytes()).unwrap();
        told.borrow_mut().unheard.push(answer);
    }
    let last = told.borrow().last.clone();
    let events = get(routes, "/v1/events", last.as_deref()).await;
    if events.status() != StatusCode::OK {
        return;
    }
    let mut events = events.into_body().into_data_stream();
    let mut rest = String::new();
    while let Some(Ok(piece)) = events.next().await {
        rest.push_str(std::str::from_utf8(&piece).unwrap());
        while let Some((message, more)) = rest.split_once("\n\n") {
            let field = |name: &str| message.lines().find_map(|line| line.strip_prefix(name));
            let mut told = told.borrow_mut();
            if let Some(data) = field("data:") {
                told.unheard.push(serde_json::from_str(data).unwrap());
            }
            if let Some(id) = field("id:") {
                told.last = Some(id.trim().to_owned());
            }
            rest = more.to_owned();
        }
    }
}

async fn get(routes: &Router, path: &str, last: Option<&str>) -> Response<Body> {
    let mut request = Request::get(path).header("authorization", "Bearer engine");
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let request = request.body(Body::empty()).unwrap();
    routes.clone().oneshot(request).await.unwrap()
}

impl Told {
    pub fn last(&self) -> Option<String> {
        self.last.clone()
    }

    pub fn take(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.unheard)
    }
}

impl World {
    /// Checks what the engine was told since the last call.
    // spec: I-13
    pub async fn check_what_is_told(&mut self) -> Verdict {
        // The state is read last: what is told may be older, never younger.
        let told: Vec<_> = (self.drivers.borrow().iter())
            .map(|driver| (driver.number, driver.take_told()))
            .collect();
        let server = self.cluster.state().await;
        let misled = self.expected.may_be_misled();
        for (driver, messages) in told {
            // It does not know yet what its successor has requested.
            if self.checks.is_superseded(driver) {
                continue;
            }
            // Another application gives its executors the same ids.
            let application = self.checks.application_of(driver);
            if std::mem::replace(&mut self.engine.application, application) != application {
                self.engine.living.clear();
            }
            for message in messages {
                let gone = self.engine.hear(&message);
                let ledger = self.checks.last_ledger(driver);
                let lost = (gone.into_iter())
                    .find(|id| !misled && lives(*id, &server, ledger, &self.checks.excuses));
                if let Some(id) = lost {
                    let what = message["event"].as_str().unwrap_or("the list");
                    return Err(format!(
                        "I-13: d{driver} tells an engine that {id} is gone, by {what}, and its pod is healthy"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl Engine {
    /// Takes a message, and returns the executors of which it says, or has one conclude, that they are gone.
    fn hear(&mut self, message: &Value) -> Vec<u64> {
        if let Some(app_id) = message["app"].as_str()
            && app_id != self.app_id
        {
            // An edited record makes the next driver that of another application.
            app_id.clone_into(&mut self.app_id);
            self.living.clear();
        }
        let before = self.living.clone();
        let id = message["executor"].as_u64();
        match (
            message["executors"].as_array(),
            message["event"].as_str(),
            id,
        ) {
            (Some(listed), what, _) => {
                self.living = (listed.iter())
                    .filter(|executor| executor["pod"].is_string())
                    .filter_map(|executor| executor["executor"].as_u64())
                    .collect();
                let (what, living) = (what.unwrap_or("the list"), self.living.len());
                trace_line!("   the engine hears of {living} executors by {what}");
                let listed: BTreeSet<u64> = (listed.iter())
                    .filter_map(|executor| executor["executor"].as_u64())
                    .collect();
                return before.difference(&listed).copied().collect();
            }
            (None, Some("pending" | "running"), Some(id)) => {
                self.living.insert(id);
            }
            (None, Some("ended" | "not-created"), Some(id)) => {
                self.living.remove(&id);
            }
            _ => {}
        }
        before.difference(&self.living).copied().collect()
    }
}

/// Whether the executor's pod is healthy, and no fault has made it another's.
fn lives(id: u64, server: &Server, ledger: Option<&Snapshot>, excuses: &Excuses) -> bool {
    let pod = server.pod(NAMESPACE, &format!("{PREFIX}-exec-{id}"));
    pod.is_some_and(|pod| {
        let uid = text(pod, "/metadata/uid");
        // A copy of an executor that has ended, by a request that was late; the driver deletes it.
        let is_copy = ledger.is_some_and(|ledger| ledger.orphans.contains_key(&PodUid::from(uid)));
        is_healthy(pod)
            && !is_copy
            && !excuses.relabelled.contains(uid)
            && !excuses.foreign.contains(uid)
    })
}

/// Where the engine has come with the drivers so far.
pub fn last_place(drivers: &[Driver]) -> Option<String> {
    drivers
        .iter()
        .rev()
        .find_map(|driver| driver.told.borrow().last())
}
