//! `boatswain check`: whether a configuration can be used, and what applies (spec C-4).

use super::{complain, run::ConfigArgs, say};
use crate::driver;
use crate::exit::Exit;

/// The arguments of `boatswain check`.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
}

/// Says every mistake, or what applies and where each value came from.
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
