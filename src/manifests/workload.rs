//! The workload that runs the driver's pod.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{Options, Unfit, WorkloadKind};
use crate::config::Config;

const CONFIGURATION: &str = "/etc/boatswain";
/// The user and group of the image.
const USER: u32 = 65532;
/// How much later than the driver's own end of its shutdown the kubelet kills it.
const AFTER_GRACE: Duration = Duration::from_secs(10);

/// The suffix of the Secret with the driver's own secrets.
const OWN: &str = "secrets";

/// A Secret whose files the configuration names, all in one directory.
pub(super) struct Secret {
    /// Its name and its volume's, after the driver's name.
    suffix: &'static str,
    directory: PathBuf,
    pub(super) files: Vec<String>,
}

impl Secret {
    /// The Secrets that this configuration needs: one of the driver's own secrets, and one of its certificate, which
    /// others renew.
    pub(super) fn all(config: &Config) -> Result<Vec<Self>, Unfit> {
        let own: [(_, &Option<PathBuf>); 3] = [
            ("api.token_file", &config.api.token_file),
            ("backend.key_file", &config.backend.sessions.key_file),
            ("metrics.token_file", &config.metrics.token_file),
        ];
        let certificate = [
            ("tls.certificate_file", &config.tls.certificate_file),
            ("tls.key_file", &config.tls.key_file),
            ("tls.ca_file", &config.tls.ca_file),
        ];
        let secrets = [(OWN, own), ("certificate", certificate)];
        let secrets = (secrets.into_iter())
            .map(|(suffix, keys)| Self::of(suffix, keys))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(secrets.into_iter().flatten().collect())
    }

    fn of(
        suffix: &'static str,
        keys: [(&'static str, &Option<PathBuf>); 3],
    ) -> Result<Option<Self>, Unfit> {
        let mut secret: Option<Self> = None;
        for (key, path) in keys {
            let Some(path) = path else { continue };
            let file = path.file_name().and_then(|name| name.to_str());
            let (Some(directory), Some(file), true) = (path.parent(), file, path.is_absolute())
            else {
                return Err(unfit_path(key, path));
            };
            let secret = secret.get_or_insert_with(|| Self {
                suffix,
                directory: directory.to_owned(),
                files: Vec::new(),
            });
            if secret.directory != directory || directory == Path::new(CONFIGURATION) {
                return Err(unfit_path(key, path));
            }
            secret.files.push(file.to_owned());
        }
        Ok(secret)
    }

    pub(super) fn name(&self, driver: &str) -> String {
        format!("{driver}-{}", self.suffix)
    }

    /// Whether its files may contain any random text. A certificate's do not.
    pub(super) fn is_random(&self) -> bool {
        self.suffix == OWN
    }
}

fn unfit_path(key: &str, path: &Path) -> Unfit {
    Unfit(format!(
        "{key} is {}: the driver's pod mounts one Secret with the files of [tls] and one with all others that are \
         secret; name the files of each by absolute paths in one directory, such as /etc/boatswain-secrets, other than \
         {CONFIGURATION}",
        path.display()
    ))
}

/// The labels of the driver's pod: those by which its Service finds it too.
pub(super) fn labels(config: &Config, options: &Options) -> BTreeMap<String, String> {
    let mut labels = config.backend.sessions.service_selector.clone();
    labels
        .entry("app.kubernetes.io/name".to_owned())
        .or_insert_with(|| options.name.clone());
    labels
}

pub(super) fn workload(
    config: &Config,
    options: &Options,
    data: &Value,
    secrets: &[Secret],
) -> Value {
    let labels = labels(config, options);
    let template = pod(config, options, &labels, data, secrets);
    let selector = json!({"matchLabels": labels});
    // The second one stands by.
    let replicas = if config.ha.lease { 2 } else { 1 };
    match options.kind {
        WorkloadKind::Job => json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "spec": {"backoffLimit": 6, "podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": failure_rules()}, "template": template},
        }),
        WorkloadKind::Deployment => json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "spec": {
                "replicas": replicas, "selector": selector,
                // Without the lease the new pod would only wait for the end of the old one.
                "strategy": {"type": if config.ha.lease { "RollingUpdate" } else { "Recreate" }},
                "template": template,
            },
        }),
        WorkloadKind::Statefulset => json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "spec": {
                "replicas": replicas, "selector": selector, "serviceName": options.name,
                "podManagementPolicy": "Parallel", "template": template,
            },
        }),
    }
}

