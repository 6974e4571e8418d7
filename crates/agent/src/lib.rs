//! The agent: runs an executor's program as its child, and speaks to the driver for it (spec O-60).
//!
//! The child notices nothing of that: not that the driver restarts, not that a connection breaks. What the driver
//! orders it hears as a signal, or as a command that the configuration names; what becomes of it the agent reports, and
//! becomes itself.
//!
//! [`protocol`]: what executors and the driver say to each other.

#![forbid(unsafe_code)]

pub mod backoff;
mod child;
pub mod cli;
mod conversation;
pub mod identity;
pub mod protocol;
mod state;
mod status;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use child::{Child, Ended};
use conversation::Conversation;
use identity::Identity;
use state::{Action, ChildState};
use status::{Scratch, Status};

pub use status::STATUS_FILE;

/// So long a child that was told to go by the agent itself has, as a pod has.
const USUAL_GRACE: Duration = Duration::from_secs(30);

/// So long the last word to the driver may take.
const LAST_WORD: Duration = Duration::from_secs(2);

/// The conversation hears one thing at a time, and the agent acts on it at once.
const HEARD: usize = 4;

/// What the agent is to do.
#[derive(Debug, Clone)]
pub struct Options {
    /// The executor's program and its arguments.
    pub command: Vec<OsString>,
    /// Who it is, and where the driver is.
    pub identity: Identity,
    /// Run instead of a SIGTERM where the executor is to be drained.
    pub decommission_command: Option<String>,
    /// Where the child says how busy it is; `None`: in a new file among the temporary ones.
    pub status_file: Option<PathBuf>,
    /// The driver may be away for so long; `None`: for ever.
    pub driver_timeout: Option<Duration>,
}

/// Runs the child until it ends, and returns its exit code.
///
/// # Errors
///
/// Where cannot listen for signals.
pub async fn run(options: Options) -> std::io::Result<u8> {
    let mut signals = ForwardedSignals::listen()?;
    let mut ended = signal(SignalKind::child())?;
    let scratch = scratch(options.status_file.is_none());
    let status_file = options.status_file.or(scratch.as_ref().map(Scratch::file));
    let child = match Child::start(&options.command, status_file.as_deref()) {
        Ok(child) => child,
        Err(error) => {
            let command = options.command.first().cloned().unwrap_or_default();
            tracing::error!(?command, %error, "the command cannot be started");
            return Ok(child::code_of_no_start(&error));
        }
    };
    let (hear, mut heard) = mpsc::channel(HEARD);
    let (report, reported) = watch::channel(None);
    let status = Status::of(status_file);
    let conversation = Conversation::new(options.identity, status, options.driver_timeout);
    let talking = tokio::spawn(conversation.run(hear, reported));
    let mut state = ChildState::new(options.decommission_command, USUAL_GRACE);
    let end = loop {
        // The child may have ended before anybody listened.
        if let Some(end) = child.reap() {
            break end;
        }
        let deadline = state.deadline();
        let actions = tokio::select! {
            biased;
            _ = ended.recv() => continue,
            signal = signals.next() => vec![Action::Signal(signal)],
            Some(heard) = heard.recv() => state.heard(heard, Instant::now()),
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                state.too_late()
            }
        };
        for action in actions {
            carry_out(&child, action);
        }
    };
    tracing::info!(code = end.code(), "the command has ended");
    report.send_replace(Some(end));
    // A driver that is away is not waited for; Kubernetes tells it the same.
    let _ = timeout(LAST_WORD, talking).await;
    Ok(end.code())
}

/// A place for what the child says of itself, where one is needed; without it the child works as well.
fn scratch(needed: bool) -> Option<Scratch> {
    match needed.then(Scratch::new)? {
        Ok(scratch) => Some(scratch),
        Err(error) => {
            tracing::warn!(
                %error,
                "there is no room for what the command says of itself: it counts as busy; name a file with --status-file"
            );
            None
        }
    }
}

fn carry_out(child: &Child, action: Action) {
    match action {
        Action::Signal(signal) => child.signal(signal),
        Action::Run { command, left } => {
            if let Err(error) = child::run(&command, left) {
                tracing::error!(command, %error, "the decommission command cannot be started, so SIGTERM is sent");
                child.signal(Signal::TERM);
            }
        }
    }
}

/// The signals that are the child's rather than the agent's.
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
