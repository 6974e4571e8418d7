//! JSON patch (RFC 6902). The crate `json-patch` replaces no field that does not exist, and limits no copies.

use serde_json::Value;

use crate::api::status::ApiError;
use crate::objects::depth::{MAX_LEVELS, exceeds};

/// The most operations in one JSON patch; the limit of real servers.
const MAX_OPERATIONS: usize = 10_000;

/// The most bytes that one JSON patch may copy; copies of copies would double without limit. Moves to a deeper place
/// count as well, because they visit the whole moved value.
const MAX_COPIED: usize = 3 * 1024 * 1024;

pub(crate) fn apply(target: &mut Value, patch: &Value) -> Result<(), ApiError> {
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
    let kind = operation
        .get("op")
        .and_then(Value::as_str)
        .unwrap_or("unknown");
    let pointer = |field: &str| match operation.get(field).and_then(Value::as_str) {
        Some(path) if path.is_empty() || path.starts_with('/') => Ok(path),
        _ => Err(refused(format!(
            "{kind} operation failed to decode {field}: missing value"
        ))),
    };
    let value = || operation.get("value").cloned().unwrap_or_default();
    let path = pointer("path")?;
    match kind {
        "add" => {
            let value = value();
            check_depth(path, &value)?;
            add(target, path, value, kind)
        }
        "replace" => {
            let value = value();
            check_depth(path, &value)?;
            replace(target, path, value)
        }
        "remove" => remove(target, path, kind).map(|_| ()),
        "test" => {
            let expected = operation.get("value").unwrap_or(&Value::Null);
            if target.pointer(path).unwrap_or(&Value::Null) == expected {
                return Ok(());
            }
            Err(refused(format!("testing value {path} failed: test failed")))
        }
        "move" => {
            let from = pointer("from")?;
            let value = remove(target, from, kind)?;
            if levels(path) > levels(from) {
                charge(copied, &value)?;
                check_depth(path, &value)?;
            }
            add(target, path, value, kind)
        }
        "copy" => {
            let from = pointer("from")?;
            let value = target.pointer(from).ok_or_else(|| missing(kind, from))?;
            charge(copied, value)?;
            check_depth(path, value)?;
            let value = value.clone();
            add(target, path, value, kind)
        }
        other => Err(refused(format!("Unexpected kind: {other}"))),
    }
}

fn refused(why: String) -> ApiError {
    ApiError::unprocessable(&why)
}

/// Adds the size of a value to the copied bytes.
fn charge(copied: &mut usize, value: &Value) -> Result<(), ApiError> {
    *copied = copied.saturating_add(size(value));
    if *copied > MAX_COPIED {
        return Err(ApiError::too_large(
            "Request entity too large: the copies of the patch are too large",
        ));
    }
    Ok(())
}

/// Refuses to nest too deeply before the value is inserted: dropping a deep value would overflow the stack as well.
fn check_depth(path: &str, value: &Value) -> Result<(), ApiError> {
    match MAX_LEVELS.checked_sub(levels(path)) {
        Some(left) if !exceeds(value, left) => Ok(()),
        _ => Err(refused(format!(
            "the patch nests more than {MAX_LEVELS} levels"
        ))),
    }
}

/// The number of levels above what a pointer addresses.
fn levels(pointer: &str) -> usize {
    pointer.matches('/').count()
}

/// The approximate size of a value in bytes, to bound the sum of copies.
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

fn missing(kind: &str, path: &str) -> ApiError {
    refused(format!(
        "{kind} operation does not apply: doc is missing path: \"{path}\": missing value"
    ))
}

fn add(target: &mut Value, path: &str, value: Value, kind: &str) -> Result<(), ApiError> {
    let Some((parent, last)) = split_pointer(path) else {
        *target = value;
        return Ok(());
    };
    match target.pointer_mut(parent) {
        Some(Value::Object(fields)) => {
            fields.insert(last, value);
        }
        Some(Value::Array(items)) if last == "-" => items.push(value),
        Some(Value::Array(items)) => {
            let place = index(&last, items.len() + 1).ok_or_else(|| missing(kind, path))?;
            items.insert(place, value);
        }
        _ => return Err(missing(kind, path)),
    }
    Ok(())
}

