//! `boatswain-agent`: the agent as a small static binary, for executors' images.

use std::process::ExitCode;

use boatswain_agent::cli::{Agent, Failed};
use clap::Parser as _;
use clap::error::ErrorKind;
use tracing_subscriber::EnvFilter;

/// EX_USAGE of sysexits.h: the command line is invalid.
const USAGE: u8 = 64;

/// EX_SOFTWARE of sysexits.h: a panic.
const BUG: u8 = 70;

fn main() -> ExitCode {
    let agent = match Agent::try_parse() {
        Ok(agent) => agent,
        Err(error) => {
            // A closed stdout or stderr is not an error; the exit code tells the same.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(USAGE),
            };
        }
    };
    let level = std::env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned());
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_writer(std::io::stderr)
        .with_env_filter(EnvFilter::new(level))
        .log_internal_errors(false)
        .init();
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!(%panic, "panicked: the process exits");
        std::process::exit(BUG.into());
    }));
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the runtime cannot be started");
            return ExitCode::from(BUG);
        }
    };
    match runtime.block_on(agent.run()) {
        Ok(code) => ExitCode::from(code),
        Err(failed @ Failed::NoToken) => {
            tracing::error!("{failed}");
            ExitCode::from(USAGE)
        }
        Err(failed) => {
            tracing::error!(
                error = &failed as &dyn std::error::Error,
                "the agent cannot start"
            );
            ExitCode::from(BUG)
        }
    }
}
