//! Strategic merge patch: a merge patch that merges lists by a key and knows directives. `$setElementOrder` is taken and
//! not followed: new items come last.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::api::status::ApiError;
use crate::objects::schema::Shape;

const PATCH: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const ORDER: &str = "$setElementOrder";

fn bad(message: &str) -> ApiError {
    ApiError::bad_request(message)
}

/// An error that a real server does not classify and passes on as internal.
fn internal(message: String) -> ApiError {
    ApiError::unclassified(message)
}

/// The field that a directive refers to.
fn directive_field<'a>(name: &'a str, directive: &str) -> Option<Option<&'a str>> {
    let rest = name.strip_prefix(directive)?;
    Some(rest.strip_prefix('/').filter(|field| !field.is_empty()))
}

pub fn merge(
    shape: &'static Shape,
    target: &mut Map<String, Value>,
    patch: &Map<String, Value>,
) -> Result<(), ApiError> {
    if let Some(directive) = patch.get(PATCH) {
        match directive.as_str() {
            Some("replace") => {
                *target = patch.clone();
                target.remove(PATCH);
            }
            Some("delete") => target.clear(),
            _ => return Err(unknown_directive(directive, patch)),
        }
        return Ok(());
    }
    retain(target, patch)?;
    for (name, value) in patch {
        if name == RETAIN || name.starts_with(ORDER) {
            continue;
        }
        if let Some(field) = directive_field(name, DELETE_FROM) {
            let field = field.ok_or_else(|| bad("invalid patch format of primitive list"))?;
            delete_values(target, field, value);
        } else if value.is_null() {
            target.remove(name);
        } else {
            merge_field(shape.field(name), target, name, value)?;
        }
    }
    Ok(())
}

fn unknown_directive(directive: &Value, patch: &Map<String, Value>) -> ApiError {
    internal(format!(
        "unknown patch type: {} in map: {}",
        directive.as_str().unwrap_or_default(),
        Value::Object(patch.clone())
    ))
}

fn merge_field(
    shape: &'static Shape,
    target: &mut Map<String, Value>,
    name: &str,
    patch: &Value,
) -> Result<(), ApiError> {
    let merged = match (target.remove(name), patch) {
        (Some(Value::Object(mut before)), Value::Object(patch)) => {
            merge(shape, &mut before, patch)?;
            Value::Object(before)
        }
        (Some(Value::Array(before)), Value::Array(patch)) => match shape.merge_key {
            Some(key) => merge_lists(shape, key, before, patch)?.into(),
            None => Value::Array(patch.clone()),
        },
        (_, patch) => plain(patch),
    };
    target.insert(name.to_owned(), merged);
    Ok(())
}

/// The value that a patch creates where nothing existed: without directives and null fields.
fn plain(patch: &Value) -> Value {
    match patch {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, value)| !is_directive(name) && !value.is_null())
            .map(|(name, value)| (name.clone(), plain(value)))
            .collect(),
        Value::Array(items) => items
            .iter()
            .filter(|item| item.get(PATCH).is_none())
            .map(plain)
            .collect(),
        scalar => scalar.clone(),
    }
}

fn is_directive(name: &str) -> bool {
    name == PATCH || name == RETAIN || name.starts_with(DELETE_FROM) || name.starts_with(ORDER)
}

/// Removes the fields that are not in the patch's `$retainKeys`, if it has them.
fn retain(target: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), ApiError> {
    let Some(kept) = patch.get(RETAIN) else {
        return Ok(());
    };
    let invalid = || bad("invalid patch format of retainKeys");
    let kept: BTreeSet<&str> = kept
        .as_array()
        .ok_or_else(invalid)?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for (name, value) in patch {
        if !is_directive(name) && !value.is_null() && !kept.contains(name.as_str()) {
            return Err(invalid());
        }
    }
    target.retain(|name, _| kept.contains(name.as_str()));
    Ok(())
}

fn delete_values(target: &mut Map<String, Value>, field: &str, gone: &Value) {
    if let (Some(Value::Array(list)), Value::Array(gone)) = (target.get_mut(field), gone) {
        list.retain(|value| !gone.contains(value));
    }
}

/// What identifies an item of a list: itself if it is a scalar.
fn key_of<'a>(item: &'a Value, key: &str) -> Option<&'a Value> {
    if key.is_empty() {
        return Some(item);
    }
    item.get(key)
}

fn merge_lists(
    shape: &'static Shape,
    key: &str,
    mut list: Vec<Value>,
    patch: &[Value],
) -> Result<Vec<Value>, ApiError> {
    if patch
        .iter()
        .any(|item| item.get(PATCH) == Some(&"replace".into()))
    {
        let plain = patch.iter().filter(|item| item.get(PATCH).is_none());
        return Ok(plain.cloned().collect());
    }
    for item in patch {
        let wanted = key_of(item, key).ok_or_else(|| {
            internal(format!(
                "map: {item} does not contain declared merge key: {key}"
            ))
        })?;
        let place = list.iter().position(|old| key_of(old, key) == Some(wanted));
        match (item.get(PATCH).map(Value::as_str), place) {
            (Some(Some("delete")), _) => list.retain(|old| key_of(old, key) != Some(wanted)),
            (Some(_), _) => {
                let none = Map::new();
                let fields = item.as_object().unwrap_or(&none);
                return Err(unknown_directive(&item[PATCH], fields));
            }
            (None, None) => list.push(plain(item)),
            (None, Some(place)) => {
                if let (Value::Object(old), Value::Object(patch)) = (&mut list[place], item) {
                    merge(shape, old, patch)?;
                }
            }
        }
    }
    Ok(list)
}

#[cfg(test)]
mod tests;
