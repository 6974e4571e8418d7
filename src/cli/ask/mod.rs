//! The commands that query or control a running driver over its API (spec O-43).

mod commands;
mod connection;
mod events;
mod in_cluster;
mod list;
mod logs;
mod open;
mod reset;
mod restart;
mod tables;

use std::collections::BTreeMap;
use std::time::Duration;

use boatswain_client::{Client, ClientError};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use http::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{complain, fail, plain_json, say};
use crate::driver::clean;
use crate::exit::Exit;
use crate::manifests::yaml;
use crate::model::text::controls_display;
pub(super) use commands::{
    DecommissionArgs, HoldArgs, KillArgs, ResumeArgs, StopArgs, decommission, hold, kill, resume,
    stop,
};
pub(super) use connection::Connection;
pub(super) use list::{ListArgs, list};
pub(super) use logs::{LogsArgs, logs};
pub(super) use reset::{ResetArgs, reset};
pub(super) use restart::{RestartArgs, restart};

/// The options that the commands for people share.
#[derive(Debug, Args)]
struct Driver {
    #[command(flatten)]
    connection: Connection,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Human-readable text
    Table,
    /// The driver's answer, as JSON
    Json,
    /// The same, as YAML
    Yaml,
}

impl Output {
    fn show(self, answer: &Value, table: impl Fn(&Value) -> String) -> Exit {
        match self {
            Self::Json => say(plain_json(&format!("{answer:#}"))),
            Self::Yaml => match plain_yaml(answer) {
                Ok(text) => say(text),
                Err(why) => fail(Exit::Bug, why),
            },
            Self::Table => say(table(answer)),
        }
    }
}

/// YAML that does not control the terminal.
fn plain_yaml(answer: &Value) -> Result<String, String> {
    let text = yaml(std::slice::from_ref(answer))?;
    Ok(text.replace(|c| c != '\n' && controls_display(c), " "))
}

/// The formats of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Listing {
    /// Human-readable text
    Table,
    /// The same with more columns
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// A name on each line, as other commands take it
    Name,
}

impl Listing {
    /// Shows an answer whose list `of` has items with this name.
    fn show(
        self,
        answer: &Value,
        of: &str,
        name: &str,
        table: impl Fn(&Value, bool) -> String,
    ) -> Exit {
        let table = |answer: &Value| table(answer, self == Self::Wide);
        match self {
            Self::Json => Output::Json.show(answer, table),
            Self::Yaml => Output::Yaml.show(answer, table),
            Self::Table | Self::Wide => Output::Table.show(answer, table),
            Self::Name => match tables::names(answer, of, name) {
                names if names.is_empty() => Exit::Clean,
                names => say(names),
            },
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    driver: Driver,
    /// Refresh the output continuously
    #[arg(long, short)]
    watch: bool,
    /// Open the driver's page in a browser. The page asks for a token
    #[arg(long, conflicts_with_all = ["watch", "output"])]
    open: bool,
}

#[derive(Debug, Args)]
pub(super) struct ExecutorsArgs {
    #[command(flatten)]
    connection: Connection,
    /// List only those of this profile
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// List only those in this state, such as running
    #[arg(long, value_name = "STATE")]
    state: Option<String>,
    /// List only those whose pods have these labels, such as tier=batch. The cluster is asked, with
    /// the caller's rights
    #[arg(long, short = 'l', value_name = "LABELS", value_parser = NonEmptyStringValueParser::new())]
    selector: Option<String>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Listing::Table)]
    output: Listing,
}

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    driver: Driver,
    /// Id of the executor, or the name of its pod
    #[arg(value_parser = executor)]
    executor: u64,
}

#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    #[command(flatten)]
    driver: Driver,
    /// Start after the event with this id, such as 3-17 [default: start with the list of live
    /// executors]
    #[arg(long, value_name = "ID")]
    after: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct ScaleArgs {
    #[command(flatten)]
    driver: Driver,
    /// Targets of profiles, such as default=4; if one is refused, none is changed
    #[arg(required = true, value_name = "PROFILE=N", value_parser = wanted)]
    targets: Vec<(String, u32)>,
}

/// A pod's name, which may be as kubectl prints it.
fn pod_name(text: &str) -> &str {
    text.strip_prefix("pod/").unwrap_or(text)
}

/// An executor by its id, or by the name of its pod, which may be as kubectl prints it.
fn executor(text: &str) -> Result<u64, String> {
    let id = text.rsplit_once("-exec-").map_or(text, |(_, id)| id);
    id.parse().map_err(|_| {
        "expected an executor's id such as 3, or its pod such as etl-exec-3; `boatswain executors` lists both".to_owned()
    })
}

fn wanted(text: &str) -> Result<(String, u32), String> {
    let parsed = text
        .split_once('=')
        .and_then(|(profile, number)| Some((profile.to_owned(), number.parse().ok()?)));
    parsed.ok_or_else(|| "expected PROFILE=N, such as default=4".to_owned())
}

