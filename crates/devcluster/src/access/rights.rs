//! Authorization: every authenticated user may do anything, or RBAC roles and bindings decide.

use serde_json::{Value, json};

use super::attributes::Attributes;
use crate::api::status::ApiError;
use crate::objects::object::{Key, list, strings, text, text_or};
use crate::objects::resource::Resource;
use crate::storage::store::State;

/// The group that may do anything, whatever the roles say.
pub const MASTERS: &str = "system:masters";

/// The group of every authenticated user.
pub const AUTHENTICATED: &str = "system:authenticated";

/// The group of every service account.
pub const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

/// The group of anonymous users.
const UNAUTHENTICATED: &str = "system:unauthenticated";

#[derive(Clone, Debug, Default, PartialEq)]
pub struct User {
    pub name: String,
    /// Distinguishes users of the same name.
    pub uid: String,
    pub groups: Vec<String>,
    /// Further attributes of the user, for example the pod that a token is bound to.
    pub extra: Value,
}

impl User {
    /// The user of requests that carry no credentials.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// The user as a `UserInfo` of review objects.
    pub fn to_value(&self) -> Value {
        let mut value = json!({"username": self.name, "groups": self.groups});
        if !self.uid.is_empty() {
            value["uid"] = self.uid.as_str().into();
        }
        if self.extra.is_object() {
            value["extra"] = self.extra.clone();
        }
        value
    }

    pub fn is_of(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Every authenticated user may do anything.
    All,
    /// RBAC: roles and bindings decide.
    Roles,
}

/// The rules that every user has.
fn default_rules(user: &User) -> Vec<Value> {
    let urls = |urls: &[&str]| json!({"verbs": ["get"], "nonResourceURLs": urls});
    let well = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
    let mut rules = vec![urls(&well), urls(&["/healthz/*", "/livez/*", "/readyz/*"])];
    if user.is_of(AUTHENTICATED) {
        rules.push(urls(&[
            "/",
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/openapi",
            "/openapi/*",
        ]));
        rules.push(json!({
            "verbs": ["create"],
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        }));
    }
    // Not every authenticated user: a person or a certificate needs a right of its own.
    if user.is_of(SERVICE_ACCOUNTS) {
        rules.push(urls(&[
            "/.well-known/openid-configuration",
            "/openid/v1/jwks",
        ]));
    }
    rules
}

impl Rights {
    pub fn allow(self, state: &State, user: &User, wanted: &Attributes) -> bool {
        let is_anonymous = user.is_of(UNAUTHENTICATED);
        user.is_of(MASTERS)
            || (self == Self::All && !is_anonymous)
            || default_rules(user).iter().any(|rule| covers(rule, wanted))
            || (self == Self::Roles
                && bindings(state, user, &wanted.namespace)
                    .any(|granted| granted.rules(state).iter().any(|r| covers(r, wanted))))
    }

    /// Authorizes a request, or returns the error that refuses it.
    pub fn check(self, state: &State, user: &User, wanted: &Attributes) -> Result<(), ApiError> {
        if self.allow(state, user, wanted) {
            return Ok(());
        }
        let why = wanted.refusal(&user.name);
        if wanted.path.is_some() {
            return Err(ApiError::forbidden_path(format!("forbidden: {why}")));
        }
        Err(ApiError::forbidden(
            &wanted.resource,
            &wanted.group,
            &wanted.name,
            &why,
        ))
    }

    pub fn rules(self, state: &State, user: &User, namespace: &str) -> Vec<Value> {
        let mut rules = default_rules(user);
        if self == Self::All || user.is_of(MASTERS) {
            rules.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
            rules.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
            return rules;
        }
        rules.extend(bindings(state, user, namespace).flat_map(|granted| granted.rules(state)));
        rules
    }
}

/// A binding that grants a role to a user.
struct Granted<'a> {
    binding: &'a Value,
    namespace: &'a str,
}

impl Granted<'_> {
    fn role(&self, field: &str) -> &str {
        text(self.binding, &["roleRef", field])
    }

    fn rules(&self, state: &State) -> Vec<Value> {
        let key = match self.role("kind") {
            "ClusterRole" => Key::new(Resource::ClusterRoles, "", self.role("name")),
            _ => Key::new(Resource::Roles, self.namespace, self.role("name")),
        };
        state
            .get(&key)
            .map(|role| list(role.value(), &["rules"]).to_vec())
            .unwrap_or_default()
    }
}

