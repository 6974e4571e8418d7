//! Sets up logging: one line per event to standard error, as JSON or for terminals (spec O-40).
//!
//! A field has the same name everywhere: `app`, `executor` (the id), `profile`, `pod`, `uid`, `node`, `reason`,
//! `exit_code`, `verb`, `attempt`, `count`, `duration_ms`, `error`. Variable parts are fields, never part of the
//! message, so that repeats can be deduplicated.

#[cfg(test)]
mod calls_are_logged;
mod fold;
mod format;
#[cfg(test)]
pub(crate) mod testing;

use std::io::{IsTerminal, Write};

use boatswain_agent::logs::Logs;
use tracing_subscriber::EnvFilter;

pub use crate::config::LogFormat;
use crate::config::log::filter;
use crate::exit::Exit;

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    #[error("not a log level: {0}")]
    Level(String),
    /// Another logger has been installed in this process.
    #[error("logging is already set up")]
    Begun,
    #[error("the operating system denied what is needed for logs")]
    Denied(#[from] std::io::Error),
}

/// A duration for `duration_ms` and similar fields.
pub fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Erases the current line of a terminal: a log line overwrites the progress line.
pub const ERASE_LINE: &str = "\r\u{1b}[K";

/// Whether logs go to a terminal that can erase a line.
pub fn on_terminal(format: Option<LogFormat>) -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|terminal| terminal == "dumb");
    format != Some(LogFormat::Json) && std::io::stderr().is_terminal() && !dumb
}

/// Changes which messages are logged.
pub struct Level(Box<dyn Fn(EnvFilter) -> bool>);

impl Level {
    /// # Errors
    /// If this is no level. Nothing is changed then.
    pub fn set(&self, level: &str) -> Result<(), TelemetryError> {
        let filter = filter(level);
        let set = filter.is_some_and(|filter| (self.0)(filter));
        set.then_some(())
            .ok_or_else(|| TelemetryError::Level(level.to_owned()))
    }
}

/// Sets up logging for the process. `None`: pretty on a terminal, otherwise JSON. Also returns the queue of lines, which
/// has to be finished before the process exits.
pub fn init(format: Option<LogFormat>, level: &str) -> Result<(Level, Logs), TelemetryError> {
    let filter = filter(level).ok_or_else(|| TelemetryError::Level(level.to_owned()))?;
    let terminal = std::io::stderr().is_terminal();
    let erases = on_terminal(format);
    let format = format.unwrap_or(if terminal {
        LogFormat::Pretty
    } else {
        LogFormat::Json
    });
    let colours = terminal && format == LogFormat::Pretty && std::env::var_os("NO_COLOR").is_none();
    let logs =
        Logs::to_stderr(move |count| format::lost(&format::Lines::new(format, erases), count))?;
    let writer = logs.clone();
    let subscriber = tracing_subscriber::fmt()
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_writer(move || writer.clone())
        .with_ansi(colours)
        .fmt_fields(format::SpanFields)
        .event_format(format::Lines::new(format, erases))
        .with_filter_reloading();
    let handle = subscriber.reload_handle();
    subscriber.try_init().map_err(|_| TelemetryError::Begun)?;
    let level = Level(Box::new(move |filter| handle.reload(filter).is_ok()));
    Ok((level, logs))
}

/// Makes a panic on any thread log a line and end the process (spec O-12). Otherwise only the actor would end.
pub fn exit_on_panic(logs: Option<Logs>) {
    std::panic::set_hook(Box::new(move |panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("no message");
        let location = panic
            .location()
            .map(ToString::to_string)
            .unwrap_or_default();
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unassigned");
        if tracing::dispatcher::has_been_set() {
            tracing::error!(
                location,
                thread,
                error = text,
                "panicked: the process exits"
            );
        } else {
            // If this fails, there is no other channel to report it.
            let _ = writeln!(
                std::io::stderr(),
                "panicked at {location} in {thread}: {text}"
            );
        }
        if let Some(logs) = &logs {
            logs.finish();
        }
        std::process::exit(Exit::Bug.code().into());
    }));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const CHILD_LOGS_IN: &str = "TEST_CHILD_LOGS_IN";

    /// The child process of the next test, which sets its log format; does nothing otherwise.
    #[test]
    fn child_that_panics() {
        let format = match std::env::var(CHILD_LOGS_IN).as_deref() {
            Ok("json") => Some(LogFormat::Json),
            Ok("pretty") => Some(LogFormat::Pretty),
            Ok(_) => None,
            Err(_) => return,
        };
        exit_on_panic(format.map(|format| init(Some(format), "info").unwrap().1));
        let actor = std::thread::Builder::new().name("an-actor".to_owned());
        let actor = actor.spawn(|| panic!("the sky fell")).unwrap();
        let _ = actor.join();
        std::thread::sleep(std::time::Duration::from_secs(60));
    }

    // spec: O-12
    #[test]
    fn a_panic_anywhere_is_logged_and_ends_the_process_with_70() {
        for format in ["json", "pretty", "none"] {
            let child = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "--nocapture",
                    "telemetry::tests::child_that_panics",
                ])
                .env(CHILD_LOGS_IN, format)
                .output()
                .unwrap();
            let log = String::from_utf8_lossy(&child.stderr);
            assert_eq!(child.status.code(), Some(70), "{log}");
            for word in ["the sky fell", "src/telemetry/mod.rs", "an-actor"] {
                assert!(log.contains(word), "{format}: no {word} in {log}");
            }
            if format == "json" {
                let line: serde_json::Value = serde_json::from_str(log.trim()).unwrap();
                assert_eq!(line["level"], "error");
            }
        }
    }
}
