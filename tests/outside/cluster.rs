//! The cluster of a test: an API server process of its own, or a namespace of a given cluster.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use super::api::{Api, Pod};
use super::process::{PATIENCE, Program, boatswain, until};

/// A cluster without writes for this long counts as quiet. This is longer than the delay of the application record,
/// and long enough for several polls.
const QUIET: Duration = Duration::from_millis(6_500);

/// Names the kubeconfig of a cluster to use instead of the tests' own.
const GIVEN: &str = "BOATSWAIN_TEST_KUBECONFIG";

pub struct Cluster {
    pub api: Api,
    pub kubeconfig: PathBuf,
    /// The API server; `None` if the cluster was given. Declared before its directory, so that it is dropped first.
    server: Option<Program>,
    pub directory: TempDir,
}

impl Cluster {
    /// An API server of the test's own, which can be stopped and killed and whose log can be read. Its simulated node
    /// starts pods at once. `None` if the environment names a cluster; the test is then skipped with a message.
    pub fn own() -> Option<Self> {
        Self::own_with(&["--node", "simulated"])
    }

    /// The same with these arguments.
    pub fn own_with(arguments: &[&str]) -> Option<Self> {
        if std::env::var_os(GIVEN).is_none() {
            return Some(Self::with(arguments));
        }
        let test = thread::current();
        let test = test.name().unwrap_or("a test");
        // Written past the test harness, which shows only the output of failed tests.
        let _ = writeln!(
            io::stderr(),
            "skipped: {test}: it needs an API server of its own, and {GIVEN} names another"
        );
        None
    }

    fn with(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let kubeconfig = directory.path().join("kubeconfig");
        let mut cluster = Self {
            api: Api::new(&kubeconfig, "default"),
            kubeconfig,
            directory,
            server: None,
        };
        cluster.serve("127.0.0.1:0", arguments);
        cluster
    }

    /// The cluster that the environment names, or else one of the test's own.
    pub fn any() -> Self {
        let Some(kubeconfig) = std::env::var_os(GIVEN) else {
            return Self::with(&["--node", "simulated"]);
        };
        let directory = tempfile::tempdir().unwrap();
        // The namespace's name is as unlikely to exist as the directory's.
        let id = directory
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .to_lowercase();
        let id = id.trim_start_matches('.');
        let kubeconfig = PathBuf::from(kubeconfig);
        let api = Api::new(&kubeconfig, &format!("boatswain-test-{id}"));
        api.create_namespace();
        Self {
            api,
            kubeconfig,
            directory,
            server: None,
        }
    }

    fn serve(&mut self, listen: &str, arguments: &[&str]) {
        let token = self.directory.path().join("token");
        let log = self.file("api-server");
        let mut command = boatswain();
        command
            .args(["dev-cluster", "--listen", listen])
            .args(arguments);
        command.arg("--token-file").arg(token);
        command.arg("--kubeconfig").arg(&self.kubeconfig);
        let mut server = Program::start("API server", &mut command, &log);
        until("the API server says that it is ready", || {
            assert!(
                server.is_alive(),
                "the API server has exited: {}",
                server.stderr()
            );
            server.stdout().ends_with('\n').then_some(())
        });
        self.server = Some(server);
    }

    /// The path of a file that does not exist yet.
    pub fn file(&self, name: &str) -> PathBuf {
        let names = (1..).map(|n| self.directory.path().join(format!("{name}-{n}.log")));
        names.into_iter().find(|path| !path.exists()).unwrap()
    }

    pub fn server(&self) -> &Program {
        self.server.as_ref().expect("a cluster of the test's own")
    }

    pub fn address(&self) -> String {
        let url = self.server().stdout();
        url.trim().strip_prefix("http://").unwrap().to_owned()
    }

    /// The bearer token for the cluster.
    pub fn token(&self) -> String {
        let token = fs::read_to_string(self.directory.path().join("token")).unwrap();
        token.trim().to_owned()
    }

