//! References to a container by its name, which follow when the executor's container is renamed (spec K-2).

use serde_json::{Map, Value as Json};

use crate::names::EXECUTOR_CONTAINER;

/// Renames what a pod says elsewhere of the executor's container: resources that variables and
/// volumes show, and annotations.
pub(super) fn rename(pod: &mut Json, was: &str) {
    if let Some(spec) = pod.get_mut("spec") {
        resources(spec, was);
    }
    if let Some(Json::Object(annotations)) = pod.pointer_mut("/metadata/annotations") {
        *annotations = std::mem::take(annotations)
            .into_iter()
            .map(|(key, value)| match value {
                Json::String(value) => {
                    let (key, value) = annotation(&key, &value, was);
                    (key, Json::from(value))
                }
                value => (key, value),
            })
            .collect::<Map<_, _>>();
    }
}

fn resources(value: &mut Json, was: &str) {
    match value {
        Json::Object(fields) => {
            for (key, value) in fields {
                match value.get_mut("containerName") {
                    Some(name) if key == "resourceFieldRef" => {
                        if *name == was {
                            *name = EXECUTOR_CONTAINER.into();
                        }
                    }
                    _ => resources(value, was),
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(|item| resources(item, was)),
        _ => {}
    }
}

/// An annotation, with the executor's container called `executor`.
pub(super) fn annotation(key: &str, value: &str, was: &str) -> (String, String) {
    let value = match names_containers(key) {
        true => {
            let names = value.split(',').map(|name| match name.trim() == was {
                true => name.replace(was, EXECUTOR_CONTAINER),
                false => name.to_owned(),
            });
            names.collect::<Vec<_>>().join(",")
        }
        false => value.to_owned(),
    };
    (
        renamed_key(key, was).unwrap_or_else(|| key.to_owned()),
        value,
    )
}

/// Whether the value has names of containers, as that of `kubectl.kubernetes.io/default-container`.
fn names_containers(key: &str) -> bool {
    let name = key.rsplit('/').next().unwrap_or_default();
    [
        "container",
        "containers",
        "container-name",
        "container-names",
    ]
    .iter()
    .any(|end| {
        name.strip_suffix(end)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
    })
}

/// The key, if it has the container's name in one of the known forms.
fn renamed_key(key: &str, was: &str) -> Option<String> {
    let (domain, name) = key.split_once('/')?;
    let ends = |text: &str, before: char| {
        let rest = text.strip_suffix(was)?.strip_suffix(before)?;
        Some(format!("{rest}{before}{EXECUTOR_CONTAINER}"))
    };
    let begins = |text: &str, after: char| {
        let rest = text.strip_prefix(was)?.strip_prefix(after)?;
        Some(format!("{EXECUTOR_CONTAINER}{after}{rest}"))
    };
    // container.apparmor.security.beta.kubernetes.io/NAME
    if domain.starts_with("container.") && name == was {
        return Some(format!("{domain}/{EXECUTOR_CONTAINER}"));
    }
    // co.elastic.logs.NAME/…
    if domain.starts_with("co.elastic.") {
        return Some(format!("{}/{name}", ends(domain, '.')?));
    }
    let name = match domain {
        // fluentbit.io/exclude_stdout-NAME
        "fluentbit.io" => ends(name, '-').or_else(|| ends(name, '_')),
        // ad.datadoghq.com/NAME.checks, sidecar.istio.io/….NAME
        _ if domain.ends_with("datadoghq.com") || domain.ends_with("istio.io") => {
            begins(name, '.').or_else(|| ends(name, '.'))
        }
        // devices.gke.io/container.NAME
        _ => {
            (name == format!("container.{was}")).then(|| format!("container.{EXECUTOR_CONTAINER}"))
        }
    }?;
    Some(format!("{domain}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: K-2
    #[test]
    fn annotations_follow_the_container_s_name_and_others_stay() {
        let followed = [
            "kubectl.kubernetes.io/default-container = spark",
            "vault.hashicorp.com/agent-inject-containers = a,spark",
            "instrumentation.opentelemetry.io/java-container-names = spark",
            "ad.datadoghq.com/spark.logs = []",
            "container.apparmor.security.beta.kubernetes.io/spark = unconfined",
            "sidecar.istio.io/resources.spark = x",
            "co.elastic.logs.spark/enabled = true",
            "fluentbit.io/exclude-spark = true",
            "devices.gke.io/container.spark = x",
        ];
        let others = [
            "container.apparmor.security.beta.kubernetes.io/log = unconfined",
            "example.org/spark = spark",
            "spark.example.org/x = spark",
            "ad.datadoghq.com/sparkle.logs = spark",
            "example.org/default-container = sparkle",
        ];
        let follow = |line: &str| line.replace("spark", EXECUTOR_CONTAINER);
        let wanted = followed.map(|line| (line, follow(line)));
        for (line, want) in wanted
            .into_iter()
            .chain(others.map(|line| (line, line.to_owned())))
        {
            let (key, value) = line.split_once(" = ").unwrap();
            let (key, value) = annotation(key, value, "spark");
            assert_eq!(format!("{key} = {value}"), want);
        }
    }

    // spec: K-2
    #[test]
    fn resources_that_are_shown_of_the_container_follow_its_name() {
        let shown = |name: &str| serde_json::json!({"resourceFieldRef": {"containerName": name, "resource": "limits.cpu"}});
        let pod = |name: &str| {
            serde_json::json!({"spec": {
                "containers": [{"name": "log", "env": [{"name": "A", "valueFrom": shown(name)}, {"name": "B", "valueFrom": shown("log")}]}],
                "initContainers": [{"name": "init", "env": [{"name": "A", "valueFrom": shown(name)}]}],
                "volumes": [
                    {"name": "v", "downwardAPI": {"items": [shown(name)]}},
                    {"name": "w", "projected": {"sources": [{"downwardAPI": {"items": [shown(name)]}}]}},
                ],
            }})
        };
        let mut given = pod("spark");
        rename(&mut given, "spark");
        assert_eq!(given, pod("executor"));
    }
}
