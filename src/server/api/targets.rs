//! Routes for the targets (spec B-25). A request is accepted or refused as a whole.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use serde_json::{Value, json};

use super::body::parse;
use super::commands::command;
use super::{Api, ask};
use crate::actors::driver_backend::messages::{Command, GetStatus};
use crate::model::ProfileName;
use crate::model::snapshot::asked;
use crate::server::problem::Problem;

pub async fn read(State(api): State<Api>) -> Result<Json<Value>, Problem> {
    let profiles = ask(&api.actors.backend, GetStatus).await?.profiles;
    let targets: BTreeMap<String, u32> = profiles
        .into_iter()
        .filter(|(_, view)| !view.removing)
        .map(|(profile, view)| (profile, view.target))
        .collect();
    Ok(Json(json!({"targets": targets})))
}

/// Sets the targets of all profiles in the body: `{"targets": {"default": 4}}`.
pub async fn set(State(api): State<Api>, body: Bytes) -> Result<Json<Value>, Problem> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        targets: BTreeMap<String, u32>,
    }
    let wanted: Wanted = parse(&body)?;
    change(&api, wanted.targets).await
}

/// Sets the target of one profile: `{"executors": 4}`.
pub async fn set_one(
    State(api): State<Api>,
    Path(profile): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        executors: u32,
    }
    let wanted: Wanted = parse(&body)?;
    change(&api, BTreeMap::from([(profile, wanted.executors)])).await
}

async fn change(api: &Api, targets: BTreeMap<String, u32>) -> Result<Json<Value>, Problem> {
    let named = |(profile, target)| (ProfileName::from(profile), target);
    let targets = targets.into_iter().map(named).collect();
    let outcome = command(api, Command::SetTargets(targets)).await?;
    Ok(shown(asked(&outcome.ledger.targets)))
}

/// The answer of all routes for targets.
pub fn shown(targets: BTreeMap<ProfileName, u32>) -> Json<Value> {
    Json(json!({"targets": targets}))
}
