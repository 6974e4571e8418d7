//! The commands kill, decommission, hold, resume and stop (spec B-28 to B-35).

use clap::Args;
use serde_json::{Value, json};

use super::{Driver, block_on, tables};
use crate::exit::Exit;

/// `boatswain kill`
#[derive(Debug, Args)]
pub(in crate::cli) struct KillArgs {
    #[command(flatten)]
    driver: Driver,
    /// Ids of the executors
    #[arg(required = true, value_name = "EXECUTOR")]
    executors: Vec<u64>,
    /// Start replacements; otherwise the targets are lowered
    #[arg(long)]
    replace: bool,
    /// Also kill executors that are running tasks
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    who: Who,
}

/// `boatswain decommission`
#[derive(Debug, Args)]
pub(in crate::cli) struct DecommissionArgs {
    #[command(flatten)]
    driver: Driver,
    /// Ids of the executors
    #[arg(required = true, value_name = "EXECUTOR")]
    executors: Vec<u64>,
    /// Start no replacements, and lower the targets instead
    #[arg(long)]
    no_replace: bool,
    /// How long the executors may take, such as 30s or 1h 30m [default: the driver's
    /// backend.decommission_timeout]
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    within: Option<std::time::Duration>,
    #[command(flatten)]
    who: Who,
}

/// `boatswain hold`
#[derive(Debug, Args)]
pub(in crate::cli) struct HoldArgs {
    #[command(flatten)]
    driver: Driver,
    #[command(flatten)]
    who: Who,
}

/// `boatswain resume`
#[derive(Debug, Args)]
pub(in crate::cli) struct ResumeArgs {
    #[command(flatten)]
    driver: Driver,
}

/// `boatswain stop`
#[derive(Debug, Args)]
pub(in crate::cli) struct StopArgs {
    #[command(flatten)]
    driver: Driver,
    /// Exit code of the driver
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        conflicts_with = "hand_over"
    )]
    exit_code: u8,
    /// End only this driver, and leave the executors to its successor
    #[arg(long)]
    hand_over: bool,
}

/// The requester.
#[derive(Debug, Args)]
struct Who {
    /// Name of the requester, for logs, events and loss reasons
    #[arg(long, env = "USER", value_name = "NAME")]
    by: Option<String>,
}

fn tell(driver: &Driver, path: &str, body: &Value, table: fn(&Value) -> String) -> Exit {
    tell_and(driver, path, body, table, |_| Exit::Clean)
}

/// Sends a command, prints the answer, and determines the exit code from it.
fn tell_and(
    driver: &Driver,
    path: &str,
    body: &Value,
    table: fn(&Value) -> String,
    exit: fn(&Value) -> Exit,
) -> Exit {
    match driver.client() {
        Ok(client) => block_on(async {
            let answer = client.post(path, body).await?;
            Ok(match driver.show(&answer, table) {
                Exit::Clean => exit(&answer),
                trouble => trouble,
            })
        }),
        Err(trouble) => trouble,
    }
}

/// Fails if an executor that was named is not ended, so that scripts notice.
fn all_go(answer: &Value) -> Exit {
    let some = |field: &str| answer[field].as_array().is_some_and(|ids| !ids.is_empty());
    match some("busy") || some("unknown") {
        true => Exit::Refused,
        false => Exit::Clean,
    }
}

pub(in crate::cli) fn kill(args: &KillArgs) -> Exit {
    let body = json!({
        "executors": args.executors,
        "replace": args.replace,
        "force": args.force,
        "by": args.who.by,
    });
    tell_and(
        &args.driver,
        "/v1/executors/kill",
        &body,
        tables::command_outcome,
        all_go,
    )
}

pub(in crate::cli) fn decommission(args: &DecommissionArgs) -> Exit {
    let within = args
        .within
        .map(|time| humantime::format_duration(time).to_string());
    let body = json!({
        "executors": args.executors,
        "replace": !args.no_replace,
        "within": within,
        "by": args.who.by,
    });
    let path = "/v1/executors/decommission";
    tell_and(&args.driver, path, &body, tables::command_outcome, all_go)
}

pub(in crate::cli) fn hold(args: &HoldArgs) -> Exit {
    let body = json!({"by": args.who.by});
    tell(&args.driver, "/v1/application/hold", &body, tables::held)
}

pub(in crate::cli) fn resume(args: &ResumeArgs) -> Exit {
    tell(
        &args.driver,
        "/v1/application/resume",
        &json!({}),
        tables::targets,
    )
}

pub(in crate::cli) fn stop(args: &StopArgs) -> Exit {
    let (path, body) = match args.hand_over {
        true => ("/v1/application/hand-over", json!({})),
        false => ("/v1/application/end", json!({"exit_code": args.exit_code})),
    };
    tell(&args.driver, path, &body, tables::ending)
}
