//! A reader's machine: a home directory, a fresh clone of this repository, a cluster.

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
    terminals: usize,
}

impl Machine {
    pub fn start() -> Result<Self, String> {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        copy(root(), &at("boatswain"));
        copy(Path::new(TOOLS), &at("tools"));
        let binary = Path::new(env!("CARGO_BIN_EXE_boatswain"));
        for name in ["boatswain", "boatswain-agent"] {
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
            terminals: 0,
        };
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
        Terminal::open(shell, at("terminals").join(self.terminals.to_string()))
    }

    /// Ends the cluster. Nothing that the commands started may be left then.
    pub fn end(mut self) -> Result<(), String> {
        if let Some(mut cluster) = self.cluster.take() {
            cluster.interrupt()?;
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
