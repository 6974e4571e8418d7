//! A driver's pod, as a client of its API sees it: its configuration, its secrets, and a way to its ports (spec O-86).

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{Container, Pod, Secret, Volume};
use kube::{Api, Client};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite};

use super::calls::Calls;
use super::refusal::{self, Failure, FailureKind};
use super::transport_error::of_error;

#[derive(Clone)]
pub struct DriverPod {
    client: Client,
    pods: Api<Pod>,
    pod: Pod,
}

/// A configuration as the pod's container gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The file's name and content.
    pub file: String,
    pub text: String,
    /// The values of `--set`.
    pub sets: Vec<String>,
    /// The environment variables whose values the pod shows.
    pub env: Vec<(String, String)>,
}

impl DriverPod {
    /// `None`: there is no such pod.
    ///
    /// # Errors
    /// If the pod cannot be read.
    pub async fn read(
        client: Client,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Self>, Failure> {
        let pods = Api::namespaced(client.clone(), namespace);
        let pod = pods.get_opt(name).await;
        let pod = pod.map_err(|error| failed("pods", name, &error))?;
        Ok(pod.map(|pod| Self { client, pods, pod }))
    }

    pub fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or_default()
    }

    /// If it has this uid and has not ended.
    pub fn is_alive(&self, uid: &str) -> bool {
        is_alive(&self.pod, uid)
    }

    /// The configuration of a driver that reads it from a mounted ConfigMap; `None` for any other driver.
    ///
    /// # Errors
    /// If the ConfigMap cannot be read.
    pub async fn configuration(&self, calls: &Calls) -> Result<Option<Given>, Failure> {
        let Some((container, path)) = driver(&self.pod) else {
            return Ok(None);
        };
        let volume = mounted(&self.pod, container, Path::new(path));
        let Some((Some(map), file)) =
            volume.map(|(volume, file)| (volume.config_map.as_ref(), file))
        else {
            return Ok(None);
        };
        let read = calls.get_config_map(&map.name).await?;
        let text = read.and_then(|mut map| map.data.remove(&file));
        Ok(text.map(|text| Given {
            file: format!("ConfigMap {}", map.name),
            text,
            sets: sets(&self.pod, container),
            env: environment(&self.pod, container),
        }))
    }

    /// The content of this file, if it is mounted from a Secret.
    ///
    /// # Errors
    /// If the Secret cannot be read.
    pub async fn secret(&self, path: &Path) -> Result<Option<String>, Failure> {
        let source = driver(&self.pod)
            .and_then(|(container, _)| mounted(&self.pod, container, path))
            .and_then(|(volume, file)| Some((volume.secret.as_ref()?.secret_name.clone()?, file)));
        let Some((name, file)) = source else {
            return Ok(None);
        };
        let namespace = self.pod.metadata.namespace.as_deref().unwrap_or_default();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let read = secrets.get_opt(&name).await;
        let read = read.map_err(|error| failed("secrets", &name, &error))?;
        let bytes = read.and_then(|secret| secret.data?.remove(&file));
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned()))
    }

    /// Connects to this port of the pod's loopback.
    ///
    /// # Errors
    /// If the API server does not forward it.
    pub async fn connect(
        &self,
        port: u16,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + use<>, Failure> {
        let forwarding = self.pods.portforward(self.name(), &[port]).await;
        let mut forwarder =
            forwarding.map_err(|error| failed("pods/portforward", self.name(), &error))?;
        let stream = forwarder.take_stream(port);
        // It was asked for.
        stream.ok_or_else(|| Failure::new(FailureKind::Unreachable, "no stream is forwarded"))
    }
}

/// The phase may still be `Pending` some seconds after the driver in the pod began to work: the kubelet reports later.
fn is_alive(pod: &Pod, uid: &str) -> bool {
    let phase = (pod.status.as_ref()).and_then(|status| status.phase.as_deref());
    let has_ended = matches!(phase, Some("Succeeded" | "Failed"));
    pod.metadata.uid.as_deref() == Some(uid) && !has_ended
}

fn failed(resource: &str, name: &str, error: &kube::Error) -> Failure {
    let place = format!("{resource} {name}");
    let kube::Error::Api(status) = error else {
        return of_error(&place, error);
    };
    // kube drops the kind.
    let mut body = json!(status);
    body["kind"] = "Status".into();
    refusal::of_answer(&place, status.code, None, body.to_string().as_bytes())
}

