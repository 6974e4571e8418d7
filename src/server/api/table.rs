//! Every route there is, with what is said of it in the OpenAPI document: one line each, so that none is served that is
//! not described.

use axum::routing::{MethodRouter, get, post, put};
use http::Method;

use super::routes::{document, executors, explain, health, metrics, readiness, status};
use super::{Api, commands, demand, events, profiles, targets};

/// A route.
pub struct Route {
    /// How it is asked.
    pub method: Method,
    /// Where.
    pub path: &'static str,
    /// Who answers.
    pub handler: MethodRouter<Api>,
    /// Whether no token is needed.
    pub open: bool,
    /// What it is for.
    pub summary: &'static str,
    /// The schema of its body, where it has one.
    pub takes: Option<&'static str>,
    /// The status of a good answer.
    pub status: u16,
    /// What a good answer is.
    pub answers: Answers,
    /// The statuses of other answers, beside those that any route may give.
    pub refusals: &'static [u16],
}

/// What a good answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// JSON of this schema.
    Json(&'static str),
    /// Something else, of this type.
    Text(&'static str),
}

/// One that only looks.
fn looks(path: &'static str, handler: MethodRouter<Api>, schema: &'static str) -> Route {
    Route {
        method: Method::GET,
        path,
        handler,
        open: false,
        summary: "",
        takes: None,
        status: 200,
        answers: Answers::Json(schema),
        refusals: &[],
    }
}

/// One that changes something.
fn does(
    method: Method,
    path: &'static str,
    handler: MethodRouter<Api>,
    takes: &'static str,
    schema: &'static str,
) -> Route {
    Route {
        method,
        takes: Some(takes),
        refusals: &[400],
        ..looks(path, handler, schema)
    }
}

impl Route {
    fn is(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    fn open(self) -> Self {
        Self { open: true, ..self }
    }

    fn accepted(self) -> Self {
        Self {
            status: 202,
            ..self
        }
    }

    fn refuses(self, refusals: &'static [u16]) -> Self {
        Self { refusals, ..self }
    }

    fn text(self, kind: &'static str) -> Self {
        Self {
            answers: Answers::Text(kind),
            ..self
        }
    }
}

/// All of them.
pub fn table() -> Vec<Route> {
    let routes = [profiles_and_targets(), commands(), demand_and_health()];
    routes.into_iter().flatten().collect()
}

fn profiles_and_targets() -> Vec<Route> {
    vec![
        does(
            Method::PUT,
            "/v1/profiles/{profile}",
            put(profiles::add),
            "NewProfile",
            "Targets",
        )
        .is("Adds a profile; one that is there is not changed")
        .refuses(&[400, 422]),
        looks("/v1/status", get(status), "Status")
            .is("How the driver is doing: targets, states, what is waited for, the last losses"),
        looks("/v1/executors", get(executors), "Executors").is("The executors that live"),
        looks("/v1/executors/{id}", get(explain), "ExecutorHistory")
            .is("The history of an executor, also of the last 1,000 that ended")
            .refuses(&[400, 404]),
        looks("/v1/targets", get(targets::read), "Targets").is("How many executors are wanted"),
        does(
            Method::PUT,
            "/v1/targets",
            put(targets::set),
            "Targets",
            "Targets",
        )
        .is("Says how many executors are wanted, of all profiles that are named or of none")
        .refuses(&[400, 422]),
        does(
            Method::PUT,
            "/v1/targets/{profile}",
            put(targets::set_one),
            "Target",
            "Targets",
        )
        .is("Says how many executors of one profile are wanted")
        .refuses(&[400, 422]),
    ]
}

fn commands() -> Vec<Route> {
    vec![
        does(
            Method::POST,
            "/v1/executors/kill",
            post(commands::kill),
            "Kill",
            "CommandOutcome",
        )
        .is("Kills executors"),
        does(
            Method::POST,
            "/v1/executors/decommission",
            post(commands::decommission),
            "Decommission",
            "CommandOutcome",
        )
        .is("Has executors finish what they do and go"),
        does(
            Method::POST,
            "/v1/application/hold",
            post(commands::hold),
            "Hold",
            "Held",
        )
        .is("Has all executors finish and go, and remembers how many were wanted"),
        does(
            Method::POST,
            "/v1/application/resume",
            post(commands::resume),
            "Nothing",
            "Targets",
        )
        .is("Brings back what was wanted before the executors were held"),
        does(
            Method::POST,
            "/v1/application/end",
            post(commands::end),
            "End",
            "Ending",
        )
        .is("Ends the application; the driver exits with its code")
        .accepted(),
        does(
            Method::POST,
            "/v1/application/hand-over",
            post(commands::hand_over),
            "Nothing",
            "Ending",
        )
        .is("Ends this driver and leaves the executors to its successor")
        .accepted(),
    ]
}

/// What there is to do, what happens, and how the driver is.
fn demand_and_health() -> Vec<Route> {
    vec![
        does(
            Method::POST,
            "/v1/demand",
            post(demand::post),
            "Demand",
            "Wanted",
        )
        .is("Says what there is to do, for autoscaling")
        .refuses(&[400, 422]),
        looks("/v1/events", get(events::follow), "Event")
            .is("What happens, as it happens: server-sent events, each with data of this schema")
            .text("text/event-stream")
            .refuses(&[400, 429]),
        looks("/metrics", get(metrics), "")
            .is("What Prometheus scrapes")
            .text("application/openmetrics-text"),
        looks("/healthz", get(health), "")
            .is("Whether the driver answers")
            .text("text/plain")
            .open(),
        looks("/readyz", get(readiness), "")
            .is("Whether the driver has taken over")
            .text("text/plain")
            .open(),
        looks("/openapi.json", get(document), "")
            .is("This document")
            .open(),
    ]
}