/// The bindings whose subjects include a user: cluster role bindings, and the role bindings of a namespace.
fn bindings<'a>(
    state: &'a State,
    user: &User,
    namespace: &str,
) -> impl Iterator<Item = Granted<'a>> + use<'a> {
    let everywhere = state.list(Resource::ClusterRoleBindings, None);
    let here = (!namespace.is_empty()).then(|| state.list(Resource::RoleBindings, Some(namespace)));
    let user = user.clone();
    everywhere
        .chain(here.into_iter().flatten())
        .filter(move |binding| {
            let mut subjects = list(binding.value(), &["subjects"]).iter();
            subjects.any(|s| is_subject(s, &user, &binding.key().namespace))
        })
        .map(|binding| Granted {
            binding: binding.value(),
            namespace: &binding.key().namespace,
        })
}

/// Whether a subject of a binding is this user. `here` is the binding's namespace, empty for a cluster role binding.
fn is_subject(subject: &Value, user: &User, here: &str) -> bool {
    let name = text(subject, &["name"]);
    match text(subject, &["kind"]) {
        "User" => user.name == name,
        "Group" => user.is_of(name),
        "ServiceAccount" => {
            let namespace = text_or(subject, &["namespace"], here);
            user.name == format!("system:serviceaccount:{namespace}:{name}")
        }
        _ => false,
    }
}

