//! The commands kill, decommission, hold, resume and stop (spec B-28 to B-35).

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::{Driver, tables};
use crate::exit::Exit;

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

#[derive(Debug, Args)]
pub(in crate::cli) struct HoldArgs {
    #[command(flatten)]
    driver: Driver,
    #[command(flatten)]
    who: Who,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ResumeArgs {
    #[command(flatten)]
    driver: Driver,
}

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

#[derive(Debug, Args)]
struct Who {
    /// Name of the requester, for logs, events and loss reasons
    #[arg(long, env = "USER", value_name = "NAME")]
    by: Option<String>,
}

/// Sends a command, prints the answer, and determines the exit code from it.
fn tell(
    driver: &Driver,
    path: &str,
    body: &Value,
    table: fn(&Value) -> String,
    exit: fn(&Value) -> Exit,
) -> Exit {
    driver.ask(async |client| {
        let answer = client.call(Method::POST, path, Some(body)).await?;
        Ok(match driver.show(&answer, table) {
            Exit::Clean => exit(&answer),
            trouble => trouble,
        })
    })
}

/// Sends a command about executors. Fails if one of them is not ended, so that scripts notice.
fn tell_executors(driver: &Driver, command: &str, body: &Value) -> Exit {
    let path = format!("/v1/executors/{command}");
    tell(driver, &path, body, tables::command_outcome, |answer| {
        let some = |field: &str| answer[field].as_array().is_some_and(|ids| !ids.is_empty());
        match some("busy") || some("unknown") {
            true => Exit::Refused,
            false => Exit::Clean,
        }
    })
}

/// Sends a command about the application.
fn tell_all(driver: &Driver, command: &str, body: &Value, table: fn(&Value) -> String) -> Exit {
    let path = format!("/v1/application/{command}");
    tell(driver, &path, body, table, |_| Exit::Clean)
}

pub(in crate::cli) fn kill(args: &KillArgs) -> Exit {
    let body = json!({
        "executors": args.executors,
        "replace": args.replace,
        "force": args.force,
        "by": args.who.by,
    });
    tell_executors(&args.driver, "kill", &body)
}

pub(in crate::cli) fn decommission(args: &DecommissionArgs) -> Exit {
    let within = args.within.map(humantime::format_duration);
    let body = json!({
        "executors": args.executors,
        "replace": !args.no_replace,
        "within": within.map(|time| time.to_string()),
        "by": args.who.by,
    });
    tell_executors(&args.driver, "decommission", &body)
}

pub(in crate::cli) fn hold(args: &HoldArgs) -> Exit {
    let body = json!({"by": args.who.by});
    tell_all(&args.driver, "hold", &body, tables::held)
}

pub(in crate::cli) fn resume(args: &ResumeArgs) -> Exit {
    tell_all(&args.driver, "resume", &json!({}), tables::targets)
}

pub(in crate::cli) fn stop(args: &StopArgs) -> Exit {
    let (command, body) = match args.hand_over {
        true => ("hand-over", json!({})),
        false => ("end", json!({"exit_code": args.exit_code})),
    };
    tell_all(&args.driver, command, &body, tables::ending)
}
