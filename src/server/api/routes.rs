//! Builds the API's router, authorises requests, and serves the read-only routes.

use std::num::NonZeroU32;
use std::str::FromStr;

use axum::Json;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Path, Query, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, Method};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::table::table;
use super::tokens::Right;
use super::{ANSWER, Actors, Api, BODY, BODY_TIME, adoption, answers, ask, openapi, page};
use crate::actors::driver_backend::messages::{Command, GetCounts, GetStatus};
use crate::actors::event_history::messages::{Explain, ListExecutors};
use crate::actors::event_history::views::Selection;
use crate::model::ExecutorId;
use crate::model::executor::STATES;
use crate::server::problem::{NO_PLACE, Problem};
use crate::server::serve::{self, Full};

const ID: &str = "an id is a whole number from 1";

pub fn of(api: Api) -> Router {
    let (mut open, mut closed, mut adopted) = (Router::new(), Router::new(), Router::new());
    for route in table() {
        let side = match (route.open, route.early) {
            (true, _) => &mut open,
            (false, true) => &mut closed,
            (false, false) => &mut adopted,
        };
        *side = std::mem::take(side).route(route.path, route.handler);
    }
    let adopted = adopted.layer(from_fn_with_state(api.clone(), adoption::awaited));
    let unread = from_fn_with_state(api.unread.clone(), answers::bounded);
    let closed = closed.merge(adopted).layer(unread);
    let closed = closed.layer(from_fn_with_state(api.clone(), admit));
    open.merge(page::router())
        .merge(closed)
        .fallback(async || {
            Problem::not_found("this path does not exist").hint("/openapi.json lists all paths")
        })
        .method_not_allowed_fallback(async || Problem::wrong_method())
        .with_state(api)
}

/// Checks the token's right, and limits the body's size and duration.
async fn admit(State(api): State<Api>, request: Request, next: Next) -> Result<Response, Problem> {
    let token = bearer(request.headers()).ok_or_else(Problem::unauthorized)?;
    let (right, account) = match (api.tokens.right(token), &api.actors.callers) {
        (Some(right), _) => (right, None),
        (None, None) => return Err(Problem::unauthorized()),
        (None, Some(callers)) => {
            let (right, account) = callers.right(token).await?;
            (right, Some(account))
        }
    };
    let looks = matches!(*request.method(), Method::GET | Method::HEAD);
    serve::admit(request.extensions(), &api.places).map_err(|Full| Problem::too_many(NO_PLACE))?;
    if right < Right::Full && !looks {
        return Err(match account {
            None => Problem::read_only(),
            Some(account) => Problem::read_only().hint(format!(
                "the right \"full\" is missing: {account:?} = \"full\" in the driver's api.service_accounts"
            )),
        });
    }
    if right == Right::Full {
        api.actors.backend.do_send(Command::Renew);
    }
    let (mut parts, body) = request.into_parts();
    parts.extensions.insert(right);
    let body = timeout(BODY_TIME, to_bytes(body, BODY))
        .await
        .map_err(|_| Problem::too_slow())?
        .map_err(|_| Problem::too_large())?;
    Ok(next.run(Request::from_parts(parts, Body::from(body))).await)
}

pub(super) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let header = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = header.split_at_checked("bearer ".len())?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}

/// The metrics for Prometheus (spec O-41).
pub async fn metrics(State(actors): State<Actors>) -> Result<Response, Problem> {
    let Ok(Ok(text)) = timeout(ANSWER, actors.scraper.scrape()).await else {
        return Err(Problem::unavailable());
    };
    const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}

/// The liveness probe: the actors answer (spec O-42).
pub async fn health(State(actors): State<Actors>) -> Result<&'static str, Problem> {
    ask(&actors.backend, GetStatus).await.map(|_| "ok\n")
}

/// The readiness probe: the application is ready (spec B-20).
pub async fn readiness(State(actors): State<Actors>) -> Result<&'static str, Problem> {
    let status = ask(&actors.backend, GetStatus).await?;
    match (status.adopted, status.ready) {
        (true, true) => Ok("ok\n"),
        (true, false) => Err(Problem::unavailable_for(
            "too few executors are running or registered",
        )
        .hint("`boatswain status` shows how many, and what the others wait for")),
        (false, _) => Err(Problem::not_adopted()),
    }
}

