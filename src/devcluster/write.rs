//! What a write does: `(state, write, now) → (state', answer)`, without any I/O.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::decode;
use super::defaults;
use super::delete::{self, DeleteOptions};
use super::ids::Ids;
use super::object::{Key, Object, at, set, text, unset};
use super::patch::PatchKind;
use super::resource::Resource;
use super::selector::Selector;
use super::status::{ApiError, Cause, success};
use super::store::State;
use super::{validate, validate_pod};

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

/// What a write depends on beside the state.
#[derive(Debug)]
pub struct Moment<'a> {
    /// The wall clock.
    pub now: Timestamp,
    /// Where uids come from.
    pub ids: &'a mut Ids,
}

impl Moment<'_> {
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
            } => self.create(resource, &namespace, object, moment),
            Write::Update { key, part, object } => self.replace(key, part, object, moment),
            Write::Patch {
                key,
                part,
                kind,
                patch,
                strict,
            } => self.patch(&key, part, kind, &patch, strict),
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
            Write::Evict { key, options } => self.evict(&key, &options, moment),
        }
    }

    /// The object of that key, or 404.
    pub(super) fn existing(&self, key: &Key) -> Result<Arc<Object>, ApiError> {
        let traits = key.resource.traits();
        self.get(key)
            .cloned()
            .ok_or_else(|| ApiError::not_found(traits.plural, traits.group, &key.name))
    }

    fn create(
        &mut self,
        resource: Resource,
        namespace: &str,
        mut object: Value,
        moment: &mut Moment<'_>,
    ) -> Result<Answer, ApiError> {
        let traits = resource.traits();
        if !text(&object, &["metadata", "resourceVersion"]).is_empty() {
            return Err(ApiError::unclassified(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if traits.namespaced {
            self.check_namespace(resource, namespace, text(&object, &["metadata", "name"]))?;
            set(&mut object, &["metadata", "namespace"], namespace.into());
        }
        let base = text(&object, &["metadata", "generateName"]).to_owned();
        if text(&object, &["metadata", "name"]).is_empty() && !base.is_empty() {
            let mut name = moment.ids.name(&base);
            while self.get(&Key::new(resource, namespace, &name)).is_some() {
                name = moment.ids.name(&base);
            }
            set(&mut object, &["metadata", "name"], name.into());
        }
        for field in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
        ] {
            unset(&mut object, &["metadata", field]);
        }
        set(&mut object, &["metadata", "uid"], moment.ids.uid().into());
        set(
            &mut object,
            &["metadata", "creationTimestamp"],
            moment.text(),
        );
        if resource == Resource::Pods {
            set(&mut object, &["metadata", "generation"], 1.into());
        }
        defaults::fill(resource, &mut object);
        if traits.has_status {
            unset(&mut object, &["status"]);
            if let Some(status) = defaults::first_status(resource, &object) {
                set(&mut object, &["status"], status);
            }
        }
        if resource == Resource::Services {
            self.give_address(&mut object);
        }
        let name = text(&object, &["metadata", "name"]).to_owned();
        let causes = validate::object(resource, &object);
        if !causes.is_empty() {
            return Err(ApiError::invalid(traits.kind, traits.group, &name, causes));
        }
        let key = Key::new(resource, namespace, &name);
        if self.get(&key).is_some() {
            return Err(ApiError::already_exists(traits.plural, traits.group, &name));
        }
        Ok(Answer::Object(self.put(key, object)?, true))
    }

    /// Nothing is created in a namespace that is not there, or on its way out.
    fn check_namespace(
        &self,
        resource: Resource,
        namespace: &str,
        name: &str,
    ) -> Result<(), ApiError> {
        let traits = resource.traits();
        let found = self.get(&Key::new(Resource::Namespaces, "", namespace));
        match found {
            None => Err(ApiError::not_found("namespaces", "", namespace)),
            Some(found) if found.is_terminating() => Err(ApiError::namespace_terminating(
                traits.plural,
                traits.group,
                name,
                namespace,
            )),
            Some(_) => Ok(()),
        }
    }

    /// A service that is not headless has an address of its own, which nothing answers at here.
    fn give_address(&self, service: &mut Value) {
        let kind = text(service, &["spec", "type"]);
        if kind == "ExternalName" || !text(service, &["spec", "clusterIP"]).is_empty() {
            return;
        }
        let next = self.resource_version() + 1;
        let address = format!("10.96.{}.{}", next / 254 % 256, next % 254 + 1);
        set(service, &["spec", "clusterIPs"], json!([address]));
        set(service, &["spec", "clusterIP"], address.into());
    }

    fn replace(
        &mut self,
        key: Key,
        part: Part,
        object: Value,
        moment: &mut Moment<'_>,
    ) -> Result<Answer, ApiError> {
        let traits = key.resource.traits();
        match self.get(&key).cloned() {
            Some(old) => Ok(Answer::Object(self.update(&old, part, object)?, false)),
            None if traits.creates_on_update && part == Part::Main => {
                let mut object = object;
                unset(&mut object, &["metadata", "resourceVersion"]);
                self.create(key.resource, &key.namespace.clone(), object, moment)
            }
            None => Err(ApiError::not_found(traits.plural, traits.group, &key.name)),
        }
    }

    fn patch(
        &mut self,
        key: &Key,
        part: Part,
        kind: PatchKind,
        patch: &Value,
        strict: bool,
    ) -> Result<Answer, ApiError> {
        let old = self.existing(key)?;
        let mut new = old.value().clone();
        kind.apply(&mut new, patch)?;
        let decoded = decode::object(key.resource, new)?;
        if strict {
            refuse_unknown(&decoded.unknown)?;
        }
        Ok(Answer::Object(
            self.update(&old, part, decoded.object)?,
            false,
        ))
    }

    /// Puts `new` in place of `old`, as far as the part that is written allows.
    pub(super) fn update(
        &mut self,
        old: &Arc<Object>,
        part: Part,
        mut new: Value,
    ) -> Result<Arc<Object>, ApiError> {
        let key = old.key();
        let traits = key.resource.traits();
        let version = text(&new, &["metadata", "resourceVersion"]);
        if !version.is_empty() && version != old.resource_version().to_string() {
            if version.parse::<u64>().is_err() {
                let cause = Cause::invalid(
                    "metadata.resourceVersion",
                    &version.into(),
                    "must be a number",
                );
                return Err(ApiError::invalid(
                    traits.kind,
                    traits.group,
                    &key.name,
                    vec![cause],
                ));
            }
            return Err(ApiError::modified(traits.plural, traits.group, &key.name));
        }
        let uid = text(&new, &["metadata", "uid"]);
        if !uid.is_empty() && uid != old.uid() {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                old.uid()
            );
            return Err(ApiError::conflict(
                traits.plural,
                traits.group,
                &key.name,
                &why,
            ));
        }
        keep_what_the_server_owns(old.value(), &mut new);
        match part {
            Part::Main => keep(old.value(), &mut new, &["status"], traits.has_status),
            Part::Status => {
                keep(old.value(), &mut new, &["spec"], true);
                keep(
                    old.value(),
                    &mut new,
                    &["metadata", "ownerReferences"],
                    key.resource == Resource::Pods,
                );
            }
        }
        if part == Part::Main {
            defaults::fill(key.resource, &mut new);
        }
        let mut causes = validate::object(key.resource, &new);
        causes.extend(validate::change(key.resource, old.value(), &new));
        if part == Part::Status && key.resource == Resource::Pods {
            validate_pod::status_change(old.value(), &new, &mut causes);
        }
        if !causes.is_empty() {
            return Err(ApiError::invalid(
                traits.kind,
                traits.group,
                &key.name,
                causes,
            ));
        }
        if old.value().get("spec") != new.get("spec")
            && let Some(generation) = at(&new, &["metadata", "generation"]).and_then(Value::as_i64)
        {
            set(
                &mut new,
                &["metadata", "generation"],
                (generation + 1).into(),
            );
        }
        if new == *old.value() {
            return Ok(old.clone());
        }
        self.settle(key, new)
    }

    /// Stores a changed object, or removes it if all that held it has let go.
    fn settle(&mut self, key: &Key, new: Value) -> Result<Arc<Object>, ApiError> {
        let before = self.existing(key)?;
        let grace = at(&new, &["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_i64);
        let held = !super::object::list(&new, &["metadata", "finalizers"]).is_empty();
        let is_namespace = key.resource == Resource::Namespaces;
        if before.is_terminating() && grace.unwrap_or(0) == 0 && !held && !is_namespace {
            // As on a real server the last event has the object as it was before the last one let go.
            self.remove(key);
            return Ok(Arc::new(Object::new(
                key.clone(),
                new,
                self.resource_version(),
            )));
        }
        self.put(key.clone(), new)
    }

    fn bind(
        &mut self,
        key: &Key,
        binding: &Value,
        moment: &Moment<'_>,
    ) -> Result<Answer, ApiError> {
        let name = text(binding, &["metadata", "name"]);
        if !name.is_empty() && name != &*key.name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Binding object",
            ));
        }
        let node = text(binding, &["target", "name"]);
        let kind = text(binding, &["target", "kind"]);
        let mut causes = Vec::new();
        if !matches!(kind, "" | "Node") {
            causes.push(Cause::not_supported(
                "target.kind",
                &kind.into(),
                &["Node", "<empty>"],
            ));
        }
        if node.is_empty() {
            causes.push(Cause::required("target.name", ""));
        }
        if !causes.is_empty() {
            return Err(ApiError::invalid("Binding", "", &key.name, causes));
        }
        let old = self.existing(key)?;
        let refused = |why: String| Err(ApiError::conflict("pods/binding", "", &key.name, &why));
        let uid = text(binding, &["metadata", "uid"]);
        if !uid.is_empty() && uid != old.uid() {
            let why = format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                old.uid()
            );
            return refused(why);
        }
        if old.is_terminating() {
            return refused(format!(
                "pod {} is being deleted, cannot be assigned to a host",
                key.name
            ));
        }
        let assigned = text(old.value(), &["spec", "nodeName"]);
        if !assigned.is_empty() {
            return refused(format!(
                "pod {} is already assigned to node \"{assigned}\"",
                key.name
            ));
        }
        let mut new = old.value().clone();
        set(&mut new, &["spec", "nodeName"], node.into());
        set_condition(&mut new, "PodScheduled", true, &moment.text());
        for (name, value) in at(binding, &["metadata", "annotations"])
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            set(&mut new, &["metadata", "annotations", name], value.clone());
        }
        self.put(key.clone(), new)?;
        Ok(Answer::Status(201, success(201, None)))
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

    fn report(&mut self, key: &Key, uid: &str, status: &Value) -> Result<Answer, ApiError> {
        let old = self.existing(key)?;
        if old.uid() != uid {
            return Err(ApiError::not_found("pods", "", &key.name));
        }
        let mut new = old.value().clone();
        for (field, value) in status.as_object().into_iter().flatten() {
            set(&mut new, &["status", field], value.clone());
        }
        if new == *old.value() {
            return Ok(Answer::Object(old, false));
        }
        Ok(Answer::Object(self.put(key.clone(), new)?, false))
    }

    fn evict(
        &mut self,
        key: &Key,
        options: &DeleteOptions,
        moment: &Moment<'_>,
    ) -> Result<Answer, ApiError> {
        let old = self.existing(key)?;
        delete::check_preconditions(&old, options)?;
        let mut new = old.value().clone();
        set_condition(&mut new, "DisruptionTarget", true, &moment.text());
        if let Some(condition) = new
            .pointer_mut("/status/conditions")
            .and_then(Value::as_array_mut)
            && let Some(condition) = condition
                .iter_mut()
                .find(|c| c["type"] == "DisruptionTarget")
        {
            condition["reason"] = "EvictionByEvictionAPI".into();
            condition["message"] = "Eviction API: evicting".into();
        }
        if !old.is_terminating() {
            self.put(key.clone(), new)?;
        }
        let options = DeleteOptions {
            resource_version: None,
            ..options.clone()
        };
        delete::one(self, key, &options, moment)?;
        Ok(Answer::Status(201, success(201, None)))
    }
}

