//! `boatswain convert`: converts a Spark configuration to a boatswain configuration (spec C-7).

use std::path::PathBuf;

use super::{fail, say};
use crate::config::spark;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct ConvertArgs {
    /// Spark configuration file, such as spark-defaults.conf
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Prints the configuration as TOML. Keys without a counterpart are named in comments.
pub(super) fn convert(args: &ConvertArgs) -> Exit {
    match std::fs::read(&args.file) {
        // Spark reads the file as UTF-8 too; only characters with invalid bytes are replaced.
        Ok(bytes) => say(spark::convert(&String::from_utf8_lossy(&bytes))),
        Err(error) => {
            let file = args.file.display();
            let fix = "give a readable file, such as spark-defaults.conf";
            let why = format_args!("cannot read {file}: {error}\n  {fix}");
            fail(Exit::Configuration, why)
        }
    }
}
