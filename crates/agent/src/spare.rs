//! Holds a spare's program back until the driver has registered the executor (spec O-146).

use rustix::process::Signal;
use tokio::sync::mpsc;

use super::conversation::Received;
use super::{ForwardedSignals, NO_DRIVER};

/// The exit code of an agent that was told to exit before its program began: as by SIGTERM.
const TOLD_TO_EXIT: u8 = 128 + Signal::TERM.as_raw() as u8;

/// Waits until the executor is needed. Returns the exit code if it has to exit before that.
pub(super) async fn wait(
    heard: &mut mpsc::Receiver<Received>,
    signals: &mut ForwardedSignals,
) -> Option<u8> {
    tracing::info!("a spare: the command is started when an executor is needed");
    loop {
        let code = tokio::select! {
            signal = signals.next() => match signal {
                Signal::TERM | Signal::INT | Signal::QUIT => TOLD_TO_EXIT,
                _ => continue,
            },
            heard = heard.recv() => match heard {
                Some(Received::Registered) => return None,
                Some(Received::DriverGone) => NO_DRIVER,
                Some(Received::Stop { .. } | Received::Decommission { .. } | Received::Unwanted) | None => {
                    TOLD_TO_EXIT
                }
            },
        };
        tracing::info!("the spare exits: it was not needed");
        return Some(code);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // spec: O-146
    #[tokio::test]
    async fn a_spare_begins_when_the_driver_has_registered_it_and_exits_when_it_is_told_to() {
        let within = Duration::from_secs(1);
        for (said, code) in [
            (Some(Received::Registered), None),
            (Some(Received::Stop { within }), Some(143)),
            (Some(Received::Decommission { within }), Some(143)),
            (Some(Received::Unwanted), Some(143)),
            (Some(Received::DriverGone), Some(79)),
            (None, Some(143)),
        ] {
            let mut signals = ForwardedSignals::listen().unwrap();
            let (say, mut heard) = mpsc::channel(1);
            if let Some(said) = said.clone() {
                say.send(said).await.unwrap();
            }
            drop(say);
            assert_eq!(wait(&mut heard, &mut signals).await, code, "{said:?}");
        }
    }
}
