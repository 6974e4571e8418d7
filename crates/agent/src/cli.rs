//! The command line of `boatswain agent` and of `boatswain-agent` (spec O-60).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;

use crate::identity::{self, Identity, Token};
use crate::protocol::Register;
use crate::{Options, STATUS_FILE};

/// Runs an executor's program, and speaks to the driver for it. A pod of boatswain's has in its environment all that has a
/// variable here.
#[derive(Debug, clap::Parser)]
#[command(version)]
pub struct Agent {
    /// Where the driver is.
    #[arg(long, env = "BOATSWAIN_DRIVER_URL", value_name = "URL", value_parser = identity::driver)]
    driver: Uri,
    /// The application's id.
    #[arg(long, env = "BOATSWAIN_APP_ID", value_name = "ID")]
    app: String,
    /// The executor's id.
    #[arg(long, env = "BOATSWAIN_EXECUTOR_ID", value_name = "N")]
    executor: Option<u64>,
    /// The name of its pod, for an executor that does not know its id.
    #[arg(long, env = "BOATSWAIN_POD_NAME", value_name = "NAME")]
    pod: Option<String>,
    /// The uid of its pod.
    #[arg(long, env = "BOATSWAIN_POD_UID", value_name = "UID")]
    pod_uid: String,
    /// The file of the token that proves which executor this is; without one the token is BOATSWAIN_TOKEN.
    #[arg(long, env = "BOATSWAIN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Where the application reaches this executor, as host:port.
    #[arg(
        long,
        env = "BOATSWAIN_ADDRESS",
        value_name = "ADDRESS",
        default_value = ""
    )]
    address: String,
    /// How many pieces of work it does at a time. Without it: BOATSWAIN_CORES, or 1.
    #[arg(long, env = "BOATSWAIN_SLOTS", value_name = "N")]
    slots: Option<u32>,
    /// Something else that the application wants to know of it; may be repeated.
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = identity::attribute)]
    attributes: Vec<(String, String)>,
    /// Where its log can be read.
    #[arg(long, env = "BOATSWAIN_LOG_URL", value_name = "URL")]
    log_url: Option<String>,
    /// Run by a shell when the executor is to drain, instead of sending it SIGTERM. It finds the seconds that are left
    /// in BOATSWAIN_DEADLINE_SECONDS.
    #[arg(long, value_name = "COMMAND")]
    decommission_command: Option<String>,
    /// Where the command says how many of its slots have work, as {"busy_slots": 1}; its environment names the file.
    /// Without this it is a new one among the temporary files.
    #[arg(long, env = STATUS_FILE, value_name = "FILE")]
    status_file: Option<PathBuf>,
    /// The driver may be away for so long before the command is stopped; "never" for no limit.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = patience)]
    driver_timeout: Patience,
    /// The executor's program and its arguments.
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How long the driver may be away.
#[derive(Debug, Clone, Copy)]
struct Patience(Option<Duration>);

fn patience(text: &str) -> Result<Patience, String> {
    match text {
        "never" => Ok(Patience(None)),
        text => humantime::parse_duration(text)
            .map(|time| Patience(Some(time)))
            .map_err(|_| "a duration, as 10m, or never".to_owned()),
    }
}

/// Why the agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The driver would refuse an executor without a token.
    #[error("no token: name its file with --token-file, or set BOATSWAIN_TOKEN")]
    NoToken,
    /// Without signals the command could not be stopped.
    #[error("cannot listen for signals")]
    Signals(#[from] std::io::Error),
}

impl Agent {
    /// Runs the command until it ends, and returns the exit code for this process: the command's own.
    ///
    /// # Errors
    ///
    /// Where the command was not started.
    pub async fn run(self) -> Result<u8, Failed> {
        let token = match (self.token_file, std::env::var("BOATSWAIN_TOKEN")) {
            (Some(file), _) => Token::File(file),
            (None, Ok(text)) => Token::Text(text),
            (None, Err(_)) => return Err(Failed::NoToken),
        };
        let cores = std::env::var("BOATSWAIN_CORES").ok();
        let cores = cores.and_then(|cores| cores.parse().ok());
        let registration = Register {
            app: self.app,
            executor: self.executor,
            pod: self.pod,
            pod_uid: self.pod_uid,
            address: self.address,
            slots: self.slots.or(cores).unwrap_or(1),
            attributes: self.attributes.into_iter().collect::<BTreeMap<_, _>>(),
            log_url: self.log_url,
        };
        let options = Options {
            command: self.command,
            identity: Identity {
                driver: self.driver,
                registration,
                token,
            },
            decommission_command: self.decommission_command,
            status_file: self.status_file,
            driver_timeout: self.driver_timeout.0,
        };
        Ok(crate::run(options).await?)
    }
}
