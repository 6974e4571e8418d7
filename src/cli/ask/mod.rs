//! The commands that speak to a driver that runs (spec O-43).

mod client;
mod commands;
mod events;
mod tables;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use http::Uri;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{complain, say};
use crate::exit::Exit;
use crate::server::api::tokens;
use client::{AskError, Client};
pub(super) use commands::{
    DecommissionArgs, HoldArgs, KillArgs, ResumeArgs, StopArgs, decommission, hold, kill, resume,
    stop,
};

/// Which driver, and how its answer is shown.
#[derive(Debug, Args)]
pub(super) struct Driver {
    /// Where the driver's api is.
    #[arg(
        long,
        env = "BOATSWAIN_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7117"
    )]
    server: Uri,
    /// The file of the token to show: the driver's api.token_file, or one with a line of it.
    #[arg(long, env = "BOATSWAIN_TOKEN_FILE", value_name = "FILE")]
    token_file: PathBuf,
    /// How the answer is shown.
    #[arg(long, short, value_enum, default_value_t = Output::Table)]
    output: Output,
}

/// How an answer is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Table,
    /// For programs: what the driver answered.
    Json,
}

/// `boatswain status`
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    #[command(flatten)]
    driver: Driver,
    /// Show it again and again.
    #[arg(long, short)]
    watch: bool,
}

/// `boatswain executors`
#[derive(Debug, Args)]
pub(super) struct ExecutorsArgs {
    #[command(flatten)]
    driver: Driver,
}

/// `boatswain explain`
#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    driver: Driver,
    /// Which executor.
    executor: u64,
}

/// `boatswain events`
#[derive(Debug, Args)]
pub(super) struct EventsArgs {
    #[command(flatten)]
    driver: Driver,
    /// Begin after this event, such as 3-17; without it with all that live.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
}

/// `boatswain scale`
#[derive(Debug, Args)]
pub(super) struct ScaleArgs {
    #[command(flatten)]
    driver: Driver,
    /// How many executors of a profile are wanted; all of them are taken, or none.
    #[arg(required = true, value_name = "PROFILE=N", value_parser = wanted)]
    targets: Vec<(String, u32)>,
}

fn wanted(text: &str) -> Result<(String, u32), String> {
    let parsed = text
        .split_once('=')
        .and_then(|(profile, number)| Some((profile.to_owned(), number.parse().ok()?)));
    parsed.ok_or_else(|| "a profile and how many, as default=4".to_owned())
}

/// Empties the terminal.
const CLEAR_SCREEN: &str = "\u{1b}[H\u{1b}[2J";

/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

impl Driver {
    fn client(&self) -> Result<Client, Exit> {
        let token = tokens::first(&self.token_file).map_err(|error| {
            complain(format_args!(
                "{error}\n--token-file names the driver's api.token_file"
            ));
            Exit::Configuration
        })?;
        Ok(Client::new(self.server.clone(), token))
    }

    fn show(&self, answer: &Value, table: fn(&Value) -> String) -> Exit {
        match self.output {
            Output::Json => say(format_args!("{answer:#}")),
            Output::Table => say(table(answer)),
        }
    }
}

fn failed(error: &AskError) -> Exit {
    complain(error);
    match error {
        AskError::Unreachable { .. } => Exit::Unreachable,
        AskError::Refused { .. } | AskError::Foreign { .. } => Exit::Refused,
    }
}

fn block_on(asking: impl Future<Output = Result<Exit, AskError>>) -> Exit {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime {
        Ok(runtime) => runtime
            .block_on(asking)
            .unwrap_or_else(|error| failed(&error)),
        Err(error) => {
            complain(format_args!(
                "the system refuses what is needed to ask: {error}"
            ));
            Exit::Bug
        }
    }
}

fn ask(driver: &Driver, path: &str, table: fn(&Value) -> String) -> Exit {
    match driver.client() {
        Ok(client) => block_on(async { Ok(driver.show(&client.get(path).await?, table)) }),
        Err(exit) => exit,
    }
}

/// How it is going.
pub(super) fn status(args: &StatusArgs) -> Exit {
    if !args.watch {
        return ask(&args.driver, "/v1/status", tables::status);
    }
    let client = match args.driver.client() {
        Ok(client) => client,
        Err(exit) => return exit,
    };
    block_on(async {
        loop {
            let answer = client.get("/v1/status").await?;
            if args.driver.output == Output::Table {
                say(CLEAR_SCREEN);
            }
            let exit = args.driver.show(&answer, tables::status);
            if exit != Exit::Clean {
                return Ok(exit);
            }
            sleep(LOOK_AGAIN).await;
        }
    })
}

/// Who lives.
pub(super) fn executors(args: &ExecutorsArgs) -> Exit {
    ask(&args.driver, "/v1/executors", tables::executors)
}

/// What happened to an executor.
pub(super) fn explain(args: &ExplainArgs) -> Exit {
    let path = format!("/v1/executors/{}", args.executor);
    ask(&args.driver, &path, tables::history)
}

/// What happens.
pub(super) fn events(args: &EventsArgs) -> Exit {
    match args.driver.client() {
        Ok(client) => {
            let as_json = args.driver.output == Output::Json;
            block_on(events::follow(&client, args.after.clone(), as_json))
        }
        Err(exit) => exit,
    }
}

/// Says how many are wanted.
pub(super) fn scale(args: &ScaleArgs) -> Exit {
    let targets: BTreeMap<&str, u32> = args.targets.iter().map(|(p, n)| (p.as_str(), *n)).collect();
    match args.driver.client() {
        Ok(client) => block_on(async {
            let answer = client
                .put("/v1/targets", &json!({"targets": targets}))
                .await?;
            Ok(args.driver.show(&answer, tables::targets))
        }),
        Err(exit) => exit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_profile_and_a_number() {
        assert_eq!(wanted("gpu=0"), Ok(("gpu".to_owned(), 0)));
        for bad in ["gpu", "gpu=", "gpu=-1", "gpu=many", "=", ""] {
            assert!(wanted(bad).is_err(), "{bad}");
        }
    }
}
