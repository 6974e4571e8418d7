//! Operations on values by their shape: the fields they set, the difference of two values, and merges.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::field_set::{FieldSet, field_step, item_step};
use crate::objects::messages;
use crate::objects::schema::Shape;

/// Whether the items of a list have owners of their own.
fn has_items(shape: &Shape) -> bool {
    matches!(shape, Shape::Set) || shape.keyed().is_some()
}

/// The items of a list with their path elements, in order, without duplicates.
fn items<'a>(shape: &Shape, list: &'a [Value]) -> Vec<(String, &'a Value)> {
    let mut seen = BTreeSet::new();
    list.iter()
        .filter_map(|item| Some((item_step(shape, item).ok()?, item)))
        .filter(|(step, _)| seen.insert(step.clone()))
        .collect()
}

pub fn fields(shape: &'static Shape, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match value {
        _ if matches!(shape, Shape::Atomic) => set.member = true,
        Value::Object(object) => {
            for (name, value) in object {
                let mut part = fields(shape.field(name), value);
                let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                part.member |= empty || matches!(shape, Shape::Map);
                if !part.is_empty() {
                    set.below.insert(field_step(name), part);
                }
            }
        }
        Value::Array(list) if has_items(shape) => {
            for (step, item) in items(shape, list) {
                let mut part = fields(shape.item(), item);
                part.member = true;
                set.below.insert(step, part);
            }
        }
        _ => set.member = true,
    }
    set
}

#[derive(Debug, Default)]
pub struct Difference {
    /// Fields that only the new value has.
    pub added: FieldSet,
    /// Fields that both have with different values.
    pub modified: FieldSet,
    /// Fields that only the old value has.
    pub removed: FieldSet,
}

pub fn compare(shape: &'static Shape, old: &Value, new: &Value) -> Difference {
    let mut difference = Difference::default();
    difference.walk(shape, Some(old), Some(new), &mut Vec::new());
    difference
}

fn object_or_nothing(value: Option<&Value>) -> Option<Option<&Map<String, Value>>> {
    match value {
        None | Some(Value::Null) => Some(None),
        Some(Value::Object(object)) => Some(Some(object)),
        Some(_) => None,
    }
}

fn list_or_nothing(value: Option<&Value>) -> Option<&[Value]> {
    match value {
        None | Some(Value::Null) => Some(&[]),
        Some(Value::Array(list)) => Some(list),
        Some(_) => None,
    }
}

