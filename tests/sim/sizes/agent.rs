//! The agent of an executor whose memory grows: it registers with each driver, and tells it what its container uses.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tower::ServiceExt;

use crate::objects::text;

const HEARTBEATS: Duration = Duration::from_secs(2);

/// A driver that can be reached answers within this time.
const ANSWER: Duration = Duration::from_secs(2);

#[derive(Default)]
pub struct Agent {
    /// The driver with which it has registered, and the number of its session.
    session: Option<(usize, u64)>,
    last: Option<Instant>,
    /// Since when this driver knows that the memory is scarce.
    scarce_since: Option<Instant>,
}

impl Agent {
    /// For how long this driver has known that the memory is scarce.
    pub fn scarce_for(&self, driver: usize) -> Option<Duration> {
        let (known, _) = self.session?;
        Some(self.scarce_since.filter(|_| known == driver)?.elapsed())
    }

    /// The container has more now.
    pub fn has_more(&mut self) {
        self.scarce_since = None;
    }

    /// Speaks with this driver, if it is time. `is_scarce`: whether these bytes are near the limit.
    pub async fn speak(
        &mut self,
        pod: &Value,
        (number, driver): &(usize, Router),
        (used, limit): (u64, u64),
        is_scarce: bool,
    ) {
        if self.last.is_some_and(|last| last.elapsed() < HEARTBEATS) {
            return;
        }
        self.last = Some(Instant::now());
        let session = self.session.filter(|(known, _)| known == number);
        let message = match session {
            None => json!({
                "type": "register", "app": env(pod, "BOATSWAIN_APP_ID"), "slots": 1,
                "executor": env(pod, "BOATSWAIN_EXECUTOR_ID").parse::<u64>().unwrap_or_default(),
                "pod_uid": text(pod, "/metadata/uid"),
            }),
            Some((_, session)) => json!({
                "type": "heartbeat", "session": session, "busy_slots": 1,
                "usage": {"memory_bytes": used, "memory_limit_bytes": limit},
            }),
        };
        let answer = post(pod, driver, &message).await;
        let answer = answer.as_ref().and_then(|messages| messages.first());
        let kind = answer.map_or("", |answer| text(answer, "/type"));
        match (session, kind) {
            (None, "registered") => {
                let session = answer.and_then(|answer| answer["session"].as_u64());
                (self.session, self.last) = (session.map(|session| (*number, session)), None);
                self.scarce_since = None;
            }
            (Some(_), "ack") => {
                let since = self.scarce_since.unwrap_or_else(Instant::now);
                self.scarce_since = is_scarce.then_some(since);
            }
            (Some(_), _) => (self.session, self.scarce_since) = (None, None),
            (None, _) => {}
        }
    }
}

pub fn env<'p>(pod: &'p Value, name: &str) -> &'p str {
    let env = pod.pointer("/spec/containers/0/env");
    let env = env.and_then(Value::as_array).into_iter().flatten();
    let mut named = env.filter(|variable| text(variable, "/name") == name);
    named.next().map_or("", |variable| text(variable, "/value"))
}

/// The driver's answers; `None`: it does not answer.
pub async fn post(pod: &Value, driver: &Router, message: &Value) -> Option<Vec<Value>> {
    let request = Request::post("/v1/session/messages")
        .header(
            "authorization",
            format!("Bearer {}", env(pod, "BOATSWAIN_TOKEN")),
        )
        .body(Body::from(message.to_string()))
        .unwrap();
    let answered = timeout(ANSWER, driver.clone().oneshot(request))
        .await
        .ok()?;
    let body = answered.ok()?.into_body().collect().await.ok()?.to_bytes();
    let answer: Value = serde_json::from_slice(&body).ok()?;
    answer["messages"].as_array().cloned()
}
