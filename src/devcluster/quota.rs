//! Resource quotas: what may be created in a namespace, and what has been.
//!
//! Admission goes by the status of a quota and adds to what is used there, as on real servers. Beside it a real cluster
//! has a controller, which fills the status in and takes away what is gone; here that is part of the write.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::object::{Key, Object, at, list, set, text};
use super::quantity;
use super::resource::Resource;
use super::status::ApiError;
use super::store::{EventKind, State};

/// Amounts of resources, in billionths.
type Amounts = BTreeMap<String, i128>;

/// One, as amounts have it.
const ONE: i128 = 1_000_000_000;

/// Of these, each container must say what it asks for where a quota limits them.
const MUST_BE_SAID: [&str; 6] = [
    "cpu",
    "limits.cpu",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.memory",
];

fn quotas<'a>(state: &'a State, namespace: &str) -> impl Iterator<Item = &'a Object> + use<'a> {
    let resource = Resource::of_kind("v1", "ResourceQuota").filter(|_| !namespace.is_empty());
    let namespace = namespace.to_owned();
    resource
        .into_iter()
        .flat_map(move |resource| state.list(resource, Some(&namespace)))
        .map(AsRef::as_ref)
}

/// The quotas as they are once `object` is there; or why it may not be.
pub(super) fn admit(
    state: &State,
    key: &Key,
    object: &Value,
) -> Result<Vec<(Key, Value)>, ApiError> {
    let mut used = None;
    let mut updates = Vec::new();
    for quota in quotas(state, &key.namespace) {
        let usage = used.get_or_insert_with(|| usage(key.resource, object));
        let limits = amounts(quota.value(), &["status", "hard"]);
        let limited: Vec<&String> = limits
            .keys()
            .filter(|name| is_counted(key.resource, name))
            .collect();
        if limited.is_empty() || !in_scope(quota.value(), key.resource, object) {
            continue;
        }
        let name = &quota.key().name;
        let traits = key.resource.traits();
        let forbidden =
            |why: String| ApiError::forbidden(traits.plural, traits.group, &key.name, &why);
        if let Some(unsaid) = unsaid(key.resource, object, &limited) {
            return Err(forbidden(format!(
                "failed quota: {name}: must specify {unsaid}"
            )));
        }
        let before = amounts(quota.value(), &["status", "used"]);
        if !limited.iter().all(|name| before.contains_key(*name)) {
            let each: Vec<&str> = limited.iter().map(|name| name.as_str()).collect();
            return Err(forbidden(format!(
                "status unknown for quota: {name}, resources: {}",
                each.join(",")
            )));
        }
        let mut after = before.clone();
        let mut exceeded = Vec::new();
        for name in limited {
            let more = usage.get(name).copied().unwrap_or(0);
            if more == 0 {
                continue;
            }
            let sum = before.get(name).copied().unwrap_or(0).saturating_add(more);
            if limits.get(name).is_some_and(|limit| sum > *limit) {
                exceeded.push(name);
            }
            after.insert(name.clone(), sum);
        }
        if !exceeded.is_empty() {
            let show = |amounts: &Amounts| -> String {
                let each = exceeded.iter().map(|name| {
                    let amount = amounts.get(*name).copied().unwrap_or(0);
                    format!("{name}={}", quantity::canonical(amount, is_binary(name)))
                });
                each.collect::<Vec<_>>().join(",")
            };
            return Err(forbidden(format!(
                "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
                show(usage),
                show(&before),
                show(&limits)
            )));
        }
        if after != before {
            updates.push((quota.key().clone(), with_used(quota.value(), &after)));
        }
    }
    Ok(updates)
}

/// What the controller of a real cluster makes of its quotas after a write: the limits of a new or changed one are in
/// force, and what is gone is not counted any more. What is new was counted when it was admitted.
pub(super) fn settle(state: &mut State, since: u64) -> Result<(), ApiError> {
    let until = state.resource_version();
    for version in since..until {
        let Ok(Some(event)) = state.event_after(version) else {
            continue;
        };
        let event = event.clone();
        let key = event.object().key();
        let before = event.previous().map(|object| object.value());
        let after = match event.kind() {
            EventKind::Deleted => None,
            EventKind::Added | EventKind::Modified => Some(event.object().value()),
        };
        let updates = match (before, after) {
            (before, Some(after)) if is_quota(key.resource) => {
                let is_new = before.is_none_or(|b| b.get("spec") != after.get("spec"));
                let quota = state.get(key).filter(|_| is_new).cloned();
                quota
                    .map(|quota| (key.clone(), counted(state, &quota)))
                    .into_iter()
                    .collect()
            }
            (Some(before), after) => freed(state, key, before, after),
            (None, _) => Vec::new(),
        };
        for (key, value) in updates {
            state.put(key, value)?;
        }
    }
    Ok(())
}

fn is_quota(resource: Resource) -> bool {
    resource.traits().kind == "ResourceQuota"
}

