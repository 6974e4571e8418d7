//! Tests the embedded cluster (`boatswain dev-cluster`) with a real kubectl, by comparing a session with a transcript.
//!
//! `tests/kubectl/transcript.txt` contains the commands and their output. Values that differ from run to run, such as
//! ages and times, are not compared. `BOATSWAIN_WRITE_TRANSCRIPT=1` records the session again. Without kubectl nothing is tested,
//! which is said, and fails in CI.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, and one that cannot begin says so"
)]

#[path = "support/untested.rs"]
mod untested;

use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kubectl");

/// A cluster whose node runs processes; it ends with the test.
struct Cluster {
    server: Child,
    directory: TempDir,
}

impl Cluster {
    /// `None` if there is no kubectl.
    fn start(arguments: &[&str]) -> Option<Self> {
        if !untested::has("kubectl") {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let mut server = Command::new(env!("CARGO_BIN_EXE_boatswain"))
            .args(["dev-cluster", "--listen", "127.0.0.1:0"])
            .arg("--token-file")
            .arg(directory.path().join("token"))
            .arg("--kubeconfig")
            .arg(directory.path().join("kubeconfig"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // The server prints its address when it is ready.
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(
            line.starts_with("http"),
            "the cluster did not start: {line}"
        );
        let cluster = Self { server, directory };
        // The node registers a moment after the server is ready.
        let node = "until kubectl get node local >/dev/null 2>&1; do :; done";
        assert!(
            cluster
                .shell(&format!("timeout 30 sh -c '{node}'"))
                .status()
                .unwrap()
                .success()
        );
        Some(cluster)
    }

    fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("kubeconfig")
    }

    /// A shell command, run in the directory of the session's files.
    fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", line])
            .current_dir(FOLDER)
            .env("KUBECONFIG", self.kubeconfig())
            // Keeps kubectl from using its cache of other clusters.
            .env("HOME", self.directory.path());
        command
    }

    fn run(&self, line: &str) -> String {
        let output = self.shell(&format!("{line} 2>&1")).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SIGTERM lets the server end its pods' processes as well.
        let pid = rustix::process::Pid::from_child(&self.server);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.server.wait();
    }
}

/// Whether a word is an age, such as `12s` or `3m4s`.
fn is_age(word: &str) -> bool {
    word.ends_with(['s', 'm', 'h'])
        && word.starts_with(|c: char| c.is_ascii_digit())
        && word
            .chars()
            .all(|c| c.is_ascii_digit() || matches!(c, 's' | 'm' | 'h'))
}

/// Removes what differs from run to run, and joins words with single blanks because column widths depend on it.
fn settled(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let words = line.split_whitespace();
        let words = words.map(|word| if is_age(word) { "AGE" } else { word });
        words.collect::<Vec<_>>().join(" ")
    });
    lines
        .filter(|line| !line.is_empty())
        .map(|line| line + "\n")
        .collect()
}

fn transcript() -> PathBuf {
    Path::new(FOLDER).join("transcript.txt")
}

/// The version of which the transcript is: each words its messages in its own way.
const VERSION: &str = "v1.36.";

/// Whether the session can be compared with the transcript; if not, that is said, and fails in CI.
fn has_the_version(cluster: &Cluster) -> bool {
    let said = cluster.run("kubectl version --client");
    let is = said.contains(&format!("Client Version: {VERSION}"));
    if !is {
        untested::for_lack_of(&format!(
            "a kubectl {VERSION}x, of which the transcript is: scripts/cluster path says where one is"
        ));
    }
    is
}

#[test]
fn a_kubectl_session_matches_the_transcript() {
    let Some(cluster) = Cluster::start(&[]) else {
        return;
    };
    let is_recorded = std::env::var_os("BOATSWAIN_WRITE_TRANSCRIPT").is_some();
    if !is_recorded && !has_the_version(&cluster) {
        return;
    }
    let expected = fs::read_to_string(transcript()).unwrap();
    let mut actual = String::new();
    for line in expected.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            actual.push_str(&format!("{line}\n{}", settled(&cluster.run(command))));
        }
    }
    if is_recorded {
        fs::write(transcript(), &actual).unwrap();
        return;
    }
    let mut command = "";
    let written = actual.lines().map(Some).chain(std::iter::repeat(None));
    for (expected, actual) in expected.lines().map(Some).chain([None]).zip(written) {
        command = expected.filter(|l| l.starts_with("$ ")).unwrap_or(command);
        assert_eq!(actual, expected, "after {command}");
    }
}

