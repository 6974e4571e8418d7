//! Checks of the addresses that the driver listens on (spec O-59).

use crate::config::Config;
use crate::config::notes::Notes;

pub(super) fn check(config: &Config, notes: &mut Notes) {
    monitoring(config, notes);
}

/// Metrics and probes without a token share no port with the API or the sessions.
fn monitoring(config: &Config, notes: &mut Notes) {
    let (metrics, probes) = (config.metrics.listen, config.probes.listen);
    let sessions = config.backend.sessions.listen;
    for (key, address) in [("metrics.listen", metrics), ("probes.listen", probes)] {
        let Some(address) = address.filter(|address| address.port() != 0) else {
            continue;
        };
        for (other, taken) in [
            ("api.listen", config.api.listen),
            ("backend.listen", sessions),
        ] {
            if taken == Some(address) {
                notes.contradict(
                    &[key, other],
                    format!("found {address}, which is {other} too"),
                    "choose another port; the API serves metrics and probes on its own port anyway",
                );
            }
        }
    }
    if metrics.is_none() && config.metrics.token_file.is_some() {
        notes.contradict(
            &["metrics.token_file", "metrics.listen"],
            "found, and metrics.listen is not set",
            "set metrics.listen, or remove it: the API's tokens are in api.token_file",
        );
    }
}
