//! JSON patch, RFC 6902.

use serde_json::Value;

use super::status::ApiError;

/// More operations than this in one JSON patch are refused, as real servers do.
const MAX_OPERATIONS: usize = 10_000;

/// What the copies of one JSON patch may amount to; copies of copies would double without end.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Carries a JSON patch out on `target`.
pub(super) fn apply(target: &mut Value, patch: &Value) -> Result<(), ApiError> {
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
    use serde_json::json;

    fn patched(mut target: Value, patch: Value) -> Result<Value, ApiError> {
        apply(&mut target, &patch)?;
        Ok(target)
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
        assert_eq!(patched(target, patch), Ok(want));
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
            let error = patched(json!({"a": 1, "list": []}), json!([operation]));
            assert_eq!(error.map_err(|e| e.code), Err(422), "{operation}");
        }
    }

    #[test]
    fn copies_of_copies_are_stopped() {
        let copies: Vec<Value> = (0..64)
            .map(|i| json!({"op": "copy", "from": "", "path": format!("/{i}")}))
            .collect();
        let error = patched(json!({"a": "x".repeat(1000)}), Value::Array(copies));
        assert_eq!(error.map_err(|e| e.code), Err(413));
    }
}
