//! Changing an object that is there.

use std::sync::Arc;

use serde_json::Value;

use super::decode;
use super::defaults;
use super::object::{Key, Object, at, list, set, text, unset};
use super::patch::PatchKind;
use super::resource::Resource;
use super::status::{ApiError, Cause};
use super::store::State;
use super::write::{Answer, Moment, Part, refuse_unknown};
use super::{validate, validate_pod};

impl State {
    pub(super) fn replace(
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

    pub(super) fn patch(
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
        let decoded = decode::object(key.resource, new).and_then(|decoded| {
            if strict {
                refuse_unknown(&decoded.unknown)?;
            }
            Ok(decoded)
        });
        // What a patch leads to is the patch's fault, field by field, unlike a body that is no object.
        let decoded = decoded.map_err(|error| {
            let cause = Cause::invalid("patch", &patch.to_string().into(), &error.message);
            ApiError::invalid("", "", "", vec![cause])
        })?;
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
        let held = !list(&new, &["metadata", "finalizers"]).is_empty();
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