/// Whether a rule allows a request.
fn covers(rule: &Value, wanted: &Attributes) -> bool {
    let words = |field: &str| strings(rule, &[field]).collect::<Vec<_>>();
    let has = |field: &str, word: &str| words(field).iter().any(|w| *w == "*" || *w == word);
    if !has("verbs", &wanted.verb) {
        return false;
    }
    if let Some(path) = &wanted.path {
        return words("nonResourceURLs").iter().any(|url| {
            url == path
                || url
                    .strip_suffix('*')
                    .is_some_and(|start| path.starts_with(start))
        });
    }
    let resource = wanted.full_resource();
    let of_any = format!("*/{}", wanted.subresource);
    let is_resource = words("resources")
        .iter()
        .any(|r| *r == "*" || *r == resource || (!wanted.subresource.is_empty() && *r == of_any));
    let names = words("resourceNames");
    has("apiGroups", &wanted.group)
        && is_resource
        && (names.is_empty() || names.contains(&wanted.name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(objects: &[(Resource, &str, Value)]) -> State {
        let mut state = State::new(10);
        for (resource, namespace, object) in objects {
            let key = Key::new(*resource, namespace, text(object, &["metadata", "name"]));
            state.put(key, object.clone()).expect("stored");
        }
        state
    }

    fn user(name: &str, groups: &[&str]) -> User {
        let mut groups: Vec<String> = groups.iter().map(|g| (*g).to_owned()).collect();
        groups.push(AUTHENTICATED.to_owned());
        User {
            name: name.to_owned(),
            groups,
            ..User::default()
        }
    }

    fn wants(verb: &str, resource: &str, namespace: &str) -> Attributes {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        Attributes {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            subresource: subresource.to_owned(),
            namespace: namespace.to_owned(),
            ..Attributes::default()
        }
    }

    fn role(resources: &[&str], verbs: &[&str]) -> Value {
        json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": resources, "verbs": verbs}]})
    }

    fn binding(kind: &str, subject: Value) -> Value {
        json!({"metadata": {"name": "b"}, "roleRef": {"kind": kind, "name": "r"}, "subjects": [subject]})
    }

    #[test]
    fn a_role_applies_to_its_subjects_in_its_namespace() {
        let state = state(&[
            (Resource::Roles, "ns", role(&["pods"], &["list"])),
            (
                Resource::RoleBindings,
                "ns",
                binding("Role", json!({"kind": "User", "name": "ann"})),
            ),
        ]);
        let may =
            |name: &str, wanted: &Attributes| Rights::Roles.allow(&state, &user(name, &[]), wanted);
        assert!(may("ann", &wants("list", "pods", "ns")));
        assert!(!may("bob", &wants("list", "pods", "ns")));
        assert!(!may("ann", &wants("list", "pods", "other")));
        assert!(!may("ann", &wants("list", "pods", "")));
        assert!(!may("ann", &wants("create", "pods", "ns")));
        assert!(!may("ann", &wants("list", "pods/log", "ns")));
        let error = Rights::Roles
            .check(&state, &user("bob", &[]), &wants("create", "pods", "ns"))
            .expect_err("no right");
        assert_eq!(
            error.message,
            "pods is forbidden: User \"bob\" cannot create resource \"pods\" in API group \"\" in the namespace \"ns\""
        );
    }

    #[test]
    fn a_service_account_subject_defaults_to_the_namespace_of_the_binding() {
        let account = json!({"kind": "ServiceAccount", "name": "a"});
        let state = state(&[
            (Resource::Roles, "ns", role(&["pods"], &["list"])),
            (Resource::RoleBindings, "ns", binding("Role", account)),
        ]);
        let may = |name: &str| {
            let wanted = wants("list", "pods", "ns");
            Rights::Roles.allow(&state, &user(name, &[]), &wanted)
        };
        assert!(may("system:serviceaccount:ns:a"));
        assert!(!may("system:serviceaccount:other:a"));
    }

    #[test]
    fn a_cluster_role_applies_in_the_scope_of_its_binding() {
        let group = json!({"kind": "Group", "name": "devs"});
        let role = (Resource::ClusterRoles, "", role(&["*"], &["get"]));
        let here = state(&[
            role.clone(),
            (
                Resource::RoleBindings,
                "ns",
                binding("ClusterRole", group.clone()),
            ),
        ]);
        let everywhere = state(&[
            role,
            (
                Resource::ClusterRoleBindings,
                "",
                binding("ClusterRole", group),
            ),
        ]);
        let dev = user("ann", &["devs"]);
        let may = |state: &State, namespace: &str| {
            Rights::Roles.allow(state, &dev, &wants("get", "pods/log", namespace))
        };
        assert!(may(&here, "ns") && !may(&here, "other"));
        assert!(may(&everywhere, "ns") && may(&everywhere, ""));
    }

    #[test]
    fn rules_can_restrict_names_subresources_and_paths() {
        let rule = json!({"apiGroups": ["*"], "resources": ["*/status"], "verbs": ["*"], "resourceNames": ["a"]});
        let mut wanted = wants("patch", "pods/status", "ns");
        assert!(!covers(&rule, &wanted));
        wanted.name = "a".to_owned();
        assert!(covers(&rule, &wanted));
        let rule = json!({"nonResourceURLs": ["/logs/*"], "verbs": ["get"]});
        let path = |path: &str| Attributes {
            verb: "get".into(),
            path: Some(path.into()),
            ..Attributes::default()
        };
        assert!(covers(&rule, &path("/logs/x")) && !covers(&rule, &path("/other")));
    }

    #[test]
    fn without_rbac_every_authenticated_user_is_authorized() {
        let state = State::new(1);
        let wanted = wants("delete", "pods", "ns");
        assert!(Rights::All.allow(&state, &user("ann", &[]), &wanted));
        assert!(!Rights::All.allow(&state, &User::anonymous(), &wanted));
        assert!(!Rights::Roles.allow(&state, &user("ann", &[]), &wanted));
        assert!(Rights::Roles.allow(&state, &user("root", &[MASTERS]), &wanted));
    }

    #[test]
    fn service_accounts_may_read_the_keys_for_tokens_and_other_users_only_with_a_right() {
        let wanted = Attributes {
            verb: "get".to_owned(),
            path: Some("/openid/v1/jwks".to_owned()),
            ..Attributes::default()
        };
        let may = |state: &State, groups: &[&str]| {
            Rights::Roles.allow(state, &user("u", groups), &wanted)
        };
        let nothing = state(&[]);
        assert!(may(&nothing, &[SERVICE_ACCOUNTS]));
        assert!(may(&nothing, &[MASTERS]));
        assert!(!may(&nothing, &[]));
        let rule = json!({"nonResourceURLs": ["/openid/v1/jwks"], "verbs": ["get"]});
        let role = json!({"metadata": {"name": "r"}, "rules": [rule]});
        let subject = json!({"kind": "User", "name": "u"});
        let granted = state(&[
            (Resource::ClusterRoles, "", role),
            (
                Resource::ClusterRoleBindings,
                "",
                binding("ClusterRole", subject),
            ),
        ]);
        assert!(may(&granted, &[]));
    }
}
