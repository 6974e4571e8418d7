//! `boatswain-agent`: the agent as a small static binary, for executors' images.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use boatswain_agent::cli::{Agent, Failed};
use boatswain_agent::logs::{LOST, Logs};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser as _};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

/// EX_USAGE of sysexits.h: the command line is invalid.
const USAGE: u8 = 64;

/// EX_SOFTWARE of sysexits.h: a panic.
const BUG: u8 = 70;

/// Run an executor's program, and handle its session with the driver. In boatswain's pods the
/// environment variables for these options are set
#[derive(Debug, clap::Parser)]
#[command(
    version,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Program {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    agent: Option<Agent>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Copy this program to a directory, such as a volume that containers share
    Install {
        /// The directory
        directory: PathBuf,
    },
}

/// EX_CANTCREAT of sysexits.h: a file cannot be written.
const CANNOT_CREATE: u8 = 73;

fn main() -> ExitCode {
    let program = match Program::try_parse() {
        Ok(program) => program,
        Err(error) => {
            // A closed stdout or stderr is not an error; the exit code tells the same.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(USAGE),
            };
        }
    };
    let logs = match Logs::to_stderr(lost) {
        Ok(logs) => logs,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "no logs can be written: {error}");
            return ExitCode::from(BUG);
        }
    };
    set_up(logs.clone());
    let exit = run(program);
    logs.finish();
    exit
}

fn set_up(logs: Logs) {
    let level = std::env::var("RUST_LOG").unwrap_or_else(|_| "info".to_owned());
    let writer = logs.clone();
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_writer(move || writer.clone())
        .with_env_filter(EnvFilter::new(level))
        .log_internal_errors(false)
        .init();
    std::panic::set_hook(Box::new(move |panic| {
        tracing::error!(%panic, "panicked: the process exits");
        logs.finish();
        std::process::exit(BUG.into());
    }));
}

/// The line which says how many were lost.
fn lost(count: u64) -> String {
    let mut time = String::new();
    // Formatting into a String cannot fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    format!(
        "{{\"timestamp\":\"{time}\",\"level\":\"WARN\",\"message\":\"{LOST}\",\"count\":{count},\"target\":\"{}\"}}\n",
        module_path!()
    )
}

fn run(program: Program) -> ExitCode {
    if let Some(Command::Install { directory }) = program.command {
        return install(&directory);
    }
    let Some(agent) = program.agent else {
        let _ = Program::command().print_help();
        return ExitCode::from(USAGE);
    };
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
    let ended = runtime.block_on(agent.run());
    // What blocks a thread even now, such as the look-up of a name that no server answers, is left behind (spec O-132).
    runtime.shutdown_background();
    match ended {
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

fn install(directory: &Path) -> ExitCode {
    match boatswain_agent::install::install(directory) {
        Ok(copy) => {
            tracing::info!(copy = %copy.display(), "installed");
            ExitCode::SUCCESS
        }
        Err(error) => {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the agent cannot be installed"
            );
            ExitCode::from(CANNOT_CREATE)
        }
    }
}
