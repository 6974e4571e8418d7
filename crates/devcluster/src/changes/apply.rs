//! Server-side apply: merges the applied configuration into the live object, and removes what its manager no longer
//! applies.

use serde_json::Value;

use super::field_owners;
use super::field_set::{field_step, item_step, readable};
use super::structured;
use super::update::{Owners, check_place};
use super::write::{Answer, Part, WriteContext};
use crate::api::decode;
use crate::api::status::ApiError;
use crate::objects::messages;
use crate::objects::object::{Key, at, set, text, unset};
use crate::objects::resource::Resource;
use crate::objects::schema::{self, Shape};
use crate::storage::store::State;

/// The field manager for which real servers maintain the annotation of client-side apply.
const KUBECTL: &str = "kubectl";

/// The annotation in which client-side apply stores the last applied configuration.
const LAST_APPLIED: [&str; 3] = [
    "metadata",
    "annotations",
    "kubectl.kubernetes.io/last-applied-configuration",
];

/// The applied configuration as that annotation stores it.
fn last_applied(config: &Value) -> String {
    let mut config = config.clone();
    unset(&mut config, &LAST_APPLIED);
    format!("{config}\n")
}

impl State {
    pub(crate) fn apply(
        &mut self,
        key: &Key,
        part: Part,
        config: &Value,
        force: bool,
        context: &mut WriteContext<'_>,
    ) -> Result<Answer, ApiError> {
        check_kind(key.resource, config)?;
        let old = self.get(key).cloned();
        if old.is_none() && part == Part::Status {
            return Err(key.not_found());
        }
        check_config(key.resource, config)?;
        let Some(caller) = context.caller else {
            return Err(ApiError::bad_request("server-side apply needs a client"));
        };
        let now = super::write::seconds(context.now);
        let change = field_owners::change(key.resource, part, caller, &now);
        let blank = field_owners::blank(config);
        let live = old.as_ref().map_or(&blank, |old| old.value());
        let mut managed = old.as_deref().map(field_owners::of).unwrap_or_default();
        if let Some(old) = &old
            && managed.is_empty()
        {
            managed.own_existing_fields(&change, &field_owners::blank(old.value()), old.value());
        }
        let mut new = match managed.apply(&change, live, config, force)? {
            Some(new) => typed(key.resource, new)?,
            None => live.clone(),
        };
        if caller.manager == KUBECTL && at(&new, &LAST_APPLIED).is_some() {
            set(&mut new, &LAST_APPLIED, last_applied(config).into());
        }
        if old.is_none() && !text(&new, &["metadata", "uid"]).is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {}, and no existing object was found",
                text(&new, &["metadata", "uid"])
            );
            return Err(key.conflict(&why));
        }
        check_place(key, &mut new)?;
        set(&mut new, &["metadata", "managedFields"], managed.to_value());
        match old {
            Some(old) => {
                let object = self.update(&old, part, new, Owners::Known, context)?;
                Ok(Answer::Object(object, false))
            }
            None => {
                unset(&mut new, &["metadata", "resourceVersion"]);
                self.create(key.resource, &key.namespace, new, Owners::Known, context)
            }
        }
    }
}

fn check_kind(resource: Resource, config: &Value) -> Result<(), ApiError> {
    let traits = resource.traits();
    let (version, kind) = (text(config, &["apiVersion"]), text(config, &["kind"]));
    if !config.is_object() {
        return Err(ApiError::bad_request(
            "error decoding YAML: an object is applied, and this is none",
        ));
    }
    if kind != traits.kind || version != traits.api_version {
        let of = group_version_kind(version, kind);
        return Err(ApiError::bad_request(format!("invalid object type: {of}")));
    }
    if at(config, &["metadata", "managedFields"]).is_some_and(|managed| !managed.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    Ok(())
}

/// The group, version and kind as real servers print them: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`.
fn group_version_kind(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

/// Validates that every field of the configuration exists in its type.
fn check_config(resource: Resource, config: &Value) -> Result<(), ApiError> {
    let shape = schema::of(resource.traits().kind);
    let mut mistakes = Vec::new();
    match resource.typed(config) {
        Ok(typed) => undeclared(shape, config, &typed, &mut String::new(), &mut mistakes),
        Err(mistyped) => mistakes.push(mistyped.in_configuration()),
    }
    mistakes.extend(structured::mistakes(shape, config));
    let why = match mistakes.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        many => format!("errors:\n  {}", many.join("\n  ")),
    };
    Err(refused(config, &why))
}

fn refused(config: &Value, why: &str) -> ApiError {
    let of = group_version_kind(text(config, &["apiVersion"]), text(config, &["kind"]));
    let (namespace, name) = (
        text(config, &["metadata", "namespace"]),
        text(config, &["metadata", "name"]),
    );
    ApiError::unclassified(format!(
        "failed to create typed patch object ({namespace}/{name}; {of}): {why}"
    ))
}

/// Collects the first unknown field of each object.
fn undeclared(
    shape: &'static Shape,
    given: &Value,
    typed: &Value,
    path: &mut String,
    mistakes: &mut Vec<String>,
) {
    let before = path.len();
    match (given, typed) {
        (Value::Object(given), Value::Object(typed)) => {
            for (name, value) in given {
                readable(&field_step(name), path);
                match typed.get(name) {
                    Some(typed) => undeclared(shape.field(name), value, typed, path, mistakes),
                    None if value.is_null() => {}
                    None => {
                        messages::add(
                            mistakes,
                            format_args!("{path}: field not declared in schema"),
                        );
                        path.truncate(before);
                        return;
                    }
                }
                path.truncate(before);
            }
        }
        (Value::Array(given), Value::Array(typed)) => {
            for (i, (given, typed)) in given.iter().zip(typed).enumerate() {
                let keyed = shape.keyed().and_then(|_| item_step(shape, given).ok());
                let step = keyed.unwrap_or_else(|| format!("i:{i}"));
                readable(&step, path);
                undeclared(shape.item(), given, typed, path, mistakes);
                path.truncate(before);
            }
        }
        _ => {}
    }
}

fn typed(resource: Resource, merged: Value) -> Result<Value, ApiError> {
    decode::object(resource, merged)
        .map(|decoded| decoded.object)
        .map_err(|error| ApiError::unclassified(error.why))
}
