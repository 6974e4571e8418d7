//! The route for the application's demand (spec B-40). A report is accepted or refused as a whole.

use std::collections::BTreeMap;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::parse;
use super::{Api, ask};
use crate::actors::autoscaler::messages::{PostDemand, RefusedDemand};
use crate::actors::autoscaler::scaler::Demand;
use crate::model::ProfileName;
use crate::server::problem::Problem;

/// Takes the demand in slots: `{"profiles": {"default": {"pending": 12, "running": 4}}}`.
pub async fn post(State(api): State<Api>, body: Bytes) -> Result<Json<Value>, Problem> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wanted {
        profiles: BTreeMap<ProfileName, Slots>,
    }
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Slots {
        pending: u32,
        running: u32,
    }
    let wanted: Wanted = parse(&body)?;
    let demand = |(profile, Slots { pending, running })| (profile, Demand { pending, running });
    let demands = wanted.profiles.into_iter().map(demand).collect();
    match ask(&api.actors.autoscaler, PostDemand(demands)).await? {
        Ok(wanted) => Ok(Json(json!({"wanted": wanted}))),
        Err(refused) => {
            let problem = Problem::refused(refused.to_string());
            Err(match refused {
                RefusedDemand::Off => problem.hint("set autoscaling.enabled = true"),
                RefusedDemand::UnknownProfile(profile) => problem
                    .at(format!("profiles.{profile}"))
                    .hint("nothing was changed"),
            })
        }
    }
}
