//! The signals that end the server.

use std::fs;
use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Listens for SIGINT, SIGTERM and SIGHUP from now on, and returns the wait for the first one. If whoever started the
/// process has it ignore SIGHUP, as `nohup` does, it stays ignored (spec O-81).
pub fn end() -> io::Result<impl Future<Output = ()>> {
    let hang_up = SignalKind::hangup();
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = match is_ignored(hang_up) {
        true => None,
        false => Some(signal(hang_up)?),
    };
    Ok(async move {
        tokio::select! {
            biased;
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            Some(_) = async { hang_up.as_mut()?.recv().await } => {}
        }
    })
}

/// Linux only.
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
        let status = |mask: &str| format!("Name:\tdevcluster\nSigIgn:\t{mask}\nSigCgt:\t0\n");
        assert!(ignored_in(&status("0000000000001001"), hang_up));
        for other in ["0000000000001000", "x"] {
            assert!(!ignored_in(&status(other), hang_up), "{other}");
        }
        assert!(!ignored_in("", hang_up));
    }
}
