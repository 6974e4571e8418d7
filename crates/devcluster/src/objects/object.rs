//! One stored object: immutable, encoded once, shared by all who read it.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde_json::{Map, Value};

use super::resource::Resource;
use crate::storage::store::EventKind;

/// Where an object is kept. The order is that of a list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// What kind of object.
    pub resource: Resource,
    /// Its namespace; empty for objects that have none.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl Key {
    /// The key of an object of that name.
    pub fn new(resource: Resource, namespace: &str, name: &str) -> Self {
        Self {
            resource,
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

/// An object as it was at one resource version.
#[derive(Debug)]
pub struct Object {
    key: Key,
    resource_version: u64,
    value: Value,
    /// `metadata.managedFields` as JSON text; empty if there are none. Apart from the value, since it is as large as the
    /// rest of a pod and hardly ever changes: the versions of an object share it.
    managed: Arc<str>,
    /// The line that tells watchers of the write that made it so.
    line: Bytes,
    /// The object as JSON: a part of `line`, not another copy.
    encoded: Bytes,
    /// How many bytes of `encoded` are the kind and API version, which items of a list go without.
    head: usize,
}

/// An owner that an object names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerReference<'a> {
    /// The owner's API version.
    pub api_version: &'a str,
    /// The owner's kind.
    pub kind: &'a str,
    /// The owner's name.
    pub name: &'a str,
    /// The owner's uid.
    pub uid: &'a str,
    /// Whether the owner waits for this object when it is deleted in the foreground.
    pub blocks: bool,
}

impl Object {
    /// `value` as it stands at `resource_version`, which is written into it.
    pub fn new(key: Key, value: Value, resource_version: u64) -> Self {
        let managed = "".into();
        Self::with_managed(key, value, resource_version, managed, EventKind::Added)
    }

    /// What became of an object. If `value` does not say who owns its fields, that is as before.
    pub fn next(&self, value: Value, resource_version: u64) -> Self {
        let (key, managed) = (self.key.clone(), self.managed.clone());
        Self::with_managed(key, value, resource_version, managed, EventKind::Modified)
    }

    /// What is left of it after its removal.
    pub fn last(&self, resource_version: u64) -> Self {
        let (key, managed) = (self.key.clone(), self.managed.clone());
        let value = self.value.clone();
        Self::with_managed(key, value, resource_version, managed, EventKind::Deleted)
    }

    fn with_managed(
        key: Key,
        mut value: Value,
        resource_version: u64,
        mut managed: Arc<str>,
        kind: EventKind,
    ) -> Self {
        set(
            &mut value,
            &["metadata", "resourceVersion"],
            resource_version.to_string().into(),
        );
        match unset(&mut value, &["metadata", "managedFields"]) {
            Some(Value::Array(owners)) if !owners.is_empty() => {
                managed = Value::Array(owners).to_string().into();
            }
            Some(_) => managed = "".into(),
            None => {}
        }
        let (line, before, head) = encode(kind, key.resource, &value, &managed);
        let encoded = line.slice(before..line.len() - LINE_END.len());
        Self {
            key,
            resource_version,
            value,
            managed,
            line,
            encoded,
            head,
        }
    }

    /// Where it is kept.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The version of the write that made it so.
    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    /// The object, but for `metadata.managedFields`.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// `metadata.managedFields`; nothing if it is not known who owns what.
    pub fn managed_fields(&self) -> Option<Value> {
        serde_json::from_str(&self.managed).ok()
    }

    /// The whole object, with `metadata.managedFields`.
    pub fn whole(&self) -> Value {
        let mut whole = self.value.clone();
        if let Some(managed) = self.managed_fields() {
            set(&mut whole, &["metadata", "managedFields"], managed);
        }
        whole
    }

    /// The line of a watch that tells of it, encoded once for all watchers.
    pub fn line(&self) -> &Bytes {
        &self.line
    }

    /// The whole object as JSON.
    pub fn encoded(&self) -> &Bytes {
        &self.encoded
    }

    /// Appends it as an item of a list, which carries no kind and API version.
    pub fn append_item(&self, out: &mut BytesMut) {
        out.extend_from_slice(b"{");
        out.extend_from_slice(&self.encoded[self.head..]);
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        text(&self.value, &["metadata", "uid"])
    }

    /// Its labels.
    pub fn labels(&self) -> Option<&Map<String, Value>> {
        at(&self.value, &["metadata", "labels"])?.as_object()
    }

    /// Whether it was asked to go.
    pub fn is_terminating(&self) -> bool {
        at(&self.value, &["metadata", "deletionTimestamp"]).is_some()
    }

    /// The grace its deletion was given.
    pub fn deletion_grace(&self) -> Option<i64> {
        at(&self.value, &["metadata", "deletionGracePeriodSeconds"])?.as_i64()
    }

    /// Those that must let go of it before it can be removed.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        list(&self.value, &["metadata", "finalizers"])
            .iter()
            .filter_map(Value::as_str)
    }

    /// The owners it names.
    pub fn owners(&self) -> impl Iterator<Item = OwnerReference<'_>> {
        list(&self.value, &["metadata", "ownerReferences"])
            .iter()
            .map(|owner| OwnerReference {
                api_version: text(owner, &["apiVersion"]),
                kind: text(owner, &["kind"]),
                name: text(owner, &["name"]),
                uid: text(owner, &["uid"]),
                blocks: owner
                    .get("blockOwnerDeletion")
                    .and_then(Value::as_bool)
                    .unwrap_or(false),
            })
    }
}

/// What a line of a watch is before its object.
pub fn line_start(kind: EventKind) -> String {
    format!("{{\"type\":\"{}\",\"object\":", kind.as_str())
}

/// What it is after it.
pub const LINE_END: &[u8] = b"}\n";

/// The line of a watch, where in it the object begins, and how much of that is its kind and API version. They come
/// first, as real servers write them, so that an item of a list is a slice of the whole.
fn encode(
    kind: EventKind,
    resource: Resource,
    value: &Value,
    managed: &str,
) -> (Bytes, usize, usize) {
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
        if name == "metadata" && !managed.is_empty() && out.pop() == Some(b'}') {
            // Metadata is never empty: it has a version.
            out.extend_from_slice(b",\"managedFields\":");
            out.extend_from_slice(managed.as_bytes());
            out.push(b'}');
        }
    }
    out.push(b'}');
    out.extend_from_slice(LINE_END);
    // Kept as long as the log remembers it, so without room to grow.
    (out.into_boxed_slice().into(), before, head)
}

#[expect(
    clippy::expect_used,
    reason = "a vector takes any write, and a JSON value has no key that cannot be written"
)]
fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("JSON is written into a vector");
}

/// The value at a path of field names.
pub fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, name| value.get(name))
}

/// The text at a path; empty if there is none.
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

/// Sets the value at a path, making objects on the way where there are none.
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

/// Takes away the field at a path.
pub fn unset(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    let parent = parents
        .iter()
        .try_fold(value, |value, name| value.get_mut(name))?;
    parent.as_object_mut()?.remove(*last)
}
