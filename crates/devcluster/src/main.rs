//! `devcluster`: serves a cluster for kubectl and any other client.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;
use devcluster::cli::DevClusterArgs;
use tracing_subscriber::EnvFilter;

/// EX_USAGE of sysexits.h: the command line is invalid.
const USAGE: u8 = 64;

/// EX_SOFTWARE of sysexits.h: a panic, or there is no runtime.
const BUG: u8 = 70;

/// EX_CONFIG of sysexits.h: the cluster cannot be served or reached as the arguments say.
const CONFIGURATION: u8 = 78;

#[derive(Debug, clap::Parser)]
#[command(version)]
struct Program {
    #[command(flatten)]
    arguments: DevClusterArgs,
}

fn main() -> ExitCode {
    let Program { arguments } = match Program::try_parse() {
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
    if arguments.serves() {
        log();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime.map(|runtime| runtime.block_on(arguments.run())) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => fail(CONFIGURATION, &error),
        Err(error) => fail(BUG, &error),
    }
}

/// Has a line logged for each event, and panics end the process: otherwise only the task would end.
fn log() {
    let terminal = io::stderr().is_terminal();
    let lines = tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_env_filter(EnvFilter::new("info"))
        .with_ansi(terminal)
        .log_internal_errors(false);
    match terminal {
        true => lines.init(),
        false => lines.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!(%panic, "panicked: the process exits");
        std::process::exit(BUG.into());
    }));
}

fn fail(code: u8, error: &dyn Error) -> ExitCode {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let why = cause.to_string();
        if !text.contains(&why) {
            text = format!("{text}: {why}");
        }
        source = cause.source();
    }
    // A closed stderr is not an error.
    let _ = writeln!(io::stderr(), "{text}");
    ExitCode::from(code)
}
