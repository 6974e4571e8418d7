//! The routes that add, remove and reset a profile (spec B-26, B-52, L-41).

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use serde_json::{Map, Value};

use super::body::parse;
use super::commands::{RESET, nothing};
use super::{Api, ask, targets};
use crate::actors::driver_backend::messages::{
    AddProfile, RefusedProfile, RefusedRemoval, RefusedReset, RemoveProfile, ResetProfile,
};
use crate::model::ProfileName;
use crate::server::problem::Problem;

/// Adds a profile, described by the keys of the configuration: `{"executors": 2, "image":
/// "engine:2", "memory": "4Gi"}`.
pub async fn add(
    State(api): State<Api>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let described: Map<String, Value> = parse(&body)?;
    let add = AddProfile {
        name: ProfileName::from(name),
        described: Value::Object(described),
    };
    let refused = match ask(&api.actors.backend, add).await? {
        Ok(targets) => return Ok(targets::shown(targets)),
        Err(refused) => refused,
    };
    let problem = Problem::refused(refused.to_string());
    Err(match refused {
        RefusedProfile::Failed { .. } => Problem::conflict(refused.to_string())
            .coded("failed")
            .hint(RESET),
        RefusedProfile::BeingRemoved(_) => Problem::conflict(refused.to_string())
            .coded("being-removed")
            .hint("add it after the event \"removed\", or choose a new name"),
        RefusedProfile::Exists(_) => {
            problem.hint("an existing profile cannot be changed: choose a new name")
        }
        RefusedProfile::IsPool(_) => problem.hint("choose a new name"),
        RefusedProfile::Mistakes(mistakes) => match mistakes.into_iter().next() {
            Some(first) => Problem::refused(first.found).at(first.key).hint(first.fix),
            None => problem,
        },
        RefusedProfile::TooMuch | RefusedProfile::NoPod(_) => problem.hint("nothing was changed"),
        RefusedProfile::NotNow => Problem::unavailable(),
    })
}

/// Removes a profile. The answer has the targets of the others; the event `removed` says when it is gone.
pub async fn remove(
    State(api): State<Api>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let remove = RemoveProfile(ProfileName::from(name));
    let refused = match ask(&api.actors.backend, remove).await? {
        Ok(targets) => return Ok(targets::shown(targets)),
        Err(refused) => refused,
    };
    let why = refused.to_string();
    Err(match refused {
        RefusedRemoval::Unknown(_) => Problem::not_found(why).hint("GET /v1/targets lists all profiles"),
        RefusedRemoval::Configured(_) => Problem::conflict(why)
            .coded("configured")
            .hint("set its target to 0, or remove [profiles.NAME] from the file and start the driver again"),
        RefusedRemoval::NotRecorded => Problem::unavailable_for(why),
    })
}

/// Lets a profile that has failed begin anew. The answer has the requested targets.
pub async fn reset(
    State(api): State<Api>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    nothing(&body)?;
    let reset = ResetProfile(ProfileName::from(name));
    let refused = match ask(&api.actors.backend, reset).await? {
        Ok(targets) => return Ok(targets::shown(targets)),
        Err(refused) => refused,
    };
    let why = refused.to_string();
    Err(match refused {
        RefusedReset::Unknown(_) => {
            Problem::not_found(why).hint("GET /v1/targets lists all profiles")
        }
        RefusedReset::NotRecorded => Problem::unavailable_for(why),
    })
}
