//! Sends commands to the driver through its API, as the application and operators do.

use std::time::Duration;

use axum::body::Body;
use boatswain::driver::Handle;
use boatswain::model::ExecutorId;
use boatswain::server::api::tokens::Tokens;
use http::{Method, Request, StatusCode};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tower::ServiceExt;

use crate::script::{Command, Fault};
use crate::trace::trace_line;
use crate::world::{World, find_driver};

/// A client waits this long for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

impl World {
    /// Sends a command to the youngest driver. Without an answer it is unknown whether the driver has carried it out.
    // spec: B-28, B-30, B-31
    pub(super) async fn send_command(&mut self, pick: u64, count: usize, what: Command) {
        let Some(number) = self.youngest() else {
            return;
        };
        let Some(ledger) = self.checks.last_ledger(number) else {
            return;
        };
        let all: Vec<ExecutorId> = ledger.entries.keys().collect();
        let first = pick as usize % all.len().max(1);
        let named: Vec<ExecutorId> = all
            .iter()
            .cycle()
            .skip(first)
            .take(count.min(all.len()))
            .copied()
            .collect();
        let ids: Vec<u64> = named.iter().map(|id| id.get()).collect();
        let (path, body) = match what {
            Command::Kill { replace, force } => (
                "executors/kill",
                json!({"executors": ids, "replace": replace, "force": force}),
            ),
            Command::Decommission { replace } => (
                "executors/decommission",
                json!({"executors": ids, "replace": replace}),
            ),
            Command::Hold { time } => {
                self.undo_after(time, Fault::Resume);
                self.held = true;
                ("application/hold", json!({}))
            }
        };
        let excuses = &mut self.checks.excuses;
        match what {
            Command::Kill { .. } => excuses.killed.extend(named),
            Command::Decommission { .. } => excuses.decommissioned.extend(named),
            Command::Hold { .. } => excuses.held.push(Instant::now()),
        }
        self.post(number, path, body).await;
    }

    /// Resumes a held application.
    // spec: B-31
    pub(super) async fn resume(&mut self) {
        if let Some(number) = self.youngest() {
            self.post(number, "application/resume", json!({})).await;
        }
    }

    async fn post(&mut self, number: usize, path: &str, body: Value) {
        let handle = find_driver(&mut self.drivers.borrow_mut(), number)
            .filter(|driver| !driver.paused)
            .map(|driver| driver.handle.clone());
        let target = format!("/v1/{path}");
        let status = call(handle, Method::POST, &target, &body).await;
        // The driver is alive and the request is valid, so no other status is possible.
        let answers = |status: StatusCode| status.is_success() || status.is_server_error();
        assert!(status.is_none_or(answers), "{path}: {status:?}");
        trace_line!("   d{number} gets the command {path} {body}: {status:?}");
    }
}

/// Sends a request to a driver's API. Returns the answer's status, if there is an answer in time.
pub async fn call(
    handle: Option<Handle>,
    method: Method,
    path: &str,
    body: &Value,
) -> Option<StatusCode> {
    let tokens = Tokens::parse("operator\n", "tokens").unwrap();
    let answer = async {
        let routes = handle?.routes(tokens).await?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", "Bearer operator")
            .body(Body::from(body.to_string()))
            .unwrap();
        Some(routes.oneshot(request).await.unwrap().status())
    };
    timeout(ANSWER_TIMEOUT, answer).await.ok().flatten()
}
