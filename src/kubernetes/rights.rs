//! Extracts the missing permission from an API server's message (spec A-21).

use std::fmt;

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
