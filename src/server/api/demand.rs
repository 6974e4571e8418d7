//! The route for the application's demand (spec B-40, B-54). A report is accepted or refused as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body::parse;
use super::{Api, ask};
use crate::actors::driver_backend::autoscaler::scaler::Demand;
use crate::actors::driver_backend::messages::{PostDemand, RefusedDemand};
use crate::model::ProfileName;
use crate::server::problem::Problem;

/// The most preferred nodes of a profile (spec B-54).
const MOST_NODES: usize = 32;

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
        #[serde(default)]
        nodes: BTreeMap<Arc<str>, u32>,
    }
    let wanted: Wanted = parse(&body)?;
    let mut post = PostDemand::default();
    for (profile, slots) in wanted.profiles {
        let Slots {
            pending,
            running,
            mut nodes,
        } = slots;
        check_nodes(&nodes).map_err(|problem| problem.at(format!("profiles.{profile}.nodes")))?;
        nodes.retain(|_, weight| *weight > 0);
        let demand = Demand { pending, running };
        post.demands.insert(profile.clone(), demand);
        post.nodes.insert(profile, nodes);
    }
    match ask(&api.actors.backend, post).await? {
        Ok(wanted) => Ok(Json(json!({"wanted": wanted}))),
        Err(refused) => {
            let problem = Problem::refused(refused.to_string());
            Err(match refused {
                RefusedDemand::Off => problem.hint("set autoscaling.enabled = true"),
                RefusedDemand::UnknownProfile(profile) => problem
                    .at(format!("profiles.{profile}"))
                    .hint("nothing was changed"),
                RefusedDemand::OfASet(profile) => problem
                    .at(format!("profiles.{profile}.nodes"))
                    .hint("leave nodes out, or set allocation.strategy = \"direct\""),
            })
        }
    }
}

/// The API server refuses a pod that names an impossible node.
fn check_nodes(nodes: &BTreeMap<Arc<str>, u32>) -> Result<(), Problem> {
    if nodes.len() > MOST_NODES {
        let found = nodes.len();
        return Err(
            Problem::refused(format!("{found} nodes are too many: at most {MOST_NODES}"))
                .hint("name those with the highest weights"),
        );
    }
    match nodes.keys().find(|node| !is_node_name(node)) {
        None => Ok(()),
        Some(node) => Err(Problem::refused(format!("{node:?} is no node's name"))
            .hint("name nodes as kubectl get nodes does")),
    }
}

/// A DNS subdomain.
fn is_node_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        label.bytes().all(|byte| letters(byte) || byte == b'-')
            && label.bytes().next().is_some_and(letters)
            && label.bytes().next_back().is_some_and(letters)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
