//! Starts the child process and reaps processes. As the first process of a container the agent
//! inherits all orphaned processes, which would stay zombies if it did not wait for them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use super::status::STATUS_FILE;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// With this exit code.
    Exited(u8),
    /// By this signal.
    Killed(u8),
}

impl Ended {
    /// The exit code, in the convention of shells and kubelets.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Exited(code) => code,
            Self::Killed(signal) => 128_u8.saturating_add(signal),
        }
    }
}

/// As in shells: 127 if the program does not exist, 126 if it cannot be executed.
pub(super) fn code_of_no_start(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::NotFound => 127,
        _ => 126,
    }
}

/// The process of the executor's program.
#[derive(Debug)]
pub(super) struct Child(Pid);

impl Child {
    /// Starts the program with the environment of this process, without the token, and with the
    /// path of the status file.
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
        // The child may have exited already, and will be reaped.
        let _ = kill_process(self.0, signal);
    }

    /// Reaps all processes that have exited, and returns how the child ended if it is among them.
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

/// Starts a shell command from the configuration, with this environment variable, and does not wait for it.
pub(super) fn run(command: &str, (name, value): (&str, &OsStr)) -> io::Result<()> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::null());
    shell.env(name, value);
    spawn(&mut shell).map(|_| ())
}

/// Detaches from the standard library's handle: all children are reaped by process id.
fn spawn(command: &mut Command) -> io::Result<Pid> {
    let id = command.spawn()?.id();
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("the process has no valid id"))
}
