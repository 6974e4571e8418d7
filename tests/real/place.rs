//! A namespace of a test on the real cluster that `tests/real/run` has started.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::api::Api;
use super::driver::InPod;
use super::process::{Program, boatswain, until};

/// What `tests/real/image` makes: a shell, boatswain and its agent.
pub const IMAGE: &str = "localhost/boatswain-test:1";

/// A program that runs until it is told to exit, and then does so at once.
pub const WORKER: &str = "trap 'exit 0' TERM; while true; do sleep 1 & wait $!; done";

pub struct Place {
    pub api: Api,
    pub kubeconfig: PathBuf,
    pub directory: TempDir,
}

impl Place {
    pub fn new(name: &str) -> Self {
        Self::labelled(name, &json!({}))
    }

    /// A namespace with these labels, and its name as the label `test`.
    pub fn labelled(name: &str, labels: &Value) -> Self {
        let kubeconfig = kubeconfig();
        let directory = tempfile::tempdir().unwrap();
        let id = directory.path().file_name().unwrap().to_string_lossy();
        let id = id.trim_start_matches('.').to_lowercase();
        let name = format!("{name}-{id}");
        let mut labels = labels.clone();
        labels["test"] = json!(name);
        let place = Self {
            api: Api::new(&kubeconfig, &name),
            kubeconfig,
            directory,
        };
        let namespace = json!({"metadata": {"name": name, "labels": labels}});
        let api = &place.api;
        api.call("POST", "/api/v1/namespaces", Some(&namespace))
            .unwrap();
        until("pods are accepted", || {
            let path = format!("/api/v1/namespaces/{name}/serviceaccounts/default");
            api.call("GET", &path, None).ok()
        });
        place
    }

