//! Sets of field paths, in the form of `fieldsV1`: which fields a manager owns or a write has changed.
//!
//! A set is a tree of path elements. An element is written as in `fieldsV1` of managed fields: `f:name` is a field,
//! `k:{…}` an item of a list by its keys, `v:…` an item of a set by its value.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::objects::schema::Shape;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Whether the field at this node of the tree is itself in the set.
    pub member: bool,
    /// The children by path element. No child is empty.
    pub below: BTreeMap<String, FieldSet>,
}

impl FieldSet {
    pub fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }

    pub fn insert(&mut self, path: &[String]) {
        let mut here = self;
        for step in path {
            here = here.below.entry(step.clone()).or_default();
        }
        here.member = true;
    }

    pub fn add(&mut self, other: &Self) {
        self.member |= other.member;
        for (step, theirs) in &other.below {
            match self.below.get_mut(step) {
                Some(ours) => ours.add(theirs),
                None => {
                    self.below.insert(step.clone(), theirs.clone());
                }
            }
        }
    }

    pub fn minus(&self, other: &Self) -> Self {
        let below = self.below.iter().map(|(step, ours)| {
            let left = match other.below.get(step) {
                Some(theirs) => ours.minus(theirs),
                None => ours.clone(),
            };
            (step.clone(), left)
        });
        Self {
            member: self.member && !other.member,
            below: below.filter(|(_, left)| !left.is_empty()).collect(),
        }
    }

    pub fn and(&self, other: &Self) -> Self {
        let below = self.below.iter().filter_map(|(step, ours)| {
            let both = ours.and(other.below.get(step)?);
            (!both.is_empty()).then(|| (step.clone(), both))
        });
        Self {
            member: self.member && other.member,
            below: below.collect(),
        }
    }

    /// Removes a field and everything below it.
    pub fn cut(&mut self, path: &[&str]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        if rest.is_empty() {
            self.below.remove(*first);
        } else if let Some(below) = self.below.get_mut(*first) {
            below.cut(rest);
            if below.is_empty() {
                self.below.remove(*first);
            }
        }
    }

    /// The set with the parents of its fields added, if they are fields of a type; not items of lists or keys of maps.
    pub fn with_named_fields(&self, shape: &'static Shape) -> Self {
        let below = self.below.iter().map(|(step, part)| {
            let named = step.starts_with("f:") && !matches!(shape, Shape::Map);
            let mut part = part.with_named_fields(below(shape, step));
            part.member |= named && !part.below.is_empty();
            (step.clone(), part)
        });
        Self {
            member: self.member,
            below: below.collect(),
        }
    }

    /// The path of each field, as error messages show it: `.spec.containers[name="c"].image`.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect(&mut String::new(), &mut paths);
        paths
    }

    fn collect(&self, path: &mut String, paths: &mut Vec<String>) {
        if self.member && !path.is_empty() {
            paths.push(path.clone());
        }
        let before = path.len();
        for (step, part) in &self.below {
            readable(step, path);
            part.collect(path, paths);
            path.truncate(before);
        }
    }

    /// Parses `fieldsV1`; elements that cannot be parsed are omitted.
    pub fn from_value(fields: &Value) -> Self {
        let mut set = Self::default();
        for (step, below) in fields.as_object().into_iter().flatten() {
            if step == "." {
                set.member = true;
                continue;
            }
            let mut part = Self::from_value(below);
            part.member |= part.below.is_empty();
            set.below.insert(step.clone(), part);
        }
        set
    }

    pub fn to_value(&self) -> Value {
        let mut fields = Map::new();
        if self.member && !self.below.is_empty() {
            fields.insert(".".into(), Value::Object(Map::new()));
        }
        for (step, part) in &self.below {
            fields.insert(step.clone(), part.to_value());
        }
        Value::Object(fields)
    }
}

/// The shape of what a path element leads to.
pub fn below(shape: &'static Shape, step: &str) -> &'static Shape {
    match step.strip_prefix("f:") {
        Some(name) => shape.field(name),
        None => shape.item(),
    }
}

pub fn field_step(name: &str) -> String {
    format!("f:{name}")
}

/// The path element of a list item, or why it has none.
pub fn item_step(shape: &Shape, item: &Value) -> Result<String, String> {
    let Some(keyed) = shape.keyed() else {
        return match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".into())
            }
            Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
            Value::Null => {
                Err("associative list without keys has an element that's an explicit null".into())
            }
            value => Ok(format!("v:{value}")),
        };
    };
    let Some(fields) = item.as_object() else {
        let what = if item.is_null() {
            "a null element"
        } else {
            "non-map elements"
        };
        return Err(format!("associative list with keys may not have {what}"));
    };
    let mut keys = Map::new();
    for (name, default) in keyed.keys {
        let value = match (fields.get(*name), default) {
            (Some(value), _) => value.clone(),
            (None, Some(default)) => (*default).into(),
            (None, None) => {
                return Err(format!(
                    "associative list with keys has an element that omits key field \"{name}\" (and doesn't have default value)"
                ));
            }
        };
        keys.insert((*name).to_owned(), value);
    }
    Ok(format!("k:{}", Value::Object(keys)))
}

/// Appends a path element as error messages show it.
pub fn readable(step: &str, path: &mut String) {
    // Writing into a `String` cannot fail.
    let _ = match step.split_at_checked(2) {
        Some(("f:", name)) => write!(path, ".{name}"),
        Some(("v:", value)) => write!(path, "[={value}]"),
        Some(("k:", keys)) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let each: Vec<String> = keys.iter().map(|(k, v)| format!("{k}={v}")).collect();
            write!(path, "[{}]", each.join(","))
        }
        Some(("i:", index)) => write!(path, "[{index}]"),
        _ => write!(path, "{{{{invalid path element}}}}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn sets() -> impl Strategy<Value = FieldSet> {
        let leaf = Just(FieldSet {
            member: true,
            below: BTreeMap::new(),
        });
        leaf.prop_recursive(3, 16, 4, |inner| {
            let step = prop::sample::select(vec!["f:a", "f:b", "k:{\"name\":\"x\"}", "v:1"]);
            (
                any::<bool>(),
                prop::collection::btree_map(step, inner, 1..4),
            )
                .prop_map(|(member, below)| FieldSet {
                    member,
                    below: below.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
                })
        })
    }

    #[test]
    fn a_set_is_formatted_as_fields_v1() {
        let written = json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:containers": {
            "k:{\"name\":\"c\"}": {".": {}, "f:image": {}},
        }}});
        let set = FieldSet::from_value(&written);
        assert_eq!(set.to_value(), written);
        assert_eq!(
            set.paths(),
            [
                ".metadata.labels",
                ".metadata.labels.app",
                ".spec.containers[name=\"c\"]",
                ".spec.containers[name=\"c\"].image"
            ]
        );
    }

    proptest! {
        #[test]
        fn set_operations_obey_set_algebra(a in sets(), b in sets()) {
            let mut both = a.clone();
            both.add(&b);
            prop_assert_eq!(both.minus(&b).minus(&a), FieldSet::default());
            prop_assert_eq!(both.and(&a), a.clone());
            let mut again = a.minus(&b);
            again.add(&a.and(&b));
            prop_assert_eq!(&again, &a);
            prop_assert!(a.minus(&b).and(&b).is_empty());
            let mut root = a;
            root.member = false;
            prop_assert_eq!(FieldSet::from_value(&root.to_value()), root);
        }
    }
}
