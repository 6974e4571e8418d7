//! Ownership of an object's fields: `metadata.managedFields`.
//!
//! A write that changes a field makes its manager the owner, instead of the previous ones. An apply makes its manager
//! an owner of every applied field, together with other managers that applied the same value. A field that no manager
//! applies any more is removed.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::field_set::FieldSet;
use super::structured::{self, Difference};
use crate::api::status::ApiError;
use crate::objects::object::text;
use crate::objects::schema::Shape;

/// The most managers with operation `Update`; the oldest ones are merged.
const MAX_UPDATERS: usize = 10;

/// The manager that stands for the merged ones.
const ANCIENT: &str = "ancient-changes";

const BEFORE_APPLY: &str = "before-first-apply";

/// Metadata fields that no manager owns.
const UNOWNED: [&str; 8] = [
    "creationTimestamp",
    "generation",
    "managedFields",
    "name",
    "namespace",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The kind of write by which a manager came to own fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn as_str(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One entry of `managedFields`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    operation: Operation,
    time: Option<String>,
    manager: String,
    api_version: String,
    subresource: String,
    fields: FieldSet,
}

impl Owner {
    /// Whether both entries have the same identity, regardless of their fields.
    fn is(&self, other: &Self) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// The manager as conflict messages name it.
    fn described(&self) -> String {
        let mut name = Value::from(self.manager.as_str()).to_string();
        if !self.subresource.is_empty() {
            name.push_str(&format!(" with subresource \"{}\"", self.subresource));
        }
        if self.operation == Operation::Update {
            name.push_str(&format!(" using {}", self.api_version));
            if let Some(time) = &self.time {
                name.push_str(&format!(" at {time}"));
            }
        }
        name
    }

    fn from_value(entry: &Value) -> Option<Self> {
        let operation = match text(entry, &["operation"]) {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let api_version = text(entry, &["apiVersion"]);
        if api_version.is_empty() || text(entry, &["fieldsType"]) != "FieldsV1" {
            return None;
        }
        let time = text(entry, &["time"]);
        Some(Self {
            operation,
            time: (!time.is_empty()).then(|| time.to_owned()),
            manager: text(entry, &["manager"]).to_owned(),
            api_version: api_version.to_owned(),
            subresource: text(entry, &["subresource"]).to_owned(),
            fields: FieldSet::from_value(entry.get("fieldsV1").unwrap_or(&Value::Null)),
        })
    }

    fn to_value(&self) -> Value {
        let mut entry = json!({
            "operation": self.operation.as_str(),
            "apiVersion": self.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": self.fields.to_value(),
        });
        for (name, value) in [
            ("manager", Some(&self.manager)),
            ("subresource", Some(&self.subresource)),
            ("time", self.time.as_ref()),
        ] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                entry[name] = value.as_str().into();
            }
        }
        entry
    }

    fn order(&self, other: &Self) -> Ordering {
        let key = |o: &Self| (o.operation, o.time.clone());
        key(self)
            .cmp(&key(other))
            .then_with(|| self.manager.cmp(&other.manager))
            .then_with(|| self.api_version.cmp(&other.api_version))
            .then_with(|| self.subresource.cmp(&other.subresource))
    }
}

/// A write whose changes are to be tracked.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    pub manager: &'a str,
    /// The `apiVersion` of the written object.
    pub api_version: &'a str,
    /// The written subresource; empty for the object itself.
    pub subresource: &'a str,
    /// How objects of the kind are merged and owned.
    pub shape: &'static Shape,
    /// The fields that this write cannot change, whatever it contains.
    pub ignored: &'a [&'a [&'a str]],
    /// The time, in whole seconds.
    pub now: &'a str,
}

impl Change<'_> {
    fn owner(&self, operation: Operation, fields: FieldSet) -> Owner {
        let manager = match self.manager {
            "" => "unknown",
            manager => manager,
        };
        Owner {
            operation,
            time: Some(self.now.to_owned()),
            manager: manager.to_owned(),
            api_version: self.api_version.to_owned(),
            subresource: self.subresource.to_owned(),
            fields,
        }
    }

    fn difference(&self, old: &Value, new: &Value) -> Difference {
        let mut difference = structured::compare(self.shape, old, new);
        for path in self.ignored {
            difference.added.cut(path);
            difference.modified.cut(path);
            difference.removed.cut(path);
        }
        difference
    }
}

fn strip(fields: &mut FieldSet) {
    fields.below.remove("f:apiVersion");
    fields.below.remove("f:kind");
    if let Some(metadata) = fields.below.get_mut("f:metadata") {
        metadata.member = false;
        for name in UNOWNED {
            metadata.below.remove(&super::field_set::field_step(name));
        }
        if metadata.is_empty() {
            fields.below.remove("f:metadata");
        }
    }
}

/// All entries of an object's `managedFields`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managed(Vec<Owner>);

impl Managed {
    /// Parses `metadata.managedFields`; `None` if it is invalid.
    pub fn from_value(managed: &Value) -> Option<Self> {
        let entries = managed.as_array()?;
        entries
            .iter()
            .map(Owner::from_value)
            .collect::<Option<_>>()
            .map(Self)
    }

