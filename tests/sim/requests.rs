//! Classifies a driver's requests to the API server as far as the checks need it.

use devcluster::Resource;
use http::Method;
use http::request::Parts;
use serde_json::Value;

use crate::objects::text;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Create,
    /// Deletes a collection of pods.
    Sweep,
    Delete {
        name: String,
    },
    Patch {
        name: String,
    },
    /// Creates the application record.
    MakeRecord,
    DeleteRecord,
    MakeSet,
    /// Changes, scales or deletes a set.
    Set {
        resource: Resource,
        name: String,
    },
    /// Any other write.
    Write,
    /// A list that allows a cached answer.
    CachedList,
    /// A list that requires the newest state.
    List,
    /// A further page of a list.
    Page,
    Watch,
    Read,
}

/// A write that the server answered for a driver.
#[derive(Debug)]
pub struct Done {
    /// The number of the driver's start.
    pub driver: usize,
    pub kind: Kind,
    pub code: u16,
    /// Whether it reached the server after the server's own time limit for it; a real server would have dropped it.
    pub late: bool,
    pub sent: Value,
    /// The pod or set of that name before the write.
    pub before: Option<Value>,
    /// The uid of the created pod.
    pub made: Option<String>,
    /// Whether a webhook changed the requested labels.
    pub relabelled: bool,
}

impl Kind {
    pub fn of(parts: &Parts) -> Self {
        let query = parts.uri.query().unwrap_or_default();
        let path = parts.uri.path();
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let name = name.to_owned();
        let pod = parent.ends_with("/pods");
        match parts.method {
            Method::GET if query.contains("watch=true") => Kind::Watch,
            Method::GET if query.contains("continue=") => Kind::Page,
            Method::GET if query.contains("resourceVersionMatch") => Kind::CachedList,
            Method::GET if path.ends_with("/pods") => Kind::List,
            Method::GET => Kind::Read,
            Method::POST if path.ends_with("/pods") => Kind::Create,
            Method::DELETE if path.ends_with("/pods") => Kind::Sweep,
            Method::DELETE if pod => Kind::Delete { name },
            Method::PATCH if pod => Kind::Patch { name },
            Method::POST if path.ends_with("/configmaps") => Kind::MakeRecord,
            Method::DELETE if path.ends_with("/configmaps/sim-app") => Kind::DeleteRecord,
            _ => of_sets(path).unwrap_or(Kind::Write),
        }
    }

    /// The name of the pod that the request changes.
    pub fn name(&self) -> Option<&str> {
        match self {
            Kind::Delete { name } | Kind::Patch { name } => Some(name),
            _ => None,
        }
    }

    pub fn is_write(&self) -> bool {
        !matches!(
            self,
            Kind::CachedList | Kind::List | Kind::Page | Kind::Watch | Kind::Read
        )
    }
}

impl Done {
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// Classifies a write to a set.
fn of_sets(path: &str) -> Option<Kind> {
    let mut parts = path.strip_prefix("/apis/apps/v1/namespaces/")?.split('/');
    let resource = match parts.nth(1)? {
        "statefulsets" => Resource::StatefulSets,
        "deployments" => Resource::Deployments,
        _ => return None,
    };
    Some(match parts.next() {
        None => Kind::MakeSet,
        Some(name) => Kind::Set {
            resource,
            name: name.to_owned(),
        },
    })
}

/// The uid of the set that a request means, from its body or from the test in a JSON patch.
pub fn set_meant(sent: &Value) -> &str {
    let tests =
        |step: &&Value| text(step, "/op") == "test" && text(step, "/path") == "/metadata/uid";
    match sent.as_array() {
        Some(steps) => (steps.iter().find(tests)).map_or("", |step| text(step, "/value")),
        None => uid_meant(sent),
    }
}

/// The object that a request means, from its body: the uid precondition, or else the name.
pub fn uid_meant(sent: &Value) -> &str {
    ["/preconditions/uid", "/metadata/uid", "/metadata/name"]
        .into_iter()
        .map(|pointer| text(sent, pointer))
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}
