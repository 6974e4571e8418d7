//! Applies one write to the state: `(state, write, now) → (state', answer)`, without I/O.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::delete::{self, DeleteOptions};
use super::patch::PatchKind;
use super::quota;
use super::scale::ScaleWrite;
use crate::api::status::ApiError;
use crate::objects::ids::Ids;
use crate::objects::object::{Key, Object, set, unset};
use crate::objects::resource::Resource;
use crate::objects::selector::Selector;
use crate::storage::store::State;

#[derive(Clone, Debug)]
pub enum Write {
    Create {
        resource: Resource,
        /// The namespace of the path; empty for cluster-scoped kinds.
        namespace: String,
        object: Value,
    },
    Update {
        key: Key,
        part: Part,
        object: Value,
    },
    Patch {
        key: Key,
        part: Part,
        kind: PatchKind,
        patch: Value,
        /// Whether unknown fields are refused.
        strict: bool,
    },
    Delete {
        key: Key,
        options: DeleteOptions,
    },
    DeleteCollection {
        resource: Resource,
        /// `None`: all namespaces.
        namespace: Option<String>,
        selector: Selector,
        /// At most so many objects, or all.
        limit: Option<usize>,
        options: DeleteOptions,
    },
    /// POST of a pod's binding to a node.
    Bind {
        key: Key,
        binding: Value,
    },
    /// A kubelet's report of a pod's status; clients cannot send this.
    Report {
        key: Key,
        /// The uid the pod must have.
        uid: String,
        /// The changed fields of the status; the others stay.
        status: Value,
    },
    /// The removal of a terminating namespace that is empty; clients cannot send this.
    FinishNamespace {
        key: Key,
    },
    Scale {
        key: Key,
        scale: ScaleWrite,
    },
    Evict {
        key: Key,
        options: DeleteOptions,
    },
}

impl Write {
    /// A merge patch from inside the cluster.
    pub fn merge_patch(key: &Key, part: Part, patch: Value) -> Self {
        Self::Patch {
            key: key.clone(),
            part,
            kind: PatchKind::Merge,
            patch,
            strict: false,
        }
    }

    pub fn create(resource: Resource, namespace: &str, object: Value) -> Self {
        Self::Create {
            resource,
            namespace: namespace.to_owned(),
            object,
        }
    }

    /// The deletion of this very object: one of the same name with another uid stays.
    pub fn delete(object: &Object) -> Self {
        Self::Delete {
            key: object.key().clone(),
            options: DeleteOptions {
                uid: Some(object.uid().to_owned()),
                ..DeleteOptions::default()
            },
        }
    }

    pub fn report(pod: &Object, status: Value) -> Self {
        Self::Report {
            key: pod.key().clone(),
            uid: pod.uid().to_owned(),
            status,
        }
    }
}

/// The part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Everything but the status, if the kind has one.
    Main,
    /// The status, labels and annotations.
    Status,
    /// The resources of a pod's containers.
    Resize,
}

#[derive(Clone, Debug)]
pub enum Answer {
    /// The object, and whether it was created.
    Object(Arc<Object>, bool),
    /// A `Status`, with its HTTP code.
    Status(u16, Value),
    /// The objects of a deleted collection, as they were before.
    Deleted {
        resource: Resource,
        /// The resource version at which they were listed.
        version: u64,
        objects: Vec<Arc<Object>>,
    },
}

#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Whether the client wants warnings about dropped fields.
    pub is_warned: bool,
    /// The object that a delete names, as it was when the request arrived.
    pub deletes: Option<Arc<Object>>,
}

/// What a write depends on beside the state.
#[derive(Debug)]
pub struct WriteContext<'a> {
    pub now: Timestamp,
    pub ids: &'a mut Ids,
    /// The client that writes; `None` for writes from inside the cluster.
    pub caller: Option<&'a Caller>,
    /// The warnings to return to the client.
    pub warnings: Vec<String>,
    /// Whether this cluster does what a controller manager does.
    pub has_controllers: bool,
}

