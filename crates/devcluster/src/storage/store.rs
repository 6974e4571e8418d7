//! The cluster's state as an immutable value: all objects, one resource version and a bounded event log.
//!
//! A copy costs a few reference counts, whatever its size, and later writes do not affect it. Lists and watches read
//! from copies, and a test can keep one and restore it.

use std::sync::Arc;

use bytes::Bytes;
use imbl::{OrdMap, OrdSet, Vector};
use serde_json::Value;

use crate::api::status::ApiError;
use crate::objects::depth;
use crate::objects::object::{Key, LINE_END, Object, line_start};
use crate::objects::resource::Resource;

/// The first resource version. Everything before it counts as compacted, as on a server that has run for a while.
pub const FIRST_VERSION: u64 = 1_000;

/// The largest object, in bytes of JSON: the limit of etcd.
const MAX_OBJECT: usize = 1_572_864;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

impl EventKind {
    /// The type as watch events contain it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A write in the event log.
#[derive(Debug)]
pub struct Event {
    kind: EventKind,
    object: Arc<Object>,
    previous: Option<Arc<Object>>,
}

impl Event {
    fn new(kind: EventKind, object: Arc<Object>, previous: Option<Arc<Object>>) -> Self {
        Self {
            kind,
            object,
            previous,
        }
    }

    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// The object after the write. For a deletion: its last content, with the version of the deletion.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    pub fn previous(&self) -> Option<&Arc<Object>> {
        self.previous.as_ref()
    }

    /// The event as a line of a watch, serialized once for all watchers.
    pub fn line(&self) -> &Bytes {
        self.object.line()
    }
}

/// A watch line with another type than that of the write.
pub fn watch_line(kind: EventKind, object: &Object) -> Bytes {
    [line_start(kind).as_bytes(), object.encoded(), LINE_END]
        .concat()
        .into()
}

pub type Objects = OrdMap<Key, Arc<Object>>;

/// The whole state of a cluster at one resource version.
#[derive(Clone, Debug)]
pub struct State {
    objects: Objects,
    by_uid: OrdMap<Arc<str>, Key>,
    /// The keys of the objects with an owner reference, by the owner's uid.
    dependents: OrdMap<Arc<str>, OrdSet<Key>>,
    resource_version: u64,
    /// The version up to which history is dropped. The log has every write after it: that of version `v` is at `v -
    /// compacted - 1`.
    compacted: u64,
    log: Vector<Arc<Event>>,
    log_limit: usize,
}

