//! Takes the parsed tree apart, key by key. The list of known keys with their defaults (spec C-5),
//! the detection of unknown keys, and the effective values (spec C-4) all follow from what the code
//! reads, so they cannot diverge from it. After a mistake the default is used and reading goes on,
//! so that all mistakes are found at once (spec C-2).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};

use super::document::{Node, Value};
use super::effective::{Setting, fingerprint};
use super::error::Origin;
use super::kinds::Kind;
use super::names::NameRule;
use super::near::nearest;
use super::notes::{Notes, join, join_dotted};
use super::secrets::{HIDDEN, holds_secret, is_secret, is_value, names_secret};
use super::template::{BadTemplate, PodTemplate};
use boatswain_model::ProfileName;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownKey {
    /// The full path, in which `NAME` stands for a profile's name.
    pub path: String,
    /// The default as TOML; `None`: there is none.
    pub default: Option<String>,
}

/// A section that is being read.
pub(super) struct Section<'n> {
    notes: &'n mut Notes,
    /// The section's path; empty for the whole file.
    path: String,
    /// The section's path as in [`KnownKey`].
    known_path: String,
    table: BTreeMap<String, Node>,
    asked: Vec<&'static str>,
    /// The keys that were read, in JSON Schema, if [`Notes::describes`].
    described: Map<String, Json>,
}

impl<'n> Section<'n> {
    /// The whole document.
    pub fn root(document: Node, notes: &'n mut Notes) -> Self {
        let table = match document.value {
            Value::Table(table) => table,
            _ => BTreeMap::new(),
        };
        Self {
            notes,
            path: String::new(),
            known_path: String::new(),
            table,
            asked: Vec::new(),
            described: Map::new(),
        }
    }

    /// The JSON Schema of this section: the keys that were read, and no others.
    pub fn schema(&mut self) -> Json {
        let keys = std::mem::take(&mut self.described);
        json!({"type": "object", "properties": keys, "additionalProperties": false})
    }

