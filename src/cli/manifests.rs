//! `boatswain manifests`: prints what a driver needs in its cluster (spec O-51, O-75).

use serde_json::Value;

use super::run::ConfigArgs;
use super::{complain, fail, fail_with, say};
use crate::config::{Effective, is_dns_label};
use crate::exit::Exit;
use crate::manifests::{self, Options, WorkloadKind};
use crate::secret;

#[derive(Debug, clap::Args)]
pub(super) struct ManifestsArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// What runs the driver
    #[arg(long, value_enum, default_value_t = WorkloadKind::Job)]
    kind: WorkloadKind,
    /// The name of the objects
    #[arg(long, default_value = "boatswain", value_parser = name)]
    name: String,
    /// The namespace of the driver and its executors; without it cluster.namespace, or else the namespace in which
    /// the objects are created
    #[arg(long)]
    namespace: Option<String>,
    /// The driver's image
    #[arg(long)]
    image: String,
    /// The PriorityClass of the driver's pod
    #[arg(long, value_name = "NAME")]
    priority_class: Option<String>,
    /// Keep the cluster autoscaler and Karpenter from removing the driver's node to save one
    #[arg(long)]
    do_not_disrupt: bool,
    /// Also a NetworkPolicy: sessions from executors only, the other ports from everywhere, and from the driver only
    /// DNS and the API server (ports 443 and 6443)
    #[arg(long)]
    network_policy: bool,
    /// Also a PodMonitor, by which the Prometheus operator finds the metrics
    #[arg(long)]
    pod_monitor: bool,
    /// Also the Secret with the files of api.token_file, backend.key_file and metrics.token_file, with random values;
    /// applied once more, it replaces them
    #[arg(long)]
    generate_secrets: bool,
}

/// Prints the objects as YAML. What the operator has to do first is printed to stderr.
pub(super) fn manifests(args: &ManifestsArgs) -> Exit {
    let (config, effective) = match args.config.for_a_pod() {
        Ok(read) => read,
        Err(error) => return fail_with(Exit::Configuration, &error),
    };
    // An override may stand in front of a secret in the file.
    let of_file = args.config.of_file();
    let found = of_file
        .ok()
        .and_then(|(_, effective)| secret_in(&effective));
    if let Some(key) = found.or_else(|| secret_in(&effective)) {
        let fix =
            "name a Secret of the cluster instead, as in { secret = \"NAME\", key = \"KEY\" }";
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
        priority_class: args.priority_class.clone(),
        do_not_disrupt: args.do_not_disrupt,
        network_policy: args.network_policy,
        pod_monitor: args.pod_monitor,
        generate_secrets: args.generate_secrets,
    };
    let mut objects = match manifests::manifests(&config, &text, &options) {
        Ok(objects) => objects,
        Err(error) => return fail_with(Exit::Configuration, &error),
    };
    if options.generate_secrets {
        match manifests::generated_secret(&config, &options, secret::make) {
            // Before the workload, whose pod waits for it.
            Ok(Some(generated)) => objects.insert(0, generated),
            Ok(None) => complain("no Secret is generated: the configuration names no file for one"),
            Err(error) => return fail_with(Exit::Bug, &error),
        }
    }
    print(&objects, &manifests::secrets_to_create(&config, &options))
}

fn print(objects: &[Value], to_create: &[String]) -> Exit {
    match manifests::yaml(objects) {
        Ok(yaml) => {
            for command in to_create {
                complain(format_args!(
                    "the driver needs a Secret, which is not printed; create it first:\n  {command}"
                ));
            }
            say(yaml)
        }
        Err(error) => fail(Exit::Bug, error),
    }
}

/// A name that all objects can have.
fn name(text: &str) -> Result<String, String> {
    match is_dns_label(text, NAME) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "expected lower-case letters, digits and inner dashes, at most {NAME}"
        )),
    }
}

/// The longest name of the objects.
const NAME: usize = 52;

/// The first key whose value is a secret.
fn secret_in(effective: &Effective) -> Option<String> {
    let hidden = effective
        .settings
        .iter()
        .find(|setting| setting.is_hidden())?;
    Some(format!("{}.{}", hidden.section, hidden.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-51
    #[test]
    fn a_name_that_no_object_can_have_is_refused() {
        assert_eq!(name("etl-driver"), Ok("etl-driver".to_owned()));
        for bad in ["", "ETL", "a.b", "-a", &"a".repeat(53)] {
            assert!(name(bad).unwrap_err().contains("lower-case"), "{bad}");
        }
    }
}
