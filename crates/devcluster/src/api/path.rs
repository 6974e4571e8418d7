//! Parses request paths into what they address.

use percent_encoding::percent_decode_str;

use super::discovery;
use crate::objects::object::Key;
use crate::objects::resource::Resource;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    CoreVersions,
    Groups,
    /// The resources of version 1 of a group; the core group's name is empty.
    Resources(String),
    /// The index of the OpenAPI v3 documents.
    OpenApiPaths,
    /// The OpenAPI v3 document of a group.
    OpenApi(String),
    /// The keys that verify service account tokens.
    Keys,
    /// The OpenID configuration, which tells where the keys are.
    KeysConfiguration,
}

/// What a path addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All objects of a kind, in one namespace or in all.
    Collection {
        resource: Resource,
        /// `None`: all namespaces.
        namespace: Option<String>,
    },
    /// One object or one of its subresources.
    Object {
        key: Key,
        sub: Option<String>,
    },
    /// A review, which is answered and not stored.
    Review(&'static str),
    Document(Document),
    Version,
    Health,
    /// A resource that is not served, of a group that is.
    UnknownResource,
    Nothing,
    /// A path with an invalid percent-encoding.
    Malformed,
}

impl Target {
    pub fn of(path: &str) -> Self {
        let Some(segments) = segments(path) else {
            return Self::Malformed;
        };
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let document = match segments.as_slice() {
            ["healthz" | "livez" | "readyz"] | ["healthz" | "livez" | "readyz", "ping"] => {
                return Self::Health;
            }
            ["version"] => return Self::Version,
            ["api"] => Document::CoreVersions,
            ["apis"] => Document::Groups,
            ["api", "v1"] => Document::Resources(String::new()),
            ["apis", group, version] if discovery::is_served(group, version) => {
                Document::Resources((*group).to_owned())
            }
            ["openapi", "v3"] => Document::OpenApiPaths,
            ["openapi", "v3", "api", "v1"] => Document::OpenApi(String::new()),
            ["openapi", "v3", "apis", group, version] if discovery::is_served(group, version) => {
                Document::OpenApi((*group).to_owned())
            }
            ["openid", "v1", "jwks"] => Document::Keys,
            [".well-known", "openid-configuration"] => Document::KeysConfiguration,
            ["api", version, rest @ ..] => return resource_path("", version, rest),
            ["apis", group, version, rest @ ..] => return resource_path(group, version, rest),
            _ => return Self::Nothing,
        };
        Self::Document(document)
    }
}

/// The decoded segments of a path; `None` if one is malformed.
pub fn segments(path: &str) -> Option<Vec<String>> {
    path.trim_start_matches('/')
        .trim_end_matches('/')
        .split('/')
        .map(unescaped)
        .collect()
}

fn resource_path(group: &str, version: &str, rest: &[&str]) -> Target {
    if !discovery::is_served(group, version) {
        return Target::Nothing;
    }
    if let [plural] = rest
        && let Some(kind) = discovery::review(group, plural)
    {
        return Target::Review(kind);
    }
    let find = |plural: &str| Resource::find(group, version, plural);
    let (resource, namespace, name, sub) = match rest {
        ["namespaces", namespace, plural, tail @ ..] if *plural != "status" => {
            if tail.len() > 2 {
                return Target::UnknownResource;
            }
            let resource = find(plural).filter(|r| r.traits().namespaced);
            let (name, sub) = (tail.first().copied(), tail.get(1).copied());
            (resource, Some(*namespace), name, sub)
        }
        [plural] => (find(plural), None, None, None),
        [plural, name] | [plural, name, _] => {
            let resource = find(plural).filter(|r| !r.traits().namespaced);
            (resource, None, Some(*name), rest.get(2).copied())
        }
        _ => return Target::UnknownResource,
    };
    let Some(resource) = resource else {
        return Target::UnknownResource;
    };
    let namespace = namespace.map(str::to_owned);
    match (name, sub) {
        (None, _) => Target::Collection {
            resource,
            namespace,
        },
        (Some(name), sub) => Target::Object {
            key: Key::new(resource, namespace.as_deref().unwrap_or_default(), name),
            sub: sub.map(str::to_owned),
        },
    }
}

/// A part of a path without escapes; none where an escape is not complete, which the crate would leave as it is.
fn unescaped(segment: &str) -> Option<String> {
    let mut escapes = segment.split('%').skip(1);
    let is_escape =
        |after: &str| after.len() > 1 && after.bytes().take(2).all(|b| b.is_ascii_hexdigit());
    if !escapes.all(is_escape) {
        return None;
    }
    let text = percent_decode_str(segment).decode_utf8().ok()?;
    Some(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(name: &str) -> Key {
        Key::new(Resource::Pods, "ns", name)
    }

    #[test]
    fn paths_address_collections_objects_and_subresources() {
        let pods = |namespace: Option<&str>| Target::Collection {
            resource: Resource::Pods,
            namespace: namespace.map(str::to_owned),
        };
        assert_eq!(Target::of("/api/v1/pods"), pods(None));
        assert_eq!(Target::of("/api/v1/namespaces/ns/pods"), pods(Some("ns")));
        assert_eq!(
            Target::of("/api/v1/namespaces/ns/pods/a"),
            Target::Object {
                key: key("a"),
                sub: None
            }
        );
        let status = Target::Object {
            key: key("a%b"),
            sub: Some("status".into()),
        };
        assert_eq!(
            Target::of("/api/v1/namespaces/ns/pods/a%25b/status"),
            status
        );
        let namespace = Key::new(Resource::Namespaces, "", "ns");
        assert_eq!(
            Target::of("/api/v1/namespaces/ns"),
            Target::Object {
                key: namespace,
                sub: None
            }
        );
    }

    #[test]
    fn unknown_resources_and_unknown_paths_are_distinguished() {
        assert_eq!(Target::of("/nothing/here"), Target::Nothing);
        assert_eq!(Target::of("/apis/none/v1/pods"), Target::Nothing);
        assert_eq!(Target::of("/apis/coordination.k8s.io/v2"), Target::Nothing);
        assert_eq!(
            Target::of("/api/v1/namespaces/ns/podz"),
            Target::UnknownResource
        );
        assert_eq!(Target::of("/api/v1/pods/a"), Target::UnknownResource);
        assert_eq!(Target::of("/api/v1/%zz"), Target::Malformed);
    }

    #[test]
    fn reviews_have_their_own_paths() {
        let root = "/apis/authorization.k8s.io/v1";
        assert_eq!(
            Target::of(&format!("{root}/selfsubjectaccessreviews")),
            Target::Review("SelfSubjectAccessReview")
        );
        assert_eq!(
            Target::of(&format!("{root}/localsubjectaccessreviews")),
            Target::UnknownResource
        );
        assert_eq!(
            Target::of("/apis/coordination.k8s.io/v1/"),
            Target::Document(Document::Resources("coordination.k8s.io".into()))
        );
    }

    proptest! {
        #[test]
        fn any_path_is_parsed_without_panic(path in ".*", tail in "[a-z/%0-9]*") {
            Target::of(&path);
            Target::of(&format!("/api/v1/{tail}"));
        }
    }
}