    /// Formats `metadata.managedFields`.
    pub fn to_value(&self) -> Value {
        let mut owners: Vec<&Owner> = self.0.iter().collect();
        owners.sort_by(|a, b| a.order(b));
        owners.into_iter().map(Owner::to_value).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether both are equal except for their times.
    pub fn is_same_as(&self, other: &Self) -> bool {
        let timeless = |managed: &Self| {
            let mut owners = managed.0.clone();
            owners.iter_mut().for_each(|owner| owner.time = None);
            owners.sort_by(Owner::order);
            owners
        };
        self.0.len() == other.0.len() && timeless(self) == timeless(other)
    }

    /// Updates the owners after a write changed `old` into `new`.
    pub fn update(&mut self, change: &Change<'_>, old: &Value, new: &Value) {
        let difference = change.difference(old, new);
        let mut taken = difference.modified;
        taken.add(&difference.added);
        for owner in &mut self.0 {
            owner.fields = owner.fields.minus(&taken).minus(&difference.removed);
        }
        strip(&mut taken);
        if !taken.is_empty() {
            let new = change.owner(Operation::Update, taken);
            match self.0.iter_mut().find(|owner| owner.is(&new)) {
                Some(owner) => {
                    owner.fields.add(&new.fields);
                    owner.time = new.time;
                }
                None => self.0.push(new),
            }
        }
        self.0.retain(|owner| !owner.fields.is_empty());
        self.cap();
    }

    /// Merges the oldest `Update` entries if there are too many.
    fn cap(&mut self) {
        let is_update = |owner: &Owner| owner.operation == Operation::Update;
        let updaters = self.0.iter().filter(|owner| is_update(owner)).count();
        if updaters <= MAX_UPDATERS {
            return;
        }
        let (mut updates, mut others): (Vec<Owner>, Vec<Owner>) =
            std::mem::take(&mut self.0).into_iter().partition(is_update);
        updates.sort_by(Owner::order);
        let mut buckets: Vec<Owner> = Vec::new();
        let mut left = updaters;
        for owner in updates {
            if left <= MAX_UPDATERS {
                others.push(owner);
                continue;
            }
            match buckets
                .iter_mut()
                .find(|b| b.api_version == owner.api_version)
            {
                Some(bucket) => {
                    ANCIENT.clone_into(&mut bucket.manager);
                    bucket.subresource.clear();
                    bucket.fields.add(&owner.fields);
                    bucket.time = owner.time;
                    left -= 1;
                }
                None => buckets.push(owner),
            }
        }
        others.append(&mut buckets);
        self.0 = others;
    }

    /// Applies `config` to `live`. Returns the new object, or `None` if nothing changes.
    pub fn apply(
        &mut self,
        change: &Change<'_>,
        live: &Value,
        config: &Value,
        force: bool,
    ) -> Result<Option<Value>, ApiError> {
        let mut set = structured::fields(change.shape, config);
        for path in change.ignored {
            set.cut(path);
        }
        let own = change.owner(Operation::Apply, set);
        let last = self.replace(own.clone());
        let merged = structured::merge(change.shape, live, config);
        let last_fields = last.as_ref().map(|owner| &owner.fields);
        let new = match last_fields.filter(|fields| !fields.is_empty()) {
            Some(fields) => self.pruned(change.shape, merged, fields),
            None => merged,
        };
        let difference = change.difference(live, &new);
        let mut taken = difference.modified;
        taken.add(&difference.added);
        if !force {
            self.refuse_conflicts(&own, &taken)?;
        }
        for owner in &mut self.0 {
            if !owner.is(&own) {
                owner.fields = owner.fields.minus(&taken).minus(&difference.removed);
            }
        }
        let is_same = new == *live;
        for owner in self.0.iter_mut().filter(|owner| owner.is(&own)) {
            strip(&mut owner.fields);
            if is_same {
                owner.time = last.as_ref().and_then(|last| last.time.clone());
            }
        }
        self.0.retain(|owner| !owner.fields.is_empty());
        Ok((!is_same).then_some(new))
    }

    /// Assigns the existing fields to `before-first-apply`, for an object without managed fields.
    pub fn own_existing_fields(&mut self, change: &Change<'_>, blank: &Value, live: &Value) {
        let before = Change {
            manager: BEFORE_APPLY,
            ..*change
        };
        self.update(&before, blank, live);
    }

    /// Inserts an entry in place of the one with the same identity, which it returns.
    fn replace(&mut self, new: Owner) -> Option<Owner> {
        match self.0.iter_mut().find(|owner| owner.is(&new)) {
            Some(owner) => Some(std::mem::replace(owner, new)),
            None => {
                self.0.push(new);
                None
            }
        }
    }

    /// Removes from `merged` what the manager applied the last time and no manager owns now.
    fn pruned(&self, shape: &'static Shape, merged: Value, last: &FieldSet) -> Value {
        let named = |value: &Value| structured::fields(shape, value).with_named_fields(shape);
        let last = last.with_named_fields(shape);
        let all = named(&merged);
        let mut keep = FieldSet::default();
        for owner in &self.0 {
            keep.add(&owner.fields);
        }
        let mut keep = keep.with_named_fields(shape);
        keep.add(&named(&structured::without(shape, &merged, &last)));
        let owned = structured::without(shape, &merged, &all.minus(&keep));
        // A field that was never applied stays, even without an owner.
        let gone = all.minus(&named(&owned)).and(&last);
        match structured::without(shape, &merged, &gone) {
            Value::Null => json!({}),
            left => left,
        }
    }

    fn refuse_conflicts(&self, own: &Owner, taken: &FieldSet) -> Result<(), ApiError> {
        let mut conflicts: Vec<(String, Vec<String>)> = self
            .0
            .iter()
            .filter(|owner| !owner.is(own))
            .map(|owner| (owner.described(), owner.fields.and(taken).paths()))
            .filter(|(_, paths)| !paths.is_empty())
            .collect();
        conflicts.sort();
        if conflicts.is_empty() {
            Ok(())
        } else {
            Err(ApiError::apply_conflict(&conflicts))
        }
    }
}
