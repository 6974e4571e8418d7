//! `boatswain completions` and `boatswain man`: shell completions and manual pages from the command line's definition
//! (spec O-43).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command, CommandFactory as _};
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{CompletionCandidate, Shell};
use tokio::time::timeout;

use super::{Cli, fail, fail_with, say, wait_for};
use crate::driver::applications::names;
use crate::driver::clean::{Place, is_app_id};
use crate::exit::Exit;

/// The variable in which a shell that asks what a command line may go on with says which shell it is.
const ASKS: &str = "BOATSWAIN_COMPLETE";

/// How long a shell waits for the names of applications.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// Directory for the pages, one file per command; created if it does not exist
    directory: PathBuf,
}

pub(super) fn completions(args: &CompletionsArgs) -> Exit {
    let shells = Shells::builtins();
    let name = args.shell.to_string();
    let Some(shell) = shells.completer(&name) else {
        return fail(Exit::Bug, format_args!("{name} is not supported"));
    };
    let mut script = Vec::new();
    let program = "boatswain";
    match shell.write_registration(ASKS, program, program, program, &mut script) {
        Ok(()) => say(String::from_utf8_lossy(&script)),
        Err(error) => fail_with(Exit::Bug, &error),
    }
}

/// Answers a shell that asks what the command line may go on with; `None` if none asks.
pub(super) fn complete(arguments: &[OsString]) -> Option<Exit> {
    let here = std::env::current_dir().ok();
    let shells = CompleteEnv::with_factory(Cli::command).var(ASKS);
    match shells.try_complete(arguments, here.as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(Exit::Clean),
        Err(error) => Some(fail_with(Exit::Usage, &error)),
    }
}

/// The applications in the kubeconfig's namespace; none if it cannot be read soon.
pub(super) fn applications() -> Vec<CompletionCandidate> {
    let mut found = Vec::new();
    wait_for(async {
        if let Ok(Ok(listed)) = timeout(PATIENCE, names(Place::default())).await {
            found = listed;
        }
        Exit::Clean
    });
    offered(found).map(CompletionCandidate::new).collect()
}

/// Those that a shell takes for words. It would carry out what others say.
fn offered(names: Vec<String>) -> impl Iterator<Item = String> {
    names.into_iter().filter(|name| is_app_id(name))
}

pub(super) fn man(args: &ManArgs, command: Command) -> Exit {
    let written = std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(command, &args.directory));
    match written {
        Ok(()) => Exit::Clean,
        Err(error) => {
            let directory = args.directory.display();
            let why = format_args!("cannot write to {directory}: {error}");
            fail(Exit::Refused, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    // spec: O-43
    #[test]
    fn every_shell_is_supported_and_every_command_has_its_page() {
        let directory = tempfile::tempdir().unwrap();
        let pages = ManArgs {
            directory: directory.path().join("man1"),
        };
        assert_eq!(man(&pages, Cli::command()), Exit::Clean);
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let page = pages.directory.join(format!("boatswain-{name}.1"));
            assert!(page.is_file(), "{}", page.display());
        }
        for shell in Shell::value_variants() {
            assert!(Shells::builtins().completer(&shell.to_string()).is_some());
        }
    }

    // spec: O-43
    #[test]
    fn a_shell_is_offered_no_name_that_it_would_carry_out() {
        let names = ["etl", "$(reboot)", "a b", "a;b", "-rf", "", "etl-7f3a"];
        let offered: Vec<String> = offered(names.map(str::to_owned).into()).collect();
        assert_eq!(offered, ["etl", "etl-7f3a"]);
    }

    // spec: O-43
    #[test]
    fn a_directory_that_cannot_be_made_is_a_refusal() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let directory = file.path().join("man1");
        assert_eq!(man(&ManArgs { directory }, Cli::command()), Exit::Refused);
    }
}
