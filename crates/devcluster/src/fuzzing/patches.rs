//! Fuzz target: patches of any type, on any object.

use serde_json::{Value, json};

use super::{Fixture, NAMESPACE, NO_MERGE_KEY, parts, pod};
use crate::api::body;
use crate::api::status::ApiError;
use crate::changes::patch::PatchKind;
use crate::changes::write::{Part, Write};
use crate::objects::object::{Key, at};
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// The input has three parts: the type of patch and the kind of object, as `strategic pods` or `merge configmaps
/// status`; the object, empty for a pod; the patch. A refused patch changes nothing. An accepted one leaves the same
/// object, valid for its type. A declarative patch changes nothing the second time.
pub fn patch(data: &[u8]) {
    let parts = parts(data);
    let [what, object, patch] = parts[..] else {
        return;
    };
    let what = String::from_utf8_lossy(what);
    let mut words = what.split_whitespace();
    let Some(kind) = kind(words.next().unwrap_or_default()) else {
        return;
    };
    let plural = words.next().unwrap_or_default();
    let resources = Resource::ALL.into_iter();
    let Some(resource) = resources.clone().find(|r| r.traits().plural == plural) else {
        return;
    };
    let part = match words.next() {
        Some("status") if resource.traits().has_status => Part::Status,
        Some("resize") if resource == Resource::Pods => Part::Resize,
        _ => Part::Main,
    };
    let Ok(patch) = body::json(patch) else {
        return;
    };
    let mut fixture = Fixture::new();
    let object = serde_json::from_slice(object).unwrap_or_else(|_| default(resource));
    let created = fixture.create(resource, object);
    let missing = || Key::new(resource, resource.namespace(NAMESPACE), "a");
    let key = created.unwrap_or_else(missing);
    let before = fixture.state.clone();
    let write = Write::Patch {
        key: key.clone(),
        part,
        kind,
        patch: patch.clone(),
        strict: false,
    };
    if fixture.write(write.clone()).is_err() {
        assert_eq!(
            contents(&fixture.state),
            contents(&before),
            "what is refused changes nothing"
        );
        return;
    }
    check_patched(&before, &fixture.state, &key);
    if kind != PatchKind::Json && is_without_conditions(&patch) {
        let once = fixture.state.clone();
        let again = fixture.write(write);
        // Real servers store a new list as it is, and require its items' keys only when they merge it.
        let has_no_key = |refused: &ApiError| refused.message.contains(NO_MERGE_KEY);
        let taken = again.as_ref().map_or_else(has_no_key, |_| true);
        assert!(taken, "taken once, and not again: {again:?}");
        assert_eq!(
            contents(&fixture.state),
            contents(&once),
            "it changes something again"
        );
    }
}

fn kind(name: &str) -> Option<PatchKind> {
    Some(match name {
        "merge" => PatchKind::Merge,
        "strategic" => PatchKind::Strategic,
        "json" => PatchKind::Json,
        _ => return None,
    })
}

/// The object to patch if the input has none.
fn default(resource: Resource) -> Value {
    if resource == Resource::Pods {
        return pod("a");
    }
    let traits = resource.traits();
    json!({"apiVersion": traits.api_version, "kind": traits.kind, "metadata": {"name": "a"}})
}

/// Whether the patch has neither a resource version nor directives, so that it can be repeated.
fn is_without_conditions(patch: &Value) -> bool {
    at(patch, &["metadata", "resourceVersion"]).is_none() && !patch.to_string().contains("\"$")
}

fn check_patched(before: &State, after: &State, key: &Key) {
    let Some(new) = after.get(key) else {
        // The patch removed the last finalizer of a terminating object.
        return;
    };
    let typed = key.resource.typed(new.value());
    assert!(typed.is_ok(), "no object of its type any more: {typed:?}");
    let read: Result<Value, _> = serde_json::from_slice(new.encoded());
    assert_eq!(
        read.ok(),
        Some(new.value().clone()),
        "its encoding differs from its content"
    );
    assert_eq!(
        at(new.value(), &["metadata", "name"]),
        Some(&json!(&*key.name))
    );
    if let Some(old) = before.get(key) {
        assert_eq!(new.uid(), old.uid());
    }
    let others = |state: &State| state.objects().len();
    let made = usize::from(before.get(key).is_none());
    assert_eq!(others(after), others(before) + made, "others came or went");
}

fn contents(state: &State) -> Vec<(u64, String)> {
    let objects = state.objects().values();
    objects
        .map(|object| (object.resource_version(), object.value().to_string()))
        .collect()
}
