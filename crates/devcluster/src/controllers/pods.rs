//! Helpers of the controllers: a set's pods, and new ones from its template.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::changes::write::{Part, Write};
use crate::objects::label_selector;
use crate::objects::object::{Key, Object, at, condition, is_true, list, set};
use crate::objects::pod;
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// The objects of a set: those that it controls and selects, and those that it selects and no controller
/// has, which it adopts. It releases those that it controls and does not select any more. Objects that `fits` rejects are
/// neither adopted nor released.
pub(super) fn claim<'a>(
    state: &'a State,
    owner: &Object,
    resource: Resource,
    fits: impl Fn(&Object) -> bool,
    writes: &mut Vec<Write>,
) -> Vec<&'a Arc<Object>> {
    let mut claimed = Vec::new();
    let objects = state.list(resource, Some(&owner.key().namespace));
    for object in objects.filter(|object| fits(object)) {
        let controller = object.controller();
        if controller == Some(owner.uid()) {
            if selects(owner, object) {
                claimed.push(object);
            } else if !owner.is_terminating() {
                let others = owners(object).filter(|owner| !is_true(owner, &["controller"]));
                writes.push(set_owners(object, others.collect()));
            }
        } else if controller.is_none()
            && !owner.is_terminating()
            && !object.is_terminating()
            && selects(owner, object)
        {
            let all = owners(object).chain([reference(owner)]);
            writes.push(set_owners(object, all.collect()));
            claimed.push(object);
        }
    }
    claimed
}

/// Whether a set selects an object by its labels.
pub(super) fn selects(owner: &Object, object: &Object) -> bool {
    let selector = at(owner.value(), &["spec", "selector"]);
    selector.is_some_and(|selector| label_selector::selects(selector, object.labels()))
}

pub(super) fn owners(object: &Object) -> impl Iterator<Item = Value> {
    let owners = list(object.value(), &["metadata", "ownerReferences"]);
    owners.iter().cloned()
}

/// Replaces the owners of an object, unless it has changed meanwhile.
pub(super) fn set_owners(object: &Object, owners: Vec<Value>) -> Write {
    let patch = json!({"metadata": {
        "uid": object.uid(),
        "resourceVersion": object.resource_version().to_string(),
        "ownerReferences": owners,
    }});
    Write::merge_patch(object.key(), Part::Main, patch)
}

/// Whether a pod has terminated or is being deleted.
pub(super) fn is_over(pod: &Object) -> bool {
    pod.is_terminating() || pod::has_ended(pod)
}

/// Whether a pod is ready, and neither terminated nor being deleted.
pub(super) fn is_ready(pod: &Object) -> bool {
    condition(pod.value(), "Ready") == "True" && !is_over(pod)
}

/// The value of a label; empty if the object does not have it.
pub(super) fn label<'a>(object: &'a Object, name: &str) -> &'a str {
    let value = object.labels().and_then(|labels| labels.get(name));
    value.and_then(Value::as_str).unwrap_or_default()
}

/// A pod from the set's template, without a name.
pub(super) fn from_template(owner: &Object, template: &Value) -> Value {
    let mut pod = template.clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    set(
        &mut pod,
        &["metadata", "ownerReferences"],
        json!([reference(owner)]),
    );
    pod
}

/// The owner reference to a set.
pub(super) fn reference(owner: &Object) -> Value {
    let traits = owner.key().resource.traits();
    json!({
        "apiVersion": traits.api_version,
        "kind": traits.kind,
        "name": &*owner.key().name,
        "uid": owner.uid(),
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

pub(super) fn create(owner: &Object, resource: Resource, object: Value) -> Write {
    Write::create(resource, &owner.key().namespace, object)
}

pub(super) fn template(owner: &Object) -> Value {
    at(owner.value(), &["spec", "template"])
        .cloned()
        .unwrap_or_else(|| json!({}))
}

/// A short hash of a template, for names and labels.
pub(super) fn hash(template: &Value) -> String {
    const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let text = template.to_string();
    let mut hash = text.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    (0..10)
        .map(|_| {
            let letter = LETTERS[usize::try_from(hash % 27).unwrap_or_default()];
            hash /= 27;
            char::from(letter)
        })
        .collect()
}

/// The key of an object in the set's namespace.
pub(super) fn key_in_namespace(owner: &Object, resource: Resource, name: &str) -> Key {
    Key::new(resource, &owner.key().namespace, name)
}
