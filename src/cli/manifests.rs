//! `boatswain manifests`: prints what a driver needs in its cluster (spec O-51).

use super::run::ConfigArgs;
use super::{complain, fail, fail_with, say};
use crate::config::{Effective, holds_secret, is_secret};
use crate::exit::Exit;
use crate::manifests::{self, Kind, Options};

#[derive(Debug, clap::Args)]
pub(super) struct ManifestsArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// What runs the driver
    #[arg(long, value_enum, default_value_t = Kind::Job)]
    kind: Kind,
    /// The name of the objects
    #[arg(long, default_value = "boatswain")]
    name: String,
    /// The namespace of the driver and its executors; without it cluster.namespace, or else the namespace in which
    /// the objects are created
    #[arg(long)]
    namespace: Option<String>,
    /// The driver's image
    #[arg(long)]
    image: String,
}

/// Prints the objects as YAML. What the operator has to do first is printed to stderr.
pub(super) fn manifests(args: &ManifestsArgs) -> Exit {
    let (config, effective) = match args.config.for_another_process() {
        Ok(read) => read,
        Err(error) => return fail_with(Exit::Configuration, &error),
    };
    if let Some(key) = secret_in(&effective) {
        let fix = "give it to the executors by a Secret of the cluster";
        return fail(
            Exit::Configuration,
            format_args!(
                "{key} looks like a secret, which every reader of a ConfigMap would see: {fix}"
            ),
        );
    }
    let text = match std::fs::read_to_string(args.config.file()) {
        Ok(text) => text,
        Err(error) => return fail_with(Exit::Configuration, &error),
    };
    let options = Options {
        kind: args.kind,
        name: args.name.clone(),
        namespace: args.namespace.clone(),
        image: args.image.clone(),
        sets: args.config.sets().to_vec(),
    };
    let objects = match manifests::manifests(&config, &text, &options) {
        Ok(objects) => objects,
        Err(error) => return fail_with(Exit::Configuration, &error),
    };
    match serde_saphyr::to_string_multiple(&objects) {
        Ok(yaml) => {
            if let Some(command) = manifests::secret_to_create(&config, &options) {
                complain(format_args!(
                    "the driver needs a Secret, which is not printed; create it first:\n  {command}"
                ));
            }
            say(yaml)
        }
        Err(error) => fail_with(Exit::Bug, &error),
    }
}

/// The first key whose value is a secret, by its name or its content.
fn secret_in(effective: &Effective) -> Option<String> {
    let keys = effective.settings.iter().filter_map(|setting| {
        let value = setting.value.as_deref()?;
        let key = format!("{}.{}", setting.section, setting.key);
        // Tables are listed entry by entry; an empty one has no secret.
        let secret = value != "{}" && (is_secret(&key) || holds_secret(value));
        secret.then_some(key)
    });
    keys.into_iter().next()
}