/// A running kubectl, which is killed when this is dropped.
struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    fn start(cluster: &Cluster, arguments: &[&str]) -> Self {
        let mut child = Command::new("kubectl")
            .args(arguments)
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("HOME", cluster.directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Reads until a line contains all these words.
    fn until(&mut self, words: &[&str]) {
        let found = self
            .lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| words.iter().all(|word| line.contains(word)));
        assert!(found, "it ended before it told of {words:?}");
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn kubectl_watches_pods_and_follows_logs() {
    let Some(cluster) = Cluster::start(&[]) else {
        return;
    };
    let mut watch = Following::start(&cluster, &["get", "pods", "-w"]);
    cluster.run("kubectl create -f objects.yaml");
    watch.until(&["web", "1/1", "Running"]);
    let mut log = Following::start(&cluster, &["logs", "-f", "web"]);
    log.until(&["ready"]);
    cluster.run("kubectl delete pod web --wait=false");
    watch.until(&["web", "Terminating"]);
}

#[test]
fn kubectl_drains_the_node_as_far_as_a_disruption_budget_allows() {
    let Some(cluster) = Cluster::start(&[]) else {
        return;
    };
    cluster.run("kubectl create -f objects.yaml");
    cluster.run("kubectl wait --for=condition=Ready pod/web --timeout=30s");
    cluster.run("kubectl create -f budget.yaml");
    let wait = "kubectl wait --for=jsonpath='{.status.observedGeneration}'=1 pdb/web --timeout=30s";
    cluster.run(wait);
    let drain = "kubectl drain local --force --delete-emptydir-data --grace-period=1";
    let refused = cluster.run(&format!("{drain} --timeout=2s"));
    let why = "Cannot evict pod as it would violate the pod's disruption budget.";
    assert!(refused.contains("node/local cordoned"), "{refused}");
    assert!(refused.contains(why), "{refused}");
    cluster.run("kubectl delete pdb web");
    let drained = cluster.run(&format!("{drain} --timeout=30s"));
    assert!(drained.contains("node/local drained"), "{drained}");
    assert_eq!(
        cluster.run("kubectl get pods"),
        "No resources found in default namespace.\n"
    );
}

#[test]
fn roles_limit_what_a_user_may_do() {
    let directory = tempfile::tempdir().unwrap();
    let (users, roles) = (
        directory.path().join("users"),
        directory.path().join("roles"),
    );
    fs::write(&users, "of-ann,ann,1,devs\n").unwrap();
    let owner_only = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&users, owner_only).unwrap();
    let binding = "
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: devs, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: Group, name: devs}]
";
    fs::write(&roles, binding).unwrap();
    let (users, roles) = (users.to_str().unwrap(), roles.to_str().unwrap());
    let Some(cluster) = Cluster::start(&["--token-auth-file", users, "--rbac", roles]) else {
        return;
    };
    let token = fs::read_to_string(cluster.directory.path().join("token")).unwrap();
    let own = fs::read_to_string(cluster.kubeconfig()).unwrap();
    fs::write(cluster.kubeconfig(), own.replace(token.trim(), "of-ann")).unwrap();
    assert_eq!(cluster.run("kubectl auth can-i list pods"), "yes\n");
    assert_eq!(cluster.run("kubectl auth can-i create pods"), "no\n");
    assert_eq!(
        cluster.run("kubectl get pods"),
        "No resources found in default namespace.\n"
    );
    let refused = cluster.run("kubectl create configmap x");
    assert!(
        refused.contains(
            "configmaps is forbidden: User \"ann\" cannot create resource \"configmaps\" in API group \"\" in the \
             namespace \"default\""
        ),
        "{refused}"
    );
}