const CLEAR_SCREEN: &str = "\u{1b}[H\u{1b}[2J";

/// The time between two readings of the status.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

impl Driver {
    fn ask(&self, asking: impl AsyncFnOnce(&Client) -> Result<Exit, ClientError>) -> Exit {
        self.connection.ask(asking)
    }

    /// Reads and shows what is at this path.
    fn get(&self, path: &str, table: fn(&Value) -> String) -> Exit {
        self.ask(async |client| {
            let answer = client.call(Method::GET, path, None).await?;
            Ok(self.show(&answer, table))
        })
    }

    fn show(&self, answer: &Value, table: fn(&Value) -> String) -> Exit {
        self.output.show(answer, table)
    }
}

pub(super) fn status(args: &StatusArgs) -> Exit {
    if args.open {
        return args.driver.ask(async |client| {
            // Not a page that says that nobody answers.
            client.call(Method::GET, "/v1/status", None).await?;
            let shown = open::page(client.server());
            if args.driver.connection.in_cluster.is_given() && shown == Exit::Clean {
                complain("the driver's port is forwarded until Ctrl-C");
                // Without signals there is nothing to wait for.
                let _ = tokio::signal::ctrl_c().await;
            }
            Ok(shown)
        });
    }
    if !args.watch {
        return args.driver.get("/v1/status", tables::status);
    }
    args.driver.ask(async |client| {
        loop {
            let answer = client.call(Method::GET, "/v1/status", None).await?;
            match args.driver.output {
                Output::Table => say(CLEAR_SCREEN),
                Output::Yaml => say("---"),
                Output::Json => Exit::Clean,
            };
            let exit = args.driver.show(&answer, tables::status);
            if exit != Exit::Clean {
                return Ok(exit);
            }
            sleep(REFRESH_INTERVAL).await;
        }
    })
}

pub(super) fn executors(args: &ExecutorsArgs) -> Exit {
    let list = async |client: &Client| {
        let (profile, state) = (args.profile.as_deref(), args.state.as_deref());
        let mut found = client.executors(None, profile, state, None, None).await?;
        if let Some(profile) = profile.filter(|_| found.executors.is_empty()) {
            let targets = client.targets().await?.targets;
            if !targets.contains_key(profile) {
                let names = targets.into_keys().collect::<Vec<_>>().join(", ");
                let why = format_args!("there is no profile {profile}\nthe profiles are {names}");
                return Ok(fail(Exit::Refused, why));
            }
        }
        if let Some(selector) = &args.selector {
            let place = args.connection.in_cluster.of_pods();
            let labelled = match clean::pods_with(place, selector).await {
                Ok(labelled) => labelled,
                Err(why) => return Ok(fail(why.exit(), why)),
            };
            let is_labelled =
                |pod: &Option<String>| pod.as_ref().is_some_and(|pod| labelled.contains(pod));
            found.executors.retain(|one| is_labelled(&one.pod));
        }
        let answer = serde_json::to_value(found).unwrap_or_default();
        let shown = (args.output).show(&answer, "executors", "executor", tables::executors);
        Ok(shown)
    };
    match args.selector {
        Some(_) => args.connection.ask_beside_a_cluster(list),
        None => args.connection.ask(list),
    }
}

pub(super) fn explain(args: &ExplainArgs) -> Exit {
    let path = format!("/v1/executors/{}", args.executor);
    args.driver.get(&path, tables::history)
}

pub(super) fn events(args: &EventsArgs) -> Exit {
    let (after, output) = (args.after.as_deref(), args.driver.output);
    (args.driver).ask(async |client| events::follow(client, after, output).await)
}

pub(super) fn scale(args: &ScaleArgs) -> Exit {
    let targets: BTreeMap<&str, u32> = args.targets.iter().map(|(p, n)| (p.as_str(), *n)).collect();
    let body = json!({"targets": targets});
    args.driver.ask(async |client| {
        let answer = client.call(Method::PUT, "/v1/targets", Some(&body)).await?;
        Ok(args.driver.show(&answer, tables::targets))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-43
    #[test]
    fn an_executor_is_its_id_or_its_pod() {
        for given in ["3", "etl-exec-3", "pod/etl-exec-3", "my-exec-app-exec-3"] {
            assert_eq!(executor(given), Ok(3), "{given}");
        }
        for bad in ["", "etl", "etl-exec-", "1-3", "-1"] {
            assert!(
                executor(bad).unwrap_err().contains("such as etl-exec-3"),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_target_is_a_profile_and_a_number() {
        assert_eq!(wanted("gpu=0"), Ok(("gpu".to_owned(), 0)));
        for bad in ["gpu", "gpu=", "gpu=-1", "gpu=many", "=", ""] {
            assert!(wanted(bad).is_err(), "{bad}");
        }
    }
}