/// The container that runs a driver, and the path of its configuration.
fn driver(pod: &Pod) -> Option<(&Container, &str)> {
    let containers = &pod.spec.as_ref()?.containers;
    containers
        .iter()
        .find_map(|container| Some((container, values(container, "--config").next()?)))
}

/// The values of an option in a container's command line.
fn values<'c>(container: &'c Container, option: &'c str) -> impl Iterator<Item = &'c str> {
    let words = || {
        let parts = [&container.command, &container.args];
        parts.into_iter().flatten().flatten().map(String::as_str)
    };
    let next = words().skip(1).map(Some).chain([None]);
    words()
        .zip(next)
        .filter_map(move |(word, next)| match word.strip_prefix(option)? {
            "" => next,
            joined => joined.strip_prefix('='),
        })
}

/// The variables with a value, and those that are fields of the pod. What comes from elsewhere is not known here.
fn environment(pod: &Pod, container: &Container) -> Vec<(String, String)> {
    let mut known: Vec<(String, String)> = Vec::new();
    for one in container.env.iter().flatten() {
        let source = one.value_from.as_ref();
        let of_pod = source
            .and_then(|source| source.field_ref.as_ref())
            .and_then(|field| field_of(pod, &field.field_path));
        if let Some(value) = (one.value.as_deref().map(|value| expanded(value, &known))).or(of_pod)
        {
            known.push((one.name.clone(), value));
        }
    }
    known
}

/// The values of `--set`, as the container gets them.
fn sets(pod: &Pod, container: &Container) -> Vec<String> {
    let known = environment(pod, container);
    values(container, "--set")
        .map(|value| expanded(value, &known))
        .collect()
}

/// A field of the pod that the downward API hands to containers.
fn field_of(pod: &Pod, path: &str) -> Option<String> {
    let (meta, spec, status) = (&pod.metadata, pod.spec.as_ref(), pod.status.as_ref());
    let of_map = |map: &Option<BTreeMap<String, String>>, key: &str| {
        let key = key.strip_suffix("']")?;
        map.as_ref()?.get(key).cloned()
    };
    match path {
        "metadata.name" => meta.name.clone(),
        "metadata.namespace" => meta.namespace.clone(),
        "metadata.uid" => meta.uid.clone(),
        "spec.nodeName" => spec?.node_name.clone(),
        "spec.serviceAccountName" => spec?.service_account_name.clone(),
        "status.podIP" => status?.pod_ip.clone(),
        "status.hostIP" => status?.host_ip.clone(),
        _ => match path.split_once("['")? {
            ("metadata.labels", key) => of_map(&meta.labels, key),
            ("metadata.annotations", key) => of_map(&meta.annotations, key),
            _ => None,
        },
    }
}

/// Replaces `$(NAME)` as Kubernetes does: what is not known stays, and `$$` is a `$`.
fn expanded(text: &str, known: &[(String, String)]) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let name = after
            .strip_prefix('(')
            .and_then(|after| after.split_once(')'));
        let value = name.and_then(|(name, _)| known.iter().rfind(|(known, _)| known == name));
        rest = match (after.strip_prefix('$'), name, value) {
            (Some(after), ..) => {
                out.push('$');
                after
            }
            (None, Some((_, after)), Some((_, value))) => {
                out.push_str(value);
                after
            }
            _ => {
                out.push('$');
                after
            }
        };
    }
    out + rest
}

