//! Computes how much of a resource quota an object uses.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::objects::object::{at, list, strings, text};
use crate::objects::quantity;
use crate::objects::resource::Resource;

/// Amounts of resources, in billionths (10⁻⁹) of the unit.
pub(crate) type Amounts = BTreeMap<String, i128>;

const ONE: i128 = 1_000_000_000;

/// If a quota limits one of these, each container must specify it.
const MUST_BE_SPECIFIED: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

/// Whether amounts of this resource are formatted in powers of two.
pub(crate) fn is_binary(name: &str) -> bool {
    name.contains("memory") || name.contains("storage")
}

pub(crate) fn amounts(object: &Value, path: &[&str]) -> Amounts {
    at(object, path)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name.clone(), quantity::parse(amount.as_str()?)?)))
        .collect()
}

/// The quota name for the count of all objects of a kind, whatever their state.
fn count_name(resource: Resource) -> String {
    let traits = resource.traits();
    if traits.group.is_empty() {
        format!("count/{}", traits.plural)
    } else {
        format!("count/{}.{}", traits.plural, traits.group)
    }
}

/// Whether objects of a kind use this resource.
pub(crate) fn is_counted(resource: Resource, name: &str) -> bool {
    if name == count_name(resource) {
        return true;
    }
    if resource == Resource::Pods {
        return name == "pods"
            || matches!(name, "cpu" | "memory" | "ephemeral-storage")
            || ["requests.", "limits."].iter().any(|kind| {
                name.strip_prefix(kind)
                    .is_some_and(|of| !of.is_empty() && of != "storage")
            });
    }
    let plural = resource.traits().plural;
    // Of the other kinds, only these are counted under their plural name.
    let counted = [
        "configmaps",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    ];
    (name == plural && counted.contains(&plural))
        || (plural == "persistentvolumeclaims" && name == "requests.storage")
}

pub(crate) fn usage(resource: Resource, object: &Value) -> Amounts {
    let mut usage = Amounts::from([(count_name(resource), ONE)]);
    if resource != Resource::Pods {
        usage.insert(resource.traits().plural.to_owned(), ONE);
        if let Some(amount) = at(object, &["spec", "resources", "requests", "storage"])
            .and_then(Value::as_str)
            .and_then(quantity::parse)
        {
            usage.insert("requests.storage".into(), amount);
        }
        return usage;
    }
    if matches!(text(object, &["status", "phase"]), "Succeeded" | "Failed") {
        return usage;
    }
    usage.insert("pods".into(), ONE);
    for kind in ["requests", "limits"] {
        for (name, amount) in whole_pod(object, kind) {
            if kind == "requests" && matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
            {
                usage.insert(name.clone(), amount);
            }
            usage.insert(format!("{kind}.{name}"), amount);
        }
    }
    usage
}

/// The requests or limits of a whole pod: the sum of its containers, but at least the largest init container; plus the
/// pod's overhead.
fn whole_pod(pod: &Value, kind: &str) -> Amounts {
    let of_containers = |containers: &str| {
        let containers = list(pod, &["spec", containers]).iter();
        containers.flat_map(|c| amounts(c, &["resources", kind]))
    };
    let mut all = Amounts::new();
    let mut combine = |name: String, amount: i128, with: fn(i128, i128) -> i128| {
        let so_far = all.entry(name).or_insert(0);
        *so_far = with(*so_far, amount);
    };
    for (name, amount) in of_containers("containers") {
        combine(name, amount, i128::saturating_add);
    }
    for (name, amount) in of_containers("initContainers") {
        combine(name, amount, i128::max);
    }
    for (name, amount) in amounts(pod, &["spec", "overhead"]) {
        combine(name, amount, i128::saturating_add);
    }
    all
}

