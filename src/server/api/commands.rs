//! Routes for the commands: kill, decommission, hold, resume, end, hand-over (spec B-28 to B-35).

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::{by, parse};
use super::{Api, ask, targets};
use crate::actors::driver_backend::messages::{Command, CommandOutcome, Refused, Stop, Way};
use crate::actors::driver_backend::status::views::HeldView;
use crate::model::ExecutorId;
use crate::model::snapshot::{asked, plain_targets};
use crate::server::problem::Problem;

/// The longest time limit that a client may set for a decommissioning.
const LONGEST_DRAIN: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// What a client can do about a failed profile.
pub(super) const RESET: &str =
    "mend what ends its executors and reset it (`boatswain reset PROFILE`), or remove it";

/// Kills executors: `{"executors": [3, 4], "replace": false, "force": false, "by": "me"}`.
pub async fn kill(State(api): State<Api>, body: Bytes) -> Result<Json<Value>, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        executors: Vec<u64>,
        #[serde(default)]
        replace: bool,
        #[serde(default)]
        force: bool,
        by: Option<String>,
    }
    let wanted: Wanted = parse(&body)?;
    let kill = Command::Retire {
        ids: ids(&wanted.executors)?,
        replace: wanted.replace,
        way: Way::Kill {
            force: wanted.force,
        },
        by: by(wanted.by.as_deref()),
    };
    command(&api, kill).await.map(command_outcome)
}

/// Decommissions executors: `{"executors": [3], "replace": true, "within": "2m", "by": "me"}`.
pub async fn decommission(State(api): State<Api>, body: Bytes) -> Result<Json<Value>, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        executors: Vec<u64>,
        replace: Option<bool>,
        within: Option<String>,
        by: Option<String>,
    }
    let wanted: Wanted = parse(&body)?;
    let within = wanted.within.as_deref().map(|text| {
        let within = humantime::parse_duration(text).ok();
        within.filter(|time| *time <= LONGEST_DRAIN).ok_or_else(|| {
            Problem::bad_request(format!("{text:?} is no time that an executor can be given"))
                .at("within")
                .hint("give a duration such as \"30s\" or \"1h 30m\", at most a day")
        })
    });
    let decommission = Command::Retire {
        ids: ids(&wanted.executors)?,
        replace: wanted.replace.unwrap_or(true),
        way: Way::Decommission {
            within: within.transpose()?,
        },
        by: by(wanted.by.as_deref()),
    };
    command(&api, decommission).await.map(command_outcome)
}

/// Decommissions all executors, and keeps the targets for a later resume: `{"by": "me"}`.
pub async fn hold(State(api): State<Api>, body: Bytes) -> Result<Json<Value>, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        by: Option<String>,
    }
    let wanted: Wanted = parse(&body)?;
    let by = Some(by(wanted.by.as_deref()));
    let outcome = command(&api, Command::Hold { by }).await?;
    Ok(Json(json!({"held": HeldView::of(&outcome.ledger)})))
}

/// Restores the targets from before the hold.
pub async fn resume(State(api): State<Api>, body: Bytes) -> Result<Json<Value>, Problem> {
    nothing(&body)?;
    let outcome = command(&api, Command::Resume).await?;
    Ok(targets::shown(asked(&outcome.ledger.targets)))
}

/// Ends the application: `{"exit_code": 0}`.
pub async fn end(
    State(api): State<Api>,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        #[serde(default)]
        exit_code: u8,
    }
    let Wanted { exit_code } = parse(&body)?;
    stop(
        &api,
        Stop::End { exit_code },
        json!({"exit_code": exit_code}),
    )
    .await
}

/// Ends this process and leaves the executors to its successor.
pub async fn hand_over(
    State(api): State<Api>,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), Problem> {
    nothing(&body)?;
    let exit_code = crate::exit::Exit::Superseded.code();
    stop(&api, Stop::HandOver, json!({"exit_code": exit_code})).await
}

async fn stop(api: &Api, stop: Stop, answer: Value) -> Result<(StatusCode, Json<Value>), Problem> {
    ask(&api.actors.backend, stop).await?;
    Ok((StatusCode::ACCEPTED, Json(answer)))
}

/// Refuses a body with any fields.
pub(super) fn nothing(body: &[u8]) -> Result<(), Problem> {
    let said: BTreeMap<String, Value> = parse(body)?;
    match said.into_keys().next() {
        None => Ok(()),
        Some(field) => Err(Problem::bad_request("this request takes no fields").at(field)),
    }
}

fn ids(numbers: &[u64]) -> Result<BTreeSet<ExecutorId>, Problem> {
    let id = |(at, number): (usize, &u64)| {
        ExecutorId::new(*number).ok_or_else(|| {
            Problem::bad_request(format!("{number} is no executor's id"))
                .at(format!("executors[{at}]"))
                .hint("an id is a whole number from 1")
        })
    };
    numbers.iter().enumerate().map(id).collect()
}

fn command_outcome(command_outcome: CommandOutcome) -> Json<Value> {
    let CommandOutcome {
        leaving,
        already_leaving,
        busy,
        unknown,
        ledger,
    } = command_outcome;
    Json(json!({
        "leaving": leaving,
        "already_leaving": already_leaving,
        "busy": busy,
        "unknown": unknown,
        "targets": plain_targets(&ledger.targets),
    }))
}

/// Has the driver carry it out.
pub(super) async fn command(api: &Api, command: Command) -> Result<CommandOutcome, Problem> {
    let outcome = ask(&api.actors.backend, command).await?;
    outcome.map_err(|refused| match &refused {
        Refused::UnknownProfile { profile, .. }
        | Refused::TooMany { profile, .. }
        | Refused::OfAPool { profile, .. } => Problem::refused(refused.to_string())
            .at(format!("targets.{profile}"))
            .hint("nothing was changed"),
        Refused::Failed { profile, .. } => Problem::conflict(refused.to_string())
            .coded("failed")
            .at(format!("targets.{profile}"))
            .hint(RESET),
        Refused::BeforeAdoption | Refused::Ending => {
            Problem::unavailable().hint(format!("{refused}: nothing was changed"))
        }
    })
}
