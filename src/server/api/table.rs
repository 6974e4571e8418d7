//! The table of all routes, with their descriptions for the OpenAPI document. A route without a
//! description cannot be served.

use axum::routing::{MethodRouter, delete, get, post, put};
use http::Method;

use super::routes::{
    counts, document, executors, explain, health, metrics, readiness, status, token,
};
use super::{Api, commands, demand, events, profiles, targets};

pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub handler: MethodRouter<Api>,
    /// Whether the route needs no token.
    pub open: bool,
    /// Whether the route is answered before the executors are adopted, because it tells nothing of them.
    pub early: bool,
    pub summary: &'static str,
    /// The schema of the request's body, if it has one.
    pub takes: Option<&'static str>,
    /// The status of a successful answer.
    pub status: u16,
    /// The content of a successful answer.
    pub answers: Answers,
    /// The error statuses that not every route may return.
    pub refusals: &'static [u16],
    /// The parameters of the query that select from the answer, and their descriptions.
    pub finds: &'static [(&'static str, &'static str)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// JSON of this schema.
    Json(&'static str),
    /// Text of this media type.
    Text(&'static str),
}

/// A read-only route.
fn looks(path: &'static str, handler: MethodRouter<Api>, schema: &'static str) -> Route {
    Route {
        method: Method::GET,
        path,
        handler,
        open: false,
        early: false,
        summary: "",
        takes: None,
        status: 200,
        answers: Answers::Json(schema),
        refusals: &[],
        finds: &[],
    }
}

/// A route that changes something.
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
        Self {
            open: true,
            ..self.early()
        }
    }

    fn early(self) -> Self {
        Self {
            early: true,
            ..self
        }
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

    fn finds(self, finds: &'static [(&'static str, &'static str)]) -> Self {
        Self { finds, ..self }
    }

    fn text(self, kind: &'static str) -> Self {
        Self {
            answers: Answers::Text(kind),
            ..self
        }
    }
}

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
        .is("Adds a profile; an existing one cannot be changed")
        .refuses(&[400, 409, 422]),
        Route {
            takes: None,
            ..does(
                Method::DELETE,
                "/v1/profiles/{profile}",
                delete(profiles::remove),
                "",
                "Targets",
            )
        }
        .is("Removes a profile that was added; its executors finish their work and exit")
        .refuses(&[404, 409]),
        does(
            Method::POST,
            "/v1/profiles/{profile}/reset",
            post(profiles::reset),
            "Nothing",
            "Targets",
        )
        .is("Lets a profile that has failed begin anew")
        .refuses(&[400, 404]),
        looks("/v1/status", get(status), "Status").is(
            "The driver's state: targets, executors by state, what they wait for, the last losses",
        ),
        looks("/v1/history/counts", get(counts), "CountsHistory")
            .is("The executors of each profile by state over the last hour, every 10 s"),
        looks("/v1/token", get(token), "TokenRight")
            .is("What the token of this request may do")
            .early(),
        looks("/v1/executors", get(executors), "Executors")
            .is("The executors that live")
            .finds(&[
                ("ip", "Only the executors whose pods have this address"),
                ("profile", "Only the executors of this profile"),
                ("state", "Only the executors in this state"),
                ("after", "Only the executors with higher ids than this one"),
                ("limit", "At most so many, the lowest ids first"),
            ])
            .refuses(&[400]),
        looks("/v1/executors/{id}", get(explain), "ExecutorHistory")
            .is("The history of a live executor, or of one of the last that ended")
            .refuses(&[400, 404]),
        looks("/v1/targets", get(targets::read), "Targets").is("How many executors are wanted"),
        does(
            Method::PUT,
            "/v1/targets",
            put(targets::set),
            "Targets",
            "Targets",
        )
        .is("Sets the targets of all named profiles, or of none if one is invalid")
        .refuses(&[400, 409, 422]),
        does(
            Method::PUT,
            "/v1/targets/{profile}",
            put(targets::set_one),
            "Target",
            "Targets",
        )
        .is("Sets the target of one profile")
        .refuses(&[400, 409, 422]),
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
        .is("Decommissions executors: they finish their work and exit"),
        does(
            Method::POST,
            "/v1/application/hold",
            post(commands::hold),
            "Hold",
            "Held",
        )
        .is("Decommissions all executors, and keeps the targets for a later resume"),
        does(
            Method::POST,
            "/v1/application/resume",
            post(commands::resume),
            "Nothing",
            "Targets",
        )
        .is("Restores the targets from before the hold"),
        does(
            Method::POST,
            "/v1/application/end",
            post(commands::end),
            "End",
            "Ending",
        )
        .is("Ends the application; the driver exits with its code")
        .accepted()
        .early(),
        does(
            Method::POST,
            "/v1/application/hand-over",
            post(commands::hand_over),
            "Nothing",
            "Ending",
        )
        .is("Ends this driver and leaves the executors to its successor")
        .accepted()
        .early(),
    ]
}

/// Routes for demand, events, health and the document itself.
fn demand_and_health() -> Vec<Route> {
    vec![
        does(
            Method::POST,
            "/v1/demand",
            post(demand::post),
            "Demand",
            "Wanted",
        )
        .is("Reports the demand, for autoscaling")
        .refuses(&[400, 422]),
        looks("/v1/events", get(events::follow), "Event")
            .is("The events as they happen: server-sent events, each with data of this schema")
            .text("text/event-stream")
            .refuses(&[400]),
        looks("/metrics", get(metrics), "")
            .is("The metrics for Prometheus")
            .text("application/openmetrics-text")
            .early(),
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
