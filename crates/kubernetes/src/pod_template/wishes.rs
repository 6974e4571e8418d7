//! What a template says of its containers and the profile, or boatswain's secure defaults, override (spec K-6).

use serde_json::Value;

use super::{ProfileSpec, merge};

/// Fields of a container's security context. The first few may also be the pod's.
const FIELDS: [&str; 8] = [
    "runAsUser",
    "runAsGroup",
    "runAsNonRoot",
    "seccompProfile",
    "privileged",
    "allowPrivilegeEscalation",
    "readOnlyRootFilesystem",
    "capabilities",
];

/// Programs that do nothing without root.
const OF_ROOT: [&str; 5] = ["chown", "chgrp", "mount", "setcap", "sysctl"];

const IN_TEMPLATE: &str = "say runAsUser: 0 and its capabilities, such as add: [CHOWN, DAC_OVERRIDE, FOWNER], in its securityContext in \
     the template";

/// For each container of the template whose wishes are not met: which, and how to have them met.
pub fn overridden(spec: &ProfileSpec) -> Vec<String> {
    let (asked, made) = (&spec.base["spec"], &merge::shape(spec)["spec"]);
    let mut told = Vec::new();
    for kind in ["containers", "initContainers"] {
        for wish in asked[kind].as_array().into_iter().flatten() {
            let all = made[kind].as_array().into_iter().flatten();
            if let Some(got) = { all }.find(|one| one["name"] == wish["name"]) {
                let name = wish["name"].as_str().unwrap_or_default();
                told.extend(
                    of_container((asked, wish), (made, got))
                        .map(|why| format!("container {name}: {why}")),
                );
            }
        }
    }
    told
}

/// The pod's spec and the container.
type In<'a> = (&'a Value, &'a Value);

fn of_container<'a>(wish: In<'a>, got: In<'a>) -> impl Iterator<Item = String> {
    let changed = FIELDS.into_iter().filter_map(move |field| {
        let (wanted, made) = (
            effective(wish, field)?,
            effective(got, field).unwrap_or(&Value::Null),
        );
        let fix = "leave it to one of the two: security of the profile, or the template";
        (wanted != made).then(|| {
            format!("the template says {field} {wanted}, the profile makes it {made}; {fix}")
        })
    });
    changed.chain(root(wish, got))
}

/// A container that is root, or wants to be, without what it needs for it.
fn root(wish: In<'_>, got: In<'_>) -> Option<String> {
    let is_root = effective(got, "runAsUser").is_some_and(|user| user == 0);
    if is_root {
        let capabilities = &got.1["securityContext"]["capabilities"];
        let none =
            capabilities["drop"] == serde_json::json!(["ALL"]) && capabilities["add"].is_null();
        let chosen = effective(wish, "capabilities").is_some();
        return (none && !chosen).then(|| {
            format!(
                "it is root without any capability, so that chown and the like fail; {IN_TEMPLATE}"
            )
        });
    }
    let words = ["command", "args"]
        .into_iter()
        .flat_map(|list| wish.1[list].as_array().into_iter().flatten());
    let mut words = words
        .filter_map(Value::as_str)
        .flat_map(|text| text.split(|c: char| c.is_whitespace() || c == '/' || c == ';'));
    let program = words.find(|word| OF_ROOT.contains(word))?;
    Some(format!(
        "it runs {program}, which needs root, and is not root; {IN_TEMPLATE}"
    ))
}

/// What applies to the container: what it says itself, else what its pod says.
fn effective<'a>((pod, container): In<'a>, field: &str) -> Option<&'a Value> {
    let own = &container["securityContext"][field];
    let of_pod = &pod["securityContext"][field];
    [own, of_pod].into_iter().find(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn of(spec: Value, security: Value) -> Vec<String> {
        let pod = Map::from_iter([("securityContext".to_owned(), security)]);
        overridden(&ProfileSpec {
            base: json!({"spec": spec}),
            pod,
            ..ProfileSpec::default()
        })
    }

    // spec: K-6
    #[test]
    fn a_container_that_would_chown_is_told_what_it_lacks() {
        let init = |context: Value| {
            let command = json!(["sh", "-c", "chown -R 185:185 /data"]);
            json!({"containers": [{"name": "executor"}], "initContainers": [{"name": "own", "command": command, "securityContext": context}]})
        };
        let said = of(init(json!({})), json!({}));
        assert_eq!(
            said,
            [format!(
                "container own: it runs chown, which needs root, and is not root; {IN_TEMPLATE}"
            )]
        );
        let said = of(init(json!({"runAsUser": 0})), json!({"runAsUser": 185}));
        assert!(
            said.len() == 1
                && said[0].starts_with("container own: it is root without any capability"),
            "{said:?}"
        );
        let enough = json!({"runAsUser": 0, "capabilities": {"add": ["CHOWN"], "drop": ["ALL"]}});
        assert_eq!(of(init(enough), json!({})), [""; 0]);
    }

    // spec: K-6
    #[test]
    fn each_container_whose_wishes_the_profile_overrides_is_named() {
        let template = json!({
            "securityContext": {"runAsUser": 0, "runAsNonRoot": false},
            "containers": [{"name": "executor", "securityContext": {"runAsUser": 7}}, {"name": "log"}, {"name": "own", "securityContext": {"runAsUser": 185}}],
        });
        let said = of(template, json!({"runAsUser": 185}));
        let starts = [
            "container executor: the template says runAsUser 7, the profile makes it 185; ",
            "container log: the template says runAsUser 0, the profile makes it 185; ",
        ];
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said.iter()
                .zip(starts)
                .all(|(line, start)| line.starts_with(start)),
            "{said:?}"
        );
        assert_eq!(
            of(json!({"containers": [{"name": "executor"}]}), json!({})),
            [""; 0]
        );
    }
}