/// Replaces a value. As on real servers, a field of an object need not exist for that.
fn replace(target: &mut Value, path: &str, value: Value) -> Result<(), ApiError> {
    if let Some((parent, last)) = split_pointer(path)
        && let Some(Value::Array(items)) = target.pointer_mut(parent)
    {
        let place = index(&last, items.len()).ok_or_else(|| missing("replace", path))?;
        items[place] = value;
        return Ok(());
    }
    add(target, path, value, "replace")
}

fn remove(target: &mut Value, path: &str, kind: &str) -> Result<Value, ApiError> {
    let (parent, last) = split_pointer(path).ok_or_else(|| missing(kind, path))?;
    let removed = match target.pointer_mut(parent) {
        Some(Value::Object(fields)) => fields.remove(&last),
        Some(Value::Array(items)) => index(&last, items.len()).map(|place| items.remove(place)),
        _ => None,
    };
    removed.ok_or_else(|| missing(kind, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(mut target: Value, patch: Value) -> Result<Value, ApiError> {
        apply(&mut target, &patch)?;
        Ok(target)
    }

    #[test]
    fn operations_are_applied_in_order() {
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
        assert_eq!(patched(target, patch), Ok(want));
    }

    #[test]
    fn an_inapplicable_patch_is_unprocessable() {
        for operation in [
            json!({"op": "test", "path": "/a", "value": 2}),
            json!({"op": "remove", "path": "/none"}),
            json!({"op": "replace", "path": "/none/x", "value": 1}),
            json!({"op": "replace", "path": "/list/0", "value": 1}),
            json!({"op": "add", "path": "/none/x", "value": 1}),
            json!({"op": "add", "path": "/list/01", "value": 1}),
            json!({"op": "add", "path": "/list/9", "value": 1}),
            json!({"op": "fly", "path": "/a"}),
            json!({"op": "add"}),
            json!(7),
        ] {
            let error = patched(json!({"a": 1, "list": []}), json!([operation]));
            assert_eq!(error.map_err(|e| e.code), Err(422), "{operation}");
        }
    }

    #[test]
    fn replace_accepts_a_missing_field() {
        let patch = json!([{"op": "replace", "path": "/b", "value": 2}]);
        assert_eq!(patched(json!({"a": 1}), patch), Ok(json!({"a": 1, "b": 2})));
    }

    #[test]
    fn the_size_of_copies_is_limited() {
        let copies: Vec<Value> = (0..64)
            .map(|i| json!({"op": "copy", "from": "", "path": format!("/{i}")}))
            .collect();
        let error = patched(json!({"a": "x".repeat(1000)}), Value::Array(copies));
        assert_eq!(error.map_err(|e| e.code), Err(413));
    }

    #[test]
    fn a_patch_cannot_nest_deeper_than_the_limit() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
        let grown = |pairs: usize| {
            let pair = [
                json!({"op": "add", "path": "/b", "value": {}}),
                json!({"op": "move", "from": "/a", "path": "/b/a"}),
                json!({"op": "move", "from": "/b", "path": "/a"}),
            ];
            let operations = pair.iter().cycle().take(pairs * pair.len()).cloned();
            patched(json!({"a": 1}), operations.collect())
        };
        assert_eq!(grown(MAX_LEVELS - 1), Ok(nested(MAX_LEVELS)));
        assert_eq!(grown(MAX_LEVELS).map_err(|e| e.code), Err(422));
        assert_eq!(grown(3_000).map_err(|e| e.code), Err(422));
        let below = nested(MAX_LEVELS - 1);
        for operation in [
            json!({"op": "add", "path": "/x", "value": nested(MAX_LEVELS)}),
            json!({"op": "replace", "path": "/x", "value": nested(MAX_LEVELS)}),
            json!({"op": "replace", "path": "", "value": nested(MAX_LEVELS + 1)}),
            json!({"op": "copy", "from": "/a", "path": "/a/x"}),
        ] {
            let error = patched(json!({"a": below}), json!([operation]));
            assert_eq!(error.map_err(|e| e.code), Err(422), "{operation}");
        }
    }

    #[test]
    fn moves_to_a_deeper_place_count_as_copies() {
        let there_and_back = [
            json!({"op": "move", "from": "/a", "path": "/b/a"}),
            json!({"op": "move", "from": "/b/a", "path": "/a"}),
        ];
        let moves = there_and_back.iter().cycle().take(100).cloned();
        let target = json!({"a": "x".repeat(100_000), "b": {}});
        let error = patched(target, moves.collect());
        assert_eq!(error.map_err(|e| e.code), Err(413));
    }
}
