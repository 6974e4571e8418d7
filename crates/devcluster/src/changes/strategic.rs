//! Strategic merge patch: a merge patch that merges lists by a key and knows directives.

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
    let mut ordered = BTreeSet::new();
    for (name, order) in patch {
        if let Some(field) = directive_field(name, ORDER) {
            let field = field.ok_or_else(|| bad("invalid patch format of setElementOrder list"))?;
            let merged = in_order(
                shape.field(field),
                target.get(field),
                patch.get(field),
                order,
            )?;
            if let Some(merged) = merged {
                target.insert(field.to_owned(), merged);
            }
            ordered.insert(field);
        }
    }
    for (name, value) in patch {
        if name == RETAIN || name.starts_with(ORDER) || ordered.contains(name.as_str()) {
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

fn required_key<'a>(item: &'a Value, key: &str) -> Result<&'a Value, ApiError> {
    key_of(item, key).ok_or_else(|| {
        internal(format!(
            "map: {item} does not contain declared merge key: {key}"
        ))
    })
}

fn find(list: &[Value], key: &str, wanted: &Value) -> Option<usize> {
    list.iter()
        .position(|item| key_of(item, key) == Some(wanted))
}

fn merge_lists(
    shape: &'static Shape,
    key: &str,
    before: Vec<Value>,
    patch: &[Value],
) -> Result<Vec<Value>, ApiError> {
    let kinds = |v: &Value| std::mem::discriminant(v);
    let mut all = before.iter().chain(patch);
    if let Some(first) = all.next() {
        if first.is_array() {
            return Err(ApiError::unprocessable("lists of lists are not supported"));
        }
        if all.any(|value| kinds(value) != kinds(first)) {
            return Err(internal("list element types are not identical".into()));
        }
    }
    let (merged, plain) = merge_items(shape, key, before.clone(), patch)?;
    let keys = plain.iter().map(|item| required_key(item, key));
    let order: Vec<&Value> = keys.collect::<Result<_, _>>()?;
    Ok(arrange(merged, &before, key, &order))
}

/// The merged items, unordered, and the items of the patch that are no directives.
fn merge_items<'a>(
    shape: &'static Shape,
    key: &str,
    mut list: Vec<Value>,
    patch: &'a [Value],
) -> Result<(Vec<Value>, Vec<&'a Value>), ApiError> {
    let mut plain = Vec::new();
    let mut replaces = false;
    for item in patch {
        match item.get(PATCH) {
            None => plain.push(item),
            Some(Value::String(directive)) if directive == "delete" => {
                let gone = required_key(item, key)?;
                list.retain(|old| old.get(key) != Some(gone));
            }
            Some(Value::String(directive)) if directive == "replace" => replaces = true,
            Some(Value::String(directive)) if directive == "merge" => {
                return Err(internal(
                    "merging lists cannot yet be specified in the patch".into(),
                ));
            }
            Some(directive) => {
                return Err(unknown_directive(
                    directive,
                    item.as_object().unwrap_or(&Map::new()),
                ));
            }
        }
    }
    if replaces {
        return Ok((plain.iter().map(|item| (*item).clone()).collect(), plain));
    }
    for item in &plain {
        let wanted = required_key(item, key)?;
        match (find(&list, key, wanted), item.as_object()) {
            (Some(place), Some(patch)) => {
                if let Some(old) = list.get_mut(place).and_then(Value::as_object_mut) {
                    merge(shape, old, patch)?;
                }
            }
            (Some(_), None) => {}
            (None, _) => list.push(self::plain(item)),
        }
    }
    Ok((list, plain))
}

/// The list after a patch with `$setElementOrder`.
fn in_order(
    shape: &'static Shape,
    before: Option<&Value>,
    patch: Option<&Value>,
    order: &Value,
) -> Result<Option<Value>, ApiError> {
    let wrong = || bad("invalid patch format of setElementOrder list");
    let Some(order) = order.as_array() else {
        return Err(wrong());
    };
    let list = |value: Option<&Value>| match value {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list.clone())),
        Some(_) => Err(wrong()),
    };
    let (before, patch) = (list(before)?, list(patch)?);
    let key = shape.merge_key.unwrap_or_default();
    let keys = order.iter().map(|item| required_key(item, key));
    let order: Vec<&Value> = keys.collect::<Result<_, _>>()?;
    check_order(patch.as_deref().unwrap_or_default(), &order, key)?;
    let merged = match (&before, patch) {
        (None, None) => return Ok(None),
        (Some(before), None) => before.clone(),
        (None, Some(patch)) => patch,
        (Some(before), Some(patch)) => match shape.merge_key {
            Some(key) => merge_items(shape, key, before.clone(), &patch)?.0,
            None => patch,
        },
    };
    let before = before.unwrap_or_default();
    Ok(Some(arrange(merged, &before, key, &order).into()))
}

/// Checks that the items of the patch are in the order that it sets.
fn check_order(patch: &[Value], order: &[&Value], key: &str) -> Result<(), ApiError> {
    if order.is_empty() {
        return Ok(());
    }
    let mut places = order.iter();
    for item in patch.iter().filter(|item| item.get(PATCH).is_none()) {
        let wanted = required_key(item, key)?;
        if !places.any(|place| *place == wanted) {
            let show = |list: &[Value]| Value::Array(list.to_vec()).to_string();
            let order: Vec<Value> = order.iter().map(|v| (*v).clone()).collect();
            return Err(internal(format!(
                "The order in patch list:\n{}\n doesn't match {ORDER} list:\n{}\n",
                show(patch),
                show(&order)
            )));
        }
    }
    Ok(())
}

/// Orders the items: those in `order` accordingly, the others in their relative place before.
fn arrange(merged: Vec<Value>, before: &[Value], key: &str, order: &[&Value]) -> Vec<Value> {
    let place = |item: &Value| {
        let own = key_of(item, key)?;
        order.iter().position(|wanted| *wanted == own)
    };
    let was_at = |item: &Value| find(before, key, key_of(item, key)?);
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| place(item).is_some());
    named.sort_by_key(|item| place(item));
    others.sort_by_key(|item| was_at(item).unwrap_or(usize::MAX));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    // Two items that existed before keep their order; otherwise items named in `order` go first.
    while let (Some(a), Some(b)) = (named.peek(), others.peek()) {
        let named_first = match (was_at(a), was_at(b)) {
            (Some(a), Some(b)) => a < b,
            _ => true,
        };
        out.extend(if named_first {
            named.next()
        } else {
            others.next()
        });
    }
    out.extend(named);
    out.extend(others);
    out
}

#[cfg(test)]
mod tests;
