//! Tests from outside with a driver that has the rights that `boatswain manifests` prints, and no other.

use std::collections::BTreeSet;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::api::Grace;
use super::cluster::Cluster;
use super::driver::Driver;
use super::process::{boatswain, until};

const CONFIG: &str =
    "app.name = \"t\"\nprofiles.default = { image = \"registry.example/none:1\" }\n";

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces";

/// A cluster in which the service account `driver` has the rights that are printed.
struct Granted {
    cluster: Cluster,
    config: PathBuf,
    /// Of the service account.
    kubeconfig: PathBuf,
    role: Value,
}

impl Granted {
    fn new() -> Self {
        let cluster = Cluster::with_authorization();
        let config = cluster.directory.path().join("t.toml");
        std::fs::write(&config, CONFIG).unwrap();
        let namespace = cluster.api.namespace.clone();
        let mut command = boatswain();
        command.args([
            "manifests",
            "--name",
            "driver",
            "--image",
            "registry.example/b:1",
        ]);
        command
            .args(["--namespace", &namespace, "--config"])
            .arg(&config);
        let printed = command.output().unwrap();
        assert!(printed.status.success(), "{printed:?}");
        let printed = String::from_utf8(printed.stdout).unwrap();
        let objects: Vec<Value> = serde_saphyr::from_multiple(&printed).unwrap();
        let of_kind = |kind: &str| {
            objects
                .iter()
                .find(|object| object["kind"] == kind)
                .unwrap()
        };
        let create = |path: String, kind: &str| {
            cluster
                .api
                .call("POST", &path, Some(of_kind(kind)))
                .unwrap();
        };
        let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
        create(accounts.clone(), "ServiceAccount");
        create(format!("{RBAC}/{namespace}/roles"), "Role");
        create(format!("{RBAC}/{namespace}/rolebindings"), "RoleBinding");
        let token = format!("{accounts}/driver/token");
        let answer = cluster
            .api
            .call("POST", &token, Some(&json!({"spec": {}})))
            .unwrap();
        let original = std::fs::read_to_string(&cluster.kubeconfig).unwrap();
        let mut parsed: Value = serde_saphyr::from_str(&original).unwrap();
        for user in parsed["users"].as_array_mut().unwrap() {
            user["user"] = json!({"token": answer["status"]["token"]});
        }
        let kubeconfig = cluster.directory.path().join("kubeconfig-of-driver");
        std::fs::write(&kubeconfig, parsed.to_string()).unwrap();
        Self {
            role: of_kind("Role").clone(),
            cluster,
            config,
            kubeconfig,
        }
    }

    /// Leaves out the rule with this number.
    fn without_rule(&self, number: usize) {
        let mut role = self.role.clone();
        role["rules"].as_array_mut().unwrap().remove(number);
        let path = format!("{RBAC}/{}/roles/driver", self.cluster.api.namespace);
        self.cluster.api.call("PUT", &path, Some(&role)).unwrap();
    }

    /// The exit code of `check --cluster`, and the rights that it calls missing, as `verb resource`.
    fn check(&self) -> (Option<i32>, BTreeSet<String>) {
        let mut command = boatswain();
        command
            .args(["check", "--cluster", "--config"])
            .arg(&self.config);
        let kubeconfig = format!("cluster.kubeconfig={}", self.kubeconfig.display());
        let namespace = format!("cluster.namespace={}", self.cluster.api.namespace);
        let checked = (command.args(["--set", &kubeconfig, "--set", &namespace]))
            .output()
            .unwrap();
        let said = String::from_utf8(checked.stdout).unwrap();
        let missing = said
            .lines()
            .filter_map(|line| line.strip_prefix("# MISSING  "));
        let missing = missing.filter_map(|line| Some(line.split_once(';')?.0.to_owned()));
        (checked.status.code(), missing.collect())
    }

    /// The rights of a rule, as `check` writes them.
    fn rights(&self, number: usize) -> BTreeSet<String> {
        let rule = &self.role["rules"][number];
        let words = |key: &str| {
            let words = rule[key].as_array().unwrap().clone();
            words
                .into_iter()
                .map(|word| word.as_str().unwrap().to_owned())
        };
        let resource = words("resources").next().unwrap();
        words("verbs")
            .map(|verb| format!("{verb} {resource}"))
            .collect()
    }
}

// spec: O-51, C-8
#[test]
fn a_driver_with_the_printed_rights_lacks_none() {
    let granted = Granted::new();
    assert_eq!(granted.check(), (Some(0), BTreeSet::new()));
    let cluster = &granted.cluster;
    let sets = ["shutdown.on_signal=end"];
    let mut driver = Driver::start_with(cluster, &granted.kubeconfig, 3, &sets);
    cluster.converges(3);
    cluster.api.delete_pod("t-exec-2", Grace::Force);
    driver.end_of(2);
    cluster.converges(3);
    driver.signal(Signal::TERM);
    until("the driver has ended", || {
        driver.exit().map(|code| assert_eq!(code, 0))
    });
    until("nothing is left", || {
        cluster.api.pods().is_empty().then_some(())
    });
    let log = driver.log();
    assert_eq!(log.at("ERROR"), [&Value::Null; 0]);
    assert_eq!(
        log.count("a right is missing: add this rule to the driver's Role"),
        0
    );
}

// spec: C-8
#[test]
fn each_right_that_is_missing_is_named_before_it_is_needed() {
    let granted = Granted::new();
    let rules = granted.role["rules"].as_array().unwrap().len();
    assert!(rules >= 3, "{}", granted.role);
    for number in 0..rules {
        granted.without_rule(number);
        assert_eq!(granted.check(), (Some(77), granted.rights(number)));
    }
    // The last rule is about Kubernetes Events: without it everything else works.
    assert_eq!(
        granted.rights(rules - 1),
        BTreeSet::from(["create events".into(), "patch events".into()])
    );
    let mut driver = Driver::start_with(&granted.cluster, &granted.kubeconfig, 1, &[]);
    let line = driver.says("a right is missing: add this rule to the driver's Role");
    assert_eq!(line["right"], "create events");
    assert_eq!(
        line["rule"],
        "{apiGroups: [\"\"], resources: [\"events\"], verbs: [\"create\"]}"
    );
    granted.cluster.converges(1);
}
