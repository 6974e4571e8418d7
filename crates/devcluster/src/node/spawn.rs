//! Starts a container as a process: resolves its command, arguments and environment.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;
use tokio::process::{Child, Command};

use crate::objects::object::{Key, at, is_true, list, strings, text};
use crate::objects::resource::Resource;
use crate::storage::store::State;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    program: String,
    args: Vec<String>,
    env: BTreeMap<String, String>,
}

/// The pod's address in the downward API; its object does not have it yet.
pub(super) const POD_IP: &str = "127.0.0.1";

/// Resolves how to start a container, or why it cannot be started.
pub(super) fn plan(
    state: &State,
    pod: &Value,
    container: &Value,
    root: &Path,
) -> Result<Plan, String> {
    let env = environment(state, pod, container, root)?;
    let words = |field: &str| {
        let words = strings(container, &[field]);
        words.map(|word| expand(word, &env)).collect::<Vec<_>>()
    };
    let mut words = words("command").into_iter().chain(words("args"));
    // There is no image that could provide an entry point.
    let Some(program) = words.next() else {
        return Err(
            "no command specified, and processes have no image to take one from".to_owned(),
        );
    };
    let args = words.collect();
    Ok(Plan { program, args, env })
}

/// Expands `$(NAME)` to a variable and `$$` to a dollar; unknown variables stay as they are.
pub(super) fn expand(word: &str, env: &BTreeMap<String, String>) -> String {
    let mut expanded = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find('$') {
        expanded.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
            continue;
        }
        let name = rest.strip_prefix('(').and_then(|r| r.split_once(')'));
        match name.map(|(name, after)| (env.get(name), after)) {
            Some((Some(value), after)) => {
                expanded.push_str(value);
                rest = after;
            }
            _ => expanded.push('$'),
        }
    }
    expanded.push_str(rest);
    expanded
}

pub(super) fn environment(
    state: &State,
    pod: &Value,
    container: &Value,
    root: &Path,
) -> Result<BTreeMap<String, String>, String> {
    let mut env = BTreeMap::new();
    env.insert(super::mounts::ROOT.to_owned(), root.display().to_string());
    // The environment that every container has, and what a process needs to find programs.
    env.insert(
        "PATH".to_owned(),
        std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned()),
    );
    env.insert(
        "HOSTNAME".to_owned(),
        text(pod, &["metadata", "name"]).to_owned(),
    );
    for source in list(container, &["envFrom"]) {
        let prefix = text(source, &["prefix"]);
        if let Some(from) = source.get("configMapRef") {
            let data = config_map(state, pod, from)?;
            for (name, value) in data
                .as_ref()
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                env.insert(
                    format!("{prefix}{name}"),
                    value.as_str().unwrap_or_default().to_owned(),
                );
            }
        }
    }
    for variable in list(container, &["env"]) {
        let value = match variable.get("valueFrom") {
            None => Some(expand(text(variable, &["value"]), &env)),
            Some(source) => value_from(state, pod, container, source)?,
        };
        if let Some(value) = value {
            env.insert(text(variable, &["name"]).to_owned(), value);
        }
    }
    Ok(env)
}

/// The data of a ConfigMap that a container references.
fn config_map(state: &State, pod: &Value, reference: &Value) -> Result<Option<Value>, String> {
    let name = text(reference, &["name"]);
    let found = state.get(&Key::new(
        Resource::ConfigMaps,
        text(pod, &["metadata", "namespace"]),
        name,
    ));
    match found {
        Some(map) => Ok(map.value().get("data").cloned()),
        None if is_true(reference, &["optional"]) => Ok(None),
        None => Err(format!("configmap \"{name}\" not found")),
    }
}

fn secret_value(state: &State, pod: &Value, reference: &Value) -> Result<Option<String>, String> {
    let (name, key) = (text(reference, &["name"]), text(reference, &["key"]));
    let namespace = text(pod, &["metadata", "namespace"]);
    let secret = state.get(&Key::new(Resource::Secrets, namespace, name));
    let value = secret.and_then(|s| at(s.value(), &["data", key]));
    match value.and_then(Value::as_str) {
        Some(value) => {
            let bytes = BASE64
                .decode(value)
                .map_err(|e| format!("key {key} in Secret {name} is no base64: {e}"))?;
            let text = String::from_utf8(bytes)
                .map_err(|_| format!("key {key} in Secret {name} is no text"))?;
            Ok(Some(text))
        }
        None if is_true(reference, &["optional"]) => Ok(None),
        None if secret.is_none() => Err(format!("secret \"{name}\" not found")),
        None => Err(format!("couldn't find key {key} in Secret {name}")),
    }
}

fn value_from(
    state: &State,
    pod: &Value,
    container: &Value,
    source: &Value,
) -> Result<Option<String>, String> {
    if let Some(field) = source.get("fieldRef") {
        return field_value(pod, text(field, &["fieldPath"])).map(Some);
    }
    if let Some(resource) = source.get("resourceFieldRef") {
        return resource_value(pod, Some(container), resource).map(Some);
    }
    if let Some(reference) = source.get("configMapKeyRef") {
        let key = text(reference, &["key"]);
        let data = config_map(state, pod, reference)?;
        let value = data
            .as_ref()
            .and_then(|data| data.get(key))
            .and_then(Value::as_str);
        return match value {
            Some(value) => Ok(Some(value.to_owned())),
            None if is_true(reference, &["optional"]) => Ok(None),
            None => Err(format!(
                "couldn't find key {key} in ConfigMap {}",
                text(reference, &["name"])
            )),
        };
    }
    if let Some(reference) = source.get("secretKeyRef") {
        return secret_value(state, pod, reference);
    }
    Err(
        "only fieldRef, resourceFieldRef, configMapKeyRef and secretKeyRef are served here"
            .to_owned(),
    )
}

