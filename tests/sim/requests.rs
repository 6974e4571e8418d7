//! What a driver asks of the API server, as far as the world cares.

use devcluster::Resource;
use http::Method;
use http::request::Parts;
use serde_json::Value;

use crate::hand::text;

/// What a request is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Create,
    /// Deletes all of a kind.
    Sweep,
    Delete {
        name: String,
    },
    Patch {
        name: String,
    },
    /// Makes the application record.
    MakeRecord,
    /// Deletes it.
    DeleteRecord,
    /// Makes a set, which makes pods.
    MakeSet,
    /// Changes one, says how large it is to be, or deletes it.
    Set {
        resource: Resource,
        name: String,
    },
    /// Anything else that changes something.
    Write,
    /// A list that may come from a cache.
    CachedList,
    /// A list of the newest there is.
    List,
    /// A further page of a list.
    Page,
    Watch,
    Read,
}

/// What the server did for a driver.
#[derive(Debug)]
pub struct Done {
    /// Which start of a driver.
    pub driver: usize,
    pub kind: Kind,
    pub code: u16,
    /// Whether it came to the server later than the server would work on it: no real one is as late as that.
    pub late: bool,
    pub sent: Value,
    /// The pod, or the set, of that name before.
    pub before: Option<Value>,
    /// The uid of the pod that was made.
    pub made: Option<String>,
    /// Whether it does not bear the labels that were asked for.
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

    /// The pod that it changes.
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
    /// Whether it was carried out.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// What a write of sets is.
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

/// Which set a request is about, as its body says: also as what a JSON patch tests first.
pub fn set_meant(sent: &Value) -> &str {
    let tests =
        |step: &&Value| text(step, "/op") == "test" && text(step, "/path") == "/metadata/uid";
    match sent.as_array() {
        Some(steps) => (steps.iter().find(tests)).map_or("", |step| text(step, "/value")),
        None => uid_meant(sent),
    }
}

/// Which object a request is about, as its body says: its name, or the uid that it must have.
pub fn uid_meant(sent: &Value) -> &str {
    ["/preconditions/uid", "/metadata/uid", "/metadata/name"]
        .into_iter()
        .map(|pointer| text(sent, pointer))
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}
