//! The real clusters that `tests/real/outside` has brought up, and what a test can do to them.
//!
//! Each has a network namespace of its own. A test's thread enters that of its cluster, and whatever it starts is there
//! too: threads, drivers, browsers.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::{Value, json};

use super::api::Api;
use super::process::{Program, until};

/// What the names of the real clusters begin with.
const CLUSTERS: &str = "BOATSWAIN_TEST_CLUSTERS";

/// What pods can reach of the network namespace of a real cluster, where the tests run.
const HOST: &str = "10.88.0.1";

/// What of a namespace the next test of the cluster of one test at a time must not find.
/// The controllers create the ConfigMap again that each namespace has, but that can take a minute and a half.
const OF_TESTS: [&str; 7] = [
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%21%3Dkube-root-ca.crt",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/events",
    "/api/v1/namespaces/default/resourcequotas",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
];

pub fn is_given() -> bool {
    std::env::var_os(CLUSTERS).is_some()
}

/// The host at which pods reach what a test or its driver serves.
pub fn host_for_pods() -> &'static str {
    if is_given() { HOST } else { "127.0.0.1" }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Fake nodes start each pod at once; each test has a namespace of its own.
    Shared,
    /// The same, for one test at a time, which may stop or empty it.
    Own,
    /// A real node; each test has a namespace of its own.
    Nodes,
}

/// A thread's stay in the network namespace of a cluster.
pub struct Stay {
    before: File,
}

impl Stay {
    pub fn in_network_of(which: Which) -> Self {
        let before = File::open("/proc/thread-self/ns/net").unwrap();
        let there = format!("/run/netns/boatswain-{}", name(which));
        let there = File::open(&there).unwrap_or_else(|error| panic!("{there}: {error}"));
        enter(&there);
        Self { before }
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        enter(&self.before);
    }
}

fn enter(namespace: &File) {
    let network = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(namespace.as_fd(), network).expect("only root can enter a cluster");
}

fn name(which: Which) -> String {
    let prefix = std::env::var(CLUSTERS).unwrap();
    let last = match which {
        Which::Shared => "shared",
        Which::Own => "own",
        Which::Nodes => "nodes",
    };
    format!("{prefix}-{last}")
}

pub struct Real {
    name: String,
    state: PathBuf,
    /// How much of the audit log there was before the test.
    skipped: u64,
    /// Programs that were stopped without being ended.
    paused: Cell<Vec<&'static str>>,
    /// Whether the API server was killed.
    killed: bool,
    _turn: Option<File>,
    _stay: Stay,
}

impl Real {
    pub fn enter(which: Which) -> Self {
        let name = name(which);
        let printed = said(command(&name, &["state"]));
        let state = PathBuf::from(printed.trim());
        let turn = (which == Which::Own).then(|| {
            let turn = File::create(state.join("turn")).unwrap();
            turn.lock().unwrap();
            turn
        });
        let mut real = Self {
            name,
            state,
            skipped: 0,
            paused: Cell::default(),
            killed: false,
            _turn: turn,
            _stay: Stay::in_network_of(which),
        };
        if which == Which::Own {
            real.clear();
        }
        real.skip();
        real
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.state.join("admin.kubeconfig")
    }

    fn api(&self) -> Api {
        Api::new(&self.kubeconfig(), "default")
    }

    /// Deletes what earlier tests have left.
    fn clear(&self) {
        let api = self.api();
        let at_once = json!({"gracePeriodSeconds": 0, "propagationPolicy": "Background"});
        for path in OF_TESTS {
            api.call("DELETE", path, Some(&at_once)).unwrap();
        }
        until("what earlier tests left is gone", || {
            api.pods().is_empty().then_some(())
        });
    }

    fn log(&self) -> PathBuf {
        self.state.join("log/audit.jsonl")
    }

    /// Forgets the writes so far.
    fn skip(&mut self) {
        self.skipped = fs::metadata(self.log()).unwrap().len();
    }

    /// The drivers' writes in this namespace, in the form of the embedded cluster's log. The API server writes its audit
    /// log before it answers.
    pub fn writes(&self, namespace: &str) -> Vec<Value> {
        let mut log = File::open(self.log()).unwrap();
        log.seek(SeekFrom::Start(self.skipped)).unwrap();
        let mut text = String::new();
        log.read_to_string(&mut text).unwrap();
        let there = format!("/namespaces/{namespace}/");
        let of_drivers = |line: &&str| {
            line.contains(r#""userAgent":"boatswain/"#) && line.contains(there.as_str())
        };
        let lines = text.lines().filter(of_drivers);
        lines.filter_map(write).collect()
    }

    /// Runs `scripts/cluster` with these arguments.
    fn run(&self, arguments: &[&str]) {
        said(command(&self.name, arguments));
    }

    pub fn pause(&self, program: &'static str) {
        self.run(&["pause", program]);
        let mut paused = self.paused.take();
        paused.push(program);
        self.paused.set(paused);
    }

    /// Lets all go on that were paused.
    pub fn go_on(&self) {
        for program in self.paused.take() {
            self.run(&["continue", program]);
        }
    }

    pub fn kill(&mut self) {
        self.run(&["kill", "apiserver"]);
        self.killed = true;
    }

    /// Starts the API server, which was killed, with all that it had.
    pub fn start(&mut self) {
        self.skip();
        self.run(&["start", "apiserver"]);
        self.killed = false;
        // They would try again after half a minute, or a minute and a half.
        for program in ["scheduler", "kwok", "controllers"] {
            self.run(&["kill", program]);
            self.run(&["start", program]);
        }
    }

    pub fn empty(&mut self) {
        self.skip();
        self.run(&["empty"]);
        self.killed = false;
        is_furnished(&self.api());
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.go_on();
        if self.killed {
            self.start();
        }
    }
}

/// The address of a proxy that speaks plain HTTP and may do whatever this kubeconfig's user may.
pub fn plain(kubeconfig: &Path, log: &Path) -> (String, Program) {
    let mut command = Command::new("kubectl");
    command
        .args(["proxy", "--port=0", "--kubeconfig"])
        .arg(kubeconfig);
    let proxy = Program::start("kubectl proxy", &mut command, log);
    let address = until("kubectl proxy serves", || {
        let said = proxy.stdout();
        let address = said.strip_prefix("Starting to serve on ")?;
        address.strip_suffix('\n').map(str::to_owned)
    });
    (address, proxy)
}

/// Waits until a namespace has what the controllers put into each.
pub fn is_furnished(api: &Api) {
    let namespace = &api.namespace;
    for there in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        let path = format!("/api/v1/namespaces/{namespace}/{there}");
        until("the namespace has what each has", || {
            api.call("GET", &path, None).is_ok().then_some(())
        });
    }
}

fn command(name: &str, arguments: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/cluster");
    let mut command = Command::new(script);
    command.env("CLUSTER", name).args(arguments);
    command
}

fn said(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A line of the audit log about a write, as the embedded cluster would have logged it.
fn write(line: &str) -> Option<Value> {
    // The last line may be incomplete.
    let line: Value = serde_json::from_str(line).ok()?;
    let verb = match line["verb"].as_str()? {
        "create" => "POST",
        "update" => "PUT",
        "patch" => "PATCH",
        "delete" | "deletecollection" => "DELETE",
        _ => return None,
    };
    Some(json!({
        "verb": verb,
        "path": line["requestURI"],
        "code": line["responseStatus"]["code"],
        "user_agent": line["userAgent"],
    }))
}
