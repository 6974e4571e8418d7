//! The signals that ask a process to stop, or to read its configuration again.

use std::fs::{self, File};
use std::io;

use boatswain_agent::logs::ignore_file_size_limit;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub(super) const HANG_UP: &str = "SIGHUP";

pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` if the process was started with SIGHUP ignored.
    hang_up: Option<Signal>,
}

impl Signals {
    pub fn listen() -> io::Result<Self> {
        ignore_file_size_limit()?;
        let hang_up = SignalKind::hangup();
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: match is_ignored(hang_up) {
                true => None,
                false => Some(signal(hang_up)?),
            },
        })
    }

    /// Waits for the next signal and returns its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.terminate.recv() => "SIGTERM",
            Some(_) = next(&mut self.hang_up) => HANG_UP,
        }
    }
}

/// The next such signal; `None` if it is ignored.
async fn next(signal: &mut Option<Signal>) -> Option<()> {
    signal.as_mut()?.recv().await
}

/// Whether the process has a terminal, from which Ctrl-C would come.
pub(super) fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

/// Whether whoever started the process has it ignore this signal, as `nohup` does. Linux only.
fn is_ignored(signal: SignalKind) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_in(&status, signal)
}

fn ignored_in(status: &str, signal: SignalKind) -> bool {
    let mask = (status.lines()).find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal.as_raw_value() - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-81
    #[test]
    fn a_signal_that_the_starter_has_ignored_stays_ignored() {
        let hang_up = SignalKind::hangup();
        let status = |mask: &str| format!("Name:\tboatswain\nSigIgn:\t{mask}\nSigCgt:\t0\n");
        assert!(ignored_in(&status("0000000000000001"), hang_up));
        assert!(ignored_in(&status("0000000000001001"), hang_up));
        assert!(!ignored_in(&status("0000000000001000"), hang_up));
        assert!(!ignored_in(&status("x"), hang_up));
        assert!(!ignored_in("", hang_up));
    }
}
