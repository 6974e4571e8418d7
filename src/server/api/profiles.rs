//! The route that adds a profile (spec B-26).

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use serde_json::{Map, Value};

use super::body::parse;
use super::{Api, ask, targets};
use crate::actors::profiles::messages::{AddProfile, RefusedProfile};
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
    let refused = match ask(&api.actors.profiles, add).await? {
        Ok(()) => return targets::asked(&api).await,
        Err(refused) => refused,
    };
    let problem = Problem::refused(refused.to_string());
    Err(match refused {
        RefusedProfile::Exists(_) => {
            problem.hint("an existing profile cannot be changed: choose a new name")
        }
        RefusedProfile::Mistakes(mistakes) => match mistakes.into_iter().next() {
            Some(first) => Problem::refused(first.found).at(first.key).hint(first.fix),
            None => problem,
        },
        RefusedProfile::TooMuch | RefusedProfile::NoPod(_) => problem.hint("nothing was changed"),
        RefusedProfile::NotNow => Problem::unavailable(),
    })
}
