//! Classifies a driver's requests to the API server as far as the checks need it.

use devcluster::Resource;
use http::Method;
use http::request::Parts;
use serde_json::Value;
use tokio::time::Instant;

use crate::objects::text;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestKind {
    CreatePod,
    /// Deletes a collection of pods.
    DeletePods,
    DeletePod {
        name: String,
    },
    PatchPod {
        name: String,
    },
    /// Creates the application record.
    CreateRecord,
    DeleteRecord,
    CreateSet,
    /// Changes, scales or deletes a set.
    WriteSet {
        resource: Resource,
        name: String,
    },
    /// Any other write.
    OtherWrite,
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
pub struct CompletedWrite {
    /// The number of the driver's start.
    pub driver: usize,
    pub kind: RequestKind,
    pub code: u16,
    /// Whether it reached the server after the server's own time limit for it; a real server would have dropped it.
    pub late: bool,
    pub sent_at: Instant,
    pub sent: Value,
    /// The pod or set of that name before the write.
    pub before: Option<Value>,
    /// The uid of the created pod.
    pub created_uid: Option<String>,
    /// Whether a webhook changed the requested labels.
    pub relabelled: bool,
}

impl RequestKind {
    pub fn of(parts: &Parts) -> Self {
        let query = parts.uri.query().unwrap_or_default();
        let path = parts.uri.path();
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let name = name.to_owned();
        let pod = parent.ends_with("/pods");
        match parts.method {
            Method::GET if query.contains("watch=true") => RequestKind::Watch,
            Method::GET if query.contains("continue=") => RequestKind::Page,
            Method::GET if query.contains("resourceVersionMatch") => RequestKind::CachedList,
            Method::GET if path.ends_with("/pods") => RequestKind::List,
            Method::GET => RequestKind::Read,
            Method::POST if path.ends_with("/pods") => RequestKind::CreatePod,
            Method::DELETE if path.ends_with("/pods") => RequestKind::DeletePods,
            Method::DELETE if pod => RequestKind::DeletePod { name },
            Method::PATCH if pod => RequestKind::PatchPod { name },
            Method::POST if path.ends_with("/configmaps") => RequestKind::CreateRecord,
            Method::DELETE if path.ends_with("/configmaps/sim-app") => RequestKind::DeleteRecord,
            _ => set_write(path).unwrap_or(RequestKind::OtherWrite),
        }
    }

    /// The name of the pod that the request changes.
    pub fn name(&self) -> Option<&str> {
        match self {
            RequestKind::DeletePod { name } | RequestKind::PatchPod { name } => Some(name),
            _ => None,
        }
    }

    pub fn deletes_pods(&self) -> bool {
        matches!(
            self,
            RequestKind::DeletePod { .. } | RequestKind::DeletePods
        )
    }

    pub fn is_write(&self) -> bool {
        !matches!(
            self,
            RequestKind::CachedList
                | RequestKind::List
                | RequestKind::Page
                | RequestKind::Watch
                | RequestKind::Read
        )
    }
}

impl CompletedWrite {
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// Classifies a write to a set.
fn set_write(path: &str) -> Option<RequestKind> {
    let mut parts = path.strip_prefix("/apis/apps/v1/namespaces/")?.split('/');
    let resource = match parts.nth(1)? {
        "statefulsets" => Resource::StatefulSets,
        "deployments" => Resource::Deployments,
        _ => return None,
    };
    Some(match parts.next() {
        None => RequestKind::CreateSet,
        Some(name) => RequestKind::WriteSet {
            resource,
            name: name.to_owned(),
        },
    })
}

/// The uid of the set that a request addresses, from its body or from the test in a JSON patch.
pub fn addressed_set(sent: &Value) -> &str {
    let tests =
        |step: &&Value| text(step, "/op") == "test" && text(step, "/path") == "/metadata/uid";
    match sent.as_array() {
        Some(steps) => (steps.iter().find(tests)).map_or("", |step| text(step, "/value")),
        None => addressed_object(sent),
    }
}

/// The object that a request addresses, from its body: the uid precondition, or else the name.
pub fn addressed_object(sent: &Value) -> &str {
    ["/preconditions/uid", "/metadata/uid", "/metadata/name"]
        .into_iter()
        .map(|pointer| text(sent, pointer))
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}