/// What a Job does about an exit code (spec O-10): codes of a mistake that a restart repeats fail the Job, an end that
/// hands over does not count, what may heal counts (128: the node could not start the container), and the application's
/// own codes are its result. The first rule that matches decides.
fn failure_rules() -> Value {
    let codes = |action: &str, operator: &str, values: &[i32]| {
        json!({
            "action": action,
            "onExitCodes": {"containerName": "boatswain", "operator": operator, "values": values},
        })
    };
    json!([
        codes("FailJob", "In", &[11, 12, 64, 77, 78]),
        codes("Ignore", "In", &[75]),
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        codes("Count", "In", &[69, 70, 128, 130, 134, 137, 139, 143]),
        codes("FailJob", "NotIn", &[0]),
    ])
}

/// The ports of metrics and probes, for the kubelet and Prometheus.
fn observe(config: &Config, container: &mut Value) {
    let port = |listen: Option<SocketAddr>| listen.map(|address| address.port());
    let (metrics, probes) = (port(config.metrics.listen), port(config.probes.listen));
    let ports = [("metrics", metrics), ("probes", probes)];
    let ports: Vec<Value> = (ports.into_iter())
        .filter_map(|(name, port)| Some(json!({"name": name, "containerPort": port?})))
        .collect();
    if !ports.is_empty() {
        container["ports"] = ports.into();
    }
    if probes.is_some() {
        for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
            container[probe] = json!({"httpGet": {"path": path, "port": "probes"}});
        }
    }
}

fn pod(
    config: &Config,
    options: &Options,
    labels: &BTreeMap<String, String>,
    data: &Value,
    secrets: &[Secret],
) -> Value {
    let mut args = vec![
        "run".to_owned(),
        "--config".to_owned(),
        format!("{CONFIGURATION}/boatswain.toml"),
    ];
    for set in &options.sets {
        args.extend(["--set".to_owned(), set.clone()]);
    }
    let mut mounts =
        vec![json!({"name": "configuration", "mountPath": CONFIGURATION, "readOnly": true})];
    let mut volumes = vec![json!({"name": "configuration", "configMap": {"name": options.name}})];
    let mut security = json!({
        "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    for secret in secrets {
        // The files are root's: the group makes them readable.
        security["fsGroup"] = USER.into();
        let volume = secret.suffix;
        mounts.push(json!({"name": volume, "mountPath": secret.directory, "readOnly": true}));
        let source = json!({"secretName": secret.name(&options.name), "defaultMode": 0o440});
        volumes.push(json!({"name": volume, "secret": source}));
    }
    let grace = config.shutdown.grace + AFTER_GRACE;
    let checksum = ring::digest::digest(&ring::digest::SHA256, data.to_string().as_bytes());
    let restart = if options.kind == WorkloadKind::Job {
        "Never"
    } else {
        "Always"
    };
    let mut container = json!({
                "name": "boatswain",
                "image": options.image,
                "args": args,
                "env": [{
                    "name": "BOATSWAIN__DRIVER__POD_NAME",
                    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                }],
                "securityContext": {
                    "allowPrivilegeEscalation": false,
                    "readOnlyRootFilesystem": true,
                    "capabilities": {"drop": ["ALL"]},
                },
                "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
                "volumeMounts": mounts,
    });
    observe(config, &mut container);
    let mut annotations = json!({"checksum/config": URL_SAFE_NO_PAD.encode(checksum)});
    if options.do_not_disrupt {
        annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false".into();
        annotations["karpenter.sh/do-not-disrupt"] = "true".into();
    }
    let mut pod = json!({
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {
            "serviceAccountName": options.name,
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": grace.as_secs() + u64::from(grace.subsec_nanos() > 0),
            "securityContext": security,
            "containers": [container],
            "volumes": volumes,
        },
    });
    if let Some(class) = &options.priority_class {
        pod["spec"]["priorityClassName"] = class.as_str().into();
    }
    pod
}
