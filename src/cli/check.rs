//! `boatswain check`: validates a configuration, and prints its effective values (spec C-4).

use super::{fail_with, run::ConfigArgs, say};
use crate::driver;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

/// Prints every mistake, or else the effective values with their origins.
pub(super) fn check(args: &CheckArgs) -> Exit {
    match args.config.explain() {
        Ok((config, effective)) => match driver::shapes(&config) {
            Ok(shapes) => say(format_args!("{effective}{shapes}")),
            Err(error) => fail_with(Exit::Configuration, &error),
        },
        Err(error) => fail_with(Exit::Configuration, &error),
    }
}
