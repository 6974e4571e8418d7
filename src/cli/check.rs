//! `boatswain check`: validates a configuration, and prints its effective values (spec C-4) and the rights that it needs
//! (spec C-8).

use super::{fail, fail_with, run::ConfigArgs, say};
use crate::config::Config;
use crate::driver;
use crate::exit::Exit;
use crate::manifests::Kind;

#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// Ask the cluster, with this command's own credentials, for each right that the driver needs; exit code 77 if one
    /// is missing
    #[arg(long)]
    cluster: bool,
    /// With --cluster: what is to run the driver
    #[arg(long, value_enum, default_value_t = Kind::Job, requires = "cluster")]
    kind: Kind,
}

/// Prints every mistake, or else the effective values with their origins.
pub(super) fn check(args: &CheckArgs) -> Exit {
    let (config, effective) = match args.config.explain() {
        Ok(read) => read,
        Err(error) => return fail_with(Exit::Configuration, &error),
    };
    let said = match driver::shapes(&config) {
        Ok(shapes) => say(format_args!("{effective}{shapes}")),
        Err(error) => return fail_with(Exit::Configuration, &error),
    };
    match args.cluster {
        true => check_cluster(&config, args.kind),
        false => said,
    }
}

fn check_cluster(config: &Config, kind: Kind) -> Exit {
    let asked = actix::System::new().block_on(driver::ask_cluster(config, kind));
    let (namespace, rights) = match asked {
        Ok(asked) => asked,
        Err(why) => return fail(Exit::Unreachable, why),
    };
    let mut table = format!("\n# rights in namespace {namespace}\n");
    for (right, granted) in &rights {
        let line = match granted {
            true => format!("# granted  {right}\n"),
            false => format!(
                "# MISSING  {right}; the rule that would allow it: {}\n",
                right.rule()
            ),
        };
        table.push_str(&line);
    }
    let said = say(table);
    match rights.iter().all(|(_, granted)| *granted) {
        true => said,
        false => Exit::Rights,
    }
}
