//! Child processes that end with the test that started them, and their logs.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// The longest wait for a condition: far longer than anything here takes, even with all cores busy.
pub const PATIENCE: Duration = Duration::from_secs(240);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Number of log lines shown when a test fails.
const LAST: usize = 40;

/// Waits until there is a value to return.
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_after(Duration::ZERO, what, look)
}

/// The same of what cannot be so before this time.
pub fn until_after<T>(time: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(
            began.elapsed() < time + PATIENCE,
            "waited in vain until {what}"
        );
        thread::sleep(LOOK_EVERY);
    }
}

/// The binary under test, without configuration from the tests' own environment.
pub fn boatswain() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_boatswain"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.to_ascii_uppercase().starts_with("BOATSWAIN__") || text == "KUBECONFIG" {
            command.env_remove(&name);
        }
    }
    command
}

/// A process of the binary with a JSON log; it is killed when this is dropped.
pub struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts it with its standard error in this file and its standard output beside it.
    pub fn start(name: &'static str, command: &mut Command, log: &Path) -> Self {
        let child = command
            .stdin(Stdio::null())
            .stdout(File::create(log.with_extension("out")).unwrap())
            .stderr(File::create(log).unwrap())
            .spawn()
            .unwrap();
        Self {
            name,
            child,
            log: log.to_owned(),
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn stdout(&self) -> String {
        fs::read_to_string(self.log.with_extension("out")).unwrap()
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Its log so far, without an incomplete last line.
    pub fn log(&self) -> Log {
        let text = self.stderr();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let line = |line: &str| {
            serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("{}: {line:?} is not JSON: {error}", self.name))
        };
        Log(whole.lines().map(line).collect())
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Kills it and waits until it has ended.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// `None` if a signal killed it.
    pub fn exit(&mut self) -> Option<i32> {
        let child = &mut self.child;
        until("the process exits", || child.try_wait().unwrap()).code()
    }

    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let text = fs::read_to_string(&self.log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = lines[lines.len().saturating_sub(LAST)..].join("\n");
            eprintln!("--- the last lines of the {}'s log:\n{last}", self.name);
        }
    }
}

pub struct Log(pub Vec<Value>);

impl Log {
    pub fn lines(&self, message: &str) -> Vec<&Value> {
        self.0.iter().filter(|l| l["message"] == message).collect()
    }

    pub fn count(&self, message: &str) -> usize {
        self.lines(message).len()
    }

    /// The executors named in lines with this message.
    pub fn executors(&self, message: &str) -> BTreeSet<u64> {
        let lines = self.lines(message);
        lines
            .iter()
            .filter_map(|l| l["executor"].as_u64())
            .collect()
    }

    /// The line about an executor's end; there is at most one.
    pub fn end_of(&self, executor: u64) -> Option<&Value> {
        let mut ends = self.lines("executor ended");
        ends.retain(|l| l["executor"] == executor);
        assert!(ends.len() <= 1, "told more than once: {ends:?}");
        ends.pop()
    }

    pub fn at(&self, level: &str) -> Vec<&Value> {
        self.0.iter().filter(|l| l["level"] == level).collect()
    }
}

/// The processes on this machine whose environment contains this `NAME=value`, with their parents.
pub fn processes_with(variable: &str) -> Vec<(u32, u32)> {
    let has = |environment: &[u8]| {
        environment
            .split(|b| *b == 0)
            .any(|v| v == variable.as_bytes())
    };
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|n| n.parse().ok()) else {
            continue;
        };
        // A process may end meanwhile, and processes of other users cannot be read.
        let Ok(environment) = fs::read(entry.path().join("environ")) else {
            continue;
        };
        let parent = fs::read_to_string(entry.path().join("stat"))
            .ok()
            .and_then(|stat| {
                let (_, rest) = stat.rsplit_once(')')?;
                rest.split_whitespace().nth(1)?.parse().ok()
            });
        if let Some(parent) = parent.filter(|_| has(&environment)) {
            found.push((pid, parent));
        }
    }
    found
}
