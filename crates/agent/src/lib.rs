//! The agent: runs an executor's program as its child and handles the session with the driver (spec
//! O-60).
//!
//! The child is not affected by restarts of the driver or broken connections. The driver's orders
//! reach it as signals, or as a configured command. The agent reports the child's exit code to the
//! driver, and exits with it.
//!
//! [`protocol`] defines the messages between executors and the driver.

#![forbid(unsafe_code)]

pub mod backoff;
mod child;
pub mod cli;
mod conversation;
pub mod file;
pub mod file_state;
pub mod foreign;
pub mod identity;
pub mod install;
pub mod logs;
pub mod protocol;
mod reload;
mod spare;
mod state;
mod status;
mod termination_message;
pub mod trust;
mod usage;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use child::{Child, Ended};
use conversation::Conversation;
use identity::Identity;
use reload::Files;
use state::{Action, ChildState};
use status::{Scratch, Status};
use termination_message::TerminationMessage;

pub use status::STATUS_FILE;

/// The exit code of an agent that stopped its child because no driver answered for
/// `--driver-timeout` (spec O-123). The codes of sysexits.h end at 78.
pub const NO_DRIVER: u8 = 79;

/// The beginning of the agent's own termination messages.
pub const AGENT: &str = "boatswain-agent: ";

/// The termination message of a child that got SIGTERM while the driver had ordered nothing. If nobody deletes the pod,
/// that was the kubelet, because a probe failed (spec L-20).
pub const UNORDERED: &str = "boatswain-agent: SIGTERM without an order of the driver";

/// How long the last message to the driver may take.
const LAST_WORD: Duration = Duration::from_secs(2);

/// The capacity of the channel from the session to the agent. The agent reacts at once.
const HEARD: usize = 4;

/// The options of an agent.
#[derive(Debug, Clone)]
pub struct Options {
    /// The executor's program and its arguments.
    pub command: Vec<OsString>,
    pub identity: Identity,
    /// The shell command that is run instead of sending SIGTERM when the executor is decommissioned, or gets SIGTERM
    /// without an order, as when its pod is evicted.
    pub decommission_command: Option<String>,
    /// How long the pod's containers have from SIGTERM to SIGKILL.
    pub termination_grace: Duration,
    /// The files whose changes the child has to learn of.
    pub reload_files: Vec<PathBuf>,
    /// The shell command that is run instead of sending SIGHUP when one of them has changed.
    pub reload_command: Option<String>,
    /// The file in which the child reports its busy slots. `None`: a new temporary file.
    pub status_file: Option<PathBuf>,
    /// How long the driver may be unreachable before the child is stopped. `None`: forever.
    pub driver_timeout: Option<Duration>,
    /// Whether the program is started only when the driver has registered the executor.
    pub is_spare: bool,
}

