//! Users of a cluster who have the rights that they are given and no others.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::api::Api;
use super::cluster::Cluster;
use super::process::until;

const GROUP: &str = "rbac.authorization.k8s.io";

/// A user with a Role of the same name in the cluster's namespace.
pub struct User {
    /// As Kubernetes calls them.
    pub name: String,
    pub kubeconfig: PathBuf,
    role: Value,
    /// How many rules of ClusterRoles there are besides.
    more_rules: usize,
    /// What the embedded cluster reads; it ends before.
    _directory: tempfile::TempDir,
}

fn role(name: &str, namespace: &str, rules: &[Value]) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Role",
        "metadata": {"name": name, "namespace": namespace}, "rules": rules,
    })
}

fn binding(name: &str, namespace: &str, subject: &Value) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": name},
        "subjects": [subject],
    })
}

/// A cluster that enforces RBAC, and a user of it. `of_cluster` are ClusterRoles, and bindings of them for this user.
/// `None` where the log of its writes is out of reach.
pub fn limited(name: &str, rules: &[Value], of_cluster: Vec<Value>) -> Option<(Cluster, User)> {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let subject = json!({"apiGroup": GROUP, "kind": "User", "name": name});
    let mut objects = vec![
        role(name, "default", rules),
        binding(name, "default", &subject),
    ];
    for mut object in of_cluster.clone() {
        bind(&mut object, &subject);
        objects.push(object);
    }
    let objects: Vec<String> = objects.iter().map(Value::to_string).collect();
    fs::write(at("roles"), objects.join("\n---\n")).unwrap();
    let token = format!("of-the-{name}");
    fs::write(at("users"), format!("{token},{name},1\n")).unwrap();
    fs::set_permissions(at("users"), fs::Permissions::from_mode(0o600)).unwrap();
    let (users, roles) = (at("users"), at("roles"));
    let cluster = Cluster::logged_with(&[
        "--token-auth-file",
        users.to_str().unwrap(),
        "--rbac",
        roles.to_str().unwrap(),
    ])?;
    let role = role(name, &cluster.api.namespace, rules);
    let user = if cluster.is_real() {
        account(&cluster, name, role, of_cluster, directory)
    } else {
        User {
            name: name.to_owned(),
            kubeconfig: cluster.kubeconfig_of(&token),
            role,
            more_rules: 0,
            _directory: directory,
        }
    };
    Some((cluster, user))
}

fn bind(object: &mut Value, subject: &Value) {
    if object["kind"] == "ClusterRoleBinding" {
        object["subjects"] = json!([subject]);
    }
}

/// Whether this is no rule that everyone has.
fn is_given(rule: &&Value) -> bool {
    let groups = rule["apiGroups"].to_string();
    !groups.contains("authorization.k8s.io") && !groups.contains("authentication.k8s.io")
}

/// On a real cluster the user is a service account.
fn account(
    cluster: &Cluster,
    name: &str,
    role: Value,
    of_cluster: Vec<Value>,
    directory: tempfile::TempDir,
) -> User {
    let namespace = &cluster.api.namespace;
    let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": namespace});
    let create = |path: &str, object: &Value| {
        cluster.api.call("POST", path, Some(object)).unwrap();
    };
    let of_namespace = format!("/apis/{GROUP}/v1/namespaces/{namespace}");
    create(&format!("{of_namespace}/roles"), &role);
    create(
        &format!("{of_namespace}/rolebindings"),
        &binding(name, namespace, &subject),
    );
    let rules = of_cluster
        .iter()
        .filter_map(|object| object["rules"].as_array());
    let more_rules = rules.flatten().filter(is_given).count();
    for mut object in of_cluster {
        bind(&mut object, &subject);
        // Other tests have such objects too.
        let unique = format!("{name}-{namespace}");
        object["metadata"]["name"] = unique.clone().into();
        let resource = match object["kind"].as_str() {
            Some("ClusterRole") => "clusterroles",
            _ => {
                object["roleRef"]["name"] = unique.into();
                "clusterrolebindings"
            }
        };
        create(&format!("/apis/{GROUP}/v1/{resource}"), &object);
    }
    let token = new_account(cluster, name);
    let user = User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        kubeconfig: cluster.kubeconfig_of(&token),
        role,
        more_rules,
        _directory: directory,
    };
    user.has_its_rules(namespace);
    user
}

/// Makes a service account, and asks for a token of it.
pub fn new_account(cluster: &Cluster, name: &str) -> String {
    cluster
        .api
        .create("serviceaccounts", &json!({"metadata": {"name": name}}));
    let request = format!("serviceaccounts/{name}/token");
    let answer = cluster.api.made(&request, &json!({"spec": {}}));
    answer["status"]["token"].as_str().unwrap().to_owned()
}

/// The account of [`all_powerful`].
pub const ALL_POWERFUL: &str = "all-powerful";

/// The token of a service account that may do anything in the namespace of a real cluster.
pub fn all_powerful(cluster: &Cluster) -> String {
    let namespace = &cluster.api.namespace;
    let subject = json!({"kind": "ServiceAccount", "name": ALL_POWERFUL, "namespace": namespace});
    let mut binding = binding(ALL_POWERFUL, namespace, &subject);
    binding["roleRef"] = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"});
    let path = format!("/apis/{GROUP}/v1/namespaces/{namespace}/rolebindings");
    cluster.api.call("POST", &path, Some(&binding)).unwrap();
    new_account(cluster, ALL_POWERFUL)
}

impl User {
    pub fn set_rules(&mut self, cluster: &Cluster, rules: &[Value]) {
        let namespace = &cluster.api.namespace;
        let name = self.role["metadata"]["name"].as_str().unwrap().to_owned();
        self.role = role(&name, namespace, rules);
        let path = format!("/apis/{GROUP}/v1/namespaces/{namespace}/roles/{name}");
        cluster.api.call("PUT", &path, Some(&self.role)).unwrap();
        if cluster.is_real() {
            self.has_its_rules(namespace);
        }
    }

    /// A real API server learns of roles by a watch.
    fn has_its_rules(&self, namespace: &str) {
        let api = Api::new(&self.kubeconfig, namespace);
        let wanted = self.role["rules"].as_array().unwrap();
        let review = json!({"spec": {"namespace": namespace}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        until("the API server knows the user's rules", || {
            let answer = api.call("POST", path, Some(&review)).ok()?;
            let rules = answer["status"]["resourceRules"].as_array()?;
            let expected = wanted.iter().filter(is_given).count() + self.more_rules;
            (rules.iter().filter(is_given).count() == expected).then_some(())
        });
    }
}