/// A quota with its limits in force, and all that is there counted.
fn counted(state: &State, quota: &Object) -> Value {
    let limits = at(quota.value(), &["spec", "hard"]).cloned();
    let limits = limits.unwrap_or_else(|| json!({}));
    let mut used: Amounts = limits
        .as_object()
        .into_iter()
        .flat_map(Map::keys)
        .map(|name| (name.clone(), 0))
        .collect();
    for resource in Resource::ALL {
        if !resource.traits().namespaced || !used.keys().any(|name| is_counted(resource, name)) {
            continue;
        }
        for object in state.list(resource, Some(&quota.key().namespace)) {
            if in_scope(quota.value(), resource, object.value()) {
                for (name, more) in usage(resource, object.value()) {
                    if let Some(sum) = used.get_mut(&name) {
                        *sum = sum.saturating_add(more);
                    }
                }
            }
        }
    }
    let mut new = with_used(quota.value(), &used);
    set(&mut new, &["status", "hard"], limits);
    new
}

/// The quotas of a namespace that have to give back what an object does not use any more.
fn freed(state: &State, key: &Key, before: &Value, after: Option<&Value>) -> Vec<(Key, Value)> {
    let mut updates = Vec::new();
    for quota in quotas(state, &key.namespace) {
        if !in_scope(quota.value(), key.resource, before) {
            continue;
        }
        let left = after.map(|after| usage(key.resource, after));
        let left = left.unwrap_or_default();
        let used = amounts(quota.value(), &["status", "used"]);
        let mut now = used.clone();
        for (name, had) in usage(key.resource, before) {
            let less = had.saturating_sub(left.get(&name).copied().unwrap_or(0));
            if let Some(sum) = now.get_mut(&name) {
                *sum = sum.saturating_sub(less).max(0);
            }
        }
        if now != used {
            updates.push((quota.key().clone(), with_used(quota.value(), &now)));
        }
    }
    updates
}

fn with_used(quota: &Value, used: &Amounts) -> Value {
    let mut quota = quota.clone();
    let used: Map<String, Value> = used
        .iter()
        .map(|(name, amount)| {
            let text = quantity::canonical(*amount, is_binary(name));
            (name.clone(), text.into())
        })
        .collect();
    set(&mut quota, &["status", "used"], used.into());
    quota
}

/// Whether amounts of it are told in powers of two.
fn is_binary(name: &str) -> bool {
    name.contains("memory") || name.contains("storage")
}

fn amounts(object: &Value, path: &[&str]) -> Amounts {
    at(object, path)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, amount)| Some((name.clone(), quantity::parse(amount.as_str()?)?)))
        .collect()
}

/// The name under which objects of a kind are counted, whatever state they are in.
fn count_name(resource: Resource) -> String {
    let traits = resource.traits();
    if traits.group.is_empty() {
        format!("count/{}", traits.plural)
    } else {
        format!("count/{}.{}", traits.plural, traits.group)
    }
}

/// Whether objects of a kind use up this.
fn is_counted(resource: Resource, name: &str) -> bool {
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
    // Of other kinds only these have a name of their own.
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

/// What an object uses up.
fn usage(resource: Resource, object: &Value) -> Amounts {
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

/// What the containers of a pod together ask for: at once, or one after the other if they come first.
fn whole_pod(pod: &Value, kind: &str) -> Amounts {
    let mut sum = amounts(pod, &["spec", "overhead"]);
    let mut all = Amounts::new();
    for container in list(pod, &["spec", "containers"]) {
        for (name, amount) in amounts(container, &["resources", kind]) {
            let so_far = all.entry(name).or_insert(0);
            *so_far = so_far.saturating_add(amount);
        }
    }
    for container in list(pod, &["spec", "initContainers"]) {
        for (name, amount) in amounts(container, &["resources", kind]) {
            let so_far = all.entry(name).or_insert(0);
            *so_far = (*so_far).max(amount);
        }
    }
    for (name, amount) in all {
        let so_far = sum.entry(name).or_insert(0);
        *so_far = so_far.saturating_add(amount);
    }
    sum
}

/// What containers do not say though a quota wants them to.
fn unsaid(resource: Resource, object: &Value, limited: &[&String]) -> Option<String> {
    if resource != Resource::Pods {
        return None;
    }
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in limited
        .iter()
        .filter(|name| MUST_BE_SAID.contains(&name.as_str()))
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

/// Whether a quota is about such an object.
fn in_scope(quota: &Value, resource: Resource, object: &Value) -> bool {
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
    let scopes = list(quota, &["spec", "scopes"])
        .iter()
        .filter_map(Value::as_str);
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

    #[test]
    fn a_pod_uses_what_its_containers_ask_for_until_it_has_ended() {
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
    fn what_a_quota_limits_must_be_said_by_each_container() {
        let pod = json!({"spec": {"containers": [{"name": "b"}, {"name": "a"}]}});
        let limited = [
            "limits.memory".to_owned(),
            "pods".to_owned(),
            "requests.cpu".to_owned(),
        ];
        let limited: Vec<&String> = limited.iter().collect();
        assert_eq!(
            unsaid(Resource::Pods, &pod, &limited).as_deref(),
            Some("limits.memory for: a,b; requests.cpu for: a,b")
        );
    }

    #[test]
    fn a_quota_is_about_pods_in_its_scopes() {
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
