//! `boatswain completions` and `boatswain man`: generates shell completions and manual pages from
//! the command line's definition (spec O-43).

use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use super::{fail, say};
use crate::exit::Exit;

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

pub(super) fn completions(args: &CompletionsArgs, mut command: Command) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "boatswain", &mut script);
    say(String::from_utf8_lossy(&script))
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
    use clap::{CommandFactory as _, ValueEnum as _};

    use super::*;
    use crate::cli::Cli;

    // spec: O-43
    #[test]
    fn every_shell_knows_every_command_and_every_command_has_its_page() {
        let directory = tempfile::tempdir().unwrap();
        let pages = ManArgs {
            directory: directory.path().join("man1"),
        };
        assert_eq!(man(&pages, Cli::command()), Exit::Clean);
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let page = pages.directory.join(format!("boatswain-{name}.1"));
            assert!(page.is_file(), "{}", page.display());
            for shell in Shell::value_variants() {
                let mut script = Vec::new();
                clap_complete::generate(*shell, &mut Cli::command(), "boatswain", &mut script);
                assert!(
                    String::from_utf8(script).unwrap().contains(name),
                    "{shell}: {name}"
                );
            }
        }
    }

    // spec: O-43
    #[test]
    fn a_directory_that_cannot_be_made_is_a_refusal() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let directory = file.path().join("man1");
        assert_eq!(man(&ManArgs { directory }, Cli::command()), Exit::Refused);
    }
}
