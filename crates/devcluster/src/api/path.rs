//! What a path names.

use percent_encoding::percent_decode_str;

use super::discovery;
use crate::objects::object::Key;
use crate::objects::resource::Resource;

/// Something that tells of the server itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Document {
    /// Which paths there are.
    Root,
    /// The versions of the core group.
    CoreVersions,
    /// The named groups.
    Groups,
    /// One of them.
    Group(String),
    /// What is served below version 1 of a group; the core group has no name.
    Resources(String),
    /// Where the OpenAPI documents are.
    OpenApiPaths,
    /// The OpenAPI document of a group.
    OpenApi(String),
    /// The older OpenAPI document, of all groups.
    Swagger,
    /// The keys by which tokens of service accounts are verified.
    Keys,
    /// Where those are.
    KeysConfiguration,
}

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// All objects of a kind, of one namespace or all.
    Collection {
        /// Their kind.
        resource: Resource,
        /// Their namespace, or all.
        namespace: Option<String>,
    },
    /// One object, or one of its subresources.
    Object {
        /// Which one.
        key: Key,
        /// Which subresource, if any.
        sub: Option<String>,
    },
    /// A watch, the way it was asked for in old times.
    OldWatch {
        /// What kind.
        resource: Resource,
        /// In which namespace, or all.
        namespace: Option<String>,
        /// Of which name, or any.
        name: Option<String>,
    },
    /// A question that is answered and not kept.
    Review {
        /// Its kind.
        kind: &'static str,
        /// In which namespace.
        namespace: Option<String>,
    },
    /// Something that tells of the server itself.
    Document(Document),
    /// The version of the server.
    Version,
    /// Whether the server is well.
    Health,
    /// A path below a group that is served, to something that is not.
    UnknownResource,
    /// A path that nothing is at.
    Nothing,
    /// A path that cannot be read.
    Malformed,
}

impl Target {
    /// Reads a path.
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
            [""] => Document::Root,
            ["api"] => Document::CoreVersions,
            ["apis"] => Document::Groups,
            ["apis", group] => Document::Group((*group).to_owned()),
            ["api", "v1"] => Document::Resources(String::new()),
            ["apis", group, version] if discovery::is_served(group, version) => {
                Document::Resources((*group).to_owned())
            }
            ["openapi", "v2"] => Document::Swagger,
            ["openapi", "v3"] => Document::OpenApiPaths,
            ["openapi", "v3", "api", "v1"] => Document::OpenApi(String::new()),
            ["openapi", "v3", "apis", group, "v1"] => Document::OpenApi((*group).to_owned()),
            ["openid", "v1", "jwks"] => Document::Keys,
            [".well-known", "openid-configuration"] => Document::KeysConfiguration,
            ["api", version, rest @ ..] => return resource_path("", version, rest),
            ["apis", group, version, rest @ ..] => return resource_path(group, version, rest),
            _ => return Self::Nothing,
        };
        Self::Document(document)
    }
}

/// The parts of a path, decoded.
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
    let review = match rest {
        [plural] => discovery::review(group, plural).map(|review| (review, None)),
        ["namespaces", namespace, plural] => {
            discovery::review(group, plural).map(|review| (review, Some(*namespace)))
        }
        _ => None,
    };
    if let Some(((kind, namespaced), namespace)) = review
        && namespaced == namespace.is_some()
    {
        return Target::Review {
            kind,
            namespace: namespace.map(str::to_owned),
        };
    }
    let (old_watch, rest) = match rest {
        ["watch", rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let find = |plural: &str| Resource::find(group, version, plural);
    let is_subresource_of_namespace = |name: &str| matches!(name, "status" | "finalize");
    let (resource, namespace, name, sub) = match rest {
        ["namespaces", namespace, plural, tail @ ..] if !is_subresource_of_namespace(plural) => {
            let (name, sub) = match tail {
                [] => (None, None),
                [name] => (Some(*name), None),
                [name, sub] => (Some(*name), Some(*sub)),
                _ => return Target::UnknownResource,
            };
            (
                find(plural).filter(|r| r.traits().namespaced),
                Some(*namespace),
                name,
                sub,
            )
        }
        [plural] => (find(plural), None, None, None),
        [plural, name] => (
            find(plural).filter(|r| !r.traits().namespaced),
            None,
            Some(*name),
            None,
        ),
        [plural, name, sub] => (
            find(plural).filter(|r| !r.traits().namespaced),
            None,
            Some(*name),
            Some(*sub),
        ),
        _ => return Target::UnknownResource,
    };
    let Some(resource) = resource else {
        return Target::UnknownResource;
    };
    let namespace = namespace.map(str::to_owned);
    match (name, sub) {
        (name, None) if old_watch => Target::OldWatch {
            resource,
            namespace,
            name: name.map(str::to_owned),
        },
        (_, Some(_)) if old_watch => Target::UnknownResource,
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
    fn paths_name_collections_objects_and_subresources() {
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
        let old = Target::OldWatch {
            resource: Resource::Pods,
            namespace: Some("ns".into()),
            name: None,
        };
        assert_eq!(Target::of("/api/v1/watch/namespaces/ns/pods"), old);
    }

    #[test]
    fn what_is_not_there_is_told_apart() {
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
    fn what_is_asked_and_not_kept_has_paths_of_its_own() {
        let review = |namespace: Option<&str>, kind| Target::Review {
            kind,
            namespace: namespace.map(str::to_owned),
        };
        let root = "/apis/authorization.k8s.io/v1";
        assert_eq!(
            Target::of(&format!("{root}/selfsubjectaccessreviews")),
            review(None, "SelfSubjectAccessReview")
        );
        assert_eq!(
            Target::of(&format!("{root}/namespaces/ns/localsubjectaccessreviews")),
            review(Some("ns"), "LocalSubjectAccessReview")
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
        fn any_path_is_read(path in ".*", tail in "[a-z/%0-9]*") {
            Target::of(&path);
            Target::of(&format!("/api/v1/{tail}"));
        }
    }
}
