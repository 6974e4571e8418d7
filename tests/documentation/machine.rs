//! A reader's machine: a home directory, a fresh clone of this repository, a cluster.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::root;
use super::terminal::{Terminal, until};

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/documentation/tools");

/// The cluster that the reader's kubeconfig names. Its node starts processes.
const CLUSTER: &str =
    "boatswain dev-cluster --token-file ~/.kube/token --kubeconfig ~/.kube/config";

/// The kubeconfig of a real cluster, of `scripts/cluster`, that the reader has instead.
pub fn kubeconfig() -> Option<PathBuf> {
    std::env::var_os("BOATSWAIN_TEST_KUBECONFIG").map(PathBuf::from)
}

/// What a command prints.
fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A real cluster, which pages have one after the other.
struct Real {
    /// The namespaces that were there before.
    namespaces: BTreeSet<String>,
    /// Where a terminal finds it, whatever its home.
    environment: [(&'static str, PathBuf); 2],
}

impl Real {
    fn find() -> Self {
        let told = |what| {
            let cluster = root().join("scripts/cluster");
            PathBuf::from(output(Command::new(cluster).arg(what)).trim())
        };
        let folder = |what| told(what).parent().unwrap().to_owned();
        let environment = [
            ("CLUSTER_FOLDER", folder("state")),
            ("CLUSTER_CACHE", folder("path")),
        ];
        Self {
            namespaces: Self::namespaces(),
            environment,
        }
    }

    fn namespaces() -> BTreeSet<String> {
        let listed = output(kubectl().args(["get", "namespaces", "--output=name"]));
        listed.lines().map(str::to_owned).collect()
    }

    /// Deletes what a page has made, so that the next one finds nothing of it.
    fn clear(&self) {
        let now = Self::namespaces();
        let made: Vec<_> = now.difference(&self.namespaces).collect();
        if !made.is_empty() {
            output(kubectl().args(["delete", "--timeout=100s"]).args(made));
        }
    }
}

fn kubectl() -> Command {
    let mut kubectl = Command::new("kubectl");
    kubectl.arg("--kubeconfig").args(kubeconfig());
    kubectl
}

/// Whether this is a folder of files that were made from others, and no part of a clone.
pub fn is_made(name: &OsStr) -> bool {
    name == "target" || name == ".git" || name == "__pycache__"
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if is_made(&entry.file_name()) {
            continue;
        }
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            fs::copy(&path, &copied).unwrap();
        }
    }
}

pub struct Machine {
    directory: TempDir,
    cluster: Option<Terminal>,
    real: Option<Real>,
    terminals: usize,
}

impl Machine {
    pub fn start() -> Result<Self, String> {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        copy(root(), &at("boatswain"));
        copy(Path::new(TOOLS), &at("tools"));
        let binary = Path::new(env!("CARGO_BIN_EXE_boatswain"));
        for name in ["boatswain", "boatswain-agent", "devcluster"] {
            symlink(binary.with_file_name(name), at("tools").join(name)).unwrap();
        }
        fs::create_dir_all(at("tmp")).unwrap();
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(at("home/.kube"))
            .unwrap();
        let mut machine = Self {
            directory,
            cluster: None,
            real: kubeconfig().map(|_| Real::find()),
            terminals: 0,
        };
        if let Some(kubeconfig) = kubeconfig() {
            // It is readable for nobody else, and its copy is too.
            let copy = machine.directory.path().join("home/.kube/config");
            fs::copy(kubeconfig, copy).unwrap();
            return Ok(machine);
        }
        let mut cluster = machine.terminal();
        cluster.start(1, CLUSTER, "http")?;
        machine.cluster = Some(cluster);
        Ok(machine)
    }

    /// The folder with the clone.
    pub fn checkout(&self) -> PathBuf {
        self.directory.path().join("boatswain")
    }

    /// Its shell has nothing of the environment of this test but where programs are.
    pub fn terminal(&mut self) -> Terminal {
        self.terminals += 1;
        let at = |name: &str| self.directory.path().join(name);
        let path = std::env::var("PATH").unwrap_or_default();
        // A shell cannot handle Ctrl-C if its starter ignored it, as a shell's background jobs do.
        let mut shell = Command::new("env");
        shell.args(["--default-signal=INT", "bash"]);
        shell
            .args(["--noprofile", "--norc"])
            .current_dir(self.checkout())
            .env_clear()
            .env("PATH", format!("{}:{path}", at("tools").display()))
            .env("HOME", at("home"))
            .env("TMPDIR", at("tmp"))
            .env("USER", "reader")
            .env("LANG", "C.UTF-8");
        if let Some(real) = &self.real {
            shell.envs(real.environment.clone());
            shell.envs(std::env::var_os("CLUSTER").map(|name| ("CLUSTER", name)));
        }
        Terminal::open(shell, at("terminals").join(self.terminals.to_string()))
    }

    /// Ends the cluster. Nothing that the commands started may be left then.
    pub fn end(mut self) -> Result<(), String> {
        if let Some(mut cluster) = self.cluster.take() {
            cluster.interrupt()?;
        }
        if let Some(real) = self.real.take() {
            real.clear();
        }
        let tools = self.directory.path().join("tools");
        if until(|| processes_of(&tools).is_empty().then_some(())).is_some() {
            return Ok(());
        }
        let left = processes_of(&tools);
        let shown = left.iter().map(|(_, command)| command.as_str());
        let problem = format!(
            "these processes are left:\n{}",
            shown.collect::<Vec<_>>().join("\n")
        );
        Err(problem)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        drop(self.cluster.take());
        if let Some(real) = self.real.take() {
            real.clear();
        }
        for (pid, _) in processes_of(&self.directory.path().join("tools")) {
            // It may have ended already.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The processes of which a page's commands are the ancestors, with their command lines. They have these tools in PATH.
fn processes_of(tools: &Path) -> Vec<(Pid, String)> {
    let is_of_page = |environment: &[u8]| {
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| {
            let path = variable.strip_prefix(b"PATH=");
            path.is_some_and(|path| {
                path.split(|b| *b == b':')
                    .any(|p| p == tools.as_os_str().as_bytes())
            })
        })
    };
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else {
            continue;
        };
        // A process may end meanwhile, and processes of other users cannot be read.
        let Ok(environment) = fs::read(entry.path().join("environ")) else {
            continue;
        };
        if is_of_page(&environment) {
            let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push((pid, String::from_utf8_lossy(&command).replace('\0', " ")));
        }
    }
    found
}
