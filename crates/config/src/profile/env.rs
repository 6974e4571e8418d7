//! Environment variables of executors, and the sources of their values (spec K-5).

use std::collections::BTreeMap;

use serde_json::{Value as Json, json};

use crate::document::{Node, Value};
use crate::kinds::{Kind, Text};
use crate::names::{is_data_key, is_dns_subdomain};

/// The value of an environment variable, or its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvValue {
    /// This text, which may refer to other variables as `$(NAME)`.
    Text(String),
    Secret(KeyOf),
    ConfigMap(KeyOf),
    /// A field of the pod, such as `status.hostIP`.
    Field(String),
    /// A resource of the executor's container, such as `limits.memory`.
    Resource(String),
}

/// A key of a Secret or a ConfigMap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOf {
    pub name: String,
    pub key: String,
    /// Whether the variable is left out where the object or the key does not exist. Otherwise the
    /// executor does not start.
    pub optional: bool,
}

pub(super) struct Env;

impl Kind for Env {
    type Out = EnvValue;

    fn read(&self, value: &Value) -> Option<EnvValue> {
        let fields = match value {
            Value::Table(fields) => fields,
            text => return Text::ANY.read(text).map(EnvValue::Text),
        };
        let text = |name: &str| match fields.get(name).map(|node| &node.value) {
            Some(Value::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let only = |allowed: &[&str]| fields.keys().all(|key| allowed.contains(&key.as_str()));
        let key_of = |of: &str| {
            let name = text(of).filter(|name| is_dns_subdomain(name))?;
            let key = text("key").filter(|key| is_data_key(key))?;
            let optional = flag(fields, "optional")?;
            only(&[of, "key", "optional"]).then(|| KeyOf {
                name: name.to_owned(),
                key: key.to_owned(),
                optional,
            })
        };
        let path = |of: &str| {
            let path = text(of).filter(|path| !path.is_empty() && !path.contains('\0'))?;
            only(&[of]).then(|| path.to_owned())
        };
        None.or_else(|| key_of("secret").map(EnvValue::Secret))
            .or_else(|| key_of("config_map").map(EnvValue::ConfigMap))
            .or_else(|| path("field").map(EnvValue::Field))
            .or_else(|| path("resource").map(EnvValue::Resource))
    }

    fn allowed(&self) -> String {
        "a text in quotes, { secret = \"NAME\", key = \"KEY\" }, { config_map = \"NAME\", key = \"KEY\" } (both also with \
         optional = true), { field = \"status.hostIP\" } or { resource = \"limits.memory\" }"
            .to_owned()
    }

    fn schema(&self) -> Json {
        let text = json!({"type": "string"});
        json!({
            "type": ["string", "object"],
            "description": self.allowed(),
            "properties": {
                "secret": text, "config_map": text, "key": text, "field": text, "resource": text,
                "optional": {"type": "boolean"},
            },
            "additionalProperties": false,
        })
    }

    fn show(&self, value: &EnvValue) -> String {
        let quoted = |text: &String| Text::ANY.show(text);
        let key_of = |of: &str, key: &KeyOf| {
            let (name, at) = (quoted(&key.name), quoted(&key.key));
            let optional = if key.optional {
                ", optional = true"
            } else {
                ""
            };
            format!("{{ {of} = {name}, key = {at}{optional} }}")
        };
        match value {
            EnvValue::Text(text) => quoted(text),
            EnvValue::Secret(key) => key_of("secret", key),
            EnvValue::ConfigMap(key) => key_of("config_map", key),
            EnvValue::Field(path) => format!("{{ field = {} }}", quoted(path)),
            EnvValue::Resource(path) => format!("{{ resource = {} }}", quoted(path)),
        }
    }

    /// A table refers to a secret; only a text can be one.
    fn is_reference(&self, value: &Value) -> bool {
        matches!(value, Value::Table(_))
    }
}

/// A flag that defaults to false; `None` if the value is not a flag.
fn flag(fields: &BTreeMap<String, Node>, name: &str) -> Option<bool> {
    match fields.get(name).map(|node| &node.value) {
        None => Some(false),
        Some(Value::Flag(flag)) => Some(*flag),
        Some(_) => None,
    }
}
