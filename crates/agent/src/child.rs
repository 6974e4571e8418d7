//! The child, and whatever else ends below this process: where the agent is the first process of a container, all that
//! lose their parent become its own, and would stay as zombies if nobody waited for them.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::status::STATUS_FILE;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

/// How the child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With this code.
    Exited(u8),
    /// By this signal.
    Killed(u8),
}

impl Ended {
    /// The code that says so, as shells and kubelets have it.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128_u8.saturating_add(signal),
        }
    }
}

/// As shells have it: 127 where there is no such program, 126 where it cannot be run.
pub(super) fn code_of_no_start(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    }
}

/// The executor's program.
#[derive(Debug)]
pub(super) struct Child(Pid);

impl Child {
    /// Starts it. It has all that this process has, but for the token; and the name of the file in which it may say how
    /// busy it is.
    pub(super) fn start(command: &[OsString], status_file: Option<&Path>) -> io::Result<Self> {
        let (program, args) = command
            .split_first()
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let mut command = Command::new(program);
        command.args(args).env_remove("BOATSWAIN_TOKEN");
        if let Some(file) = status_file {
            command.env(STATUS_FILE, file);
        }
        spawn(&mut command).map(Self)
    }

    pub(super) fn signal(&self, signal: Signal) {
        // It may have ended just now, and will be waited for.
        let _ = kill_process(self.0, signal);
    }

    /// Waits for all that has ended by now, and tells whether the child is among it.
    pub(super) fn reap(&self) -> Option<Ended> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid != self.0 {
                continue;
            }
            let code = |number: Option<i32>| number.and_then(|n| u8::try_from(n).ok());
            if let Some(code) = code(status.exit_status()) {
                return Some(Ended::Exited(code));
            }
            if let Some(signal) = code(status.terminating_signal()) {
                return Some(Ended::Killed(signal));
            }
        }
        None
    }
}

/// Runs a command of the configuration's, which ends by itself; it finds the time that is left in its environment.
pub(super) fn run(command: &str, left: Duration) -> io::Result<()> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::null());
    shell.env("BOATSWAIN_DEADLINE_SECONDS", left.as_secs().to_string());
    spawn(&mut shell).map(|_| ())
}

/// Whoever is started here is waited for with all others, by the number of its process.
fn spawn(command: &mut Command) -> io::Result<Pid> {
    let id = command.spawn()?.id();
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("a process without a number"))
}
