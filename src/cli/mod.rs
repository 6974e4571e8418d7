//! Parses the command line and runs the commands.

mod ask;
mod check;
mod clean;
mod cluster;
mod convert;
mod generate;
mod manifests;
mod place;
mod progress;
mod reload;
mod report;
mod run;
mod signals;
mod spark_submit;

use std::error::Error;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::sync::Arc;

use boatswain_agent::cli::{Agent, Failed};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};
use devcluster::cli::DevClusterArgs;
use tokio::runtime::Builder;

use crate::exit::Exit;
use crate::model::text::controls_display;
use crate::telemetry;

/// Keeps a distributed application's executor pods alive on Kubernetes
#[derive(Debug, Parser)]
#[command(name = "boatswain", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a driver, which keeps as many executors alive as its configuration and its clients
    /// request
    Run(run::RunArgs),
    /// Check a configuration, and print the effective values with their origins
    Check(check::CheckArgs),
    /// Print what a driver with this configuration needs in its cluster, for kubectl apply -f -
    Manifests(manifests::ManifestsArgs),
    /// Convert a Spark configuration, and name the keys that have no counterpart
    Convert(convert::ConvertArgs),
    /// Run a Spark application in the cluster, with the arguments of spark-submit
    SparkSubmit(spark_submit::SparkSubmitArgs),
    /// List the applications of a cluster's namespace
    List(ask::ListArgs),
    /// Show a driver's state: targets, executors by state, what they wait for, the last losses
    Status(ask::StatusArgs),
    /// List a driver's live executors
    Executors(ask::ExecutorsArgs),
    /// Show an executor's history
    Explain(ask::ExplainArgs),
    /// Print the log of an executor
    Logs(ask::LogsArgs),
    /// Print events as they happen
    Events(ask::EventsArgs),
    /// Write a page about a whole application: bring-up, losses, time without work
    Report(report::ReportArgs),
    /// Set the targets of profiles
    Scale(ask::ScaleArgs),
    /// Run an executor's program in its pod, and handle its session with the driver
    Agent(Box<Agent>),
    /// Kill executors
    Kill(ask::KillArgs),
    /// Decommission executors: they finish their work and exit
    Decommission(ask::DecommissionArgs),
    /// Replace executors, a few at a time
    Restart(ask::RestartArgs),
    /// Decommission all executors, and keep the targets for a later resume
    Hold(ask::HoldArgs),
    /// Restore the targets from before the hold
    Resume(ask::ResumeArgs),
    /// Let a profile begin anew that has failed, or an application that has ended with code 11
    Reset(ask::ResetArgs),
    /// End the application, or only its driver
    Stop(ask::StopArgs),
    /// List what an application left behind whose driver is gone for good, and delete it
    Clean(clean::CleanArgs),
    /// Print a shell completion script
    Completions(generate::CompletionsArgs),
    /// Write manual pages
    Man(generate::ManArgs),
    /// Serve an embedded cluster on its own, for kubectl and any other client
    DevCluster(Box<DevClusterArgs>),
}

/// Runs the command and returns the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(exit) = generate::complete(&arguments) {
        return exit;
    }
    match Cli::try_parse_from(arguments) {
        Ok(cli) => match cli.command {
            Command::Run(args) => run::run(&args),
            Command::Check(args) => check::check(&args),
            Command::Manifests(args) => manifests::manifests(&args),
            Command::Convert(args) => convert::convert(&args),
            Command::SparkSubmit(args) => spark_submit::spark_submit(&args),
            Command::List(args) => ask::list(&args),
            Command::Status(args) => ask::status(&args),
            Command::Executors(args) => ask::executors(&args),
            Command::Explain(args) => ask::explain(&args),
            Command::Logs(args) => ask::logs(&args),
            Command::Events(args) => ask::events(&args),
            Command::Report(args) => report::report(&args),
            Command::Scale(args) => ask::scale(&args),
            Command::Agent(agent) => run_agent(*agent),
            Command::Kill(args) => ask::kill(&args),
            Command::Decommission(args) => ask::decommission(&args),
            Command::Restart(args) => ask::restart(&args),
            Command::Hold(args) => ask::hold(&args),
            Command::Resume(args) => ask::resume(&args),
            Command::Reset(args) => ask::reset(&args),
            Command::Stop(args) => ask::stop(&args),
            Command::Clean(args) => clean::clean(&args),
            Command::Completions(args) => generate::completions(&args),
            Command::Man(args) => generate::man(&args, Cli::command()),
            Command::DevCluster(args) => run_cluster(*args),
        },
        Err(error) => {
            // A closed stdout or stderr is not an error.
            let _ = error.print();
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Clean,
                _ => Exit::Usage,
            }
        }
    }
}

/// Serves an embedded cluster until a signal ends it, or controls one that runs.
fn run_cluster(args: DevClusterArgs) -> Exit {
    let begun = (args.serves()).then(|| telemetry::init(None, "info,apiserver=info"));
    let logs = match begun.transpose() {
        Ok(begun) => begun.map(|(_, logs)| logs),
        Err(error) => return fail_with(Exit::Bug, &error),
    };
    telemetry::exit_on_panic(logs.clone());
    let exit = in_system(async {
        let served = args.run().await;
        served.map_or_else(
            |error| fail_with(Exit::Configuration, &error),
            |()| Exit::Clean,
        )
    });
    if let Some(logs) = logs {
        logs.finish();
    }
    exit
}