impl Difference {
    fn walk(
        &mut self,
        shape: &'static Shape,
        old: Option<&Value>,
        new: Option<&Value>,
        path: &mut Vec<String>,
    ) {
        if old == new {
            return;
        }
        if matches!(shape, Shape::Atomic) {
            return self.leaf(old, new, path);
        }
        if has_items(shape)
            && let (Some(before), Some(after)) = (list_or_nothing(old), list_or_nothing(new))
        {
            if before.is_empty() && after.is_empty() {
                return self.leaf(old, new, path);
            }
            let before: BTreeMap<_, _> = items(shape, before).into_iter().collect();
            let after: BTreeMap<_, _> = items(shape, after).into_iter().collect();
            let steps: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for step in steps {
                path.push(step.clone());
                let (before, after) = (before.get(step).copied(), after.get(step).copied());
                self.walk(shape.item(), before, after, path);
                path.pop();
            }
        } else if let (Some(before), Some(after)) = (object_or_nothing(old), object_or_nothing(new))
        {
            let is_empty =
                |object: Option<&Map<String, Value>>| object.is_none_or(serde_json::Map::is_empty);
            if is_empty(before) && is_empty(after) {
                return self.leaf(old, new, path);
            }
            let names: BTreeSet<&String> = before
                .into_iter()
                .chain(after)
                .flat_map(Map::keys)
                .collect();
            for name in names {
                path.push(field_step(name));
                let (before, after) = (
                    before.and_then(|o| o.get(name)),
                    after.and_then(|o| o.get(name)),
                );
                self.walk(shape.field(name), before, after, path);
                path.pop();
            }
        } else {
            return self.leaf(old, new, path);
        }
        // A parent is itself added with its first child, and removed with its last one.
        if old.is_none() || new.is_none() {
            self.leaf(old, new, path);
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>, path: &[String]) {
        match (old, new) {
            (None, _) => self.added.insert(path),
            (_, None) => self.removed.insert(path),
            _ => self.modified.insert(path),
        }
    }
}

/// `live` with everything that `config` sets.
pub fn merge(shape: &'static Shape, live: &Value, config: &Value) -> Value {
    match (live, config) {
        _ if matches!(shape, Shape::Atomic) => config.clone(),
        (Value::Object(live), Value::Object(config)) => {
            let mut merged = live.clone();
            for (name, value) in config {
                let value = match live.get(name) {
                    Some(before) => merge(shape.field(name), before, value),
                    None => value.clone(),
                };
                merged.insert(name.clone(), value);
            }
            Value::Object(merged)
        }
        (Value::Array(live), Value::Array(config)) if has_items(shape) => {
            merge_lists(shape, live, config).into()
        }
        (Value::Object(_), Value::Null) => live.clone(),
        (Value::Array(_), Value::Null) if has_items(shape) => live.clone(),
        _ => config.clone(),
    }
}

/// The items of both lists, in the order of `config`. Items that only `live` has keep their place among the others.
fn merge_lists(shape: &'static Shape, live: &[Value], config: &[Value]) -> Vec<Value> {
    let live = items(shape, live);
    let config = items(shape, config);
    let old: BTreeMap<&String, &Value> = live.iter().map(|(step, item)| (step, *item)).collect();
    let new: BTreeSet<&String> = config.iter().map(|(step, _)| step).collect();
    let merged = |step: &String, item: &Value| match old.get(step) {
        Some(before) => merge(shape.item(), before, item),
        None => item.clone(),
    };
    let mut shared = config
        .iter()
        .map(|(s, _)| s)
        .filter(|s| old.contains_key(s));
    let mut next_shared = shared.next();
    let mut out = Vec::new();
    let (mut l, mut c) = (0, 0);
    while l < live.len() || c < config.len() {
        if let (Some((here, _)), Some((there, item))) = (live.get(l), config.get(c)) {
            if here == there {
                out.push(merged(there, item));
                (l, c) = (l + 1, c + 1);
                next_shared = shared.next();
                continue;
            }
            if new.contains(here) && next_shared.is_some_and(|next| next != here) {
                l += 1;
                continue;
            }
        }
        if let Some((here, item)) = live.get(l)
            && !new.contains(here)
        {
            out.push((*item).clone());
            l += 1;
            continue;
        }
        match config.get(c) {
            Some((there, item)) => {
                out.push(merged(there, item));
                c += 1;
                if next_shared == Some(there) {
                    next_shared = shared.next();
                }
            }
            None => l += 1,
        }
    }
    out
}

/// The value without some of its fields; `Null` if none is left.
pub fn without(shape: &'static Shape, value: &Value, gone: &FieldSet) -> Value {
    match value {
        _ if matches!(shape, Shape::Atomic) => Value::Null,
        Value::Object(object) => {
            let mut left = Map::new();
            for (name, value) in object {
                let step = field_step(name);
                match gone.below.get(&step) {
                    Some(part) if part.member => {}
                    Some(part) => {
                        left.insert(name.clone(), without(shape.field(name), value, part));
                    }
                    None => {
                        left.insert(name.clone(), value.clone());
                    }
                }
            }
            match left.is_empty() {
                true => Value::Null,
                false => Value::Object(left),
            }
        }
        Value::Array(list) if has_items(shape) => {
            let mut left = Vec::new();
            for item in list {
                let part = item_step(shape, item)
                    .ok()
                    .and_then(|step| gone.below.get(&step));
                match part {
                    Some(part) if part.member => {}
                    Some(part) => left.push(without(shape.item(), item, part)),
                    None => left.push(item.clone()),
                }
            }
            match left.is_empty() {
                true => Value::Null,
                false => Value::Array(left),
            }
        }
        Value::Array(_) => Value::Null,
        scalar => scalar.clone(),
    }
}

/// The lists whose items cannot be identified, and why.
pub fn mistakes(shape: &'static Shape, value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find_mistakes(shape, value, &mut String::new(), &mut found);
    found
}

fn find_mistakes(shape: &'static Shape, value: &Value, path: &mut String, found: &mut Vec<String>) {
    let before = path.len();
    match value {
        _ if matches!(shape, Shape::Atomic) => {}
        Value::Object(object) => {
            for (name, value) in object {
                super::field_set::readable(&field_step(name), path);
                find_mistakes(shape.field(name), value, path, found);
                path.truncate(before);
            }
        }
        Value::Array(list) if has_items(shape) => {
            let mut seen = BTreeSet::new();
            for (i, item) in list.iter().enumerate() {
                let step = match item_step(shape, item) {
                    Ok(step) => step,
                    Err(why) => {
                        messages::add(found, format_args!("{path}: element {i}: {why}"));
                        return;
                    }
                };
                let mut readable = String::new();
                super::field_set::readable(&step, &mut readable);
                if !seen.insert(step) {
                    let twice = format_args!("{path}: duplicate entries for key {readable}");
                    messages::add(found, twice);
                }
                path.push_str(&readable);
                find_mistakes(shape.item(), item, path, found);
                path.truncate(before);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
