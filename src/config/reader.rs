//! Takes the tree apart, key by key. What is asked for is what is known: an unknown key, and the
//! list of all keys with their defaults (spec C-5), both follow from the reading itself, so that
//! they cannot disagree with it. A mistake is noted and the default taken, so that all mistakes are
//! found at once (spec C-2).

use std::collections::BTreeMap;

use super::document::{Node, Value};
use super::error::{Mistake, Origin};
use super::kinds::Kind;
use crate::model::ProfileName;

/// A key that the configuration has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownKey {
    /// Its full path; `NAME` stands for a profile's name.
    pub path: String,
    /// Its default, as TOML; `None` where there is none.
    pub default: Option<String>,
}

/// What is noted while reading.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub mistakes: Vec<Mistake>,
    pub known: Vec<KnownKey>,
    /// Where each key that was set came from.
    origins: BTreeMap<String, Origin>,
}

impl Notes {
    /// Whether the key was set, by whatever means.
    pub fn is_set(&self, path: &str) -> bool {
        self.origins.contains_key(path)
    }

    /// Notes a mistake about a key that is known. One that is missing is looked for in its section.
    pub fn refuse(&mut self, path: &str, found: impl Into<String>, fix: impl Into<String>) {
        let mut at = path;
        let origin = loop {
            if let Some(origin) = self.origins.get(at) {
                break origin.clone();
            }
            match at.rsplit_once('.') {
                Some((outer, _)) => at = outer,
                None => break Origin::Default,
            }
        };
        self.mistakes.push(Mistake {
            origin,
            key: path.to_owned(),
            found: found.into(),
            fix: fix.into(),
        });
    }
}

