//! A stored object: immutable, serialized once, and shared by all readers.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde_json::{Map, Value};

use super::resource::Resource;
use crate::storage::store::EventKind;

/// The identity of an object in the store. Lists are in the order of keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub resource: Resource,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(resource: Resource, namespace: &str, name: &str) -> Self {
        Self {
            resource,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// An object at one resource version.
#[derive(Debug)]
pub struct Object {
    key: Key,
    resource_version: u64,
    value: Value,
    /// The watch event of the write that created this version.
    line: Bytes,
    /// The object as JSON: a slice of `line`, not a copy.
    encoded: Bytes,
    /// The length of the kind and API version at the start of `encoded`; list items omit them.
    head: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    /// Whether foreground deletion of the owner waits for this object.
    pub blocks: bool,
}

impl Object {
    /// The first version of an object. `resource_version` is written into `value`.
    pub fn new(key: Key, value: Value, resource_version: u64) -> Self {
        Self::of_event(key, value, resource_version, EventKind::Added)
    }

    /// The next version of the object.
    pub fn next(&self, value: Value, resource_version: u64) -> Self {
        let key = self.key.clone();
        Self::of_event(key, value, resource_version, EventKind::Modified)
    }

    /// The final version of the object, after its removal.
    pub fn last(&self, resource_version: u64) -> Self {
        let (key, value) = (self.key.clone(), self.value.clone());
        Self::of_event(key, value, resource_version, EventKind::Deleted)
    }

    fn of_event(key: Key, mut value: Value, resource_version: u64, kind: EventKind) -> Self {
        set(
            &mut value,
            &["metadata", "resourceVersion"],
            resource_version.to_string().into(),
        );
        let (line, before, head) = encode(kind, key.resource, &value);
        let encoded = line.slice(before..line.len() - LINE_END.len());
        Self {
            key,
            resource_version,
            value,
            line,
            encoded,
            head,
        }
    }

    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The resource version of the write that created this version.
    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The watch event of this version, serialized once for all watchers.
    pub fn line(&self) -> &Bytes {
        &self.line
    }

    /// The object as JSON.
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// Appends the object as a list item, which has neither kind nor API version.
    pub fn append_item(&self, out: &mut BytesMut) {
        out.extend_from_slice(b"{");
        out.extend_from_slice(&self.encoded[self.head..]);
    }

    pub fn uid(&self) -> &str {
        text(&self.value, &["metadata", "uid"])
    }

    pub fn labels(&self) -> Option<&Map<String, Value>> {
        at(&self.value, &["metadata", "labels"])?.as_object()
    }

    pub fn is_terminating(&self) -> bool {
        at(&self.value, &["metadata", "deletionTimestamp"]).is_some()
    }

    /// The grace period of its deletion, in seconds.
    pub fn deletion_grace(&self) -> Option<i64> {
        at(&self.value, &["metadata", "deletionGracePeriodSeconds"])?.as_i64()
    }

    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        strings(&self.value, &["metadata", "finalizers"])
    }

    pub fn owners(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        list(&self.value, &["metadata", "ownerReferences"])
            .iter()
            .map(|owner| OwnerReference {
                api_version: text(owner, &["apiVersion"]),
                kind: text(owner, &["kind"]),
                name: text(owner, &["name"]),
                uid: text(owner, &["uid"]),
                blocks: is_true(owner, &["blockOwnerDeletion"]),
            })
    }

    /// The uid of the owner that controls the object.
    pub fn controller(&self) -> Option<&str> {
        let owners = list(&self.value, &["metadata", "ownerReferences"]);
        let controller = owners.iter().find(|owner| is_true(owner, &["controller"]));
        controller.map(|owner| text(owner, &["uid"]))
    }
}

/// The part of a watch event before the object.
pub fn line_start(kind: EventKind) -> String {
    format!("{{\"type\":\"{}\",\"object\":", kind.as_str())
}

/// The part of a watch event after the object.
pub const LINE_END: &[u8] = b"}\n";

/// Serializes a watch event. Returns it, the offset of the object in it, and the length of the object's kind and API
/// version. These come first, as in the output of real servers, so that a list item is a slice of the object.
fn encode(kind: EventKind, resource: Resource, value: &Value) -> (Bytes, usize, usize) {
    let traits = resource.traits();
    let mut out = Vec::with_capacity(4096);
    out.extend_from_slice(line_start(kind).as_bytes());
    let before = out.len();
    let prefix = format!(
        "{{\"kind\":\"{}\",\"apiVersion\":\"{}\"",
        traits.kind, traits.api_version
    );
    out.extend_from_slice(prefix.as_bytes());
    let head = prefix.len() + 1;
    for (name, field) in value.as_object().into_iter().flatten() {
        if name == "kind" || name == "apiVersion" {
            continue;
        }
        out.push(b',');
        write_json(&mut out, name);
        out.push(b':');
        write_json(&mut out, field);
    }
    out.push(b'}');
    out.extend_from_slice(LINE_END);
    // The event lives as long as the log keeps it, so spare capacity is dropped.
    (out.into_boxed_slice().into(), before, head)
}

#[expect(
    clippy::expect_used,
    reason = "a vector takes any write, and a JSON value has no key that cannot be written"
)]
fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("JSON is written into a vector");
}

pub fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// The string at a path; empty if there is none.
pub fn text<'a>(value: &'a Value, path: &[&str]) -> &'a str {
    at(value, path).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a path; empty if there is none.
pub fn list<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// The string at a path; `default` if there is none or it is empty.
pub fn text_or<'a>(value: &'a Value, path: &[&str], default: &'a str) -> &'a str {
    match text(value, path) {
        "" => default,
        text => text,
    }
}

/// The integer at a path.
pub fn number(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path)?.as_i64()
}

pub fn is_true(value: &Value, path: &[&str]) -> bool {
    at(value, path) == Some(&Value::Bool(true))
}

/// The strings of the list at a path; empty if there is none.
pub fn strings<'a>(value: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a str> + use<'a> {
    list(value, path).iter().filter_map(Value::as_str)
}

/// The fields of the object at a path; empty if there is none.
pub fn entries<'a>(
    value: &'a Value,
    path: &[&str],
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    let fields = at(value, path).and_then(Value::as_object);
    fields.into_iter().flatten()
}

/// The status of an object's condition; empty if it does not have the condition.
pub fn condition<'a>(object: &'a Value, kind: &str) -> &'a str {
    let mut conditions = list(object, &["status", "conditions"]).iter();
    let found = conditions.find(|c| text(c, &["type"]) == kind);
    found.map_or("", |c| text(c, &["status"]))
}

/// Sets the value at a path, and creates missing objects on the way.
pub fn set(value: &mut Value, path: &[&str], new: Value) {
    let mut here = value;
    for name in path {
        if !here.is_object() {
            *here = Value::Object(Map::new());
        }
        here = &mut here[*name];
    }
    *here = new;
}

pub fn unset(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    let parent = parents
        .iter()
        .try_fold(value, |value, name| value.get_mut(name))?;
    parent.as_object_mut()?.remove(*last)
}
