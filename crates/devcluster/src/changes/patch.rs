//! Patches: JSON merge patch, strategic merge patch and JSON patch.

use serde_json::{Map, Value};

use super::json_patch;
use super::strategic;
use crate::api::status::ApiError;
use crate::objects::resource::Resource;
use crate::objects::schema;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchKind {
    /// JSON merge patch (RFC 7386).
    Merge,
    /// Kubernetes' strategic merge patch: a merge patch that merges lists by a key.
    Strategic,
    /// JSON patch (RFC 6902).
    Json,
}

/// The accepted media types of a PATCH.
pub const PATCH_TYPES: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

impl PatchKind {
    pub fn of_content_type(content_type: &str) -> Option<Self> {
        match content_type {
            "application/merge-patch+json" => Some(Self::Merge),
            "application/strategic-merge-patch+json" => Some(Self::Strategic),
            "application/json-patch+json" => Some(Self::Json),
            _ => None,
        }
    }

    pub fn apply(
        self,
        resource: Resource,
        target: &mut Value,
        patch: &Value,
    ) -> Result<(), ApiError> {
        match (self, patch) {
            (Self::Json, patch) => json_patch::apply(target, patch),
            (Self::Merge, Value::Object(_)) => {
                merge(target, patch);
                Ok(())
            }
            (Self::Strategic, Value::Object(patch)) => match as_object(target) {
                Some(target) => {
                    let shape = schema::of(resource.traits().kind);
                    strategic::merge(shape, target, patch)
                }
                None => Ok(()),
            },
            _ => Err(ApiError::bad_request(
                "error decoding patch: a patch of this type is an object",
            )),
        }
    }
}

/// `target` as an object; a value of another type is replaced by an empty one.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn patched(kind: PatchKind, mut target: Value, patch: Value) -> Result<Value, ApiError> {
        kind.apply(Resource::Pods, &mut target, &patch)?;
        Ok(target)
    }

    #[test]
    fn a_merge_sets_removes_and_replaces_lists() {
        let target = json!({"a": {"b": 1, "c": 2}, "list": [1, 2]});
        let patch = json!({"a": {"b": null, "d": {"e": null, "f": 3}}, "list": [3]});
        let want = json!({"a": {"c": 2, "d": {"f": 3}}, "list": [3]});
        assert_eq!(patched(PatchKind::Merge, target, patch), Ok(want));
    }

    proptest! {
        #[test]
        fn a_merge_patch_is_idempotent(a in "[a-c]", b in "[a-c]", n in 0..3) {
            let target = json!({"a": {"b": 1}, "b": [1]});
            let patch = json!({a: {b: n}});
            let once = patched(PatchKind::Merge, target, patch.clone()).expect("an object");
            prop_assert_eq!(patched(PatchKind::Merge, once.clone(), patch), Ok(once));
        }
    }
}
