//! Updates `metadata.managedFields` when an object is written.

use serde_json::{Map, Value, json};

use super::managed::{Change, Managed};
use super::write::{Caller, Part, WriteContext};
use crate::objects::object::{Object, set, unset};
use crate::objects::resource::Resource;
use crate::objects::schema;

const MANAGED: [&str; 2] = ["metadata", "managedFields"];

/// The fields that a write of `part` cannot change, whatever it contains.
pub(crate) fn ignored(resource: Resource, part: Part) -> &'static [&'static [&'static str]] {
    const STATUS: &[&str] = &["f:status"];
    const SPEC: &[&str] = &["f:spec"];
    match part {
        Part::Main if resource.traits().has_status => &[STATUS],
        Part::Main => &[],
        Part::Status if resource == Resource::Pods => &[
            SPEC,
            &["f:metadata", "f:deletionTimestamp"],
            &["f:metadata", "f:ownerReferences"],
        ],
        Part::Status => &[SPEC],
        Part::Finalizers | Part::Resources => &[STATUS],
    }
}

/// The empty object with which a new object is compared.
pub(crate) fn blank(new: &Value) -> Value {
    let mut blank = Map::new();
    for part in ["metadata", "spec", "status"] {
        if let Some(Value::Object(fields)) = new.get(part) {
            // These fields have no null value in Go, so they always count as present.
            let always = ["containers", "loadBalancer"];
            let within = always.iter().filter(|name| fields.contains_key(**name));
            blank.insert(
                part.to_owned(),
                within
                    .map(|name| ((*name).to_owned(), Value::Null))
                    .collect(),
            );
        }
    }
    if new.get("kind").and_then(Value::as_str) == Some("PersistentVolumeClaim")
        && let Some(spec) = blank.get_mut("spec")
    {
        spec["resources"] = json!({});
    }
    Value::Object(blank)
}

pub(crate) fn of(object: &Object) -> Managed {
    object
        .managed_fields()
        .and_then(|managed| Managed::from_value(&managed))
        .unwrap_or_default()
}

/// The change to track for a write.
pub(crate) fn change<'a>(
    resource: Resource,
    part: Part,
    caller: &'a Caller,
    now: &'a str,
) -> Change<'a> {
    let traits = resource.traits();
    Change {
        manager: &caller.manager,
        api_version: traits.api_version,
        subresource: match part {
            Part::Main => "",
            Part::Status => "status",
            Part::Finalizers => "finalize",
            Part::Resources => "resize",
        },
        shape: schema::of(traits.kind),
        ignored: ignored(resource, part),
        now,
    }
}

/// Whether a client asks to reset the managed fields.
fn is_reset(given: &Value) -> bool {
    match given {
        Value::Array(entries) => match entries.as_slice() {
            [] => true,
            [one] => one.as_object().is_some_and(Map::is_empty),
            _ => false,
        },
        _ => false,
    }
}

/// Sets the managed fields of `new`, which replaces `old`.
pub(crate) fn track(
    resource: Resource,
    part: Part,
    old: Option<&Object>,
    new: &mut Value,
    context: &WriteContext<'_>,
) {
    let given = unset(new, &MANAGED);
    // Writes from inside the cluster are not tracked, nor are previous owners updated: for a kubelet's status report
    // that would cost more than the report itself.
    let Some(caller) = context.caller else {
        return;
    };
    let known = || old.map(of).unwrap_or_default();
    let mut managed = match given.filter(|_| part == Part::Main) {
        Some(given) if is_reset(&given) => Managed::default(),
        Some(given) => Managed::from_value(&given)
            .filter(|given| !given.is_empty())
            .unwrap_or_else(known),
        None => known(),
    };
    // Without earlier managed fields, tracking starts with the first apply.
    if old.is_none() || !managed.is_empty() {
        let now = super::write::seconds(context.now);
        let change = change(resource, part, caller, &now);
        match old {
            Some(old) => managed.update(&change, old.value(), new),
            None => managed.update(&change, &blank(new), new),
        }
    }
    set(new, &MANAGED, managed.to_value());
}

/// Whether `new` equals the stored object, apart from the times in its managed fields.
pub(crate) fn is_same(old: &Object, new: &Value, managed: Option<&Value>) -> bool {
    *new == *old.value()
        && managed.is_none_or(|managed| {
            Managed::from_value(managed)
                .unwrap_or_default()
                .is_same_as(&of(old))
        })
}
