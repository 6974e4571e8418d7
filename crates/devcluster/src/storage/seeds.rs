//! The initial objects of a cluster: the standard namespaces, and the roles and accounts that the user configured.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::store::State;
use crate::access::roles;
use crate::api::decode;
use crate::changes::write::seconds;
use crate::objects::ids::Ids;
use crate::objects::kinds;
use crate::objects::object::{Key, set, text};
use crate::objects::resource::Resource;
use crate::validation::defaults;
use crate::validation::validate;

/// The namespaces that always exist.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

#[derive(Clone, Debug, PartialEq)]
pub struct Seed {
    resource: Resource,
    object: Value,
}

/// Why a document cannot be an initial object.
#[derive(Debug, thiserror::Error)]
pub enum SeedError {
    #[error("document {0} is no YAML that describes an object: {1}")]
    Unreadable(usize, String),
    #[error(
        "document {0} is a {1:?}, where only Role, ClusterRole, RoleBinding, ClusterRoleBinding, ServiceAccount and \
         Namespace can stand"
    )]
    Kind(usize, String),
    #[error("document {0}, {1} {2:?}: {3}")]
    Invalid(usize, &'static str, String, String),
}

impl Seed {
    /// Parses a file of YAML documents: RBAC roles and bindings, and their service accounts and namespaces.
    pub fn parse(yaml: &str) -> Result<Vec<Self>, SeedError> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
            .map_err(|e| SeedError::Unreadable(1, e.to_string()))?;
        let documents = documents.into_iter().enumerate();
        documents
            .filter(|(_, document)| !document.is_null())
            .map(|(i, document)| Self::one(i + 1, document))
            .collect()
    }

    fn one(place: usize, document: Value) -> Result<Self, SeedError> {
        let kind = text(&document, &["kind"]);
        let resource = Resource::of_kind(text(&document, &["apiVersion"]), kind).filter(|r| {
            matches!(
                r,
                Resource::Roles
                    | Resource::ClusterRoles
                    | Resource::RoleBindings
                    | Resource::ClusterRoleBindings
                    | Resource::ServiceAccounts
                    | Resource::Namespaces
            )
        });
        let Some(resource) = resource else {
            return Err(SeedError::Kind(place, kind.to_owned()));
        };
        let traits = resource.traits();
        let name = text(&document, &["metadata", "name"]).to_owned();
        let invalid = |why: String| SeedError::Invalid(place, traits.kind, name.clone(), why);
        let decoded = decode::object(resource, document).map_err(|e| invalid(e.why))?;
        if !decoded.unknown.is_empty() {
            return Err(invalid(decoded.unknown.join(", ")));
        }
        let mut object = decoded.object;
        let namespace = text(&object, &["metadata", "namespace"]);
        if traits.namespaced && namespace.is_empty() {
            return Err(invalid("metadata.namespace is missing".to_owned()));
        }
        defaults::fill(resource, &mut object);
        let causes = validate::object(resource, &object);
        let checked = causes.check(traits.kind, traits.group, &name);
        checked.map_err(|error| invalid(error.message))?;
        Ok(Self { resource, object })
    }
}

pub(crate) fn fresh(
    log_limit: usize,
    now: Timestamp,
    ids: &mut Ids,
    given: Option<Vec<Seed>>,
) -> State {
    let mut state = State::new(log_limit);
    let mut versions = 1..;
    let mut seed = |resource: Resource, mut object: Value| {
        let traits = resource.traits();
        let namespace = text(&object, &["metadata", "namespace"]).to_owned();
        let name = text(&object, &["metadata", "name"]).to_owned();
        object["apiVersion"] = traits.api_version.into();
        object["kind"] = traits.kind.into();
        set(&mut object, &["metadata", "uid"], ids.uid().into());
        let created = seconds(now);
        set(
            &mut object,
            &["metadata", "creationTimestamp"],
            created.into(),
        );
        defaults::fill(resource, &mut object);
        if let Some(status) = defaults::first_status(resource, &object) {
            object["status"] = status;
        }
        debug_assert!(decode::object(resource, object.clone()).is_ok());
        let key = Key::new(resource, &namespace, &name);
        state.seed(key, object, versions.next().unwrap_or(1));
    };
    for name in NAMESPACES {
        seed(Resource::Namespaces, json!({"metadata": {"name": name}}));
    }
    for namespace in NAMESPACES {
        seed(Resource::ServiceAccounts, kinds::default_account(namespace));
    }
    if let Some(given) = given {
        for role in roles::default_roles() {
            seed(Resource::ClusterRoles, role);
        }
        for Seed { resource, object } in given {
            seed(resource, object);
        }
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLE: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: r, namespace: ns}
rules:
- apiGroups: ['']
  resources: [pods]
  verbs: [get]
";

    #[test]
    fn roles_are_parsed_document_by_document() {
        let two = format!("{ROLE}---{ROLE}");
        let seeds = Seed::parse(&two).expect("two roles");
        assert_eq!(seeds.len(), 2);
        assert_eq!(seeds[0].resource, Resource::Roles);
        assert_eq!(seeds[0].object["rules"][0]["apiGroups"], json!([""]));
    }

    #[test]
    fn an_invalid_document_is_refused_with_its_index_and_name() {
        for (yaml, why) in [
            ("kind: [", "document 1"),
            ("apiVersion: v1\nkind: Pod\nmetadata: {name: a}", "\"Pod\""),
            (
                &ROLE.replace(", namespace: ns", ""),
                "metadata.namespace is missing",
            ),
            (&ROLE.replace("verbs: [get]", "verbs: []"), "rules[0].verbs"),
            (&ROLE.replace("verbs:", "verb:"), "verb"),
        ] {
            let error = Seed::parse(yaml).expect_err(yaml).to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
