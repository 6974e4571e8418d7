//! `boatswain check`: validates a configuration, and prints its effective values (spec C-4, C-8).

use super::{fail, fail_with, in_system, run::ConfigArgs, say};
use crate::config::Config;
use crate::driver;
use crate::exit::Exit;
use crate::manifests::WorkloadKind;

#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Also ask the cluster which of the rights that the driver needs it grants to the credentials of this command;
    /// nothing is created
    #[arg(long)]
    cluster: bool,
    /// What runs the driver: a Deployment needs one more right
    #[arg(long, value_enum, default_value_t = WorkloadKind::Job, requires = "cluster")]
    kind: WorkloadKind,
}

/// Prints every mistake, or else the effective values with their origins.
pub(super) fn check(args: &CheckArgs) -> Exit {
    let (config, effective) = match args.config.explain() {
        Ok(read) => read,
        Err(error) => return fail_with(Exit::Configuration, &error),
    };
    // First, because the values fill screens.
    let granted = match args.cluster {
        true => in_system(ask_for_rights(&config, args.kind)),
        false => Exit::Clean,
    };
    let printed = match driver::shapes(&config) {
        Ok(shapes) => say(format_args!("{effective}{shapes}")),
        Err(error) => fail_with(Exit::Configuration, &error),
    };
    match printed {
        Exit::Clean => granted,
        printed => printed,
    }
}

/// Prints each right, granted or missing.
async fn ask_for_rights(config: &Config, kind: WorkloadKind) -> Exit {
    let rights = match driver::rights(config, kind).await {
        Ok(Some(rights)) => rights,
        Ok(None) => return say("Rights: the embedded cluster grants all.\n"),
        Err(error) => return fail_with(Exit::Configuration, &error),
    };
    match rights.not_served().await {
        Ok(None) => {}
        Ok(Some(why)) => return fail(Exit::Configuration, format_args!("{why}")),
        Err(error) => return fail_with(error.exit(), &error),
    }
    let namespace = rights.namespace.clone();
    let reviewed = match rights.review().await {
        Ok(reviewed) => reviewed,
        Err(error) => return fail_with(error.exit(), &error),
    };
    let line = |(right, granted): &(_, bool)| {
        let answer = if *granted { "granted" } else { "missing" };
        format!("  {answer}  {right}\n")
    };
    let lines: String = reviewed.iter().map(line).collect();
    let printed = say(format_args!("Rights in namespace {namespace}:\n{lines}"));
    let missing = reviewed.iter().filter(|(_, granted)| !granted);
    let rules: String = missing
        .map(|(right, _)| format!("\n  - {}", right.rule()))
        .collect();
    if rules.is_empty() {
        return printed;
    }
    fail(
        Exit::Rights,
        format_args!(
            "rights are missing in namespace {namespace}; add to the driver's Role:{rules}"
        ),
    )
}
