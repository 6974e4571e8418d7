//! The route that takes one message per request, for executors without WebSocket (spec O-61).

use std::sync::Arc;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use http::request::Parts;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ANSWER, PATIENCE, Sessions};
use crate::actors::executor_registry::messages::Say;
use crate::actors::executor_registry::registry::{TOO_MANY, Via};
use crate::server::problem::{NO_PLACE, Problem};
use crate::server::serve::{self, Full};
use boatswain_agent::protocol::{MESSAGE_LIMIT, Notice, ToExecutor, read};

/// Forwards the message, and answers with all messages for the executor.
pub(super) async fn take(
    State(sessions): State<Sessions>,
    parts: Parts,
    body: Body,
) -> Result<Json<Value>, Problem> {
    let admission = &sessions.admission;
    let proof = admission.authenticate(&parts.headers).await?;
    serve::admit(&parts.extensions, &admission.requests)
        .map_err(|Full| Problem::too_many(NO_PLACE))?;
    let body = timeout(PATIENCE, to_bytes(body, MESSAGE_LIMIT))
        .await
        .map_err(|_| Problem::too_slow())?
        .map_err(|_| Problem::too_large())?;
    let message = read(&body).map_err(|misread| {
        let code = misread.code;
        admission.metrics.refused.of([code.into()]).inc();
        let problem = Problem::bad_request(misread.message).coded(misread.code);
        match misread.field {
            Some(field) => problem.at(field),
            None => problem,
        }
    })?;
    let say = Say {
        proof: Arc::new(proof),
        via: Via::Request,
        message,
    };
    match timeout(ANSWER, admission.registry.send(say)).await {
        Ok(Ok(messages)) => {
            if let [ToExecutor::Problem { code, message, .. }] = &messages[..]
                && code == TOO_MANY
            {
                return Err(Problem::too_many(message.clone()).coded(TOO_MANY));
            }
            let messages = &messages[..];
            Ok(Json(json!(Notice { messages })))
        }
        Ok(Err(_)) | Err(_) => Err(Problem::unavailable()),
    }
}
