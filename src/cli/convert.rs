//! `boatswain convert`: a configuration of Spark's as one of boatswain's (spec C-7).

use std::path::PathBuf;

use super::{complain, say};
use crate::config::spark;
use crate::exit::Exit;

/// The arguments of `boatswain convert`.
#[derive(Debug, clap::Args)]
pub(super) struct ConvertArgs {
    /// Spark's configuration, as spark-defaults.conf.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Prints the configuration as TOML; what has no place in it is named in comments.
pub(super) fn convert(args: &ConvertArgs) -> Exit {
    match std::fs::read(&args.file) {
        // Spark reads UTF-8 too; a byte that is none spoils the character that it is in.
        Ok(bytes) => say(spark::convert(&String::from_utf8_lossy(&bytes)).trim_end()),
        Err(error) => {
            let file = args.file.display();
            complain(format_args!(
                "{file}: cannot be read: {error}\n  name a readable file, as spark-defaults.conf"
            ));
            Exit::Configuration
        }
    }
}
