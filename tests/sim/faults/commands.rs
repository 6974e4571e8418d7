//! Sends commands to the driver through its API, as the application and operators do.

use std::time::Duration;

use axum::body::Body;
use boatswain::model::ExecutorId;
use boatswain::server::api::tokens::Tokens;
use http::{Request, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::ServiceExt;

use crate::script::{Fault, Wish};
use crate::trace::say;
use crate::world::{World, find};

/// A client waits this long for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

impl World {
    /// Sends a command to the youngest driver. Without an answer it is unknown whether the driver has carried it out.
    // spec: B-28, B-30, B-31
    pub(super) async fn ask(&mut self, pick: u64, count: usize, what: Wish) {
        let Some(number) = self.youngest() else {
            return;
        };
        let Some(ledger) = self.checks.last(number) else {
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
            Wish::Kill { replace, force } => (
                "executors/kill",
                json!({"executors": ids, "replace": replace, "force": force}),
            ),
            Wish::Decommission { replace } => (
                "executors/decommission",
                json!({"executors": ids, "replace": replace}),
            ),
            Wish::Hold { time } => {
                self.later(time, Fault::Resume);
                self.held = true;
                ("application/hold", json!({}))
            }
        };
        if let Wish::Kill { .. } = what {
            self.checks.excuses.killed.extend(named);
        }
        let profiles = self.profiles.keys().cloned();
        self.checks.excuses.retargeted.extend(profiles);
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
        let handle = find(&mut self.fleet.borrow_mut(), number)
            .filter(|driver| !driver.paused)
            .map(|driver| driver.handle.clone());
        let tokens = Tokens::parse("somebody\n", "tokens").unwrap();
        let asking = async {
            let routes = handle?.routes(tokens).await?;
            let request = Request::post(format!("/v1/{path}"))
                .header("authorization", "Bearer somebody")
                .body(Body::from(body.to_string()))
                .unwrap();
            Some(routes.oneshot(request).await.unwrap().status())
        };
        let status: Option<StatusCode> = timeout(PATIENCE, asking).await.ok().flatten();
        // The driver is alive and the request is valid, so no other status is possible.
        let answers = |status: StatusCode| status.is_success() || status.is_server_error();
        assert!(status.is_none_or(answers), "{path}: {status:?}");
        say!("   d{number} is asked to {path} {body}: {status:?}");
    }
}