/// A section being read.
pub(super) struct Section<'n> {
    notes: &'n mut Notes,
    /// Its path; empty for the whole file.
    path: String,
    /// Its path as [`KnownKey`] has it.
    known_path: String,
    table: BTreeMap<String, Node>,
    asked: Vec<&'static str>,
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
        }
    }

    /// Reads a section in this one.
    pub fn section<T>(&mut self, key: &'static str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let node = self.take(key);
        self.inner(key, key, node, read)
    }

    /// Reads the profiles in the section `key`, whatever they are called; `names` are read also
    /// where they are missing.
    pub fn profiles<T>(
        &mut self,
        key: &'static str,
        names: &[&str],
        read: impl Fn(&mut Section<'_>, &str) -> T,
    ) -> BTreeMap<ProfileName, T> {
        let node = self.take(key);
        self.inner(key, key, node, |outer| {
            let mut table = std::mem::take(&mut outer.table);
            for name in names {
                table.entry((*name).to_owned()).or_insert_with(absent);
            }
            let read_one = |(name, node): (String, Node)| {
                let value = outer.inner(&name, "NAME", Some(node), |inner| read(inner, &name));
                (ProfileName::from(name), value)
            };
            table.into_iter().map(read_one).collect()
        })
    }

    fn inner<T>(
        &mut self,
        key: &str,
        known_key: &str,
        node: Option<Node>,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        let path = join(&self.path, key);
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
                self.notes.mistakes.push(Mistake {
                    origin,
                    key: path.clone(),
                    found: format!("found {}", value.describe()),
                    fix: format!("allowed: a section, [{path}]"),
                });
                BTreeMap::new()
            }
        };
        let mut section = Section {
            notes: &mut *self.notes,
            known_path: join(&self.known_path, known_key),
            path,
            table,
            asked: Vec::new(),
        };
        let value = read(&mut section);
        section.refuse_the_rest();
        value
    }

    /// A key that has a default.
    pub fn value<K: Kind>(&mut self, key: &'static str, kind: K, default: K::Out) -> K::Out {
        self.know(key, Some(kind.show(&default)));
        self.read(key, &kind).unwrap_or(default)
    }

    /// A key that may be left out.
    pub fn option<K: Kind>(&mut self, key: &'static str, kind: K) -> Option<K::Out> {
        self.know(key, None);
        self.read(key, &kind)
    }

    /// A list, empty by default.
    pub fn list<K: Kind>(&mut self, key: &'static str, kind: K) -> Vec<K::Out> {
        let allowed = format!("a list, each of it {}", kind.allowed());
        self.know(key, Some("[]".to_owned()));
        let Some(node) = self.take(key) else {
            return Vec::new();
        };
        let path = join(&self.path, key);
        self.notes.origins.insert(path.clone(), node.origin.clone());
        let Value::List(items) = node.value else {
            self.wrong(path, &node, &allowed, None);
            return Vec::new();
        };
        let mut out = Vec::with_capacity(items.len());
        for (n, item) in items.into_iter().enumerate() {
            out.extend(self.one(format!("{path}[{n}]"), item, &kind));
        }
        out
    }

    /// A list of sections, empty by default. Reading one may fail; the mistake is then noted.
    pub fn list_of_sections<T>(
        &mut self,
        key: &'static str,
        read: impl Fn(&mut Section<'_>) -> Option<T>,
    ) -> Vec<T> {
        let allowed = "a list of sections, as [[…]] or [{ … }]";
        self.know(key, Some("[]".to_owned()));
        let Some(node) = self.take(key) else {
            return Vec::new();
        };
        let path = join(&self.path, key);
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
                self.wrong(join(&self.path, &item_key), &item, "a section, { … }", None);
            }
        }
        out
    }

    /// A table from names to values, empty by default. `name` says what is wrong with a name.
    pub fn table<K: Kind>(
        &mut self,
        key: &'static str,
        name: (fn(&str) -> bool, &'static str),
        kind: K,
    ) -> BTreeMap<String, K::Out> {
        let allowed = format!("a section of names with {}", kind.allowed());
        self.know(key, Some("{}".to_owned()));
        let Some(node) = self.take(key) else {
            return BTreeMap::new();
        };
        let path = join(&self.path, key);
        self.notes.origins.insert(path.clone(), node.origin.clone());
        let Value::Table(entries) = node.value else {
            self.wrong(path, &node, &allowed, None);
            return BTreeMap::new();
        };
        let mut out = BTreeMap::new();
        for (entry, item) in entries {
            let path = join(&path, &entry);
            if !name.0(&entry) {
                self.notes.mistakes.push(Mistake {
                    origin: item.key_origin,
                    key: path,
                    found: "not a name that Kubernetes accepts here".to_owned(),
                    fix: format!("allowed: {}", name.1),
                });
            } else if let Some(value) = self.one(path, item, &kind) {
                out.insert(entry, value);
            }
        }
        out
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

    fn one<K: Kind>(&mut self, path: String, node: Node, kind: &K) -> Option<K::Out> {
        self.notes.origins.insert(path.clone(), node.origin.clone());
        if let Some(value) = kind.read(&node.value) {
            return Some(value);
        }
        // An override is a text that merely looks like a number or a flag.
        if let Origin::Override { raw, .. } = &node.origin
            && let Some(value) = kind.read(&Value::Text(raw.clone()))
        {
            return Some(value);
        }
        let hint = kind.hint(&node.value);
        self.wrong(path, &node, &kind.allowed(), hint);
        None
    }

    fn wrong(&mut self, path: String, node: &Node, allowed: &str, hint: Option<&str>) {
        let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        self.notes.mistakes.push(Mistake {
            origin: node.origin.clone(),
            key: path,
            found: format!("found {}", node.value.describe()),
            fix: format!("allowed: {allowed}{hint}"),
        });
    }

    fn know(&mut self, key: &str, default: Option<String>) {
        let path = join(&self.known_path, key);
        if self.notes.known.iter().all(|known| known.path != path) {
            self.notes.known.push(KnownKey { path, default });
        }
    }

    fn take(&mut self, key: &'static str) -> Option<Node> {
        self.asked.push(key);
        self.table.remove(key)
    }

    /// What nobody asked for does not exist.
    pub fn refuse_the_rest(&mut self) {
        for (key, node) in std::mem::take(&mut self.table) {
            let what = if matches!(node.value, Value::Table(_)) && self.path.is_empty() {
                "section"
            } else {
                "key"
            };
            let asked = self.asked.join(", ");
            let fix = match nearest(&key, &self.asked) {
                Some(near) => format!("did you mean {near}? known here: {asked}"),
                None => format!("known here: {asked}"),
            };
            self.notes.mistakes.push(Mistake {
                origin: node.key_origin,
                key: join(&self.path, &key),
                found: format!("no such {what}"),
                fix,
            });
        }
    }
}

fn absent() -> Node {
    Node {
        value: Value::Table(BTreeMap::new()),
        origin: Origin::Default,
        key_origin: Origin::Default,
    }
}

/// Joins two parts of a path; what is not a bare key in TOML is quoted.
fn join(path: &str, key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || "-_[]".contains(c);
    let key = if !key.is_empty() && key.chars().all(bare) {
        key.to_owned()
    } else {
        format!("{key:?}")
    };
    if path.is_empty() {
        key
    } else {
        format!("{path}.{key}")
    }
}

/// The known key that a typing error is most likely to have come from.
fn nearest<'k>(key: &str, known: &[&'k str]) -> Option<&'k str> {
    let worst = (key.chars().count() / 3).clamp(1, 3);
    known
        .iter()
        .map(|candidate| (edits(key, candidate, worst), *candidate))
        .filter(|(edits, _)| *edits <= worst)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// How many characters have to be inserted, deleted or replaced to turn one text into the other.
fn edits(from: &str, to: &str, worst: usize) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    if from.len().abs_diff(to.len()) > worst {
        return worst + 1;
    }
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}
