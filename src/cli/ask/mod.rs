//! The commands that query or control a running driver over its API (spec O-43).

mod commands;
mod events;
mod in_cluster;
mod list;
mod logs;
mod open;
mod reset;
mod restart;
mod tables;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use boatswain_client::{Ca, Client, ClientError, Token};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use http::{Method, Uri};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{complain, fail, fail_with, plain_json, say, wait_for};
use crate::driver::clean;
use crate::exit::Exit;
use crate::manifests::yaml;
use crate::model::text::controls_display;
use crate::server::api::tokens;
pub(super) use commands::{
    DecommissionArgs, HoldArgs, KillArgs, ResumeArgs, StopArgs, decommission, hold, kill, resume,
    stop,
};
use in_cluster::InCluster;
pub(super) use list::{ListArgs, list};
pub(super) use logs::{LogsArgs, logs};
pub(super) use reset::{ResetArgs, reset};
pub(super) use restart::{RestartArgs, restart};

/// Where the driver is, and what proves to it who calls.
#[derive(Debug, Args)]
pub(super) struct Connection {
    /// URL of the driver's API
    #[arg(
        long,
        env = "BOATSWAIN_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7117",
        value_parser = server
    )]
    pub(super) server: Uri,
    /// File with the API token: the driver's api.token_file, or a file with one of its lines
    /// [default, for a driver on this machine: ~/.boatswain/driver-token, if it exists]
    #[arg(long, env = "BOATSWAIN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the CA that the driver's certificate has to lead to, in PEM; for https [default:
    /// with --app the CA in the driver's ConfigMap, otherwise that beside the token file, or this
    /// machine's CAs]
    #[arg(long, env = "BOATSWAIN_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    #[command(flatten)]
    in_cluster: InCluster,
}

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

/// An address, with or without its scheme.
fn server(text: &str) -> Result<Uri, String> {
    let url = match text.contains("://") {
        true => text.to_owned(),
        false => format!("http://{text}"),
    };
    let uri: Uri = url.parse().map_err(|error| format!("{error}: {URL}"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(uri),
        _ => Err(URL.to_owned()),
    }
}

const URL: &str =
    "expected a URL such as http://127.0.0.1:7117, or https:// if the driver has [tls]";

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

impl Connection {
    /// Runs requests to the driver. Their failures are reported.
    pub(super) fn ask(
        &self,
        asking: impl AsyncFnOnce(&Client) -> Result<Exit, ClientError>,
    ) -> Exit {
        if self.in_cluster.lacks_an_app() {
            let why = "--namespace, --kubeconfig and --context say where the application of --app is: name one";
            return fail(Exit::Usage, why);
        }
        self.ask_beside_a_cluster(asking)
    }

    /// The same for a command that calls a cluster too.
    fn ask_beside_a_cluster(
        &self,
        asking: impl AsyncFnOnce(&Client) -> Result<Exit, ClientError>,
    ) -> Exit {
        wait_for(self.ask_now(asking))
    }

    async fn ask_now(
        &self,
        asking: impl AsyncFnOnce(&Client) -> Result<Exit, ClientError>,
    ) -> Exit {
        let given = || self.ca_file.clone().map(Ca::File);
        let (server, token, ca) = match self.in_cluster.reach(self.token_file.is_none()).await {
            Ok(Some(reached)) => {
                let found = reached.ca.map(Ca::Pem);
                (reached.server, reached.token, given().or(found))
            }
            Ok(None) => (
                self.server.clone(),
                None,
                given().or_else(|| self.ca_here()),
            ),
            Err(exit) => return exit,
        };
        let token = match token.map_or_else(|| self.token(), Ok) {
            Ok(token) => token,
            Err(exit) => return exit,
        };
        let client = match Client::new(server, Token::Text(token), ca) {
            Ok(client) => client,
            Err(error) => return fail_with(Exit::Configuration, &error),
        };
        asking(&client).await.unwrap_or_else(|error| {
            let exit = match error {
                ClientError::Unreachable { .. } | ClientError::Untrusted { .. } => {
                    Exit::Unreachable
                }
                ClientError::Refused { .. } | ClientError::Foreign { .. } => Exit::Refused,
                ClientError::Token { .. } => Exit::Configuration,
            };
            fail_with(exit, &error)
        })
    }

    fn token(&self) -> Result<String, Exit> {
        let fix = "set --token-file, or BOATSWAIN_TOKEN_FILE, to the driver's api.token_file";
        let Some(file) = self.token_place() else {
            return Err(fail(
                Exit::Usage,
                format_args!("the API token is missing\n{fix}"),
            ));
        };
        tokens::first(&file)
            .map_err(|error| fail(Exit::Configuration, format_args!("{error}\n{fix}")))
    }

    fn token_place(&self) -> Option<PathBuf> {
        self.token_file.clone().or_else(|| self.token_here())
    }

    /// What a driver of this machine that is its own CA has written.
    fn ca_here(&self) -> Option<Ca> {
        let file = tokens::ca_beside(&self.token_place()?);
        let has_tls = self.server.scheme_str() == Some("https");
        (has_tls && file.exists()).then_some(Ca::File(file))
    }

    /// Where the documentation's drivers on one machine keep their token. No other driver is sent it.
    fn token_here(&self) -> Option<PathBuf> {
        let is_here = !self.in_cluster.is_given() && is_this_machine(&self.server);
        let file = std::env::home_dir()?.join(".boatswain/driver-token");
        (is_here && file.exists()).then_some(file)
    }
}

fn is_this_machine(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || (address.parse::<IpAddr>()).is_ok_and(|address| address.is_loopback())
}

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
    fn a_server_may_be_given_without_its_scheme() {
        for (given, means) in [
            ("127.0.0.1:7117", "http://127.0.0.1:7117/"),
            ("localhost:7117", "http://localhost:7117/"),
            ("driver", "http://driver/"),
            ("[::1]:7117", "http://[::1]:7117/"),
            ("https://driver:7117", "https://driver:7117/"),
        ] {
            assert_eq!(server(given).unwrap().to_string(), means);
        }
        for bad in ["", "ftp://driver", "http://", "a b"] {
            assert!(server(bad).unwrap_err().contains("expected a URL"), "{bad}");
        }
    }

    // spec: O-43
    #[test]
    fn the_token_of_this_machine_is_for_drivers_on_it() {
        for here in [
            "127.0.0.1:7117",
            "localhost",
            "[::1]:7117",
            "https://127.8.0.1",
        ] {
            assert!(is_this_machine(&server(here).unwrap()), "{here}");
        }
        for elsewhere in [
            "10.0.0.1:7117",
            "driver:7117",
            "localhost.example",
            "[fd00::1]",
        ] {
            assert!(!is_this_machine(&server(elsewhere).unwrap()), "{elsewhere}");
        }
    }

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
