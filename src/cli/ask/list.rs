//! `boatswain list`: the applications of a namespace, or of all (spec O-137).

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Listing, tables};
use crate::cli::place::PlaceArgs;
use crate::cli::{fail, wait_for};
use crate::driver::applications::{DriverState, Listed, list as list_applications};
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// List those of all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Listing::Table)]
    output: Listing,
}

pub(in crate::cli) fn list(args: &ListArgs) -> Exit {
    wait_for(look(args))
}

async fn look(args: &ListArgs) -> Exit {
    let place = args.place.of(String::new());
    match list_applications(place, args.all_namespaces).await {
        Ok(listed) => {
            let now = Timestamp::now();
            let rows: Vec<Value> = listed.iter().map(|one| shown(one, now)).collect();
            let answer = json!({"applications": rows});
            let table = |answer: &Value, is_wide: bool| {
                tables::applications(answer, args.all_namespaces, is_wide)
            };
            args.output.show(&answer, "applications", "id", table)
        }
        Err(why) => fail(why.exit(), why),
    }
}

fn shown(listed: &Listed, now: Timestamp) -> Value {
    let application = &listed.application;
    let record = application.record.as_ref();
    let age = application
        .since
        .map(|since| now.duration_since(since).as_secs().max(0));
    json!({
        "namespace": application.namespace,
        "name": application.name,
        "id": application.id,
        "state": state(listed),
        "driver": listed.pod,
        "executors": record.ok().map(|record| record.bound.len()),
        "since": application.since.map(|since| since.to_string()),
        "age_seconds": age,
    })
}

/// What can be said without asking the driver.
fn state(listed: &Listed) -> String {
    let record = match &listed.application.record {
        Ok(record) => record,
        Err(why) => return format!("unreadable: {why}"),
    };
    if let Some(code) = record.finished {
        return format!("ended with code {code}");
    }
    let held = if record.held.is_some() { ", held" } else { "" };
    let driver = match listed.driver {
        DriverState::Runs => "its driver runs",
        DriverState::Gone => "its driver does not run",
        DriverState::Unknown if listed.pod.is_none() => "its driver is outside a pod",
        DriverState::Unknown => "its driver may not be seen",
    };
    format!("{driver}{held}")
}