/// The resources that a quota limits and containers do not specify, as a message.
pub(crate) fn unspecified(
    resource: Resource,
    object: &Value,
    limited: &[&String],
) -> Option<String> {
    if resource != Resource::Pods {
        return None;
    }
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in limited
        .iter()
        .filter(|name| MUST_BE_SPECIFIED.contains(&name.as_str()))
    {
        let (kind, of) = name.split_once('.').unwrap_or(("requests", name.as_str()));
        for containers in ["containers", "initContainers"] {
            for container in list(object, &["spec", containers]) {
                if at(container, &["resources", kind, of]).is_none() {
                    let names = missing.entry(name.as_str()).or_default();
                    names.push(text(container, &["name"]));
                    names.sort_unstable();
                }
            }
        }
    }
    let each: Vec<String> = missing
        .into_iter()
        .map(|(name, containers)| format!("{name} for: {}", containers.join(",")))
        .collect();
    (!each.is_empty()).then(|| each.join("; "))
}

pub(crate) fn in_scope(quota: &Value, resource: Resource, object: &Value) -> bool {
    let is_best_effort = || text(object, &["status", "qosClass"]) == "BestEffort";
    let is_terminating = || at(object, &["spec", "activeDeadlineSeconds"]).is_some();
    let class = text(object, &["spec", "priorityClassName"]);
    let holds = |scope: &str| match scope {
        _ if resource != Resource::Pods => false,
        "Terminating" => is_terminating(),
        "NotTerminating" => !is_terminating(),
        "BestEffort" => is_best_effort(),
        "NotBestEffort" => !is_best_effort(),
        "PriorityClass" => !class.is_empty(),
        _ => false,
    };
    let scopes = strings(quota, &["spec", "scopes"]);
    let selectors = list(quota, &["spec", "scopeSelector", "matchExpressions"]);
    scopes.into_iter().all(holds)
        && selectors.iter().all(|selector| {
            let values = list(selector, &["values"]);
            let is_listed = values.iter().any(|value| value.as_str() == Some(class));
            match (
                text(selector, &["scopeName"]),
                text(selector, &["operator"]),
            ) {
                ("PriorityClass", "In") => is_listed,
                ("PriorityClass", "NotIn") => !is_listed,
                ("PriorityClass", "DoesNotExist") => class.is_empty(),
                (scope, _) => holds(scope),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_uses_its_requests_until_it_has_terminated() {
        let container = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}, "limits": {"memory": "1Gi"}}});
        let mut pod = json!({
            "spec": {"containers": [container("1"), container("500m")], "initContainers": [container("2")]},
            "status": {"phase": "Running"},
        });
        let of = |pod: &Value, name: &str| usage(Resource::Pods, pod).get(name).copied();
        assert_eq!(of(&pod, "pods"), Some(ONE));
        assert_eq!(of(&pod, "requests.cpu"), quantity::parse("2"));
        assert_eq!(of(&pod, "cpu"), quantity::parse("2"));
        assert_eq!(of(&pod, "limits.memory"), quantity::parse("2Gi"));
        pod["status"]["phase"] = "Failed".into();
        assert_eq!(of(&pod, "pods"), None);
        assert_eq!(of(&pod, "count/pods"), Some(ONE));
    }

    #[test]
    fn containers_must_specify_what_a_quota_limits() {
        let pod = json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}});
        let limited = [
            "limits.memory".to_owned(),
            "pods".to_owned(),
            "requests.cpu".to_owned(),
        ];
        let limited: Vec<&String> = limited.iter().collect();
        assert_eq!(
            unspecified(Resource::Pods, &pod, &limited).as_deref(),
            Some("limits.memory for: a,b; requests.cpu for: a,b")
        );
    }

    #[test]
    fn a_quota_applies_to_pods_in_its_scopes() {
        let pod =
            json!({"spec": {"activeDeadlineSeconds": 1}, "status": {"qosClass": "Burstable"}});
        let quota = |scopes: Value| json!({"spec": {"scopes": scopes}});
        let covers = |scopes: Value| in_scope(&quota(scopes), Resource::Pods, &pod);
        assert!(covers(json!([])));
        assert!(covers(json!(["Terminating", "NotBestEffort"])));
        assert!(!covers(json!(["NotTerminating"])));
        assert!(!covers(json!(["BestEffort"])));
    }
}
