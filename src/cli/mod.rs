//! The command line.

mod ask;
mod check;
mod convert;
mod credentials;
mod ctl;
pub mod dev_cluster;
mod generate;
mod progress;
mod run;
mod users;

use std::ffi::OsString;

use boatswain_agent::cli::{Agent, Failed};
use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::exit::Exit;
use crate::telemetry;

/// Keeps a distributed application's executor pods alive on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "boatswain", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Drive an application: keep as many executors alive as its configuration wants.
    Run(run::RunArgs),
    /// Check a configuration, and print what applies and where each value comes from.
    Check(check::CheckArgs),
    /// Make a configuration from one of Spark's, and name what there is no use for.
    Convert(convert::ConvertArgs),
    /// Show how a driver is doing: targets, states, what is waited for, the last losses.
    Status(ask::StatusArgs),
    /// Show the executors of a driver that live.
    Executors(ask::ExecutorsArgs),
    /// Tell the story of an executor.
    Explain(ask::ExplainArgs),
    /// Show what happens, as it happens.
    Events(ask::EventsArgs),
    /// Say how many executors of a profile are wanted.
    Scale(ask::ScaleArgs),
    /// Run an executor's program in its pod, and speak to the driver for it.
    Agent(Box<Agent>),
    /// Kill executors.
    Kill(ask::KillArgs),
    /// Have executors finish what they do and go.
    Decommission(ask::DecommissionArgs),
    /// Have all executors finish and go, and remember how many were wanted.
    Hold(ask::HoldArgs),
    /// Bring back what was wanted before the executors were held.
    Resume(ask::ResumeArgs),
    /// End the application, or its driver alone.
    Stop(ask::StopArgs),
    /// Print what has a shell complete these commands.
    Completions(generate::CompletionsArgs),
    /// Write the pages of the manual.
    Man(generate::ManArgs),
    /// Serve the embedded cluster alone, on loopback, for kubectl and any other client.
    DevCluster(Box<dev_cluster::DevClusterArgs>),
}

/// Does what the command line says; what it returns is how the process ends.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => match cli.command {
            Command::Run(args) => run::run(&args),
            Command::Check(args) => check::check(&args),
            Command::Convert(args) => convert::convert(&args),
            Command::Status(args) => ask::status(&args),
            Command::Executors(args) => ask::executors(&args),
            Command::Explain(args) => ask::explain(&args),
            Command::Events(args) => ask::events(&args),
            Command::Scale(args) => ask::scale(&args),
            Command::Agent(agent) => run_agent(*agent),
            Command::Kill(args) => ask::kill(&args),
            Command::Decommission(args) => ask::decommission(&args),
            Command::Hold(args) => ask::hold(&args),
            Command::Resume(args) => ask::resume(&args),
            Command::Stop(args) => ask::stop(&args),
            Command::Completions(args) => generate::completions(&args, Cli::command()),
            Command::Man(args) => generate::man(&args, Cli::command()),
            Command::DevCluster(args) => serve(*args),
        },
        Err(error) => {
            // Where nobody reads it any more, it need not be said.
            let _ = error.print();
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Clean,
                _ => Exit::Usage,
            }
        }
    }
}

/// Serves the embedded cluster until a signal.
fn serve(args: dev_cluster::DevClusterArgs) -> Exit {
    if args.serves()
        && let Err(error) = telemetry::init(None, "info,apiserver=info")
    {
        complain(error);
        return Exit::Bug;
    }
    telemetry::exit_on_panic();
    match actix::System::new().block_on(dev_cluster::run(args)) {
        Ok(()) => Exit::Clean,
        Err(error) => {
            complain(error);
            Exit::Configuration
        }
    }
}

/// Runs an executor's program as the agent does, until it ends.
fn run_agent(agent: Agent) -> Exit {
    if let Err(error) = telemetry::init(None, "info") {
        complain(error);
        return Exit::Bug;
    }
    telemetry::exit_on_panic();
    match actix::System::new().block_on(agent.run()) {
        Ok(code) => Exit::Child(code),
        Err(failed) => {
            let exit = match failed {
                Failed::NoToken => Exit::Usage,
                Failed::Signals(_) => Exit::Bug,
            };
            complain(failed);
            exit
        }
    }
}

/// Prints what was asked for. A reader who has seen enough, as `head`, is no trouble.
fn say(what: impl std::fmt::Display) -> Exit {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{}", what.to_string().trim_end()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            complain(format_args!(
                "standard output cannot be written to: {error}"
            ));
            Exit::Bug
        }
        _ => Exit::Clean,
    }
}

/// Tells people what went wrong and what to do about it. Before logging has begun, and for what
/// ends the process, this is plainer than a log line.
fn complain(what: impl std::fmt::Display) {
    use std::io::Write;
    // Where nobody reads it any more, it need not be said.
    let _ = writeln!(std::io::stderr(), "{what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
