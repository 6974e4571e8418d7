//! Resizes: changes of the resources of a pod's containers, which may run.

use serde_json::Value;

use crate::objects::object::{at, list, set, text, unset};

/// The pod with the resources that `new` has for its containers, and with what identifies it; all else stays.
pub(super) fn of(old: &Value, new: &Value) -> Value {
    let mut resized = old.clone();
    for field in ["name", "namespace", "uid", "resourceVersion"] {
        if let Some(value) = at(new, &["metadata", field]) {
            set(&mut resized, &["metadata", field], value.clone());
        }
    }
    for kind in ["containers", "initContainers"] {
        let given = list(new, &["spec", kind]);
        let own = resized.pointer_mut(&format!("/spec/{kind}"));
        for container in own.and_then(Value::as_array_mut).into_iter().flatten() {
            let name = text(container, &["name"]).to_owned();
            let given = given.iter().find(|other| text(other, &["name"]) == name);
            for field in ["resources", "resizePolicy"] {
                match given.and_then(|given| given.get(field)) {
                    Some(value) => set(container, &[field], value.clone()),
                    None if given.is_some() => {
                        unset(container, &[field]);
                    }
                    None => {}
                }
            }
        }
    }
    resized
}
