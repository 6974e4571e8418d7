//! The attributes of a request on which authorization decides: verb, resource, namespace and name.

use http::Method;

use crate::api::path;
use crate::api::query::Query;

/// The verb of a request and the resource or path it applies to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `get`, `list`, `create` …; for a path that is no resource, the HTTP method in lower case.
    pub verb: String,
    /// The path, if it is not one of a resource.
    pub path: Option<String>,
    pub group: String,
    /// The plural name of the kind.
    pub resource: String,
    pub subresource: String,
    /// The namespace; empty for cluster-scoped resources and for requests across all namespaces.
    pub namespace: String,
    /// The object's name; empty for requests about more than one.
    pub name: String,
}

impl Attributes {
    /// The attributes of a request. A path that is not served can still be one of a resource.
    pub fn of(method: &Method, uri_path: &str, query: &Query) -> Self {
        let verb = method.as_str().to_lowercase();
        let other = || Self {
            verb: verb.clone(),
            path: Some(uri_path.to_owned()),
            ..Self::default()
        };
        let Some(segments) = path::segments(uri_path) else {
            return other();
        };
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (group, mut rest) = match segments.as_slice() {
            ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => return other(),
        };
        let mut wanted = Self {
            group: group.to_owned(),
            ..Self::default()
        };
        if let ["namespaces", namespace, after @ ..] = rest {
            (*namespace).clone_into(&mut wanted.namespace);
            if after.first().is_some_and(|first| *first != "status") {
                rest = after;
            }
        }
        let part = |i: usize| rest.get(i).copied().unwrap_or_default().to_owned();
        (wanted.resource, wanted.name, wanted.subresource) = (part(0), part(1), part(2));
        let one = !wanted.name.is_empty();
        let watches = query.flag("watch") == Some(true);
        wanted.verb = match (method, one) {
            (&Method::GET | &Method::HEAD, true) => "get",
            (&Method::GET | &Method::HEAD, _) if watches => "watch",
            (&Method::GET | &Method::HEAD, _) => "list",
            (&Method::POST, _) => "create",
            (&Method::PUT, _) => "update",
            (&Method::DELETE, false) => "deletecollection",
            _ => &verb,
        }
        .to_owned();
        wanted
    }

    /// The resource as rules name it: `pods` or `pods/log`.
    pub fn full_resource(&self) -> String {
        if self.subresource.is_empty() {
            self.resource.clone()
        } else {
            format!("{}/{}", self.resource, self.subresource)
        }
    }

    /// The message for a user that is not authorized.
    pub fn refusal(&self, user: &str) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let (user, verb) = (quoted(user), &self.verb);
        if let Some(path) = &self.path {
            return format!("User {user} cannot {verb} path {}", quoted(path));
        }
        let place = if self.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace {}", quoted(&self.namespace))
        };
        format!(
            "User {user} cannot {verb} resource {} in API group {} {place}",
            quoted(&self.full_resource()),
            quoted(&self.group)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(method: Method, uri: &str) -> String {
        let uri: http::Uri = uri.parse().expect("a path");
        let query = Query::of(&uri).expect("a query");
        Attributes::of(&method, uri.path(), &query).refusal("u")
    }

    #[test]
    fn attributes_follow_from_path_and_method() {
        for (method, uri, wanted) in [
            (
                Method::GET,
                "/api/v1/namespaces/ns/pods",
                "list resource \"pods\" in API group \"\" in the namespace \"ns\"",
            ),
            (
                Method::GET,
                "/api/v1/pods?watch=1",
                "watch resource \"pods\" in API group \"\" at the cluster scope",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/ns/pods/a/log",
                "get resource \"pods/log\" in API group \"\" in the namespace \"ns\"",
            ),
            (
                Method::DELETE,
                "/api/v1/namespaces/ns/pods",
                "deletecollection resource \"pods\" in API group \"\" in the namespace \"ns\"",
            ),
            (
                Method::PATCH,
                "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l",
                "patch resource \"leases\" in API group \"coordination.k8s.io\" in the namespace \"ns\"",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/ns",
                "get resource \"namespaces\" in API group \"\" in the namespace \"ns\"",
            ),
            (
                Method::PUT,
                "/api/v1/namespaces/ns/status",
                "update resource \"namespaces/status\" in API group \"\" in the namespace \"ns\"",
            ),
            (Method::GET, "/version", "get path \"/version\""),
            (Method::GET, "/api/v1", "get path \"/api/v1\""),
        ] {
            assert_eq!(
                of(method, uri),
                format!("User \"u\" cannot {wanted}"),
                "{uri}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_path_is_parsed_without_panic(path in "/[a-z/%0-9]*") {
            Attributes::of(&Method::GET, &path, &Query::default());
            Attributes::of(&Method::GET, &format!("/api/v1{path}"), &Query::default());
        }
    }
}
