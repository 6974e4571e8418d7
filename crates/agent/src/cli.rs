//! The command line of `boatswain agent` and of `boatswain-agent` (spec O-60).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;

use crate::identity::{self, Identity, Token};
use crate::protocol::Register;
use crate::{Options, STATUS_FILE};

/// Run an executor's program, and handle its session with the driver. In boatswain's pods the
/// environment variables for these options are set
#[derive(Debug, clap::Parser)]
#[command(version)]
pub struct Agent {
    /// URL of the driver
    #[arg(long, env = "BOATSWAIN_DRIVER_URL", value_name = "URL", value_parser = identity::driver)]
    driver: Uri,
    /// Id of the application
    #[arg(long, env = "BOATSWAIN_APP_ID", value_name = "ID")]
    app: String,
    /// Id of the executor
    #[arg(long, env = "BOATSWAIN_EXECUTOR_ID", value_name = "N")]
    executor: Option<u64>,
    /// Name of the executor's pod, if the executor does not know its id
    #[arg(long, env = "BOATSWAIN_POD_NAME", value_name = "NAME")]
    pod: Option<String>,
    /// Uid of the executor's pod
    #[arg(long, env = "BOATSWAIN_POD_UID", value_name = "UID")]
    pod_uid: String,
    /// File with the token that proves the executor's identity [default: the token is in
    /// BOATSWAIN_TOKEN]
    #[arg(long, env = "BOATSWAIN_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the CA that the driver's certificate has to lead to, in PEM; for https [default:
    /// this machine's CAs]
    #[arg(long, env = "BOATSWAIN_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Address at which the application can reach this executor, as host:port
    #[arg(
        long,
        env = "BOATSWAIN_ADDRESS",
        value_name = "ADDRESS",
        default_value = ""
    )]
    address: String,
    /// Number of tasks that the executor runs at the same time [default: BOATSWAIN_CORES, or 1]
    #[arg(long, env = "BOATSWAIN_SLOTS", value_name = "N")]
    slots: Option<u32>,
    /// Further information for the application; may be repeated
    #[arg(long = "attribute", value_name = "NAME=VALUE", value_parser = identity::attribute)]
    attributes: Vec<(String, String)>,
    /// URL of the executor's log
    #[arg(long, env = "BOATSWAIN_LOG_URL", value_name = "URL")]
    log_url: Option<String>,
    /// Shell command to run when the executor is decommissioned, or its pod is evicted or deleted, instead of sending it
    /// SIGTERM. The remaining seconds are in BOATSWAIN_DEADLINE_SECONDS
    #[arg(long, value_name = "COMMAND")]
    decommission_command: Option<String>,
    /// The pod's termination grace: from SIGTERM to SIGKILL
    #[arg(long, env = "BOATSWAIN_TERMINATION_GRACE", value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    termination_grace: Duration,
    /// File whose changes the command has to learn of, such as a token in a mounted Secret: it gets SIGHUP; may be
    /// repeated, in the environment with commas between them
    #[arg(
        long = "reload-file",
        env = "BOATSWAIN_RELOAD_FILES",
        value_name = "FILE",
        value_delimiter = ','
    )]
    reload_files: Vec<PathBuf>,
    /// Shell command to run when such a file has changed, instead of sending SIGHUP. The file's path is in
    /// BOATSWAIN_RELOAD_FILE
    #[arg(
        long,
        env = "BOATSWAIN_RELOAD_COMMAND",
        value_name = "COMMAND",
        requires = "reload_files"
    )]
    reload_command: Option<String>,
    /// The executor is a spare: the command is started when the driver has registered the executor
    #[arg(long, env = "BOATSWAIN_SPARE")]
    spare: bool,
    /// File in which the command reports its busy slots, as {"busy_slots": 1}; its path is in the
    /// command's environment [default: a new temporary file]
    #[arg(long, env = STATUS_FILE, value_name = "FILE")]
    status_file: Option<PathBuf>,
    /// Stops the command if the driver is unreachable for this long; without it, or with "never", the
    /// command works on. The agent then exits with 79
    #[arg(long, env = "BOATSWAIN_DRIVER_TIMEOUT", value_name = "DURATION", default_value = "never", value_parser = patience)]
    driver_timeout: Patience,
    /// Program to run, and its arguments
    #[arg(required = true, last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The value of `--driver-timeout`; `None`: no limit.
#[derive(Debug, Clone, Copy)]
struct Patience(Option<Duration>);

fn patience(text: &str) -> Result<Patience, String> {
    match text {
        "never" => Ok(Patience(None)),
        text => humantime::parse_duration(text)
            .map(|time| Patience(Some(time)))
            .map_err(|_| "expected a duration, such as 10m, or never".to_owned()),
    }
}

/// Why the agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("no token: name its file with --token-file, or set BOATSWAIN_TOKEN")]
    NoToken,
    #[error("cannot listen for signals")]
    Signals(#[from] std::io::Error),
}

impl Agent {
    /// Runs the command until it ends, and returns its exit code, which becomes that of this
    /// process.
    ///
    /// # Errors
    ///
    /// There is no token, or signal handlers cannot be installed.
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
                ca_file: self.ca_file,
            },
            decommission_command: self.decommission_command,
            termination_grace: self.termination_grace,
            reload_files: self.reload_files,
            reload_command: self.reload_command,
            status_file: self.status_file,
            driver_timeout: self.driver_timeout.0,
            is_spare: self.spare,
        };
        Ok(crate::run(options).await?)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    // spec: O-123
    #[test]
    fn a_driver_that_stays_away_leaves_the_command_alone_unless_told_otherwise() {
        let patience = |more: &[&str]| {
            let all = [
                "agent",
                "--driver",
                "http://driver:1",
                "--app",
                "a",
                "--pod-uid",
                "u",
            ];
            let words = all.iter().chain(more).chain(&["--", "true"]);
            let parsed = Agent::try_parse_from(words);
            parsed.map(|agent| agent.driver_timeout.0).ok()
        };
        assert_eq!(patience(&[]), Some(None));
        assert_eq!(patience(&["--driver-timeout", "never"]), Some(None));
        let minutes = Some(Duration::from_secs(600));
        assert_eq!(patience(&["--driver-timeout", "10m"]), Some(minutes));
        assert_eq!(patience(&["--driver-timeout", "soon"]), None);
    }
}
