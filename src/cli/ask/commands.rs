//! The commands kill, decommission, hold, resume and stop (spec B-28 to B-35).

use std::ops::RangeInclusive;

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::{Driver, tables};
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(in crate::cli) struct KillArgs {
    #[command(flatten)]
    driver: Driver,
    /// Ids of the executors, such as 4 or 1-3
    #[arg(required = true, value_name = "EXECUTOR", value_parser = ids)]
    executors: Vec<Ids>,
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
    /// Ids of the executors, such as 4 or 1-3
    #[arg(required = true, value_name = "EXECUTOR", value_parser = ids)]
    executors: Vec<Ids>,
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

/// One id, or the first and the last of several.
type Ids = RangeInclusive<u64>;

/// The most ids of one range; more is a typing error.
const MOST_IDS: u64 = 10_000;

fn ids(text: &str) -> Result<Ids, String> {
    let number = |text: &str| text.parse::<u64>().ok();
    let ids = match text.split_once('-') {
        Some((first, last)) => number(first).zip(number(last)),
        None => number(text).map(|id| (id, id)),
    };
    match ids {
        Some((first, last)) if first <= last && last - first < MOST_IDS => Ok(first..=last),
        Some((first, last)) if first > last => Err(format!("{first} is above {last}")),
        Some(_) => Err(format!("at most {MOST_IDS} at once")),
        // The name's prefix may be another application's.
        None if text.contains("-exec-") => Err(
            "expected an id and not a pod: `boatswain explain POD` shows whether it is this application's".to_owned(),
        ),
        None => Err("expected an executor's id such as 4, or several such as 1-3".to_owned()),
    }
}

fn all(ids: &[Ids]) -> Vec<u64> {
    ids.iter().cloned().flatten().collect()
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
        "executors": all(&args.executors),
        "replace": args.replace,
        "force": args.force,
        "by": args.who.by,
    });
    tell_executors(&args.driver, "kill", &body)
}

pub(in crate::cli) fn decommission(args: &DecommissionArgs) -> Exit {
    let within = args.within.map(humantime::format_duration);
    let body = json!({
        "executors": all(&args.executors),
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

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-43
    #[test]
    fn executors_are_given_one_by_one_or_as_a_range() {
        assert_eq!(all(&[ids("4").unwrap(), ids("1-3").unwrap()]), [4, 1, 2, 3]);
        for (bad, part) in [
            ("3-1", "3 is above 1"),
            ("1-99999999", "at most 10000"),
            ("etl-exec-3", "an id and not a pod"),
            ("1,2", "such as 1-3"),
            ("", "such as 1-3"),
        ] {
            let why = ids(bad).unwrap_err();
            assert!(why.contains(part), "{bad}: {why}");
        }
    }
}
