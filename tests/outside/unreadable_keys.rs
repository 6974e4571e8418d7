//! Tests drivers that lack a right to verify tokens: to read the cluster's keys, or to show tokens to the API server. The
//! right is granted while they run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::asking::Asked;
use super::cluster::Cluster;
use super::driver::Driver;
use super::listeners::{get, token};
use super::process::{boatswain, until};
use super::talking::free_address;

const GROUP: &str = "rbac.authorization.k8s.io";

/// A cluster that enforces RBAC, in which a user has all rights in the namespace, and none for the whole cluster.
struct Limited {
    cluster: Cluster,
    kubeconfig: PathBuf,
    _directory: tempfile::TempDir,
}

fn of_user(kind: &str, role: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": format!("{kind}Binding"),
        "metadata": {"name": role, "namespace": if kind == "Role" { "default" } else { "" }},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": "driver"}],
    })
}

impl Limited {
    /// `None` on a real cluster.
    fn start(node: &str) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let role = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "Role",
            "metadata": {"name": "all", "namespace": "default"},
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
        });
        let roles = format!("{role}\n---\n{}\n", of_user("Role", "all"));
        fs::write(at("roles"), roles).unwrap();
        fs::write(at("users"), "of-the-driver,driver,1\n").unwrap();
        fs::set_permissions(at("users"), fs::Permissions::from_mode(0o600)).unwrap();
        let (users, roles) = (at("users"), at("roles"));
        let arguments = [
            "--node",
            node,
            "--token-auth-file",
            users.to_str().unwrap(),
            "--rbac",
            roles.to_str().unwrap(),
        ];
        let reason = "it lets every service account read the keys for tokens";
        let cluster = Cluster::embedded(&arguments, reason)?;
        let kubeconfig = cluster.kubeconfig_of("of-the-driver");
        Some(Self {
            cluster,
            kubeconfig,
            _directory: directory,
        })
    }

    fn drive(&self, executors: usize, sets: &[&str]) -> Asked {
        Asked::of(&self.cluster, |api| {
            let sets = [api, sets].concat();
            Driver::start_with(&self.cluster, &self.kubeconfig, executors, &sets)
        })
    }

    /// Grants a right of the whole cluster to the user.
    fn grant(&self, name: &str, rule: &Value) {
        let role = json!({
            "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": [rule],
        });
        for (kind, object) in [
            ("clusterroles", role),
            ("clusterrolebindings", of_user("ClusterRole", name)),
        ] {
            let path = format!("/apis/{GROUP}/v1/{kind}");
            self.cluster.api.call("POST", &path, Some(&object)).unwrap();
        }
    }

    fn let_read_keys(&self) {
        let paths = ["/.well-known/openid-configuration", "/openid/v1/jwks"];
        let rule = json!({"nonResourceURLs": paths, "verbs": ["get"]});
        self.grant("keys", &rule);
    }
}

/// The value of the metric that says that tokens cannot be verified.
fn shown_by_metrics(asked: &Asked) -> String {
    let address = asked.server.trim_start_matches("http://");
    let token = fs::read_to_string(&asked.tokens).unwrap();
    let header = format!("authorization: Bearer {}\r\n", token.trim());
    let (_, text) = get(address, "/metrics", &header).unwrap();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix("boatswain_degraded{why=\"keys\"} "));
    value.unwrap_or_default().to_owned()
}

// spec: B-13, A-52, O-115, I-12
#[test]
fn executors_wait_to_register_for_as_long_as_the_clusters_keys_cannot_be_read() {
    let Some(limited) = Limited::start("process") else {
        return;
    };
    let listen = format!("backend.listen={}", free_address());
    let agent = boatswain().get_program().to_str().unwrap().to_owned();
    let command = format!(
        "profiles.default.command=[{agent:?}, \"agent\", \"--\", \"sh\", \"-c\", \"sleep 1000 & wait\"]"
    );
    let mut asked = limited.drive(
        2,
        &[
            &listen,
            &command,
            "profiles.default.termination_grace=5s",
            // Longer than an agent waits before it tries again (10 s).
            "allocation.registration_timeout=13s",
            "backend.heartbeat_interval=500ms",
            "backend.heartbeat_timeout=2s",
            // One failure ends the application.
            "failures.max=0",
        ],
    );
    let unread =
        "the cluster's keys for tokens cannot be read: tokens that need them cannot be verified";
    let line = asked.driver.says(unread);
    let hint = line["hint"].as_str().unwrap();
    assert!(
        hint.contains("system:service-account-issuer-discovery"),
        "{line}"
    );
    let line = (asked.driver).says("degraded: no executor is given up for its silence");
    let why = "executors' tokens cannot be verified: the request for the cluster's keys is answered with 403";
    assert_eq!(line["why"], why);
    // Longer than an executor may take to register, and than until the next try to read the keys.
    thread::sleep(Duration::from_secs(18));
    assert_eq!(asked.json(&["status"])["degraded"]["why"], why);
    assert_eq!(shown_by_metrics(&asked), "1");
    let log = asked.driver.log();
    let count = |message: &str| log.count(message);
    assert_eq!((count("executor ended"), count(unread)), (0, 1));

    limited.let_read_keys();
    asked
        .driver
        .says("the cluster's keys for tokens can be read again");
    asked
        .driver
        .says("recovered: every executor has one more timeout from now");
    asked.driver.until("both have registered", |log| {
        (log.executors("executor registered") == [1, 2].into()).then_some(())
    });
    assert!(asked.json(&["status"])["degraded"].is_null());
    assert_eq!(shown_by_metrics(&asked), "0");
    assert_eq!(asked.driver.log().count("executor ended"), 0);
    asked.driver.signal(Signal::INT);
    assert_eq!(asked.driver.exit(), Some(0));
}

// spec: O-120
#[test]
fn a_right_to_review_tokens_that_is_granted_later_is_used_soon() {
    let Some(limited) = Limited::start("simulated") else {
        return;
    };
    limited.let_read_keys();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let caller = json!({"metadata": {"name": "caller"}});
    let api = &limited.cluster.api;
    api.call("POST", accounts, Some(&caller)).unwrap();
    let mut asked = limited.drive(
        0,
        &["api.service_accounts={ \"default/caller\" = \"read\" }"],
    );
    let audience = "boatswain.dev/default/t";
    asked.tokens = token(&limited.cluster, "caller", audience);
    until("the driver answers", || {
        asked.ask(&["status"]).status.success().then_some(())
    });
    asked.driver.says(
        "callers' tokens are verified by the published keys alone: the right to create tokenreviews is missing",
    );
    let path = format!("{accounts}/caller");
    api.call("DELETE", &path, None).unwrap();
    assert!(asked.ask(&["status"]).status.success(), "the keys decide");
    let rule = json!({"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]});
    limited.grant("reviews", &rule);
    let refused = until("the deleted account is refused", || {
        let asked = asked.ask(&["status"]);
        (!asked.status.success()).then_some(asked)
    });
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("the API server accepts it no more"), "{said}");
    asked
        .driver
        .says("callers' tokens are shown to the API server from now on");
}