/// The OpenAPI document (spec B-25, O-42).
pub async fn document() -> Json<Value> {
    Json(openapi::document())
}

/// The driver's state (spec O-42).
pub async fn status(State(api): State<Api>) -> Result<Json<Value>, Problem> {
    Ok(Json(json!(ask(&api.actors.backend, GetStatus).await?)))
}

/// The numbers of the last hour (spec O-82).
pub async fn counts(State(api): State<Api>) -> Result<Json<Value>, Problem> {
    Ok(Json(json!(ask(&api.actors.backend, GetCounts).await?)))
}

/// What the token of this request may do (spec O-82).
pub async fn token(Extension(right): Extension<Right>) -> Json<Value> {
    let right = match right {
        Right::Read => "read",
        Right::Full => "full",
    };
    Json(json!({"right": right}))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Find {
    ip: Option<String>,
    profile: Option<String>,
    state: Option<String>,
    after: Option<String>,
    limit: Option<String>,
}

impl Find {
    fn selection(self) -> Result<Selection, Problem> {
        let (ip, after, limit) = (self.ip, self.after, self.limit);
        if self
            .state
            .as_deref()
            .is_some_and(|state| !STATES.contains(&state))
        {
            return Err(Problem::bad_request("no executor is ever in this state")
                .at("state")
                .hint(format!("the states are {}", STATES.join(", "))));
        }
        let address = "write it as in the pod's status.podIP, such as 10.0.3.17";
        Ok(Selection {
            profile: self.profile,
            state: self.state,
            ip: parsed(ip, "ip", "this is not an IP address", address)?,
            after: parsed(after, "after", "this is no executor's id", ID)?
                .and_then(ExecutorId::new),
            limit: parsed::<NonZeroU32>(
                limit,
                "limit",
                "this is no limit",
                "give a whole number from 1",
            )?
            .map(|most| most.get() as usize),
        })
    }
}

/// A value of the query, if it is given.
fn parsed<T: FromStr>(
    given: Option<String>,
    field: &str,
    message: &str,
    hint: &str,
) -> Result<Option<T>, Problem> {
    let value = given.map(|text| text.parse()).transpose();
    value.map_err(|_| Problem::bad_request(message).at(field).hint(hint))
}

/// Live executors: all, or those that the query selects (spec B-53). Readers of the same list share its text.
pub async fn executors(
    State(api): State<Api>,
    find: Result<Query<Find>, QueryRejection>,
) -> Result<Response, Problem> {
    let Query(find) = find.map_err(|why| Problem::bad_request(why.body_text()))?;
    let selection = find.selection()?;
    let (answer, answered) = oneshot::channel();
    let room = api.unread.clone();
    api.actors.history.do_send(ListExecutors {
        selection,
        room: Box::new(move |text| room.keep(text)),
        answer,
    });
    let Ok(Ok(text)) = timeout(ANSWER, answered).await else {
        return Err(Problem::unavailable());
    };
    text.map(answers::shared).ok_or_else(answers::full)
}

/// An executor's history (spec B-51), with evidence from the cluster (spec O-78).
pub async fn explain(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let parsed = ExecutorId::parse(&id).map_err(|_| {
        Problem::bad_request(format!("{id:?} is no executor's id"))
            .at("id")
            .hint(ID)
    })?;
    let explanation = ask(&api.actors.history, Explain(parsed))
        .await?
        .ok_or_else(|| {
            Problem::not_found(format!("nothing is known of executor {id}"))
                .hint("it never existed, or ended long ago: the log has each executor's end")
        })?;
    let history = &explanation.history;
    let evidence = match (&api.actors.evidence, &history.pod) {
        (Some(reader), Some(pod)) => Some(reader.read(pod).await),
        (None, _) | (_, None) => None,
    };
    Ok(Json(json!({
        "executor": parsed.get(),
        "now": explanation.now,
        "events": history.events,
        "left_out_after_the_first": history.left_out,
        "evidence": evidence,
    })))
}