    /// Stops the API server's process without ending it: connections stay open, and nothing is answered.
    pub fn freeze(&self) {
        self.server().signal(Signal::STOP);
    }

    pub fn thaw(&self) {
        self.server().signal(Signal::CONT);
    }

    pub fn kill(&mut self) {
        self.server.as_mut().unwrap().kill();
    }

    /// Kills the API server and starts an empty one at the same address.
    pub fn empty(&mut self) {
        self.restart(&["--node", "simulated"]);
    }

    /// Kills the API server and starts one with these arguments at the same address.
    pub fn restart(&mut self, arguments: &[&str]) {
        let address = self.address();
        self.kill();
        self.serve(&address, arguments);
    }

    /// The writes that the API server has logged since it started: `POST`, `PUT`, `PATCH` and `DELETE`, whatever the
    /// answer.
    pub fn writes(&self) -> Vec<Value> {
        let mut log = self.server().log().0;
        log.retain(|line| line["module"] == "apiserver.write");
        log
    }

    /// Number of objects that the API server has created since it started.
    pub fn created(&self) -> usize {
        let made = |line: &&Value| line["verb"] == "POST" && line["code"] == 201;
        self.writes().iter().filter(made).count()
    }

    /// The paths of writes with this verb and prefix, after the first `since` writes.
    pub fn written(&self, since: usize, verb: &str, kind: &str) -> Vec<String> {
        let path = |line: &Value| {
            let path = line["path"].as_str().unwrap();
            let path = path.split('?').next().unwrap().to_owned();
            (line["verb"] == verb && path.contains(kind)).then_some(path)
        };
        self.writes().iter().skip(since).filter_map(path).collect()
    }

    /// The uids of the executors' pods, if exactly this many run and there is no other pod.
    fn running(&self, count: usize) -> Option<BTreeSet<String>> {
        let pods = self.api.try_pods().ok()?;
        let runs = |pod: &Pod| pod.phase == "Running" && !pod.deleting;
        (pods.len() == count && pods.iter().all(runs))
            .then(|| pods.into_iter().map(|pod| pod.uid).collect())
    }

    /// Waits until there are exactly this many pods, all of them running.
    pub fn converges(&self, count: usize) -> BTreeSet<String> {
        until(&format!("{count} pods run"), || self.running(count))
    }

    /// Waits until there are exactly this many pods, all of them running, and there are no more writes. Returns the
    /// pods' uids.
    pub fn settles(&self, count: usize) -> BTreeSet<String> {
        let began = Instant::now();
        loop {
            let uids = self.converges(count);
            if self.stays_unwritten() && self.running(count).is_some_and(|now| now == uids) {
                return uids;
            }
            assert!(began.elapsed() < PATIENCE, "it is written on and on");
        }
    }

    fn stays_unwritten(&self) -> bool {
        // The log of a given cluster cannot be read, but the objects' versions show writes as well.
        let state = || match &self.server {
            Some(_) => format!(
                "{}",
                self.writes()
                    .iter()
                    .filter(|line| !is_of_lease(line))
                    .count()
            ),
            None => format!("{:?}", self.api.versions()),
        };
        let before = state();
        thread::sleep(QUIET);
        state() == before
    }
}

/// Whether a line of the API server's log is about a Lease, which is renewed all the time.
fn is_of_lease(line: &Value) -> bool {
    line["path"]
        .as_str()
        .is_some_and(|path| path.contains("/leases"))
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if self.server.is_none() {
            // A failure of the cleanup must not hide the test's own failure.
            let _ = self.api.delete_namespace();
        }
    }
}

/// Copies a kubeconfig with a replacement.
pub fn kubeconfig_with(original: &Path, from: &str, to: &str, path: &Path) {
    let text = fs::read_to_string(original).unwrap();
    assert!(text.contains(from), "no {from} in the kubeconfig");
    fs::write(path, text.replace(from, to)).unwrap();
}
