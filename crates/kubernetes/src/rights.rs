//! The rights that a driver needs, and those that it lacks: by an API server's message (spec A-21) or by asking (spec
//! C-8).

use std::fmt;

use serde::Deserialize;

/// One verb on one resource, in the driver's namespace if the resource has namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    pub verb: &'static str,
    /// Empty for the core group.
    pub group: &'static str,
    /// With the subresource, as in `statefulsets/scale`.
    pub resource: &'static str,
    /// `None`: on all objects of the resource.
    pub name: Option<String>,
    /// Whether the resource belongs to no namespace, so that a ClusterRole has to grant it.
    pub of_cluster: bool,
}

impl Right {
    /// The resource, and the subresource or nothing.
    pub fn parts(&self) -> (&'static str, &'static str) {
        self.resource.split_once('/').unwrap_or((self.resource, ""))
    }

    /// The Role rule that would grant the right, as YAML in one line.
    pub fn rule(&self) -> String {
        let names = self.name.as_ref();
        let names = names.map_or_else(String::new, |name| format!(", resourceNames: [{name:?}]"));
        format!(
            "{{apiGroups: [{:?}], resources: [{:?}]{names}, verbs: [{:?}]}}{}",
            self.group,
            self.resource,
            self.verb,
            if self.of_cluster {
                "   # in a ClusterRole"
            } else {
                ""
            },
        )
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        match &self.name {
            Some(name) => write!(f, " {name}"),
            None if self.of_cluster => f.write_str(" (by a ClusterRole)"),
            None => Ok(()),
        }
    }
}

/// A rule that applies to the client, as the API server lists it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Granted {
    pub verbs: Option<Vec<String>>,
    pub api_groups: Option<Vec<String>>,
    pub resources: Option<Vec<String>>,
    /// Empty or missing: for all objects.
    pub resource_names: Option<Vec<String>>,
}

impl Granted {
    /// Whether this rule alone grants the right.
    pub fn grants(&self, right: &Right) -> bool {
        let has = |list: &Option<Vec<String>>, wanted: &str| {
            let mut list = list.as_deref().unwrap_or_default().iter();
            list.any(|word| word == "*" || word == wanted)
        };
        let (_, subresource) = right.parts();
        let of_any_resource = format!("*/{subresource}");
        let names = self.resource_names.as_deref().unwrap_or_default();
        has(&self.verbs, right.verb)
            && has(&self.api_groups, right.group)
            && (has(&self.resources, right.resource)
                || !subresource.is_empty() && has(&self.resources, &of_any_resource))
            && (names.is_empty() || right.name.as_ref().is_some_and(|name| names.contains(name)))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingRight {
    /// The user name, such as `system:serviceaccount:jobs:driver`.
    pub user: String,
    pub verb: String,
    /// The resource, such as `pods` or `pods/log`.
    pub resource: String,
    /// The resource's API group; empty for the core group.
    pub group: String,
    /// `None` for the whole cluster.
    pub namespace: Option<String>,
}

impl MissingRight {
    /// Parses `… is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "n"`.
    pub fn in_message(message: &str) -> Option<Self> {
        let rest = message.split_once("is forbidden: User \"")?.1;
        let (user, rest) = rest.split_once("\" cannot ")?;
        let (verb, rest) = rest.split_once(" resource \"")?;
        let (resource, rest) = rest.split_once('"')?;
        let quoted_after = |label: &str| {
            let text = rest.split_once(label)?.1;
            Some(text.split_once('"')?.0.to_owned())
        };
        Some(Self {
            user: user.to_owned(),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            group: quoted_after("in API group \"").unwrap_or_default(),
            namespace: quoted_after("in the namespace \""),
        })
    }

    /// The Role rule that would grant the permission, as YAML in one line.
    pub fn rule(&self) -> String {
        format!(
            "{{apiGroups: [{:?}], resources: [{:?}], verbs: [{:?}]}}",
            self.group, self.resource, self.verb
        )
    }
}

impl fmt::Display for MissingRight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} may not {} {}", self.user, self.verb, self.resource)?;
        match &self.namespace {
            Some(namespace) => write!(f, " in namespace {namespace}")?,
            None => f.write_str(" in the cluster")?,
        }
        write!(f, "; the rule that would allow it: {}", self.rule())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(groups: &[&str], resources: &[&str], verbs: &[&str], names: &[&str]) -> Granted {
        let words = |words: &[&str]| Some(words.iter().map(|word| (*word).to_owned()).collect());
        Granted {
            verbs: words(verbs),
            api_groups: words(groups),
            resources: words(resources),
            resource_names: words(names),
        }
    }

    fn right(resource: &'static str, name: Option<&str>) -> Right {
        Right {
            verb: "get",
            group: "apps",
            resource,
            name: name.map(str::to_owned),
            of_cluster: false,
        }
    }

    // spec: C-8
    #[test]
    fn a_rule_grants_what_it_names_or_what_its_wildcards_cover() {
        let apps = right("deployments", None);
        assert!(rule(&["apps"], &["deployments"], &["get"], &[]).grants(&apps));
        assert!(rule(&["*"], &["*"], &["*"], &[]).grants(&apps));
        assert!(!rule(&[""], &["deployments"], &["get"], &[]).grants(&apps));
        assert!(!rule(&["apps"], &["deployments/scale"], &["get"], &[]).grants(&apps));
        assert!(!rule(&["apps"], &["deployments"], &["list"], &[]).grants(&apps));
        assert!(!Granted::default().grants(&apps));
        let scale = right("deployments/scale", None);
        assert!(rule(&["apps"], &["*/scale"], &["get"], &[]).grants(&scale));
        assert!(!rule(&["apps"], &["deployments"], &["get"], &[]).grants(&scale));
    }

    // spec: C-8
    #[test]
    fn a_rule_for_some_objects_grants_nothing_on_all() {
        let named = rule(&["apps"], &["deployments"], &["get"], &["a", "b"]);
        assert!(named.grants(&right("deployments", Some("b"))));
        assert!(!named.grants(&right("deployments", Some("c"))));
        assert!(!named.grants(&right("deployments", None)));
        let all = rule(&["apps"], &["deployments"], &["get"], &[]);
        assert!(all.grants(&right("deployments", Some("c"))));
    }

    // spec: C-8
    #[test]
    fn a_right_names_the_rule_that_would_grant_it() {
        let right = right("deployments/scale", Some("etl-a"));
        assert_eq!(right.to_string(), "get deployments/scale etl-a");
        let rule = r#"{apiGroups: ["apps"], resources: ["deployments/scale"], resourceNames: ["etl-a"], verbs: ["get"]}"#;
        assert_eq!(right.rule(), rule);
    }
}
