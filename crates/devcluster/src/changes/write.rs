//! What a write does: `(state, write, now) → (state', answer)`, without any I/O.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::delete::{self, DeleteOptions};
use super::patch::PatchKind;
use super::quota;
use super::scale::Rescale;
use super::update::Owners;
use crate::api::status::ApiError;
use crate::objects::ids::Ids;
use crate::objects::object::{Key, Object};
use crate::objects::resource::Resource;
use crate::objects::selector::Selector;
use crate::storage::store::State;

/// What a client wants done.
#[derive(Clone, Debug)]
pub enum Write {
    /// POST of an object, decoded.
    Create {
        /// Its kind.
        resource: Resource,
        /// The namespace of the path; empty for kinds that have none.
        namespace: String,
        /// The object.
        object: Value,
    },
    /// PUT of an object, decoded.
    Update {
        /// Which one.
        key: Key,
        /// Which part of it.
        part: Part,
        /// The object.
        object: Value,
    },
    /// PATCH of an object.
    Patch {
        /// Which one.
        key: Key,
        /// Which part of it.
        part: Part,
        /// How to read the patch.
        kind: PatchKind,
        /// The patch.
        patch: Value,
        /// Whether fields that the type lacks are refused.
        strict: bool,
    },
    /// Server-side apply of an object.
    Apply {
        /// Which one.
        key: Key,
        /// Which part of it.
        part: Part,
        /// What shall be.
        config: Value,
        /// Whether what others own is taken from them.
        force: bool,
    },
    /// DELETE of an object.
    Delete {
        /// Which one.
        key: Key,
        /// How.
        options: DeleteOptions,
    },
    /// DELETE of all objects that are meant.
    DeleteCollection {
        /// Their kind.
        resource: Resource,
        /// Their namespace, or all.
        namespace: Option<String>,
        /// Which of them.
        selector: Selector,
        /// How.
        options: DeleteOptions,
    },
    /// POST of a pod's binding to a node.
    Bind {
        /// The pod.
        key: Key,
        /// The binding.
        binding: Value,
    },
    /// What a node reports of a pod; not something a client can ask for.
    Report {
        /// The pod.
        key: Key,
        /// The uid it must have.
        uid: String,
        /// The fields of its status that are new; the others stay.
        status: Value,
    },
    /// The end of a namespace that is on its way out and empty; not something a client can ask for.
    FinishNamespace {
        /// The namespace.
        key: Key,
    },
    /// A change of how many pods a set is to have.
    Rescale {
        /// The set.
        key: Key,
        /// What is to be.
        rescale: Rescale,
    },
    /// POST of a pod's eviction.
    Evict {
        /// The pod.
        key: Key,
        /// How it shall be deleted.
        options: DeleteOptions,
    },
}

/// The part of an object that a write may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All but the status, where the kind has one.
    Main,
    /// The status, and labels and annotations.
    Status,
    /// What keeps a namespace from going: `spec.finalizers`.
    Finalizers,
}

/// What a write answers.
#[derive(Clone, Debug)]
pub enum Answer {
    /// An object, and whether it is new.
    Object(Arc<Object>, bool),
    /// A `Status`, under a code.
    Status(u16, Value),
    /// The objects that were to be deleted, as they were before.
    Deleted {
        /// Their kind.
        resource: Resource,
        /// The version at which they were listed.
        version: u64,
        /// The objects.
        objects: Vec<Arc<Object>>,
    },
}

/// A client that writes.
#[derive(Clone, Debug, Default)]
pub struct Caller {
    /// Who owns what it changes.
    pub manager: String,
    /// What is in its request twice, if it wants to be told.
    pub duplicates: Vec<String>,
    /// Whether it is told of what was dropped.
    pub is_warned: bool,
}

/// What a write depends on beside the state.
#[derive(Debug)]
pub struct Moment<'a> {
    /// The wall clock.
    pub now: Timestamp,
    /// Where uids come from.
    pub ids: &'a mut Ids,
    /// Who writes; nobody if it is done inside the cluster.
    pub caller: Option<&'a Caller>,
    /// What the client shall be warned of.
    pub warnings: Vec<String>,
    /// Whether what controllers do in a real cluster is done here.
    pub has_controllers: bool,
}

impl<'a> Moment<'a> {
    /// The moment at which something inside the cluster writes.
    pub fn new(now: Timestamp, ids: &'a mut Ids) -> Self {
        Self {
            now,
            ids,
            caller: None,
            warnings: Vec::new(),
            has_controllers: true,
        }
    }

    /// The time as objects have it: whole seconds.
    pub fn text(&self) -> Value {
        seconds(self.now).into()
    }
}

/// A time in whole seconds, as objects have it.
pub fn seconds(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second())
        .unwrap_or(at)
        .to_string()
}

impl State {
    /// Carries a write out. A refused one, or a dry run, leaves the state as it was.
    pub fn write(
        &mut self,
        write: Write,
        dry_run: bool,
        moment: &mut Moment<'_>,
    ) -> Result<Answer, ApiError> {
        let mut next = self.clone();
        let answer = next.carry_out(write, moment)?;
        if moment.has_controllers {
            quota::settle(&mut next, self.resource_version())?;
        }
        if !dry_run {
            *self = next;
        }
        Ok(answer)
    }

    fn carry_out(&mut self, write: Write, moment: &mut Moment<'_>) -> Result<Answer, ApiError> {
        match write {
            Write::Create {
                resource,
                namespace,
                object,
            } => self.create(resource, &namespace, object, Owners::New, moment),
            Write::Update { key, part, object } => self.replace(key, part, object, moment),
            Write::Patch {
                key,
                part,
                kind,
                patch,
                strict,
            } => self.patch(&key, part, kind, &patch, strict, moment),
            Write::Apply {
                key,
                part,
                config,
                force,
            } => self.apply(&key, part, &config, force, moment),
            Write::Delete { key, options } => delete::one(self, &key, &options, moment),
            Write::DeleteCollection {
                resource,
                namespace,
                selector,
                options,
            } => delete::collection(
                self,
                resource,
                namespace.as_deref(),
                &selector,
                &options,
                moment,
            ),
            Write::Bind { key, binding } => self.bind(&key, &binding, moment),
            Write::FinishNamespace { key } => self.finish_namespace(&key),
            Write::Report { key, uid, status } => self.report(&key, &uid, &status),
            Write::Rescale { key, rescale } => self.rescale(&key, &rescale, moment),
            Write::Evict { key, options } => self.evict(&key, &options, moment),
        }
    }

    /// The object of that key, or 404.
    pub(crate) fn existing(&self, key: &Key) -> Result<Arc<Object>, ApiError> {
        let traits = key.resource.traits();
        self.get(key)
            .cloned()
            .ok_or_else(|| ApiError::not_found(traits.plural, traits.group, &key.name))
    }

    fn finish_namespace(&mut self, key: &Key) -> Result<Answer, ApiError> {
        let namespace = self.existing(key)?;
        let mut content = Resource::ALL
            .into_iter()
            .flat_map(|r| self.list(r, Some(&key.name)));
        let waits = !namespace.is_terminating() || namespace.finalizers().next().is_some();
        if waits || content.next().is_some() {
            return Err(ApiError::conflict(
                "namespaces",
                "",
                &key.name,
                "it is not empty, or shall stay",
            ));
        }
        drop(content);
        self.remove(key);
        Ok(Answer::Object(namespace, false))
    }
}
