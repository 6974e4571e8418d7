//! `boatswain convert`: converts a Spark configuration to a boatswain configuration (spec C-7).

use std::path::PathBuf;

use super::{fail, say};
use crate::config::spark;
use crate::exit::Exit;

#[derive(Debug, clap::Args)]
pub(super) struct ConvertArgs {
    /// Spark's configuration: spark-defaults.conf, a script with spark-submit, EMR's JSON, a
    /// SparkApplication
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Prints the configuration as TOML. Keys without a counterpart are named in comments.
pub(super) fn convert(args: &ConvertArgs) -> Exit {
    let file = args.file.display();
    let refuse = |why: std::fmt::Arguments<'_>| fail(Exit::Configuration, why);
    match std::fs::read(&args.file) {
        // Spark reads the file as UTF-8 too; only characters with invalid bytes are replaced.
        Ok(bytes) => match spark::convert(&String::from_utf8_lossy(&bytes)) {
            Ok(toml) => say(toml),
            Err(why) => refuse(format_args!("{file}: {why}")),
        },
        Err(error) => {
            let fix = "give a readable file, such as spark-defaults.conf";
            refuse(format_args!("cannot read {file}: {error}\n  {fix}"))
        }
    }
}