impl State {
    /// An empty state whose log holds at most `log_limit` writes.
    pub fn new(log_limit: usize) -> Self {
        Self {
            objects: OrdMap::new(),
            by_uid: OrdMap::new(),
            dependents: OrdMap::new(),
            resource_version: FIRST_VERSION,
            compacted: FIRST_VERSION,
            log: Vector::new(),
            log_limit: log_limit.max(1),
        }
    }

    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    /// The version up to which history is dropped.
    pub fn compacted(&self) -> u64 {
        self.compacted
    }

    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The pods of a namespace, by name.
    pub fn pods<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.list(Resource::Pods, Some(namespace))
            .map(|o| o.value())
    }

    pub fn config_maps<'a>(&'a self, namespace: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
        self.list(Resource::ConfigMaps, Some(namespace))
            .map(|o| o.value())
    }

    /// The objects of a kind, in one namespace or in all.
    pub fn list<'a>(
        &'a self,
        resource: Resource,
        namespace: Option<&str>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        range(&self.objects, resource, namespace, None)
    }

    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.objects.get(key)
    }

    pub fn pod(&self, namespace: &str, name: &str) -> Option<&Value> {
        self.get(&Key::new(Resource::Pods, namespace, name))
            .map(|o| o.value())
    }

    pub fn by_uid(&self, uid: &str) -> Option<&Arc<Object>> {
        self.objects.get(self.by_uid.get(uid)?)
    }

    /// The objects with an owner reference to this uid.
    pub fn dependents<'a>(&'a self, uid: &str) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .filter_map(|key| self.objects.get(key))
    }

    /// The first write after version `after`; `Ok(None)` if there is none yet.
    pub fn event_after(&self, after: u64) -> Result<Option<&Arc<Event>>, Compacted> {
        let place = after.checked_sub(self.compacted).ok_or(Compacted)?;
        Ok(usize::try_from(place)
            .ok()
            .and_then(|place| self.log.get(place)))
    }

    /// All objects at an earlier version: later writes are undone.
    pub fn objects_at(&self, version: u64) -> Result<Objects, Compacted> {
        let kept = usize::try_from(version.checked_sub(self.compacted).ok_or(Compacted)?)
            .unwrap_or(usize::MAX);
        let mut objects = self.objects.clone();
        for event in self
            .log
            .iter()
            .rev()
            .take(self.log.len().saturating_sub(kept))
        {
            let key = event.object.key().clone();
            match &event.previous {
                Some(previous) => objects.insert(key, previous.clone()),
                None => objects.remove(&key),
            };
        }
        Ok(objects)
    }

    /// Stores an object.
    ///
    /// # Errors
    ///
    /// If the object is too large or nested too deeply.
    pub fn put(&mut self, key: Key, value: Value) -> Result<Arc<Object>, ApiError> {
        if depth::exceeds(&value, depth::MAX_LEVELS) {
            return Err(ApiError::too_deep());
        }
        let version = self.resource_version + 1;
        let object = Arc::new(match self.objects.get(&key) {
            Some(previous) => previous.next(value, version),
            None => Object::new(key.clone(), value, version),
        });
        if object.encoded().len() > MAX_OBJECT {
            return Err(ApiError::too_large("etcdserver: request is too large"));
        }
        let previous = self.objects.insert(key.clone(), object.clone());
        if let Some(previous) = &previous {
            self.unindex(previous);
        }
        self.index(&object);
        let kind = if previous.is_some() {
            EventKind::Modified
        } else {
            EventKind::Added
        };
        self.record(Event::new(kind, object.clone(), previous));
        Ok(object)
    }

    /// Removes an object. Its final version has the resource version of the removal.
    pub fn remove(&mut self, key: &Key) -> Option<Arc<Object>> {
        let previous = self.objects.remove(key)?;
        self.unindex(&previous);
        let last = Arc::new(previous.last(self.resource_version + 1));
        self.record(Event::new(EventKind::Deleted, last.clone(), Some(previous)));
        Some(last)
    }

    pub fn compact(&mut self) {
        self.compacted = self.resource_version;
        self.log = Vector::new();
    }

    fn index(&mut self, object: &Object) {
        let key = object.key();
        self.by_uid.insert(object.uid().into(), key.clone());
        for owner in object.owners() {
            self.dependents
                .entry(owner.uid.into())
                .or_default()
                .insert(key.clone());
        }
    }

    fn unindex(&mut self, object: &Object) {
        self.by_uid.remove(object.uid());
        for owner in object.owners() {
            if let Some(keys) = self.dependents.get_mut(owner.uid) {
                keys.remove(object.key());
                if keys.is_empty() {
                    self.dependents.remove(owner.uid);
                }
            }
        }
    }

    fn record(&mut self, event: Event) {
        self.resource_version = event.object.resource_version();
        self.log.push_back(Arc::new(event));
        // The log is bounded. A reader that has fallen behind it must start over.
        if self.log.len() > self.log_limit {
            self.log.pop_front();
            self.compacted += 1;
        }
    }

    /// Inserts an object without an event, for the state before all history.
    pub(crate) fn seed(&mut self, key: Key, value: Value, version: u64) {
        let object = Arc::new(Object::new(key.clone(), value, version));
        self.index(&object);
        self.objects.insert(key, object);
    }
}

/// The requested version is older than the event log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted;

/// The objects of a kind in order, in one namespace or in all, starting after `after` (namespace and name).
pub fn range<'a>(
    objects: &'a Objects,
    resource: Resource,
    namespace: Option<&str>,
    after: Option<(&str, &str)>,
) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
    let (from_namespace, from_name) = after.unwrap_or((namespace.unwrap_or_default(), ""));
    let from = Key::new(resource, from_namespace, from_name);
    let only: Option<Arc<str>> = namespace.map(Into::into);
    let skip = after.is_some().then(|| from.clone());
    objects
        .range(from..)
        .skip_while(move |(key, _)| skip.as_ref() == Some(*key))
        .take_while(move |(key, _)| {
            key.resource == resource && only.as_ref().is_none_or(|n| *n == key.namespace)
        })
        .map(|(_, object)| object)
}
