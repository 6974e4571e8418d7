//! The commands kill, decommission, hold, resume and stop (spec B-28 to B-35).

use std::ops::RangeInclusive;

use boatswain_client::{Client, ClientError, Executors};
use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::{Driver, pod_name, tables};
use crate::cli::fail;
use crate::exit::Exit;

#[derive(Debug, Args)]
pub(in crate::cli) struct KillArgs {
    #[command(flatten)]
    driver: Driver,
    /// The executors: ids such as 4 or 1-3, or pods such as etl-exec-4
    #[arg(required = true, value_name = "EXECUTOR", value_parser = which)]
    executors: Vec<Which>,
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
    /// The executors: ids such as 4 or 1-3, or pods such as etl-exec-4
    #[arg(required = true, value_name = "EXECUTOR", value_parser = which)]
    executors: Vec<Which>,
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
pub(super) struct Who {
    /// Name of the requester, for logs, events and loss reasons
    #[arg(long, env = "USER", value_name = "NAME")]
    pub(super) by: Option<String>,
}

/// Executors that a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Which {
    /// The first and the last.
    Ids(RangeInclusive<u64>),
    Pod(String),
}

/// The most ids of one range; more is a typing error.
const MOST_IDS: u64 = 10_000;

pub(super) fn which(text: &str) -> Result<Which, String> {
    if text.contains("-exec-") {
        return Ok(Which::Pod(pod_name(text).to_owned()));
    }
    let number = |text: &str| text.parse::<u64>().ok();
    let ids = match text.split_once('-') {
        Some((first, last)) => number(first).zip(number(last)),
        None => number(text).map(|id| (id, id)),
    };
    match ids {
        Some((first, last)) if first <= last && last - first < MOST_IDS => {
            Ok(Which::Ids(first..=last))
        }
        Some((first, last)) if first > last => Err(format!("{first} is above {last}")),
        Some(_) => Err(format!("at most {MOST_IDS} at once")),
        None => Err(
            "expected an executor's id such as 4, several such as 1-3, or a pod such as etl-exec-4"
                .to_owned(),
        ),
    }
}

/// The ids of these executors. A pod's is looked up among the living, because its name may be another application's.
///
/// # Errors
/// Names a pod that no living executor has.
pub(super) fn ids(executors: &[Which], living: &Executors) -> Result<Vec<u64>, String> {
    let mut ids = Vec::new();
    for executor in executors {
        match executor {
            Which::Ids(range) => ids.extend(range.clone()),
            Which::Pod(pod) => {
                let found = (living.executors.iter()).find(|one| one.pod.as_ref() == Some(pod));
                let id = found.map(|one| one.executor).ok_or_else(|| {
                    format!(
                        "no living executor of this application has the pod {pod}\n`boatswain executors` lists them"
                    )
                })?;
                ids.push(id);
            }
        }
    }
    Ok(ids)
}

/// Sends a command about executors. Fails if one of them is not ended, so that scripts notice.
/// All live executors.
pub(super) async fn all(client: &Client) -> Result<Executors, ClientError> {
    client.executors(None, None, None, None, None).await
}

fn tell_executors(driver: &Driver, command: &str, executors: &[Which], mut body: Value) -> Exit {
    driver.ask(async |client| {
        let names_pods = executors.iter().any(|one| matches!(one, Which::Pod(_)));
        let living = match names_pods {
            true => all(client).await?,
            false => Executors::default(),
        };
        body["executors"] = match ids(executors, &living) {
            Ok(ids) => json!(ids),
            Err(why) => return Ok(fail(Exit::Refused, why)),
        };
        let path = format!("/v1/executors/{command}");
        let answer = client.call(Method::POST, &path, Some(&body)).await?;
        let some = |field: &str| answer[field].as_array().is_some_and(|ids| !ids.is_empty());
        Ok(match driver.show(&answer, tables::command_outcome) {
            Exit::Clean if some("busy") || some("unknown") => Exit::Refused,
            exit => exit,
        })
    })
}

/// Sends a command about the application.
fn tell_all(driver: &Driver, command: &str, body: &Value, table: fn(&Value) -> String) -> Exit {
    let path = format!("/v1/application/{command}");
    driver.ask(async |client| {
        let answer = client.call(Method::POST, &path, Some(body)).await?;
        Ok(driver.show(&answer, table))
    })
}

pub(in crate::cli) fn kill(args: &KillArgs) -> Exit {
    let body = json!({
        "replace": args.replace,
        "force": args.force,
        "by": args.who.by,
    });
    tell_executors(&args.driver, "kill", &args.executors, body)
}

pub(in crate::cli) fn decommission(args: &DecommissionArgs) -> Exit {
    let within = args.within.map(humantime::format_duration);
    let body = json!({
        "replace": !args.no_replace,
        "within": within.map(|time| time.to_string()),
        "by": args.who.by,
    });
    tell_executors(&args.driver, "decommission", &args.executors, body)
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
    use boatswain_client::Executor;

    use super::*;

    // spec: O-43
    #[test]
    fn executors_are_given_by_id_as_a_range_or_by_their_pods() {
        let living = Executors {
            executors: vec![Executor {
                executor: 7,
                pod: Some("etl-exec-7".to_owned()),
                ..Executor::default()
            }],
            ..Executors::default()
        };
        let given = |texts: &[&str]| {
            let which: Vec<Which> = texts.iter().map(|text| which(text).unwrap()).collect();
            ids(&which, &living)
        };
        assert_eq!(given(&["4", "1-3"]), Ok(vec![4, 1, 2, 3]));
        assert_eq!(given(&["etl-exec-7", "pod/etl-exec-7"]), Ok(vec![7, 7]));
        assert_eq!(
            given(&["1", "other-exec-7"]),
            Err("no living executor of this application has the pod other-exec-7\n`boatswain executors` lists them".to_owned())
        );
        for (bad, part) in [
            ("3-1", "3 is above 1"),
            ("1-99999999", "at most 10000"),
            ("etl", "a pod such as etl-exec-4"),
            ("1,2", "such as 1-3"),
            ("", "such as 1-3"),
        ] {
            let why = which(bad).unwrap_err();
            assert!(why.contains(part), "{bad}: {why}");
        }
    }
}
