//! `boatswain list`: the applications of a namespace, or of all (spec O-137).

use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Output, tables};
use crate::cli::{fail, fail_with, plain_json, say};
use crate::driver::applications::{DriverState, Listed, NotListed, list as list_applications};
use crate::driver::clean::{Place, exit_of};
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(in crate::cli) struct ListArgs {
    /// Namespace [default: that of the kubeconfig's context]
    #[arg(long, short, value_name = "NAME")]
    namespace: Option<String>,
    /// List those of all namespaces
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    all_namespaces: bool,
    /// Kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the pod's service account]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(in crate::cli) fn list(args: &ListArgs) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail_with(Exit::Bug, &error),
    };
    let place = Place {
        app: String::new(),
        namespace: args.namespace.clone(),
        kubeconfig: args.kubeconfig.clone(),
        context: args.context.clone(),
    };
    let listed = runtime.block_on(list_applications(place, args.all_namespaces));
    // Waits for nothing that hangs (spec O-132).
    runtime.shutdown_background();
    match listed {
        Ok(listed) => {
            let now = Timestamp::now();
            let rows: Vec<Value> = listed.iter().map(|one| shown(one, now)).collect();
            let answer = json!({"applications": rows});
            match args.output {
                Output::Json => say(plain_json(&format!("{answer:#}"))),
                Output::Table => say(tables::applications(&answer, args.all_namespaces)),
            }
        }
        Err(NotListed::Call(failure)) => fail(exit_of(&failure), failure.explained()),
        Err(why @ NotListed::Connect(_)) => fail(Exit::Configuration, why),
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
