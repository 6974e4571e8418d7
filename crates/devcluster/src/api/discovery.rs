//! The API discovery documents: groups, versions and resources.

use serde_json::{Value, json};

use crate::objects::resource::{KUEUE, KUEUE_VERSION, Resource, SCHEDULING, SCHEDULING_VERSION};

/// The verbs of a stored resource.
const STORED: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

type Kind = (&'static str, &'static str, &'static str);

/// A resource or subresource of an API group.
struct Served {
    group: &'static str,
    /// `pods` or `pods/log`.
    path: String,
    namespaced: bool,
    /// The kind of its requests and responses.
    kind: Kind,
    verbs: Vec<&'static str>,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
}

impl Served {
    fn singular(&self) -> String {
        if self.path.contains('/') {
            String::new()
        } else {
            self.kind.2.to_lowercase()
        }
    }

    /// Adds the short names and categories to a document's entry, if there are any.
    fn add_names(&self, entry: &mut Value) {
        for (field, names) in [
            ("shortNames", self.short_names),
            ("categories", self.categories),
        ] {
            if !names.is_empty() {
                entry[field] = json!(names);
            }
        }
    }
}

const AUTHENTICATION: &str = "authentication.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const SCALE: Kind = ("autoscaling", "v1", "Scale");

/// The subresources other than `status`, with their kinds and verbs.
fn subresources(resource: Resource) -> Vec<(&'static str, Kind, Vec<&'static str>)> {
    match resource {
        Resource::Pods => vec![
            ("binding", ("", "v1", "Binding"), vec!["create"]),
            ("eviction", ("policy", "v1", "Eviction"), vec!["create"]),
            ("log", ("", "v1", "Pod"), vec!["get"]),
            ("resize", ("", "v1", "Pod"), vec!["get", "patch", "update"]),
        ],
        Resource::ServiceAccounts => {
            let kind = (AUTHENTICATION, "v1", "TokenRequest");
            vec![("token", kind, vec!["create"])]
        }
        set if set.is_workload() => vec![("scale", SCALE, vec!["get", "patch", "update"])],
        _ => Vec::new(),
    }
}

/// Review resources, which are answered and not stored: group and kind.
const REVIEWS: [(&str, &str); 3] = [
    (AUTHENTICATION, "TokenReview"),
    (AUTHORIZATION, "SelfSubjectAccessReview"),
    (AUTHORIZATION, "SelfSubjectRulesReview"),
];

/// The plural name of a review, as in paths.
fn plural(review: &str) -> String {
    format!("{}s", review.to_lowercase())
}

/// All resources and subresources, in the order of their paths.
fn served() -> Vec<Served> {
    let mut all = Vec::new();
    for resource in Resource::ALL {
        let t = resource.traits();
        let kind = (t.group, t.version, t.kind);
        let sub = |name: &str, kind, verbs: Vec<&'static str>| Served {
            group: t.group,
            path: format!("{}/{name}", t.plural),
            namespaced: t.namespaced,
            kind,
            verbs,
            short_names: &[],
            categories: &[],
        };
        let mut verbs = STORED.to_vec();
        // Real servers do not offer to delete namespaces as a collection.
        if resource == Resource::Namespaces {
            verbs.retain(|v| *v != "deletecollection");
        }
        all.push(Served {
            path: t.plural.to_owned(),
            short_names: t.short_names,
            categories: t.categories,
            ..sub("", kind, verbs)
        });
        for (name, kind, verbs) in subresources(resource) {
            all.push(sub(name, kind, verbs));
        }
        if t.has_status {
            all.push(sub("status", kind, vec!["get", "patch", "update"]));
        }
    }
    all.extend(REVIEWS.map(|(group, kind)| Served {
        group,
        path: plural(kind),
        namespaced: false,
        kind: (group, "v1", kind),
        verbs: vec!["create"],
        short_names: &[],
        categories: &[],
    }));
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

/// The named API groups. Each has one version only.
pub(crate) const GROUPS: [&str; 8] = [
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "coordination.k8s.io",
    KUEUE,
    "policy",
    "rbac.authorization.k8s.io",
    SCHEDULING,
];

/// Whether this version of this group is served; the core group's name is empty.
pub fn is_served(group: &str, version: &str) -> bool {
    version == version_of(group) && (group.is_empty() || GROUPS.contains(&group))
}

/// The version of a group that is served.
pub fn version_of(group: &str) -> &'static str {
    match group {
        KUEUE => KUEUE_VERSION,
        SCHEDULING => SCHEDULING_VERSION,
        _ => "v1",
    }
}

/// The kind of the review at a path of a group.
pub fn review(group: &str, path: &str) -> Option<&'static str> {
    let mut reviews = REVIEWS.into_iter();
    let (_, kind) = reviews.find(|(g, kind)| *g == group && plural(kind) == path)?;
    Some(kind)
}

pub fn core_versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

fn group_value(name: &str) -> Value {
    let version = version_of(name);
    let version = json!({"groupVersion": format!("{name}/{version}"), "version": version});
    json!({"name": name, "versions": [version], "preferredVersion": version})
}

pub fn groups() -> Value {
    let groups: Vec<Value> = GROUPS.iter().map(|name| group_value(name)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

pub fn resources(group: &str) -> Value {
    let resources: Vec<Value> = served()
        .iter()
        .filter(|s| s.group == group)
        .map(|s| {
            let mut value = json!({
                "name": s.path,
                "singularName": s.singular(),
                "namespaced": s.namespaced,
                "kind": s.kind.2,
                "verbs": s.verbs,
            });
            if s.kind.0 != group {
                value["group"] = s.kind.0.into();
                value["version"] = s.kind.1.into();
            }
            s.add_names(&mut value);
            value
        })
        .collect();
    let version = format!("{group}/{}", version_of(group));
    let version = version.trim_start_matches('/');
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_kind_is_in_each_discovery_document() {
        for resource in Resource::ALL {
            let t = resource.traits();
            assert!(is_served(t.group, t.version), "{t:?}");
            let names = |list: &Value, field: &str| -> Vec<String> {
                let items = list.as_array().into_iter().flatten();
                items
                    .map(|r| r[field].as_str().unwrap_or_default().to_owned())
                    .collect()
            };
            let listed = names(&resources(t.group)["resources"], "name");
            assert!(listed.contains(&t.plural.to_owned()), "{listed:?}");
        }
    }

    #[test]
    fn discovery_lists_the_subresources_of_pods() {
        let core = resources("");
        let names: Vec<&str> = core["resources"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|s| s["name"].as_str()?.strip_prefix("pods/"))
            .collect();
        assert_eq!(names, ["binding", "eviction", "log", "resize", "status"]);
    }
}
