//! `boatswain check`: validates a configuration, and prints its effective values (spec C-4).

use super::{complain, run::ConfigArgs, say};
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
            Ok(shapes) => say(format!("{effective}{shapes}").trim_end()),
            Err(error) => {
                complain(error);
                Exit::Configuration
            }
        },
        Err(error) => {
            complain(error);
            Exit::Configuration
        }
    }
}
