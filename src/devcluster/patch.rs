//! Patches: JSON merge patch, strategic merge patch, JSON patch.

use serde_json::{Map, Value};

use super::json_patch;
use super::status::ApiError;

/// How a patch is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 7386.
    Merge,
    /// Kubernetes' own: as a merge, but lists of named things are merged by name.
    Strategic,
    /// RFC 6902.
    Json,
}

/// The types of body that a PATCH may have here.
pub const PATCH_TYPES: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

impl PatchKind {
    /// The kind that a content type stands for.
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        match content_type {
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/json-patch+json" => Some(Self::Json),
            _ => None,
        }
    }

    /// Carries the patch out on `target`.
    pub fn apply(self, target: &mut Value, patch: &Value) -> Result<(), ApiError> {
        match self {
            Self::Merge | Self::Strategic if !patch.is_object() => Err(ApiError::bad_request(
                "error decoding patch: a patch of this type is an object",
            )),
            Self::Merge => {
                merge(target, patch);
                Ok(())
            }
            Self::Strategic => {
                strategic(target, patch);
                Ok(())
            }
            Self::Json => json_patch::apply(target, patch),
        }
    }
}

/// `target` as an object, made one if it is none.
fn as_object(target: &mut Value) -> Option<&mut Map<String, Value>> {
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    target.as_object_mut()
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    let Some(target) = as_object(target) else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            merge(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// By which field the items of a list are told apart, where a strategic merge does not replace the list.
fn merge_key(list: &str, items: &[Value]) -> Option<&'static str> {
    match list {
        "containers"
        | "initContainers"
        | "ephemeralContainers"
        | "env"
        | "volumes"
        | "imagePullSecrets" => Some("name"),
        "volumeMounts" => Some("mountPath"),
        "volumeDevices" => Some("devicePath"),
        "conditions" => Some("type"),
        "ownerReferences" => Some("uid"),
        "hostAliases" | "podIPs" => Some("ip"),
        "topologySpreadConstraints" => Some("topologyKey"),
        "ports" if items.iter().any(|i| i.get("containerPort").is_some()) => Some("containerPort"),
        "ports" => Some("port"),
        _ => None,
    }
}

fn strategic(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        target.clone_from(patch);
        return;
    };
    let Some(target) = as_object(target) else {
        return;
    };
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        target.clear();
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            remove_items(target, list, value);
        } else if name.starts_with('$') {
            continue;
        } else if value.is_null() || value.get("$patch").and_then(Value::as_str) == Some("delete") {
            target.remove(name);
        } else {
            strategic_field(
                name,
                target.entry(name.clone()).or_insert(Value::Null),
                value,
            );
        }
    }
}

fn remove_items(target: &mut Map<String, Value>, list: &str, gone: &Value) {
    if let (Some(Value::Array(items)), Some(gone)) = (target.get_mut(list), gone.as_array()) {
        items.retain(|item| !gone.contains(item));
    }
}

fn strategic_field(name: &str, target: &mut Value, patch: &Value) {
    let Value::Array(items) = patch else {
        return strategic(target, patch);
    };
    let is_directive = |item: &Value| item.get("$patch").and_then(Value::as_str) == Some("replace");
    let replaces = items.iter().any(is_directive);
    let key = merge_key(name, items);
    let Value::Array(old) = target else {
        *target = Value::Array(items.iter().filter(|i| !is_directive(i)).cloned().collect());
        return;
    };
    if replaces || (key.is_none() && name != "finalizers") {
        *old = items.iter().filter(|i| !is_directive(i)).cloned().collect();
        return;
    }
    for item in items {
        let Some(key) = key else {
            if !old.contains(item) {
                old.push(item.clone());
            }
            continue;
        };
        let place = old
            .iter()
            .position(|o| o.get(key).is_some() && o.get(key) == item.get(key));
        let deleted = item.get("$patch").and_then(Value::as_str) == Some("delete");
        match place {
            Some(place) if deleted => {
                old.remove(place);
            }
            Some(place) => strategic(&mut old[place], item),
            None if deleted => {}
            None => old.push(item.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn patched(kind: PatchKind, mut target: Value, patch: Value) -> Result<Value, ApiError> {
        kind.apply(&mut target, &patch)?;
        Ok(target)
    }

    #[test]
    fn a_merge_sets_removes_and_replaces_lists() {
        let target = json!({"a": {"b": 1, "c": 2}, "list": [1, 2]});
        let patch = json!({"a": {"b": null, "d": {"e": null, "f": 3}}, "list": [3]});
        let want = json!({"a": {"c": 2, "d": {"f": 3}}, "list": [3]});
        assert_eq!(patched(PatchKind::Merge, target, patch), Ok(want));
    }

    #[test]
    fn a_strategic_merge_merges_lists_of_named_things() {
        let target = json!({"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}});
        let patch = json!({"spec": {"containers": [{"name": "a", "image": "2"}, {"name": "c", "image": "1"}]}});
        let want = json!({"spec": {"containers": [
            {"name": "a", "image": "2"}, {"name": "b", "image": "1"}, {"name": "c", "image": "1"},
        ]}});
        assert_eq!(patched(PatchKind::Strategic, target, patch), Ok(want));
    }

    #[test]
    fn a_strategic_merge_obeys_its_directives() {
        let target = json!({"containers": [{"name": "a"}, {"name": "b"}], "finalizers": ["x", "y"], "gone": {"a": 1}});
        let patch = json!({
            "containers": [{"name": "a", "$patch": "delete"}],
            "$deleteFromPrimitiveList/finalizers": ["x"],
            "gone": {"$patch": "delete"},
        });
        let want = json!({"containers": [{"name": "b"}], "finalizers": ["y"]});
        assert_eq!(patched(PatchKind::Strategic, target, patch), Ok(want));
        let whole = json!({"containers": [{"$patch": "replace"}, {"name": "z"}]});
        let target = json!({"containers": [{"name": "a"}]});
        assert_eq!(
            patched(PatchKind::Strategic, target, whole),
            Ok(json!({"containers": [{"name": "z"}]}))
        );
    }

    proptest! {
        #[test]
        fn a_merge_done_twice_changes_nothing_more(a in "[a-c]", b in "[a-c]", n in 0..3) {
            let target = json!({"a": {"b": 1}, "b": [1]});
            let patch = json!({a: {b: n}});
            let once = patched(PatchKind::Merge, target, patch.clone()).expect("an object");
            prop_assert_eq!(patched(PatchKind::Merge, once.clone(), patch), Ok(once));
        }
    }
}