/// The volume with this file, and the file's name in it.
fn mounted<'p>(pod: &'p Pod, container: &Container, path: &Path) -> Option<(&'p Volume, String)> {
    let (directory, file) = (path.parent()?, path.file_name()?.to_str()?);
    let mut mounts = container.volume_mounts.iter().flatten();
    let mount = mounts.find(|mount| Path::new(&mount.mount_path) == directory)?;
    let mut volumes = pod.spec.as_ref()?.volumes.iter().flatten();
    let volume = volumes.find(|volume| volume.name == mount.name)?;
    Some((volume, file.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(args: &[&str]) -> Pod {
        let metadata = json!({"name": "etl-0", "labels": {"team": "a"}});
        let pod = json!({"metadata": metadata, "spec": {
            "nodeName": "node-1",
            "containers": [
                {"name": "other", "args": ["--verbose"]},
                {
                    "name": "boatswain", "args": args,
                    "env": [
                        {"name": "BOATSWAIN__API__LISTEN", "value": "127.0.0.1:1"},
                        {"name": "BOATSWAIN__DRIVER__POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    ],
                    "volumeMounts": [
                        {"name": "configuration", "mountPath": "/etc/boatswain"},
                        {"name": "secrets", "mountPath": "/etc/boatswain-secrets/"},
                    ],
                },
            ],
            "volumes": [
                {"name": "configuration", "configMap": {"name": "etl"}},
                {"name": "secrets", "secret": {"secretName": "etl-secrets"}},
            ],
        }});
        serde_json::from_value(pod).expect("a pod")
    }

    // spec: O-124
    #[test]
    fn the_files_of_a_driver_are_found_in_its_pod() {
        for args in [
            &[
                "run",
                "--config",
                "/etc/boatswain/boatswain.toml",
                "--set",
                "a=1",
                "--set=b=2",
            ][..],
            &[
                "run",
                "--set=a=1",
                "--config=/etc/boatswain/boatswain.toml",
                "--set",
                "b=2",
            ],
        ] {
            let pod = pod(args);
            let (container, path) = driver(&pod).expect("a driver");
            assert_eq!(path, "/etc/boatswain/boatswain.toml");
            assert_eq!(
                values(container, "--set").collect::<Vec<_>>(),
                ["a=1", "b=2"]
            );
            let (volume, file) = mounted(&pod, container, Path::new(path)).expect("a volume");
            assert_eq!(
                volume.config_map.as_ref().map(|map| &*map.name),
                Some("etl")
            );
            assert_eq!(file, "boatswain.toml");
            let tokens = Path::new("/etc/boatswain-secrets/tokens");
            let (volume, file) = mounted(&pod, container, tokens).expect("a volume");
            assert_eq!(volume.name, "secrets");
            assert_eq!(file, "tokens");
            assert_eq!(mounted(&pod, container, Path::new("/tmp/tokens")), None);
            let listen = (
                "BOATSWAIN__API__LISTEN".to_owned(),
                "127.0.0.1:1".to_owned(),
            );
            let name = ("BOATSWAIN__DRIVER__POD_NAME".to_owned(), "etl-0".to_owned());
            assert_eq!(environment(&pod, container), [listen, name]);
        }
    }

    // spec: O-124
    #[test]
    fn a_driver_is_reached_before_the_kubelet_says_that_its_pod_runs_and_not_after_its_end() {
        for (phase, can_be) in [
            (None, true),
            (Some("Pending"), true),
            (Some("Running"), true),
            (Some("Unknown"), true),
            (Some("Succeeded"), false),
            (Some("Failed"), false),
        ] {
            let pod = json!({"metadata": {"uid": "u"}, "status": {"phase": phase}});
            let pod: Pod = serde_json::from_value(pod).expect("a pod");
            assert_eq!(is_alive(&pod, "u"), can_be, "{phase:?}");
            assert!(!is_alive(&pod, "another"), "{phase:?}");
        }
    }

    // spec: O-124
    #[test]
    fn the_environment_of_a_driver_is_what_its_pod_gives_it() {
        let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let mut pod = json!(pod(&[
            "--config=/c",
            "--set=app.name=$(NAME)",
            "--set=a=$$(NAME) $(NONE) $"
        ]));
        pod["spec"]["containers"][1]["env"] = json!([
            field("NAME", "metadata.name"),
            field("NODE", "spec.nodeName"),
            field("TEAM", "metadata.labels['team']"),
            field("IP", "status.podIP"),
            {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "BOTH", "value": "$(NAME) of $(TEAM), $(SECRET)"},
        ]);
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let (container, _) = driver(&pod).expect("a driver");
        let known = environment(&pod, container);
        let known: Vec<_> = known
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        let both = ("BOTH", "etl-0 of a, $(SECRET)");
        assert_eq!(
            known,
            [("NAME", "etl-0"), ("NODE", "node-1"), ("TEAM", "a"), both]
        );
        assert_eq!(
            sets(&pod, container),
            ["app.name=etl-0", "a=$(NAME) $(NONE) $"]
        );
    }

    // spec: O-124
    #[test]
    fn a_container_without_a_configuration_file_runs_no_driver() {
        for other in [
            &["--config"][..],
            &["--configuration", "a"],
            &["--config="],
            &[],
        ] {
            let pod = pod(other);
            let found = driver(&pod).filter(|(_, path)| !path.is_empty());
            assert!(found.is_none(), "{other:?}");
        }
    }
}