/// A resource of a container: of the one that is named, else of `own`.
pub(super) fn resource_value(
    pod: &Value,
    own: Option<&Value>,
    resource: &Value,
) -> Result<String, String> {
    let named = text(resource, &["containerName"]);
    let mut all = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|kind| list(pod, &["spec", kind]));
    let container = match own.filter(|_| named.is_empty()) {
        Some(own) => own,
        None => all
            .find(|container| text(container, &["name"]) == named)
            .ok_or_else(|| format!("container {named} not found"))?,
    };
    let path = text(resource, &["resource"]).split_once('.');
    let amount = path.and_then(|(kind, name)| at(container, &["resources", kind, name]));
    Ok(amount.and_then(Value::as_str).unwrap_or("0").to_owned())
}

pub(super) fn field_value(pod: &Value, path: &str) -> Result<String, String> {
    let keyed = path.strip_suffix("']").and_then(|p| p.split_once("['"));
    if let Some((map @ ("metadata.labels" | "metadata.annotations"), key)) = keyed {
        let field = map.trim_start_matches("metadata.");
        return Ok(text(pod, &["metadata", field, key]).to_owned());
    }
    match path {
        "metadata.name"
        | "metadata.namespace"
        | "metadata.uid"
        | "spec.nodeName"
        | "spec.serviceAccountName" => {
            let found = path.split('.').try_fold(pod, |value, name| value.get(name));
            Ok(found.and_then(Value::as_str).unwrap_or_default().to_owned())
        }
        "status.podIP" | "status.podIPs" | "status.hostIP" | "status.hostIPs" => {
            Ok(POD_IP.to_owned())
        }
        other => Err(format!("unsupported fieldPath: {other}")),
    }
}

#[derive(Clone, Debug)]
pub(super) struct ContainerPaths {
    pub(super) directory: PathBuf,
    pub(super) log: PathBuf,
}

pub(super) fn pods_directory(state_dir: &Path) -> PathBuf {
    state_dir.join("pods")
}

pub(super) fn pod_directory(state_dir: &Path, namespace: &str, name: &str, uid: &str) -> PathBuf {
    pods_directory(state_dir).join(format!("{namespace}_{name}_{uid}"))
}

pub(super) fn log_path(pod_directory: &Path, container: &str) -> PathBuf {
    pod_directory.join(format!("{container}.log"))
}

/// The log of the container's run before the present one.
pub(crate) fn previous_log_path(log: &Path) -> PathBuf {
    log.with_extension("previous.log")
}

impl ContainerPaths {
    pub(super) fn make(pod_directory: &Path, container: &str) -> io::Result<Self> {
        let directory = pod_directory.join(container);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&directory)?;
        Ok(Self {
            directory,
            log: log_path(pod_directory, container),
        })
    }
}

/// Starts the process, as the leader of a new process group.
pub(super) fn start(plan: &Plan, paths: &ContainerPaths) -> io::Result<Child> {
    match fs::rename(&paths.log, previous_log_path(&paths.log)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let output = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(&paths.log)?;
    let errors = output.try_clone()?;
    Command::new(&plan.program)
        .args(&plan.args)
        .env_clear()
        .envs(&plan.env)
        .current_dir(&paths.directory)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod() -> Value {
        json!({"metadata": {"name": "a", "namespace": "ns", "uid": "u-1", "labels": {"x": "y"}}})
    }

    // spec: O-73
    #[test]
    fn a_resource_is_that_of_the_container_that_is_named() {
        let pod = json!({"spec": {"containers": [
            {"name": "a", "resources": {"limits": {"cpu": "2"}}}, {"name": "b"},
        ]}});
        let own = &pod["spec"]["containers"][1];
        let of = |reference: Value| resource_value(&pod, Some(own), &reference);
        let resource = "limits.cpu";
        assert_eq!(of(json!({"resource": resource})), Ok("0".to_owned()));
        let named = |name: &str| json!({"resource": resource, "containerName": name});
        assert_eq!(of(named("a")), Ok("2".to_owned()));
        assert_eq!(of(named("c")), Err("container c not found".to_owned()));
    }

    // spec: O-73
    #[test]
    fn command_args_and_environment_are_resolved() {
        let container = json!({
            "command": ["sh", "-c"],
            "args": ["echo $(WHO) $$(WHO) $(NONE) $HOME"],
            "env": [
                {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                {"name": "LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"}}},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "WHO", "value": "$(NAME)-$(LABEL)"},
            ],
            "resources": {"limits": {"cpu": "2"}},
        });
        let plan = plan(&State::new(1), &pod(), &container, Path::new("/x")).expect("a plan");
        assert_eq!(plan.program, "sh");
        assert_eq!(plan.args, ["-c", "echo a-y $(WHO) $(NONE) $HOME"]);
        assert_eq!(plan.env["WHO"], "a-y");
        assert_eq!(
            (plan.env["IP"].as_str(), plan.env["CPU"].as_str()),
            ("127.0.0.1", "2")
        );
    }

    #[test]
    fn unresolvable_references_prevent_a_container_from_starting() {
        for container in [
            json!({}),
            json!({"command": ["x"], "envFrom": [{"configMapRef": {"name": "none"}}]}),
            json!({"command": ["x"], "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}]}),
            json!({"command": ["x"], "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}),
        ] {
            assert!(
                plan(&State::new(1), &pod(), &container, Path::new("/x")).is_err(),
                "{container}"
            );
        }
    }
}
