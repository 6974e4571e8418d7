//! Renders objects as rows of a `Table`, with the columns that real servers define for each kind.

mod age;
mod columns;
mod kinds;
mod pods;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::objects::object::text;
use crate::objects::resource::Resource;

#[derive(Debug)]
pub struct Column {
    name: &'static str,
    kind: &'static str,
    /// `name` for the column that identifies the object.
    format: &'static str,
    description: &'static str,
    /// 0: always shown; 1: shown in wide output.
    priority: u8,
}

impl Column {
    const fn text(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            kind: "string",
            format: "",
            description,
            priority: 0,
        }
    }

    const fn wide(name: &'static str, description: &'static str) -> Self {
        Self {
            priority: 1,
            ..Self::text(name, description)
        }
    }

    fn to_value(&self) -> Value {
        json!({
            "name": self.name,
            "type": self.kind,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        })
    }
}

const NAME: Column = Column {
    format: "name",
    ..Column::text(
        "Name",
        "Name must be unique within a namespace. Is required when creating resources, although some resources may \
         allow a client to request the generation of an appropriate name automatically. Name is primarily intended \
         for creation idempotence and configuration definition. Cannot be updated. More info: \
         https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
    )
};

const CREATED: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It \
     is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. \
     It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More \
     info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

const AGE: Column = Column::text("Age", CREATED);

const CREATED_AT: Column = Column {
    kind: "date",
    ..Column::text("Created At", CREATED)
};

const NOTHING: &str = "<none>";

/// The column definitions of a kind.
pub fn columns(resource: Resource) -> Vec<Value> {
    let columns: &[Column] = match resource {
        Resource::Pods => &pods::COLUMNS,
        other => columns::of(other),
    };
    columns.iter().map(Column::to_value).collect()
}

pub fn cells(resource: Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    match resource {
        Resource::Pods => pods::cells(object, now),
        other => kinds::cells(other, object, now),
    }
}

pub fn conditions(resource: Resource, object: &Value) -> Option<Value> {
    if resource != Resource::Pods {
        return None;
    }
    let phase = text(object, &["status", "phase"]);
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{"type": "Completed", "status": "True", "reason": phase, "message": message}]))
}

fn age(object: &Value, now: Timestamp) -> String {
    age::since(text(object, &["metadata", "creationTimestamp"]), now)
}

fn or_nothing(text: &str) -> &str {
    if text.is_empty() { NOTHING } else { text }
}
