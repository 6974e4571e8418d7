//! `boatswain report`: writes a page about a whole application from its events (spec O-83).

mod chart;
mod figures;
mod page;
mod sizes;
#[cfg(test)]
mod tests;
mod timeline;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use boatswain_client::{Client, ClientError};
use clap::{Args, ValueEnum};
use http::Method;
use serde_json::Value;
use tokio::time::timeout;

use super::ask::Connection;
use super::{fail, fail_with, say};
use crate::exit::Exit;
use sizes::Requests;
use timeline::Timeline;

/// How long a driver may take to send all of its events.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// File with the lines of `boatswain events --after 1-0 -o json`, or - for standard input [default: the events that the
    /// running driver still has]
    events: Option<PathBuf>,
    #[command(flatten)]
    driver: Connection,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Format::Html)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A page that loads nothing
    Html,
    /// The numbers of each profile, in seconds
    Json,
}

pub(super) fn report(args: &ReportArgs) -> Exit {
    match &args.events {
        Some(path) => match read(path) {
            Ok(lines) => write_report(args, &lines, &Value::Null),
            Err(error) => fail(
                Exit::Configuration,
                format_args!("cannot read {}: {error}", path.display()),
            ),
        },
        None => args.driver.ask(async |client| {
            let read = timeout(PATIENCE, events_of(client)).await;
            let (lines, status) = read.unwrap_or_else(|_| {
                Err(ClientError::Unreachable {
                    server: client.server().clone(),
                    why: "its events take too long".to_owned(),
                })
            })?;
            Ok(write_report(args, &lines, &status))
        }),
    }
}

fn read(path: &Path) -> io::Result<String> {
    if path != Path::new("-") {
        return std::fs::read_to_string(path);
    }
    let mut lines = String::new();
    io::stdin().read_to_string(&mut lines)?;
    Ok(lines)
}

/// The events of this incarnation, or as many as the driver still has, up to now, and who is alive now; and the status.
async fn events_of(client: &Client) -> Result<(String, Value), ClientError> {
    let mut events = client.events(None).await?;
    let living = loop {
        if let Some(message) = events.next().await? {
            break message;
        }
    };
    let last = living.id.as_deref().and_then(numbers);
    let status = client.call(Method::GET, "/v1/status", None).await?;
    let first = format!("{}-0", status["incarnation"]);
    let mut events = client.events(Some(&first)).await?;
    let mut lines = String::new();
    loop {
        let Some(message) = events.next().await? else {
            continue;
        };
        // Writing into a `String` cannot fail.
        let _ = writeln!(lines, "{}", message.data);
        if message.id.as_deref().and_then(numbers) >= last {
            lines.push_str(&living.data);
            return Ok((lines, status));
        }
    }
}

/// The numbers of an event's id, in their order.
fn numbers(id: &str) -> Option<(u64, u64)> {
    let (incarnation, number) = id.split_once('-')?;
    Some((incarnation.parse().ok()?, number.parse().ok()?))
}

/// `status`: of the driver, if it runs.
fn write_report(args: &ReportArgs, lines: &str, status: &Value) -> Exit {
    let mut timeline = match Timeline::read(lines) {
        Ok(timeline) => timeline,
        Err(error) => return fail_with(Exit::Configuration, &error),
    };
    let profiles = status["profiles"].as_object().into_iter().flatten();
    timeline.requests = profiles
        .map(|(name, profile)| (name.clone(), Requests::of(profile)))
        .collect();
    match args.output {
        Format::Html => say(page::page(&timeline)),
        Format::Json => {
            let figures: BTreeMap<&str, figures::Figures> = (timeline.profiles().into_iter())
                .map(|profile| (profile, timeline.figures(profile)))
                .collect();
            match serde_json::to_string_pretty(&figures) {
                Ok(text) => say(text),
                Err(error) => fail_with(Exit::Bug, &error),
            }
        }
    }
}
