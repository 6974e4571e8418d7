//! `boatswain convert`: converts a Spark configuration to a boatswain configuration, or a SparkApplication to manifests
//! (spec C-7).

use std::path::PathBuf;

use super::spark_submit::read_file;
use super::{complain, fail, say};
use crate::config::is_dns_label;
use crate::config::spark::{self, Submission};
use crate::driver::submission;
use crate::exit::Exit;
use crate::manifests::yaml;

#[derive(Debug, clap::Args)]
pub(super) struct ConvertArgs {
    /// Spark's configuration: spark-defaults.conf, a script with spark-submit, EMR's JSON, a
    /// SparkApplication
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print manifests of the SparkApplication instead: a Job that gets its executors from this boatswain, such as
    /// `spark+boatswain+https://etl-driver.jobs.svc:7117`
    #[arg(long, value_name = "URL")]
    master: Option<String>,
}

/// Prints the configuration as TOML. Keys without a counterpart are named in comments.
pub(super) fn convert(args: &ConvertArgs) -> Exit {
    let file = args.file.display();
    let refuse = |why: std::fmt::Arguments<'_>| fail(Exit::Configuration, why);
    match std::fs::read(&args.file) {
        // Spark reads the file as UTF-8 too; only characters with invalid bytes are replaced.
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let converted = match &args.master {
                None => spark::convert(&text),
                Some(master) => manifests(&text, master),
            };
            match converted {
                Ok(converted) => say(converted),
                Err(why) => refuse(format_args!("{file}: {why}")),
            }
        }
        Err(error) => {
            let fix = "give a readable file, such as spark-defaults.conf";
            refuse(format_args!("cannot read {file}: {error}\n  {fix}"))
        }
    }
}

/// The manifests of a SparkApplication. What is not taken over is told.
fn manifests(text: &str, master: &str) -> Result<String, String> {
    let arguments = spark::arguments(text, master)?;
    let name = &arguments.name;
    if !is_dns_label(name, 63) {
        let allowed = "allowed: lowercase letters, digits and inner dashes, at most 63";
        return Err(format!(
            "metadata.name: {name:?} is no name for a Service; {allowed}"
        ));
    }
    let submission = Submission::read(&arguments.words, &read_file);
    let submission = submission.map_err(|mistakes| mistakes.join("\n"))?;
    for note in arguments.notes.iter().chain(&submission.notes) {
        complain(format_args!("not taken over: {note}"));
    }
    let of_boatswain = &submission.master.namespace;
    if (submission.namespace.as_ref()).is_some_and(|namespace| namespace != of_boatswain) {
        complain(format_args!(
            "the CA of a boatswain in namespace {of_boatswain} is not among them; if it has one of its own, give the Spark \
             driver's pod its certificate, and spark.boatswain.caFile"
        ));
    }
    let objects = submission::manifests(&submission, name);
    yaml(&objects.map_err(|error| error.to_string())?)
}
