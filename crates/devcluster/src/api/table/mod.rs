//! Renders objects as rows of a `Table`: pods, nodes and events with the columns of a real server, others with their
//! name and age.

mod age;
mod kinds;
mod pods;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::objects::object::text;
use crate::objects::resource::Resource;

const NOTHING: &str = "<none>";

/// The columns of a kind. Wide output alone shows those that begin with `+`.
fn names(resource: Resource) -> &'static [&'static str] {
    match resource {
        Resource::Pods => &[
            "Name",
            "Ready",
            "Status",
            "Restarts",
            "Age",
            "+IP",
            "+Node",
            "+Nominated Node",
            "+Readiness Gates",
        ],
        Resource::Nodes => &[
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            "+Internal-IP",
            "+External-IP",
            "+OS-Image",
            "+Kernel-Version",
            "+Container-Runtime",
        ],
        Resource::Events => &[
            "Last Seen",
            "Type",
            "Reason",
            "Object",
            "+Subobject",
            "+Source",
            "Message",
            "+First Seen",
            "+Count",
            "+Name",
        ],
        _ => &["Name", "Age"],
    }
}

/// The column definitions of a kind.
pub fn columns(resource: Resource) -> Vec<Value> {
    let column = |name: &&str| {
        let shown = name.trim_start_matches('+');
        json!({
            "name": shown,
            "type": "string",
            "format": if shown == "Name" { "name" } else { "" },
            "description": "",
            "priority": u8::from(shown != *name),
        })
    };
    names(resource).iter().map(column).collect()
}

pub fn cells(resource: Resource, object: &Value, now: Timestamp) -> Vec<Value> {
    match resource {
        Resource::Pods => pods::cells(object, now),
        Resource::Nodes => kinds::node(object, now),
        Resource::Events => kinds::event(object, now),
        _ => vec![
            text(object, &["metadata", "name"]).into(),
            age(object, now).into(),
        ],
    }
}

fn age(object: &Value, now: Timestamp) -> String {
    age::since(text(object, &["metadata", "creationTimestamp"]), now)
}

fn or_nothing(text: &str) -> &str {
    if text.is_empty() { NOTHING } else { text }
}
