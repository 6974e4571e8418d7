//! Resource quotas: admission, and accounting of what is used.
//!
//! As on real servers, admission checks the quota's status and adds to its usage. In a real cluster, a controller also
//! fills in the status and subtracts deleted objects; here that is part of the write.

use serde_json::{Map, Value, json};

use super::quota_usage::{Amounts, amounts, in_scope, is_binary, is_counted, unspecified, usage};
use crate::api::status::ApiError;
use crate::objects::object::{Key, Object, at, set};
use crate::objects::quantity;
use crate::objects::resource::Resource;
use crate::storage::store::{EventKind, State};

fn quotas<'a>(state: &'a State, namespace: &str) -> impl Iterator<Item = &'a Object> + use<'a> {
    let resource = Resource::of_kind("v1", "ResourceQuota").filter(|_| !namespace.is_empty());
    let namespace = namespace.to_owned();
    resource
        .into_iter()
        .flat_map(move |resource| state.list(resource, Some(&namespace)))
        .map(AsRef::as_ref)
}

/// The updated quotas if `object` is admitted, or the error that refuses it.
pub(crate) fn admit(
    state: &State,
    key: &Key,
    object: &Value,
) -> Result<Vec<(Key, Value)>, ApiError> {
    admit_more(state, key, object, || usage(key.resource, object))
}

/// The same for an object that is there already and is to have more.
pub(crate) fn admit_change(
    state: &State,
    key: &Key,
    before: &Value,
    object: &Value,
) -> Result<Vec<(Key, Value)>, ApiError> {
    admit_more(state, key, object, || {
        let before = usage(key.resource, before);
        let more = usage(key.resource, object)
            .into_iter()
            .map(|(name, amount)| {
                let before = before.get(&name).copied().unwrap_or(0);
                (name, (amount - before).max(0))
            });
        more.collect()
    })
}

fn admit_more(
    state: &State,
    key: &Key,
    object: &Value,
    usage: impl Fn() -> Amounts,
) -> Result<Vec<(Key, Value)>, ApiError> {
    let mut used = None;
    let mut updates = Vec::new();
    for quota in quotas(state, &key.namespace) {
        let usage = used.get_or_insert_with(&usage);
        let limits = amounts(quota.value(), &["status", "hard"]);
        let limited: Vec<&String> = limits
            .keys()
            .filter(|name| is_counted(key.resource, name))
            .collect();
        if limited.is_empty() || !in_scope(quota.value(), key.resource, object) {
            continue;
        }
        let name = &quota.key().name;
        let forbidden = |why: String| key.forbidden(&why);

        if let Some(unspecified) = unspecified(key.resource, object, &limited) {
            return Err(forbidden(format!(
                "failed quota: {name}: must specify {unspecified}"
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

/// Does what the quota controller does after a write: puts new or changed limits in force, and subtracts what is gone.
/// New objects were counted on admission.
pub(crate) fn settle(state: &mut State, since: u64) -> Result<(), ApiError> {
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

/// A quota with its limits in force and its usage counted anew.
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

/// The updated quotas of a namespace after an object was deleted or uses less.
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
