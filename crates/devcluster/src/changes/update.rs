//! Updates existing objects: PUT, PATCH and the final removal of terminating objects.

use std::sync::Arc;

use serde_json::Value;

use super::patch::PatchKind;
use super::quota;
use super::resize;
use super::write::{Answer, Part, WriteContext};
use crate::api::decode;
use crate::api::status::{ApiError, Causes};
use crate::objects::kinds;
use crate::objects::object::{Key, Object, at, list, number, set, text, unset};
use crate::objects::resource::Resource;
use crate::storage::store::State;
use crate::validation::defaults;
use crate::validation::validate;

impl State {
    pub(crate) fn replace(
        &mut self,
        key: Key,
        part: Part,
        object: Value,
        context: &mut WriteContext<'_>,
    ) -> Result<Answer, ApiError> {
        let traits = key.resource.traits();
        let mut object = object;
        if text(&object, &["metadata", "resourceVersion"]) == "0" {
            unset(&mut object, &["metadata", "resourceVersion"]);
        }
        let Some(old) = self.get(&key).cloned() else {
            if !traits.creates_on_update || part != Part::Main {
                return Err(key.not_found());
            }
            unset(&mut object, &["metadata", "resourceVersion"]);
            return self.create(key.resource, &key.namespace, object, context);
        };
        let uid = text(&object, &["metadata", "uid"]);
        if !uid.is_empty() && uid != old.uid() {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                registry_key(&key),
                old.uid()
            );
            return Err(key.conflict(&why));
        }
        if text(&object, &["metadata", "resourceVersion"]).is_empty()
            && !takes_any_version(traits.kind)
        {
            let why = "must be specified for an update";
            let causes = Causes::of(|c| c.invalid("metadata.resourceVersion", 0, why));
            causes.check(traits.plural, traits.group, &key.name)?;
        }
        let object = self.update(&old, part, object)?;
        Ok(Answer::Object(object, false))
    }

    pub(crate) fn patch(
        &mut self,
        key: &Key,
        part: Part,
        kind: PatchKind,
        patch: &Value,
        strict: bool,
        context: &mut WriteContext<'_>,
    ) -> Result<Answer, ApiError> {
        let old = self.existing(key)?;
        let mut patched = old.value().clone();
        kind.apply(key.resource, &mut patched, patch)?;
        // An invalid result is reported as invalid fields (422), unlike a malformed body (400).
        let refused = |patched: &Value, why: &str| {
            let shown = match kind {
                PatchKind::Strategic => go_text(patch),
                PatchKind::Merge | PatchKind::Json => patched.to_string(),
            };
            let causes = Causes::of(|causes| causes.invalid("patch", shown, why));
            ApiError::invalid("", "", "", causes)
        };
        let decoded = decode::object(key.resource, patched.clone())
            .map_err(|error| refused(&patched, &error.why))?;
        let mut odd = decoded.unknown;
        if strict && !odd.is_empty() {
            let why = format!("strict decoding error: {}", odd.join(", "));
            return Err(refused(&patched, &why));
        }
        if context.caller.is_some_and(|caller| caller.is_warned) {
            context.warnings.append(&mut odd);
        }
        let mut new = decoded.object;
        check_place(key, &mut new)?;
        let object = self.update(&old, part, new)?;
        Ok(Answer::Object(object, false))
    }

    /// Replaces the written part of `old` with that of `new`.
    pub(crate) fn update(
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
                let why = "must be a number";
                key.check(Causes::of(|c| {
                    c.invalid("metadata.resourceVersion", version, why)
                }))?;
            }
            return Err(ApiError::modified(traits.plural, traits.group, &key.name));
        }
        let is_pod = key.resource == Resource::Pods;
        if part == Part::Resize {
            new = resize::of(old.value(), &new);
        }
        if part == Part::Main {
            kinds::keep_assigned(key.resource, old.value(), &mut new);
            defaults::fill(key.resource, &mut new);
        }
        keep_server_fields(old.value(), &mut new);
        let is_namespace = key.resource == Resource::Namespaces;
        match part {
            Part::Main => {
                keep(old.value(), &mut new, &["status"], traits.has_status);
                keep(old.value(), &mut new, &["spec", "finalizers"], is_namespace);
            }
            Part::Status => {
                keep(old.value(), &mut new, &["spec"], true);
                if at(&new, &["status", "qosClass"]).is_none() {
                    keep(old.value(), &mut new, &["status", "qosClass"], is_pod);
                }
                keep(
                    old.value(),
                    &mut new,
                    &["metadata", "ownerReferences"],
                    is_pod,
                );
            }
            Part::Resize => {}
        }
        if part == Part::Main {
            defaults::admit(key.resource, &mut new);
        }
        key.check(validate::change(key.resource, part, old.value(), &new))?;
        if part == Part::Resize {
            for (key, quota) in quota::admit_change(self, key, old.value(), &new)? {
                self.put(key, quota)?;
            }
        }
        if old.value().get("spec") != new.get("spec")
            && let Some(generation) = number(&new, &["metadata", "generation"])
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

    /// Stores a changed object, or removes it if it is terminating and has no finalizer left.
    fn settle(&mut self, key: &Key, new: Value) -> Result<Arc<Object>, ApiError> {
        let before = self.existing(key)?;
        let grace = number(&new, &["metadata", "deletionGracePeriodSeconds"]);
        let has_finalizers = !list(&new, &["metadata", "finalizers"]).is_empty();
        // Namespaces have finalizers in their spec as well.
        let is_held = has_finalizers || !list(&new, &["spec", "finalizers"]).is_empty();
        if before.is_terminating() && grace.unwrap_or(0) == 0 && !is_held {
            // As on real servers, the final event has the object as it was before the last finalizer was removed.
            self.remove(key);
            return Ok(Arc::new(before.next(new, self.resource_version())));
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

/// Copies the fields that a client may omit, or whose changes are silently ignored.
fn keep_server_fields(old: &Value, new: &mut Value) {
    for field in ["resourceVersion", "creationTimestamp", "generation"] {
        keep(old, new, &["metadata", field], true);
    }
    // A deletion cannot be cancelled.
    keep(old, new, &["metadata", "deletionTimestamp"], true);
    keep(old, new, &["metadata", "deletionGracePeriodSeconds"], true);
    for field in ["name", "namespace", "uid"] {
        if at(new, &["metadata", field]).is_none() {
            keep(old, new, &["metadata", field], true);
        }
    }
}

/// The key of an object in a real server's storage, which some error messages contain.
fn registry_key(key: &Key) -> String {
    let plural = match key.resource.traits().plural {
        "services" => "services/specs",
        "nodes" => "minions",
        plural => plural,
    };
    match &*key.namespace {
        "" => format!("/registry/{plural}/{}", key.name),
        namespace => format!("/registry/{plural}/{namespace}/{}", key.name),
    }
}

/// Whether an update of this kind may omit the resource version.
fn takes_any_version(kind: &str) -> bool {
    !matches!(
        kind,
        "Lease" | "PodDisruptionBudget" | "ServiceAccount" | "Workload" | "ResourceFlavor"
    )
}

/// Checks that the object is the one that the path addresses, and fills in an omitted namespace.
pub(crate) fn check_place(key: &Key, object: &mut Value) -> Result<(), ApiError> {
    let namespace = text(object, &["metadata", "namespace"]);
    if namespace.is_empty() {
        if !key.namespace.is_empty() {
            set(object, &["metadata", "namespace"], (*key.namespace).into());
        }
    } else if key.namespace.is_empty() {
        unset(object, &["metadata", "namespace"]);
    } else if namespace != &*key.namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let (given, name) = (text(object, &["metadata", "name"]), &key.name);
    if given == &**name {
        return Ok(());
    }
    Err(ApiError::bad_request(if given.is_empty() {
        format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    } else {
        format!("the name of the object ({given}) does not match the name on the URL ({name})")
    }))
}

/// Formats a value as Go prints a strategic merge patch.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let each: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", each.join(" "))
        }
        Value::Object(fields) => {
            let each: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{name}:{}", go_text(value)))
                .collect();
            format!("map[{}]", each.join(" "))
        }
        scalar => scalar.to_string(),
    }
}
