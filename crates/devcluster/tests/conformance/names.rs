//! Names in the place of values that differ from run to run.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;
use uuid::Uuid;

/// The length of a uid as text.
const UID: usize = 36;

/// The names given so far: the same value always gets the same one.
pub struct Names {
    namespace: String,
    uids: HashMap<String, String>,
    versions: HashMap<String, String>,
}

impl Names {
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            uids: HashMap::new(),
            versions: HashMap::new(),
        }
    }

    /// The value at this path, with names in it.
    pub fn replace(&mut self, path: &str, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.replace_text(path, text)),
            Value::Array(list) => list.iter().map(|value| self.replace(path, value)).collect(),
            Value::Object(fields) => {
                let fields = fields.iter();
                fields
                    .map(|(key, value)| (key.clone(), self.replace(key, value)))
                    .collect()
            }
            other => other.clone(),
        }
    }

    pub fn replace_text(&mut self, path: &str, text: &str) -> String {
        if is_time(text) {
            return "$time".to_owned();
        }
        if is_uid(text) {
            return self.uid(text);
        }
        let path = path.trim_end_matches('?');
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if path.ends_with("resourceVersion") && is_number {
            let next = format!("$rv{}", self.versions.len() + 1);
            return self.versions.entry(text.to_owned()).or_insert(next).clone();
        }
        let text = text.replace(&self.namespace, "{ns}");
        self.replace_uids(&text)
    }

    fn replace_uids(&mut self, text: &str) -> String {
        let mut replaced = String::new();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let length = match rest.get(..UID) {
                Some(start) if is_uid(start) => {
                    replaced.push_str(&self.uid(start));
                    UID
                }
                _ => {
                    replaced.push(first);
                    first.len_utf8()
                }
            };
            rest = &rest[length..];
        }
        replaced
    }

    fn uid(&mut self, uid: &str) -> String {
        let next = format!("$uid{}", self.uids.len() + 1);
        self.uids.entry(uid.to_owned()).or_insert(next).clone()
    }

    /// The names of the resource versions, in the order of their numbers.
    pub fn order(&self) -> Vec<String> {
        let mut versions: Vec<_> = self.versions.iter().collect();
        versions.sort_by_key(|(version, _)| version.parse::<u64>().unwrap());
        versions.into_iter().map(|(_, name)| name.clone()).collect()
    }
}

fn is_time(text: &str) -> bool {
    let is_shaped = text.as_bytes().get(10) == Some(&b'T') && text.ends_with('Z');
    is_shaped && text.parse::<Timestamp>().is_ok()
}

fn is_uid(text: &str) -> bool {
    let is_lowercase = !text.bytes().any(|b| b.is_ascii_uppercase());
    text.len() == UID && is_lowercase && Uuid::try_parse(text).is_ok()
}
