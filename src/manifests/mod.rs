//! The objects that a driver needs in its cluster: its account, its rights, its configuration and its workload (spec
//! O-51). No input, no output: `(config, options) → objects`.

mod optional;
pub mod rights;
#[cfg(test)]
mod tests;
mod workload;
mod yaml;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::config::{ClusterMode, Config};
use workload::{Secret, workload};
pub use yaml::yaml;

/// What runs the driver's pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum WorkloadKind {
    /// For an application that ends: the Job ends with it, with its exit code
    Job,
    /// For an application that runs until it is stopped
    Deployment,
    /// Like a Deployment, but never with two pods: a pod on a silent node blocks its successor
    Statefulset,
}

/// What the configuration does not say.
#[derive(Debug)]
pub struct Options {
    pub kind: WorkloadKind,
    pub name: String,
    pub namespace: Option<String>,
    pub image: String,
    /// Overrides of the configuration, which become arguments of the driver.
    pub sets: Vec<String>,
    pub priority_class: Option<String>,
    /// Neither the cluster autoscaler nor Karpenter removes the driver's node to save one.
    pub do_not_disrupt: bool,
    pub network_policy: bool,
    pub pod_monitor: bool,
    /// The Secret of the driver's own secrets is one of the objects.
    pub generate_secrets: bool,
}

/// A configuration that cannot run in a pod, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unfit(String);

/// The objects, in the order in which they are to be applied. `text` is the configuration file's content.
///
/// # Errors
/// If a driver in a pod could not run with this configuration.
pub fn manifests(config: &Config, text: &str, options: &Options) -> Result<Vec<Value>, Unfit> {
    let namespace = namespace(config, options)?;
    let secrets = Secret::all(config)?;
    refuse_templates(config)?;
    let data = json!({"boatswain.toml": text});
    let name = &options.name;
    let role = "rbac.authorization.k8s.io";
    let subject = match &namespace {
        Some(namespace) => json!({"kind": "ServiceAccount", "name": name, "namespace": namespace}),
        None => json!({"kind": "ServiceAccount", "name": name}),
    };
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount"}),
        json!({
            "apiVersion": format!("{role}/v1"), "kind": "Role",
            "rules": rights::rules(config, options.kind, false),
        }),
        json!({
            "apiVersion": format!("{role}/v1"), "kind": "RoleBinding",
            "roleRef": {"apiGroup": role, "kind": "Role", "name": name},
            "subjects": [subject],
        }),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "data": data.clone()}),
        workload(config, options, &data, &secrets),
    ];
    objects.extend(optional::objects(config, options)?);
    for object in &mut objects {
        label(object, name, options, namespace.as_deref());
    }
    objects.extend(of_cluster(config, options, namespace.as_deref())?);
    Ok(objects)
}

/// The rights outside the executors' namespace, if the configuration needs any.
fn of_cluster(
    config: &Config,
    options: &Options,
    namespace: Option<&str>,
) -> Result<Vec<Value>, Unfit> {
    let rules = rights::rules(config, options.kind, true);
    if rules.is_empty() {
        return Ok(Vec::new());
    }
    let Some(namespace) = namespace else {
        return Err(Unfit(
            "with scheduling.queue the driver's account needs a right outside its namespace: name the account's \
             namespace, with --namespace"
                .to_owned(),
        ));
    };
    let account = &options.name;
    let name = format!("{account}-{namespace}");
    let role = "rbac.authorization.k8s.io";
    let mut objects = vec![
        json!({"apiVersion": format!("{role}/v1"), "kind": "ClusterRole", "rules": rules}),
        json!({
            "apiVersion": format!("{role}/v1"), "kind": "ClusterRoleBinding",
            "roleRef": {"apiGroup": role, "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        }),
    ];
    for object in &mut objects {
        label(object, &name, options, None);
    }
    Ok(objects)
}

fn label(object: &mut Value, name: &str, options: &Options, namespace: Option<&str>) {
    object["metadata"] = json!({"name": name, "labels": {"app.kubernetes.io/name": options.name}});
    if let Some(namespace) = namespace {
        object["metadata"]["namespace"] = namespace.into();
    }
}

/// The Secret of the driver's own secrets, with a value from `make` in each file; `None` if the configuration names no
/// such file.
///
/// # Errors
/// If a value cannot be made.
pub fn generated_secret<E>(
    config: &Config,
    options: &Options,
    mut make: impl FnMut() -> Result<String, E>,
) -> Result<Option<Value>, E> {
    let secrets = Secret::all(config).unwrap_or_default();
    let Some(secret) = secrets.into_iter().find(Secret::is_random) else {
        return Ok(None);
    };
    let mut data = BTreeMap::new();
    for file in &secret.files {
        data.insert(file, STANDARD.encode(make()?));
    }
    let mut object = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": data});
    let namespace = namespace(config, options).unwrap_or_default();
    label(
        &mut object,
        &secret.name(&options.name),
        options,
        namespace.as_deref(),
    );
    Ok(Some(object))
}

/// What the operator has to do before the objects are applied: the commands that create the Secrets that are not
/// generated.
pub fn secrets_to_create(config: &Config, options: &Options) -> Vec<String> {
    let mut secrets = Secret::all(config).unwrap_or_default();
    secrets.retain(|secret| !(options.generate_secrets && secret.is_random()));
    let command = |secret: Secret| {
        let files = secret
            .files
            .iter()
            .map(|file| format!(" --from-file={file}"));
        let files: String = files.collect();
        let name = secret.name(&options.name);
        format!("kubectl create secret generic {name}{files}")
    };
    secrets.into_iter().map(command).collect()
}

fn namespace(config: &Config, options: &Options) -> Result<Option<String>, Unfit> {
    let refuse = |why: &str| Err(Unfit(why.to_owned()));
    if config.cluster.mode == ClusterMode::Embedded {
        return refuse(
            "cluster.mode is \"embedded\": a driver in a pod uses the cluster that it runs in; \
                       leave cluster.mode out",
        );
    }
    if config.cluster.kubeconfig.is_some() || config.cluster.context.is_some() {
        return refuse(
            "cluster.kubeconfig and cluster.context are for a driver outside the cluster; \
                       leave them out",
        );
    }
    match (&config.cluster.namespace, &options.namespace) {
        (Some(of_config), Some(given)) if of_config != given => Err(Unfit(format!(
            "the executors' namespace, cluster.namespace, is {of_config}, and --namespace is {given}: the \
             driver and its rights must be in the executors' namespace; leave one of them out"
        ))),
        (of_config, given) => Ok(given.clone().or_else(|| of_config.clone())),
    }
}

/// A template's path would have to lead to a file in the driver's pod.
fn refuse_templates(config: &Config) -> Result<(), Unfit> {
    for (profile, shape) in &config.profiles {
        if let Some(template) = &shape.template {
            return Err(Unfit(format!(
                "profiles.{profile}.template is {}, and this command does not take template files along: write \
                 the profile's keys into the configuration instead",
                template.path.display()
            )));
        }
    }
    Ok(())
}