impl<'a> WriteContext<'a> {
    /// The context of a write from inside the cluster.
    pub fn new(now: Timestamp, ids: &'a mut Ids) -> Self {
        Self {
            now,
            ids,
            caller: None,
            warnings: Vec::new(),
            has_controllers: true,
        }
    }

    /// The time in whole seconds, as objects contain it.
    pub fn text(&self) -> Value {
        seconds(self.now).into()
    }
}

/// A time in whole seconds, as objects contain it.
pub fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}

impl State {
    /// Carries out a write. A refused write and a dry run leave the state unchanged.
    pub fn write(
        &mut self,
        write: Write,
        dry_run: bool,
        context: &mut WriteContext<'_>,
    ) -> Result<Answer, ApiError> {
        let mut next = self.clone();
        let answer = next.carry_out(write, context)?;
        if context.has_controllers {
            quota::settle(&mut next, self.resource_version())?;
        }
        if !dry_run {
            *self = next;
            return Ok(answer);
        }
        Ok(match answer {
            Answer::Object(object, is_new) => self.without_version(&object, is_new),
            other => other,
        })
    }

    /// The answer to a dry run: what is not stored has no version of its own.
    fn without_version(&self, object: &Object, is_new: bool) -> Answer {
        let traits = object.key().resource.traits();
        let mut shown = object.value().clone();
        shown["kind"] = traits.kind.into();
        shown["apiVersion"] = traits.api_version.into();
        match self.get(object.key()) {
            Some(stored) => {
                let version = stored.resource_version().to_string();
                set(&mut shown, &["metadata", "resourceVersion"], version.into());
            }
            None => {
                unset(&mut shown, &["metadata", "resourceVersion"]);
            }
        }
        Answer::Status(if is_new { 201 } else { 200 }, shown)
    }

    fn carry_out(
        &mut self,
        write: Write,
        context: &mut WriteContext<'_>,
    ) -> Result<Answer, ApiError> {
        match write {
            Write::Create {
                resource,
                namespace,
                object,
            } => self.create(resource, &namespace, object, context),
            Write::Update { key, part, object } => self.replace(key, part, object, context),
            Write::Patch {
                key,
                part,
                kind,
                patch,
                strict,
            } => self.patch(&key, part, kind, &patch, strict, context),
            Write::Delete { key, options } => delete::one(self, &key, &options, context),
            Write::DeleteCollection {
                resource,
                namespace,
                selector,
                limit,
                options,
            } => {
                let limit = limit.unwrap_or(usize::MAX);
                let objects = self
                    .list(resource, namespace.as_deref())
                    .filter(|object| selector.matches(object))
                    .take(limit)
                    .cloned()
                    .collect();
                delete::collection(self, resource, objects, &options, context)
            }
            Write::Bind { key, binding } => self.bind(&key, &binding, context),
            Write::FinishNamespace { key } => self.finish_namespace(&key),
            Write::Report { key, uid, status } => self.report(&key, &uid, &status),
            Write::Scale { key, scale } => self.scale(&key, &scale),
            Write::Evict { key, options } => self.evict(&key, &options, context),
        }
    }

    /// The object with this key, or a 404 error.
    pub(crate) fn existing(&self, key: &Key) -> Result<Arc<Object>, ApiError> {
        self.get(key).cloned().ok_or_else(|| key.not_found())
    }

    fn finish_namespace(&mut self, key: &Key) -> Result<Answer, ApiError> {
        let namespace = self.existing(key)?;
        let mut content = Resource::ALL
            .into_iter()
            .flat_map(|r| self.list(r, Some(&key.name)));
        let waits = !namespace.is_terminating() || namespace.finalizers().next().is_some();
        if waits || content.next().is_some() {
            return Err(key.conflict("it is not empty, or shall stay"));
        }
        drop(content);
        self.remove(key);
        Ok(Answer::Object(namespace, false))
    }
}
