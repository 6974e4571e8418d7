//! The workload that runs the driver's pod.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::{Kind, Options, Unfit};
use crate::config::Config;

const CONFIGURATION: &str = "/etc/boatswain";
/// The user and group of the image.
const USER: u32 = 65532;
/// How much later than the driver's own end of its shutdown the kubelet kills it.
const AFTER_GRACE: Duration = Duration::from_secs(10);

/// The files with secrets that the configuration names, all in one directory.
pub(super) struct Secrets {
    directory: PathBuf,
    pub(super) files: Vec<String>,
}

impl Secrets {
    pub(super) fn of(config: &Config) -> Result<Option<Self>, Unfit> {
        let keys = [
            ("api.token_file", &config.api.token_file),
            ("backend.key_file", &config.backend.sessions.key_file),
        ];
        let mut secrets: Option<Self> = None;
        for (key, path) in keys {
            let Some(path) = path else { continue };
            let parts = (
                path.parent(),
                path.file_name().and_then(|name| name.to_str()),
            );
            let (Some(directory), Some(file), true) = (parts.0, parts.1, path.is_absolute()) else {
                return Err(unfit_path(key, path));
            };
            if directory.starts_with(CONFIGURATION) && directory == Path::new(CONFIGURATION) {
                return Err(unfit_path(key, path));
            }
            let all = secrets.get_or_insert_with(|| Self {
                directory: directory.to_owned(),
                files: Vec::new(),
            });
            if all.directory != directory {
                return Err(unfit_path(key, path));
            }
            all.files.push(file.to_owned());
        }
        Ok(secrets)
    }
}

fn unfit_path(key: &str, path: &Path) -> Unfit {
    Unfit(format!(
        "{key} is {}: the driver's pod mounts one Secret with all files that are secret; name them by absolute \
         paths in one directory, such as /etc/boatswain-secrets, other than {CONFIGURATION}",
        path.display()
    ))
}

pub(super) fn secret_name(name: &str) -> String {
    format!("{name}-secrets")
}

pub(super) fn workload(
    config: &Config,
    options: &Options,
    data: &Value,
    secrets: Option<&Secrets>,
) -> Value {
    // The labels of the driver's pod: those by which its Service finds it too.
    let mut labels = config.backend.sessions.service_selector.clone();
    labels
        .entry("app.kubernetes.io/name".to_owned())
        .or_insert_with(|| options.name.clone());
    let template = pod(config, options, &labels, data, secrets);
    let selector = json!({"matchLabels": labels});
    match options.kind {
        Kind::Job => json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "spec": {"backoffLimit": 6, "podFailurePolicy": {"rules": failure_rules()}, "template": template},
        }),
        Kind::Deployment => json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "spec": {
                "replicas": 1, "selector": selector,
                // Two drivers would supersede each other.
                "strategy": {"type": "Recreate"},
                "template": template,
            },
        }),
        Kind::Statefulset => json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "spec": {"replicas": 1, "selector": selector, "serviceName": options.name, "template": template},
        }),
    }
}

/// What a Job does about an exit code (spec O-10): codes of a mistake that a restart repeats fail the Job, an end that
/// hands over does not count, and the application's own codes are its result. The first rule that matches decides.
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
        codes("Count", "In", &[69, 70, 130, 134, 137, 139, 143]),
        codes("FailJob", "NotIn", &[0]),
    ])
}

fn pod(
    config: &Config,
    options: &Options,
    labels: &BTreeMap<String, String>,
    data: &Value,
    secrets: Option<&Secrets>,
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
    if let Some(secrets) = secrets {
        // The files are root's: the group makes them readable.
        security["fsGroup"] = USER.into();
        mounts.push(json!({"name": "secrets", "mountPath": secrets.directory, "readOnly": true}));
        let secret = json!({"secretName": secret_name(&options.name), "defaultMode": 0o440});
        volumes.push(json!({"name": "secrets", "secret": secret}));
    }
    let grace = config.shutdown.grace + AFTER_GRACE;
    let checksum = ring::digest::digest(&ring::digest::SHA256, data.to_string().as_bytes());
    let restart = if options.kind == Kind::Job {
        "Never"
    } else {
        "Always"
    };
    json!({
        "metadata": {
            "labels": labels,
            "annotations": {"checksum/config": URL_SAFE_NO_PAD.encode(checksum)},
        },
        "spec": {
            "serviceAccountName": options.name,
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": grace.as_secs() + u64::from(grace.subsec_nanos() > 0),
            "securityContext": security,
            "containers": [{
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
            }],
            "volumes": volumes,
        },
    })
}