/// Runs an executor's program until it ends.
fn run_agent(agent: Agent) -> Exit {
    let logs = match telemetry::init(None, "info") {
        Ok((_, logs)) => logs,
        Err(error) => return fail_with(Exit::Bug, &error),
    };
    telemetry::exit_on_panic(Some(logs.clone()));
    let exit = in_system(async {
        match agent.run().await {
            Ok(code) => Exit::Child(code),
            Err(failed @ Failed::NoToken) => fail_with(Exit::Usage, &failed),
            Err(failed @ Failed::Signals(_)) => fail_with(Exit::Bug, &failed),
        }
    });
    logs.finish();
    exit
}

/// Runs this in an actix system until its exit is decided. What blocks a thread even then, such as the look-up of a name
/// that no server answers, is left behind (spec O-132).
fn in_system(run: impl Future<Output = Exit>) -> Exit {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => Arc::new(runtime),
        Err(error) => return fail_with(Exit::Bug, &error),
    };
    let system = actix::System::with_tokio_rt(|| Arc::clone(&runtime));
    let exit = system.block_on(run);
    // Ends the actors, which may use the runtime until then.
    drop(system);
    if let Some(runtime) = Arc::into_inner(runtime) {
        runtime.shutdown_background();
    }
    exit
}

/// Runs what calls a cluster or a driver. What hangs when it has ended is left behind (spec O-132).
fn wait_for(calling: impl Future<Output = Exit>) -> Exit {
    match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let exit = runtime.block_on(calling);
            runtime.shutdown_background();
            exit
        }
        Err(error) => fail_with(Exit::Bug, &error),
    }
}

/// Prints to stdout. A reader that closes the pipe early, such as `head`, is not an error.
fn say(what: impl std::fmt::Display) -> Exit {
    print(what).err().unwrap_or(Exit::Clean)
}

/// The same for a part of what is printed.
///
/// # Errors
/// Returns the exit code if no more can be printed: [`Exit::Clean`] if the reader has closed the pipe.
fn print(what: impl std::fmt::Display) -> Result<(), Exit> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    let printed = writeln!(out, "{}", what.to_string().trim_end()).and_then(|()| out.flush());
    printed.map_err(|error| match error.kind() {
        std::io::ErrorKind::BrokenPipe => Exit::Clean,
        _ => {
            let why = format_args!("cannot write to standard output: {error}");
            fail(Exit::Bug, why)
        }
    })
}

/// Prints a line of a container's log; on a terminal without what controls it.
///
/// # Errors
/// As [`print`].
fn print_of_log(line: &str, is_terminal: bool) -> Result<(), Exit> {
    match is_terminal {
        true => print(line.replace(|c| c != '\t' && controls_display(c), " ")),
        false => print(line),
    }
}

/// JSON that means the same and does not control the terminal.
fn plain_json(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        match c != '\n' && controls_display(c) {
            // All of these are in the Basic Multilingual Plane.
            true => plain.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => plain.push(c),
        }
    }
    plain
}

/// Prints an error for the user to stderr: plainer than a log line, and possible before logging is
/// set up.
fn complain(what: impl std::fmt::Display) {
    use std::io::Write;
    // What a server or a file says must not control the terminal.
    let controls = |c: char| c != '\n' && controls_display(c);
    let what = what.to_string().replace(controls, " ");
    // A closed stderr is not an error.
    let _ = writeln!(std::io::stderr(), "{what}");
}

fn fail(exit: Exit, why: impl std::fmt::Display) -> Exit {
    complain(why);
    exit
}

/// Prints an error with all its causes.
fn fail_with(exit: Exit, error: &dyn Error) -> Exit {
    fail(exit, with_causes(error))
}

/// An error and its causes, outermost first. A cause that the text already contains is not repeated.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let why = cause.to_string();
        if !text.contains(&why) {
            // Writing into a `String` cannot fail.
            let _ = write!(text, ": {why}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Nested {
        #[error("cannot keep the state")]
        Outer(#[source] Box<Nested>),
        #[error("cannot read the file: {0}")]
        Inner(#[source] io::Error),
    }

    #[test]
    fn an_error_is_printed_with_each_cause_once() {
        let cause = io::Error::other("the disk is gone");
        let error = Nested::Outer(Box::new(Nested::Inner(cause)));
        assert_eq!(
            with_causes(&error),
            "cannot keep the state: cannot read the file: the disk is gone"
        );
    }

    // spec: O-132
    #[test]
    fn what_blocks_a_thread_does_not_delay_the_exit() {
        let (ended, waited_for) = std::sync::mpsc::channel::<()>();
        let exit = in_system(async move {
            // It is waited for by nobody, as the look-up of a name whose caller has given up.
            drop(tokio::task::spawn_blocking(move || waited_for.recv()));
            tokio::task::yield_now().await;
            Exit::Interrupted
        });
        assert_eq!(exit, Exit::Interrupted);
        drop(ended);
    }

    // spec: O-43
    #[test]
    fn json_is_shown_without_what_controls_a_terminal_and_means_the_same() {
        let answer = serde_json::json!({"a": "x\u{202e}y\u{9b}31m", "b": [1]});
        let shown = plain_json(&answer.to_string());
        assert!(shown.contains("x\\u202ey\\u009b31m"), "{shown}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&shown).unwrap(),
            answer
        );
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
