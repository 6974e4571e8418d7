//! Patches: JSON merge patch, strategic merge patch, JSON patch.

use serde_json::{Map, Value};

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

/// More operations than this in one JSON patch are refused, as real servers do.
const MAX_OPERATIONS: usize = 10_000;

/// What the copies of one JSON patch may amount to; copies of copies would double without end.
const MAX_COPIED: usize = 3 * 1024 * 1024;

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
            Self::Json => json_patch(target, patch),
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
        } else if value.is_null() {
            target.remove(name);
        } else if value.get("$patch").and_then(Value::as_str) == Some("delete") {
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

fn json_patch(target: &mut Value, patch: &Value) -> Result<(), ApiError> {
    let Some(operations) = patch.as_array() else {
        return Err(ApiError::bad_request(
            "error decoding patch: a JSON patch is a list of operations",
        ));
    };
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        return Err(ApiError::too_large(format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}"
        )));
    }
    let mut copied = 0;
    for operation in operations {
        json_operation(target, operation, &mut copied)?;
    }
    Ok(())
}

fn json_operation(
    target: &mut Value,
    operation: &Value,
    copied: &mut usize,
) -> Result<(), ApiError> {
    let pointer = |field: &str| match operation.get(field).and_then(Value::as_str) {
        Some(path) if path.is_empty() || path.starts_with('/') => Ok(path),
        _ => Err(ApiError::unprocessable(&format!(
            "jsonpatch operation without a usable {field}"
        ))),
    };
    let missing =
        |path: &str| ApiError::unprocessable(&format!("jsonpatch: nothing at path {path}"));
    let value = || {
        let value = operation.get("value").cloned();
        value.ok_or_else(|| ApiError::unprocessable("jsonpatch operation without a value"))
    };
    let path = pointer("path")?;
    match operation.get("op").and_then(Value::as_str) {
        Some("add") => add(target, path, value()?),
        Some("replace") => {
            *target.pointer_mut(path).ok_or_else(|| missing(path))? = value()?;
            Ok(())
        }
        Some("remove") => remove(target, path)
            .map(|_| ())
            .ok_or_else(|| missing(path)),
        Some("test") => {
            let expected = operation.get("value").unwrap_or(&Value::Null);
            if target.pointer(path).unwrap_or(&Value::Null) == expected {
                return Ok(());
            }
            Err(ApiError::unprocessable(&format!(
                "testing path {path} failed"
            )))
        }
        Some("move") => {
            let from = pointer("from")?;
            let value = remove(target, from).ok_or_else(|| missing(from))?;
            add(target, path, value)
        }
        Some("copy") => {
            let from = pointer("from")?;
            let value = target.pointer(from).cloned().ok_or_else(|| missing(from))?;
            *copied = copied.saturating_add(size(&value));
            if *copied > MAX_COPIED {
                return Err(ApiError::too_large(
                    "Request entity too large: the copies of the patch are too large",
                ));
            }
            add(target, path, value)
        }
        _ => Err(ApiError::unprocessable("unexpected jsonpatch operation")),
    }
}

/// About how large a value is; enough to bound what copies add up to.
fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(s) => s.len() + 2,
        Value::Array(items) => 2 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields
                .iter()
                .map(|(k, v)| k.len() + 3 + size(v))
                .sum::<usize>()
        }
    }
}

fn split_pointer(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn index(last: &str, len: usize) -> Option<usize> {
    let plain = last == "0" || (!last.starts_with('0') && last.bytes().all(|b| b.is_ascii_digit()));
    last.parse().ok().filter(|i| plain && *i < len)
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), ApiError> {
    let missing =
        || ApiError::unprocessable(&format!("jsonpatch add operation does not apply: {path}"));
    let Some((parent, last)) = split_pointer(path) else {
        *target = value;
        return Ok(());
    };
    match target.pointer_mut(parent).ok_or_else(missing)? {
        Value::Object(fields) => {
            fields.insert(last, value);
            Ok(())
        }
        Value::Array(items) => {
            let place = if last == "-" {
                Some(items.len())
            } else {
                index(&last, items.len() + 1)
            };
            items.insert(place.ok_or_else(missing)?, value);
            Ok(())
        }
        _ => Err(missing()),
    }
}

fn remove(target: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = split_pointer(path)?;
    match target.pointer_mut(parent)? {
        Value::Object(fields) => fields.remove(&last),
        Value::Array(items) => index(&last, items.len()).map(|i| items.remove(i)),
        _ => None,
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

    #[test]
    fn a_json_patch_is_carried_out_in_order() {
        let target = json!({"a/b": {"list": [1, 2]}, "x": 1});
        let patch = json!([
            {"op": "test", "path": "/x", "value": 1},
            {"op": "add", "path": "/a~1b/list/1", "value": 9},
            {"op": "add", "path": "/a~1b/list/-", "value": 3},
            {"op": "remove", "path": "/a~1b/list/0"},
            {"op": "move", "from": "/x", "path": "/y"},
            {"op": "copy", "from": "/y", "path": "/z"},
            {"op": "replace", "path": "/z", "value": null},
        ]);
        let want = json!({"a/b": {"list": [9, 2, 3]}, "y": 1, "z": null});
        assert_eq!(patched(PatchKind::Json, target, patch), Ok(want));
    }

    #[test]
    fn a_json_patch_that_does_not_apply_is_unprocessable() {
        for operation in [
            json!({"op": "test", "path": "/a", "value": 2}),
            json!({"op": "remove", "path": "/none"}),
            json!({"op": "replace", "path": "/none", "value": 1}),
            json!({"op": "add", "path": "/none/x", "value": 1}),
            json!({"op": "add", "path": "/list/01", "value": 1}),
            json!({"op": "add", "path": "/list/9", "value": 1}),
            json!({"op": "fly", "path": "/a"}),
            json!({"op": "add", "path": "/a"}),
            json!(7),
        ] {
            let error = patched(
                PatchKind::Json,
                json!({"a": 1, "list": []}),
                json!([operation]),
            );
            assert_eq!(error.map_err(|e| e.code), Err(422), "{operation}");
        }
    }

    #[test]
    fn copies_of_copies_are_stopped() {
        let copies: Vec<Value> = (0..64)
            .map(|i| json!({"op": "copy", "from": "", "path": format!("/{i}")}))
            .collect();
        let error = patched(
            PatchKind::Json,
            json!({"a": "x".repeat(1000)}),
            Value::Array(copies),
        );
        assert_eq!(error.map_err(|e| e.code), Err(413));
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