/// Runs the child until it ends, and returns its exit code.
///
/// # Errors
///
/// Signal handlers cannot be installed. If the child cannot be started, the exit code says so.
pub async fn run(options: Options) -> std::io::Result<u8> {
    logs::ignore_file_size_limit()?;
    let mut signals = ForwardedSignals::listen()?;
    let mut ended = signal(SignalKind::child())?;
    let scratch = scratch(options.status_file.is_none());
    let status_file = options.status_file.or(scratch.as_ref().map(Scratch::file));
    let (hear, mut heard) = mpsc::channel(HEARD);
    let (report, reported) = watch::channel(None);
    let status = Status::of(status_file.clone());
    let conversation = Conversation::new(options.identity, status, options.driver_timeout);
    let talking = tokio::spawn(conversation.run(hear, reported));
    if options.is_spare
        && let Some(code) = spare::wait(&mut heard, &mut signals).await
    {
        if code == NO_DRIVER {
            TerminationMessage::default().write(&no_driver(options.driver_timeout));
        }
        return Ok(code);
    }
    // Before the child reads them: a change that comes later has to be told.
    let mut files = Files::of(options.reload_files);
    let child = match Child::start(&options.command, status_file.as_deref()) {
        Ok(child) => child,
        Err(error) => {
            let command = options.command.first().cloned().unwrap_or_default();
            tracing::error!(?command, %error, "the command could not be started");
            return Ok(child::code_of_no_start(&error));
        }
    };
    let mut termination_message = TerminationMessage::default();
    let mut state = ChildState::new(options.decommission_command, options.termination_grace);
    let end = loop {
        // Checked before waiting, because the child may have exited already.
        if let Some(end) = child.reap() {
            break end;
        }
        let deadline = state.deadline();
        let actions = tokio::select! {
            biased;
            _ = ended.recv() => continue,
            signal = signals.next() => state.signalled(signal, Instant::now()),
            file = files.changed() => {
                reload(&child, &file, options.reload_command.as_deref());
                continue;
            }
            Some(heard) = heard.recv() => state.heard(heard, Instant::now()),
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                state.too_late()
            }
        };
        for action in actions {
            carry_out(&child, action, &mut state);
        }
        if state.terminated_unordered() {
            // At once, because the child may be killed together with the agent.
            termination_message.write_once(UNORDERED);
        }
    };
    tracing::info!(code = end.code(), "the command has ended");
    report.send_replace(Some(end));
    // The agent does not wait for an unreachable driver, which also learns of the exit from
    // Kubernetes.
    let _ = timeout(LAST_WORD, talking).await;
    if !state.driver_gone() {
        return Ok(end.code());
    }
    termination_message.write(&no_driver(options.driver_timeout));
    Ok(NO_DRIVER)
}

fn no_driver(timeout: Option<Duration>) -> String {
    format!("{AGENT}no driver for {:?}", timeout.unwrap_or_default())
}

/// A temporary directory for the status file, if needed. The child also works without one.
fn scratch(needed: bool) -> Option<Scratch> {
    match needed.then(Scratch::new)? {
        Ok(scratch) => Some(scratch),
        Err(error) => {
            tracing::warn!(
                %error,
                "a temporary status file could not be created: all slots count as busy; set --status-file"
            );
            None
        }
    }
}

fn reload(child: &Child, file: &Path, command: Option<&str>) {
    tracing::info!(file = %file.display(), "a file has changed: the command is told");
    let Some(command) = command else {
        return child.signal(Signal::HUP);
    };
    if let Err(error) = child::run(command, ("BOATSWAIN_RELOAD_FILE", file.as_os_str())) {
        tracing::error!(command, %error, "the reload command could not be started");
    }
}

fn carry_out(child: &Child, action: Action, state: &mut ChildState) {
    match action {
        Action::Signal(signal) => child.signal(signal),
        Action::Run { command, left } => {
            let left = left.as_secs().to_string();
            let run = child::run(&command, ("BOATSWAIN_DEADLINE_SECONDS", left.as_ref()));
            if let Err(error) = run {
                tracing::error!(command, %error, "the decommission command could not be started: sending SIGTERM instead");
                for action in state.command_failed() {
                    carry_out(child, action, state);
                }
            }
        }
    }
}

/// The signals that are forwarded to the child.
struct ForwardedSignals(Vec<(Signal, Signals)>);

impl ForwardedSignals {
    fn listen() -> std::io::Result<Self> {
        let kinds = [
            (Signal::TERM, SignalKind::terminate()),
            (Signal::INT, SignalKind::interrupt()),
            (Signal::HUP, SignalKind::hangup()),
            (Signal::QUIT, SignalKind::quit()),
            (Signal::USR1, SignalKind::user_defined1()),
            (Signal::USR2, SignalKind::user_defined2()),
        ];
        let listen = |(sent, kind)| Ok((sent, signal(kind)?));
        Ok(Self(
            kinds
                .into_iter()
                .map(listen)
                .collect::<Result<_, std::io::Error>>()?,
        ))
    }

    async fn next(&mut self) -> Signal {
        futures::future::poll_fn(|cx| {
            let came = self
                .0
                .iter_mut()
                .find_map(|(sent, signals)| signals.poll_recv(cx).is_ready().then_some(*sent));
            came.map_or(std::task::Poll::Pending, std::task::Poll::Ready)
        })
        .await
    }
}
