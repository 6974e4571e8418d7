//! The driver process of a test.

use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::cluster::Cluster;
use super::process::{Log, Program, boatswain, until};

/// The executors' pods are named `t-exec-1` and so on. Intervals are shorter than the defaults.
const CONFIG: &str = r#"
[app]
name = "t"
[profiles.default]
image = "registry.example/none:1"
command = ["sleep", "infinity"]
[poll]
interval = "1s"
[log]
format = "json"
"#;

/// The ConfigMap of that application's record.
pub const RECORD: &str = "t-app";

pub struct Driver(Program);

impl Driver {
    pub fn start(cluster: &Cluster, executors: usize, sets: &[&str]) -> Self {
        let kubeconfig = cluster.kubeconfig.clone();
        Self::start_with(cluster, &kubeconfig, executors, sets)
    }

    /// Starts a driver that reaches the cluster through another kubeconfig.
    pub fn start_with(
        cluster: &Cluster,
        kubeconfig: &Path,
        executors: usize,
        sets: &[&str],
    ) -> Self {
        Self::start_as(boatswain(), cluster, kubeconfig, executors, sets)
    }

    /// Starts a driver whose environment names this proxy, and what it is not for.
    pub fn start_with_proxy(
        cluster: &Cluster,
        kubeconfig: &Path,
        (proxy, excepted): (&str, &str),
        sets: &[&str],
    ) -> Self {
        let mut command = boatswain();
        for (name, value) in [("HTTPS_PROXY", proxy), ("NO_PROXY", excepted)] {
            command.env(name, value).env(name.to_lowercase(), value);
        }
        Self::start_as(command, cluster, kubeconfig, 3, sets)
    }

    /// Starts a driver that may have this many open files.
    pub fn start_with_files(
        cluster: &Cluster,
        executors: usize,
        files: u32,
        sets: &[&str],
    ) -> Self {
        Self::limited(cluster, executors, &format!("ulimit -n {files}"), sets)
    }

    /// Starts a driver that may have this many open files until it asks for more.
    pub fn start_with_soft_limit(cluster: &Cluster, executors: usize, files: u32) -> Self {
        Self::limited(cluster, executors, &format!("ulimit -S -n {files}"), &[])
    }

    fn limited(cluster: &Cluster, executors: usize, limit: &str, sets: &[&str]) -> Self {
        let mut limited = Command::new("sh");
        limited
            .env_clear()
            .envs(std::env::vars().filter(|(name, _)| name == "PATH"));
        limited.arg("-c");
        limited.arg(format!("{limit} && exec \"$0\" \"$@\""));
        limited.arg(boatswain().get_program());
        Self::start_as(limited, cluster, &cluster.kubeconfig, executors, sets)
    }

    fn start_as(
        mut command: Command,
        cluster: &Cluster,
        kubeconfig: &Path,
        executors: usize,
        sets: &[&str],
    ) -> Self {
        let config = cluster.directory.path().join("config.toml");
        std::fs::write(&config, CONFIG).unwrap();
        command.arg("run").arg("--config").arg(config);
        command
            .arg("--set")
            .arg(format!("cluster.kubeconfig={}", kubeconfig.display()));
        command
            .arg("--set")
            .arg(format!("cluster.namespace={}", cluster.api.namespace));
        command
            .arg("--set")
            .arg(format!("profiles.default.executors={executors}"));
        for set in cluster.sets() {
            command.arg("--set").arg(set);
        }
        Self::run(&mut command, sets, &cluster.file("driver"))
    }

    pub fn run(command: &mut Command, sets: &[&str], log: &Path) -> Self {
        for set in sets {
            command.arg("--set").arg(set);
        }
        Self(Program::start("driver", command, log))
    }

    /// Waits until its log satisfies a condition.
    pub fn until<T>(&mut self, what: &str, look: impl Fn(&Log) -> Option<T>) -> T {
        until(what, || {
            // Determined before the log is read, so that the last lines of an ended process are read as well.
            let alive = self.0.is_alive();
            let found = look(&self.0.log());
            assert!(
                found.is_some() || alive,
                "the driver has exited before {what}"
            );
            found
        })
    }

    pub fn says(&mut self, message: &str) -> Value {
        let first = |log: &Log| log.lines(message).first().map(|line| (*line).clone());
        self.until(&format!("it says {message:?}"), first)
    }

    /// Waits for the log line about this executor's end.
    pub fn end_of(&mut self, executor: u64) -> Value {
        self.until(&format!("executor {executor}'s end is logged"), |log| {
            log.end_of(executor).cloned()
        })
    }
}

impl Deref for Driver {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.0
    }
}

impl DerefMut for Driver {
    fn deref_mut(&mut self) -> &mut Program {
        &mut self.0
    }
}