    /// Reads a subsection.
    pub fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let node = self.take(key);
        self.inner(key, key, node, read)
    }

    /// Reads what has no section of its own: its keys are beside those of this section.
    pub fn flattened<T>(&mut self, _: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        read(self)
    }

    /// Reads all profiles in the section `key`, those in `default` even if the file does not have
    /// them.
    pub fn profiles<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&mut Section<'_>, &str) -> T,
        default: BTreeMap<ProfileName, T>,
    ) -> BTreeMap<ProfileName, T> {
        let node = self.take(key);
        let profiles = self.inner(key, key, node, |outer| {
            let mut table = std::mem::take(&mut outer.table);
            for name in default.keys() {
                let absent = || Node::at(Origin::Default, Value::Table(BTreeMap::new()));
                table.entry(name.to_string()).or_insert_with(absent);
            }
            let read_one = |(name, node): (String, Node)| {
                let value = outer.inner(&join("", &name), "NAME", Some(node), |inner| {
                    read(inner, &name)
                });
                (ProfileName::from(name), value)
            };
            table.into_iter().map(read_one).collect()
        });
        if let Some(described) = self.described.get_mut(key) {
            let one = described["properties"]["NAME"].take();
            *described = json!({"type": "object", "additionalProperties": one});
        }
        profiles
    }

    /// `key` is the path's component, quoted if necessary.
    fn inner<T>(
        &mut self,
        key: &str,
        known_key: &str,
        node: Option<Node>,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        let path = join_dotted(&self.path, key);
        let table = match node {
            None => BTreeMap::new(),
            Some(Node {
                value: Value::Table(table),
                origin,
                ..
            }) => {
                if origin != Origin::Default {
                    self.notes.origins.insert(path.clone(), origin);
                }
                table
            }
            Some(Node { value, origin, .. }) => {
                let found = format!("found {}", value.describe());
                let fix = format!("allowed: a section, [{path}]");
                self.notes.note(origin, path.clone(), found, fix);
                BTreeMap::new()
            }
        };
        let mut section = Section {
            notes: &mut *self.notes,
            known_path: join_dotted(&self.known_path, known_key),
            path,
            table,
            asked: Vec::new(),
            described: Map::new(),
        };
        let value = read(&mut section);
        section.refuse_the_rest();
        let schema = section.notes.describes.then(|| section.schema());
        self.described
            .extend(schema.map(|schema| (known_key.to_owned(), schema)));
        value
    }

    /// Reads a key with a default.
    pub fn value<K: Kind>(&mut self, key: &'static str, kind: K, default: K::Out) -> K::Out {
        self.know(key, Some(kind.show(&default)));
        self.describe(key, || kind.schema());
        let value = self.read(key, &kind).unwrap_or(default);
        self.show(key, Some(kind.show(&value)));
        value
    }

    /// Reads a key with a default that others may replace. `None`: the key is not set.
    pub fn explicit<K: Kind>(
        &mut self,
        key: &'static str,
        kind: K,
        default: K::Out,
    ) -> Option<K::Out> {
        let value = self.value(key, kind, default);
        self.is_set(key).then_some(value)
    }

    /// Reads an optional key.
    pub fn option<K: Kind>(&mut self, key: &'static str, kind: K) -> Option<K::Out> {
        self.know(key, None);
        self.describe(key, || kind.schema());
        let value = self.read(key, &kind);
        self.show(key, value.as_ref().map(|value| kind.show(value)));
        value
    }

    /// Reads a list, empty by default.
    pub fn list<K: Kind>(&mut self, key: &'static str, kind: K) -> Vec<K::Out> {
        let allowed = format!("a list, each of it {}", kind.allowed());
        self.describe(key, || json!({"type": "array", "items": kind.schema()}));
        let Some((path, node)) = self.entries(key, "[]") else {
            return Vec::new();
        };
        let Value::List(items) = node.value else {
            self.wrong(path, &node, &allowed, None);
            return Vec::new();
        };
        let mut out = Vec::with_capacity(items.len());
        let mut shown = Vec::with_capacity(items.len());
        let mut whole = String::new();
        let mut option = false;
        for (n, item) in items.into_iter().enumerate() {
            let text = item.value.text().unwrap_or_default();
            let after_option = std::mem::replace(&mut option, names_secret(text));
            let secret = after_option && is_value(text);
            let path = format!("{path}[{n}]");
            if secret && item.origin.is_command_line() {
                self.refuse_secret(path, item.origin);
            } else if let Some(value) = self.one(path, item, &kind) {
                let item = kind.show(&value);
                whole.push_str(&item);
                whole.push(',');
                let hidden = secret || holds_secret(&item);
                shown.push(match hidden {
                    true => HIDDEN.to_owned(),
                    false => item,
                });
                out.push(value);
            }
        }
        self.show(key, Some(format!("[{}]", shown.join(", "))));
        if let Some(setting) = self.notes.effective.settings.last_mut() {
            setting.fingerprint = fingerprint(Some(&whole));
        }
        out
    }

    /// Reads a list of sections, empty by default. `read` returns `None` after noting a mistake.
    pub fn list_of_sections<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&mut Section<'_>) -> Option<T>,
    ) -> Vec<T> {
        let allowed = "a list of sections, such as [[…]] or [{ … }]";
        if self.notes.describes {
            self.inner(key, key, None, &read);
            let one = self.described.remove(key);
            self.describe(key, || json!({"type": "array", "items": one}));
        }
        let Some((path, node)) = self.entries(key, "[]") else {
            return Vec::new();
        };
        let Value::List(items) = node.value else {
            self.wrong(path, &node, allowed, None);
            return Vec::new();
        };
        let mut out = Vec::with_capacity(items.len());
        for (n, item) in items.into_iter().enumerate() {
            let item_key = format!("{key}[{n}]");
            if matches!(item.value, Value::Table(_)) {
                out.extend(self.inner(&item_key, &item_key, Some(item), &read));
            } else {
                let path = join_dotted(&self.path, &item_key);
                self.wrong(path, &item, "a section, { … }", None);
            }
        }
        out
    }

    /// Reads a table from names to values, empty by default.
    pub fn table<K: Kind>(
        &mut self,
        key: &'static str,
        (is_name, names): NameRule,
        kind: K,
    ) -> BTreeMap<String, K::Out> {
        let allowed = format!("a section of names with {}", kind.allowed());
        self.describe(
            key,
            || json!({"type": "object", "additionalProperties": kind.schema()}),
        );
        let Some((path, node)) = self.entries(key, "{}") else {
            return BTreeMap::new();
        };
        let Value::Table(entries) = node.value else {
            self.wrong(path, &node, &allowed, None);
            return BTreeMap::new();
        };
        let mut out = BTreeMap::new();
        if entries.is_empty() {
            self.show(key, Some("{}".to_owned()));
        }
        for (entry, item) in entries {
            let path = join(&path, &entry);
            let at = join(key, &entry);
            let secret = is_secret(&at) && !kind.is_reference(&item.value);
            if secret && item.origin.is_command_line() {
                self.refuse_secret(path, item.origin);
            } else if !is_name(&entry) {
                let found = "not a name that Kubernetes accepts here";
                let fix = format!("allowed: {names}");
                self.notes.note(item.key_origin, path, found, fix);
            } else if let Some(value) = self.one(path, item, &kind) {
                let shown = kind.show(&value);
                self.show_unless(secret || holds_secret(&shown), &at, Some(shown));
                out.insert(entry, value);
            }
        }
        out
    }

    /// Reads the pod template in the file that the key names. Mistakes in it are noted as mistakes
    /// about the key.
    pub fn template(
        &mut self,
        key: &str,
        path: PathBuf,
        container: Option<&str>,
    ) -> Option<PodTemplate> {
        let read = self.notes.templates.read(path, container);
        read.map_err(|wrong| {
            for BadTemplate { found, fix } in wrong {
                self.refuse(key, found, fix);
            }
        })
        .ok()
    }

    /// Whether a key of this section is set, with a valid value or not.
    pub fn is_set(&self, key: &str) -> bool {
        let path = join(&self.path, key);
        self.notes.is_set(&path)
    }

    /// Notes a mistake about a key of this section.
    pub fn refuse(&mut self, key: &str, found: impl Into<String>, fix: impl Into<String>) {
        let path = join(&self.path, key);
        self.notes.refuse(&path, found, fix);
    }

    /// Notes a mistake about this section as a whole.
    pub fn refuse_whole(&mut self, found: impl Into<String>, fix: impl Into<String>) {
        let path = self.path.clone();
        self.notes.refuse(&path, found, fix);
    }

    fn read<K: Kind>(&mut self, key: &'static str, kind: &K) -> Option<K::Out> {
        let node = self.take(key)?;
        self.one(join(&self.path, key), node, kind)
    }

    fn refuse_secret(&mut self, path: String, origin: Origin) {
        let found = "a secret, which every user of this machine can read in the list of processes";
        let fix = "write it into the file, or set it in the environment";
        self.notes.note(origin, path, found, fix);
    }

    fn one<K: Kind>(&mut self, path: String, node: Node, kind: &K) -> Option<K::Out> {
        self.notes.origins.insert(path.clone(), node.origin.clone());
        if node.origin.is_command_line() && node.value.text().is_some_and(holds_secret) {
            self.refuse_secret(path, node.origin);
            return None;
        }
        if let Some(value) = kind.read(&node.value) {
            return Some(value);
        }
        // The override was parsed as a number or a flag, but the key takes a text.
        if let Origin::Override { raw, .. } = &node.origin
            && let Some(value) = kind.read(&Value::Text(raw.clone()))
        {
            return Some(value);
        }
        self.wrong(path, &node, &kind.allowed(), kind.hint(&node.value));
        None
    }

    fn wrong(&mut self, path: String, node: &Node, allowed: &str, hint: Option<String>) {
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        let found = if is_secret(&path) || node.value.text().is_some_and(holds_secret) {
            "found another value, which is not shown".to_owned()
        } else {
            format!("found {}", node.value.describe())
        };
        let fix = format!("allowed: {allowed}{hint}");
        self.notes.note(node.origin.clone(), path, found, fix);
    }

    fn know(&mut self, key: &str, default: Option<String>) {
        let path = join(&self.known_path, key);
        if self.notes.known.iter().all(|known| known.path != path) {
            self.notes.known.push(KnownKey { path, default });
        }
    }

    fn describe(&mut self, key: &str, schema: impl FnOnce() -> Json) {
        if self.notes.describes {
            self.described.insert(key.to_owned(), schema());
        }
    }

    /// Notes the effective value. `None`: not set, and there is no default.
    fn show(&mut self, key: &str, value: Option<String>) {
        // The items of a list are hidden one by one.
        let hidden = |value: &String| !value.starts_with('[') && holds_secret(value);
        let hidden = is_secret(key) || value.as_ref().is_some_and(hidden);
        self.show_unless(hidden, key, value);
    }

    fn show_unless(&mut self, hidden: bool, key: &str, value: Option<String>) {
        let path = join_dotted(&self.path, key);
        let origin = self.notes.origins.get(&path).cloned();
        self.notes.effective.settings.push(Setting {
            section: self.path.clone(),
            key: key.to_owned(),
            fingerprint: fingerprint(value.as_deref()),
            value: value.map(|value| match hidden {
                true => HIDDEN.to_owned(),
                false => value,
            }),
            origin: origin.unwrap_or(Origin::Default),
        });
    }

    /// Takes a list or table, which is empty by default: its path and its node, if it is set.
    fn entries(&mut self, key: &'static str, empty: &str) -> Option<(String, Node)> {
        self.know(key, Some(empty.to_owned()));
        let Some(node) = self.take(key) else {
            self.show(key, Some(empty.to_owned()));
            return None;
        };
        let path = join(&self.path, key);
        self.notes.origins.insert(path.clone(), node.origin.clone());
        Some((path, node))
    }

    fn take(&mut self, key: &'static str) -> Option<Node> {
        self.asked.push(key);
        self.table.remove(key)
    }

    /// Notes a mistake about every key that was not read: it is unknown.
    pub fn refuse_the_rest(&mut self) {
        for (key, node) in std::mem::take(&mut self.table) {
            let what = if matches!(node.value, Value::Table(_)) && self.path.is_empty() {
                "section"
            } else {
                "key"
            };
            let asked = self.asked.join(", ");
            let near = nearest(&key, &self.asked);
            let fix = match near {
                Some(near) => {
                    self.notes.meant.push(join(&self.path, near));
                    format!("did you mean {near}? known here: {asked}")
                }
                None => {
                    let at = self.notes.mistakes.len();
                    self.notes.unrecognised.push((at, key.clone()));
                    format!("known here: {asked}")
                }
            };
            let path = join(&self.path, &key);
            let found = format!("no such {what}");
            self.notes.note(node.key_origin, path, found, fix);
        }
    }
}