/// Sets a condition of a pod, noting when it changed.
pub(super) fn set_condition(pod: &mut Value, kind: &str, holds: bool, now: &Value) {
    let status = if holds { "True" } else { "False" };
    if !at(pod, &["status", "conditions"]).is_some_and(Value::is_array) {
        set(pod, &["status", "conditions"], json!([]));
    }
    let Some(conditions) = pod
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut)
    else {
        return;
    };
    match conditions.iter_mut().find(|c| c["type"] == kind) {
        Some(condition) if condition["status"] == status => {}
        Some(condition) => {
            condition["status"] = status.into();
            condition["lastTransitionTime"] = now.clone();
        }
        None => conditions.push(json!({
            "type": kind,
            "status": status,
            "lastProbeTime": null,
            "lastTransitionTime": now,
        })),
    }
}

/// Refuses what the type lacks, where the client asked to be strict.
pub(super) fn refuse_unknown(unknown: &[String]) -> Result<(), ApiError> {
    if unknown.is_empty() {
        return Ok(());
    }
    let each: Vec<String> = unknown
        .iter()
        .map(|field| format!("unknown field \"{field}\""))
        .collect();
    Err(ApiError::bad_request(format!(
        "strict decoding error: {}",
        each.join(", ")
    )))
}

fn keep(old: &Value, new: &mut Value, path: &[&str], applies: bool) {
    if !applies {
        return;
    }
    match at(old, path) {
        Some(value) => set(new, path, value.clone()),
        None => {
            unset(new, path);
        }
    }
}

/// What a client may leave out, or not change without being told so.
fn keep_what_the_server_owns(old: &Value, new: &mut Value) {
    for field in ["resourceVersion", "uid", "creationTimestamp", "generation"] {
        keep(old, new, &["metadata", field], true);
    }
    // A deletion cannot be called off.
    keep(old, new, &["metadata", "deletionTimestamp"], true);
    keep(old, new, &["metadata", "deletionGracePeriodSeconds"], true);
    for field in ["name", "namespace"] {
        if at(new, &["metadata", field]).is_none() {
            keep(old, new, &["metadata", field], true);
        }
    }
}