    pub fn name(&self) -> &str {
        &self.api.namespace
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs kubectl in this namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> Output {
        let mut kubectl = Command::new("kubectl");
        kubectl.args(["--namespace", self.name()]).args(arguments);
        kubectl.output().unwrap()
    }

    /// The same, which has to succeed: what it prints.
    pub fn told(&self, arguments: &[&str]) -> String {
        let output = self.kubectl(arguments);
        assert!(output.status.success(), "kubectl {arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn apply(&self, objects: &[Value]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let mut kubectl = Command::new("kubectl")
            .args([
                "--namespace",
                self.name(),
                "apply",
                "--validate=false",
                "-f",
                "-",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = kubectl.stdin.take().unwrap();
        input.write_all(list.to_string().as_bytes()).unwrap();
        drop(input);
        let output = kubectl.wait_with_output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// A node of KWOK's with room for so many pods, whose name begins with that of this namespace. Beside these labels it
    /// has the namespace's name as the label `test`.
    pub fn kwok_node(&self, name: &str, labels: &Value, room: usize) -> Value {
        let mut labels = labels.clone();
        labels["test"] = json!(self.name());
        let resources = json!({"cpu": "8", "memory": "16Gi", "pods": room.to_string()});
        json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": format!("{}-{name}", self.name()),
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": labels,
            },
            "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
            "status": {"allocatable": resources, "capacity": resources},
        })
    }

    /// An object of this namespace, such as `deployments` of the group `apis/apps/v1`, if it is there.
    pub fn get(&self, group: &str, kind: &str, name: &str) -> Option<Value> {
        let path = format!("/{group}/namespaces/{}/{kind}/{name}", self.name());
        match self.api.call("GET", &path, None) {
            Ok(object) => Some(object),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => panic!("{path}: {error}"),
        }
    }

    pub fn pod(&self, name: &str) -> Option<Value> {
        self.get("api/v1", "pods", name)
    }

    /// The executors' pods that are not being deleted, without kept ones.
    pub fn executors(&self) -> Vec<Value> {
        let path = format!(
            "/api/v1/namespaces/{}/pods?labelSelector=boatswain.dev/role%3Dexecutor,boatswain.dev/inactive%21%3Dtrue",
            self.name()
        );
        let list = self.api.call("GET", &path, None).unwrap();
        let mut pods = list["items"].as_array().unwrap().clone();
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    /// The names of exactly this many executors, as soon as all of them run.
    pub fn run(&self, count: usize) -> Vec<String> {
        until(&format!("{count} executors run"), || {
            let pods = self.executors();
            let all = pods.iter().all(|pod| pod["status"]["phase"] == "Running");
            let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
            (all && pods.len() == count).then(|| pods.iter().map(name).collect())
        })
    }

    /// Waits until the executors are gone, and the driver's record if the application is to be gone too.
    pub fn nothing_is_left(&self) {
        until("nothing is left", || {
            let gone = self.executors().is_empty() && self.api.config_map("t-app").is_none();
            gone.then_some(())
        });
    }

    /// An operator's command for the driver in a pod, which has to succeed: what it prints.
    pub fn ask(&self, arguments: &[&str]) -> String {
        let mut command = boatswain();
        command.env("KUBECONFIG", &self.kubeconfig);
        command
            .args(arguments)
            .args(["--app", "t", "--namespace", self.name()]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The objects that `boatswain manifests` prints for this configuration.
    pub fn manifests(&self, config: &str, arguments: &[&str]) -> Vec<Value> {
        let path = self.file("boatswain.toml");
        fs::write(&path, config).unwrap();
        let mut command = boatswain();
        command.args(["manifests", "--image", IMAGE, "--namespace", self.name()]);
        let printed = command.arg("--config").arg(path).args(arguments).output();
        let printed = printed.unwrap();
        assert!(printed.status.success(), "{printed:?}");
        serde_saphyr::from_multiple(&String::from_utf8(printed.stdout).unwrap()).unwrap()
    }

    /// A driver in a pod, with what the manifests print and nothing else.
    pub fn drive(&self, config: &str, arguments: &[&str]) -> InPod<'_> {
        self.apply(&self.manifests(config, arguments));
        InPod::new(self)
    }

    /// A driver that is a process of this machine, with the rights of an administrator.
    pub fn drive_from_outside(&self, config: &str) -> Program {
        let path = self.file("outside.toml");
        fs::write(&path, config).unwrap();
        let mut command = boatswain();
        command.args(["run", "--config"]).arg(path);
        command.args(["--set", &format!("cluster.namespace={}", self.name())]);
        command.env("KUBECONFIG", &self.kubeconfig);
        Program::start("driver", &mut command, &self.file("driver.log"))
    }

    /// What the API server's audit log says of the requests of an account of this namespace.
    pub fn audited(&self, account: &str) -> Vec<Value> {
        let user = format!("\"system:serviceaccount:{}:{account}\"", self.name());
        let text = fs::read_to_string(state().join("log/audit.jsonl")).unwrap();
        (text.lines().filter(|line| line.contains(&user)))
            // The last line may be incomplete.
            .filter_map(|line| serde_json::from_str(line).ok())
            .filter(|event: &Value| user.contains(event["user"]["username"].as_str().unwrap()))
            .collect()
    }
}

impl Place {
    /// What is there, and what drivers and executors said last.
    fn show(&self) {
        let pods = self.kubectl(&["get", "pods", "-o", "wide"]);
        eprintln!("{}", String::from_utf8_lossy(&pods.stdout));
        for (label, lines) in [
            ("app.kubernetes.io/name=boatswain", "25"),
            ("boatswain.dev/role", "3"),
        ] {
            let logs = self.kubectl(&["logs", "--prefix", "--selector", label, "--tail", lines]);
            eprintln!("{}", String::from_utf8_lossy(&logs.stdout));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.show();
        }
        let _ = self.api.delete_namespace();
    }
}

fn kubeconfig() -> PathBuf {
    let given = std::env::var_os("KUBECONFIG").map(PathBuf::from);
    let of_cluster = given.filter(|path| path.ends_with("admin.kubeconfig"));
    of_cluster.expect("there is no real cluster: start these tests by tests/real/run real")
}

/// The folder with the cluster's certificates and logs.
pub fn state() -> PathBuf {
    kubeconfig().parent().unwrap().to_owned()
}

/// `scripts/cluster` with these arguments, for the cluster of the tests.
pub fn cluster(arguments: &[&str]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/cluster");
    let output = Command::new(script).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// The configuration of an application `t` with so many executors, which exit when they are told to.
pub fn config(executors: usize) -> String {
    let shape = shape();
    format!(
        r#"
[app]
name = "t"
id = "t"
[profiles.default]
executors = {executors}
{shape}"#
    ) + OTHERS
}

/// The keys of a profile whose executors exit when they are told to.
pub fn shape() -> String {
    format!(
        r#"image = "{IMAGE}"
command = ["/bin/sh", "-c"]
args = ["{WORKER}"]
cpu = "10m"
memory = "16Mi"
memory_limit = "64Mi"
termination_grace = "3s"
"#
    )
}

/// The key of a profile whose executors may run on KWOK's nodes.
pub const ON_KWOK: &str = r#"tolerations = [{ key = "kwok.x-k8s.io/node", operator = "Exists" }]"#;

const OTHERS: &str = r#"
[poll]
interval = "2s"
[shutdown]
grace = "15s"
"#;

/// An API for `boatswain --app`, with a token in a Secret that `--generate-secrets` makes.
pub const API: &str =
    "[api]\nlisten = \"127.0.0.1:7117\"\ntoken_file = \"/etc/boatswain-secrets/tokens\"\n";

/// Executors that register: under the agent, by tokens of their pods, over TLS.
pub fn sessions() -> String {
    format!(
        r#"
[backend]
listen = "0.0.0.0:7078"
service_selector = {{ "app.kubernetes.io/name" = "boatswain" }}
heartbeat_interval = "2s"
heartbeat_timeout = "20s"
[tls]
generate = true
[agent]
inject = "init"
image = "{IMAGE}"
"#
    )
}
