//! Checks of the addresses that the driver listens on, and of their certificate (spec O-53, O-59).

use crate::Config;
use crate::notes::Notes;

pub(super) fn check(config: &Config, notes: &mut Notes) {
    monitoring(config, notes);
    callers(config, notes);
    certificate(config, notes);
    plain_http(config, notes);
    scheme(config, notes);
    collector(config, notes);
}

/// What the collector of traces wants, and whether it is safe to send it (spec O-141).
fn collector(config: &Config, notes: &mut Notes) {
    let traces = &config.traces;
    let Some(collector) = &traces.collector else {
        for (key, is_set) in [
            ("traces.token_file", traces.token_file.is_some()),
            ("traces.ca_file", traces.ca_file.is_some()),
        ] {
            if is_set {
                let found = "found, and traces.collector is not set";
                notes.contradict(&[key, "traces.collector"], found, "set it, or remove this");
            }
        }
        return;
    };
    if collector.scheme_str() == Some("https") {
        return;
    }
    if traces.token_file.is_some() {
        let keys = ["traces.token_file", "traces.collector"];
        let found =
            "found, and traces.collector is no https:// URL, so that the token could be read";
        notes.contradict(&keys, found, "use https://, or remove the token");
    }
    if traces.ca_file.is_some() {
        let keys = ["traces.ca_file", "traces.collector"];
        let found = "found, and traces.collector is no https:// URL";
        notes.contradict(&keys, found, "use https://, or remove it");
    }
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

fn callers(config: &Config, notes: &mut Notes) {
    let api = &config.api;
    if !api.service_accounts.is_empty() && api.listen.is_none() {
        let keys = ["api.service_accounts", "api.listen"];
        let found = "found, and api.listen is not set";
        notes.contradict(&keys, found, "set api.listen, or remove it");
    }
    if api.audience.is_some() && api.service_accounts.is_empty() {
        let keys = ["api.audience", "api.service_accounts"];
        let found = "found, and api.service_accounts names no caller whose token could have it";
        notes.contradict(&keys, found, "set api.service_accounts, or remove it");
    }
}

/// The keys that switch TLS on.
const ON: [&str; 2] = ["tls.certificate_file", "tls.generate"];

fn certificate(config: &Config, notes: &mut Notes) {
    let tls = &config.tls;
    let (certificate, key) = (tls.certificate_file.is_some(), tls.key_file.is_some());
    let both = "name both files, or use tls.generate = true instead";
    if certificate && !key {
        let keys = ["tls.key_file", "tls.certificate_file"];
        notes.contradict(&keys, "missing, and tls.certificate_file is set", both);
    }
    if key && !certificate {
        let keys = ["tls.certificate_file", "tls.key_file"];
        notes.contradict(&keys, "missing, and tls.key_file is set", both);
    }
    if tls.generate && (certificate || tls.ca_file.is_some()) {
        let keys = ["tls.generate", "tls.certificate_file", "tls.ca_file"];
        let found = "found true, beside files of another CA";
        notes.contradict(&keys, found, "use either, not both");
    }
    if tls.ca_file.is_some() && !certificate && !tls.generate {
        let keys = ["tls.ca_file", "tls.certificate_file"];
        let found = "found, and tls.certificate_file is not set";
        notes.contradict(
            &keys,
            found,
            "set tls.certificate_file and tls.key_file, or remove it",
        );
    }
    if !tls.names.is_empty() && !tls.generate {
        let found = "found, and only a generated certificate needs it";
        let fix = "set tls.generate = true, or remove it";
        notes.contradict(&["tls.names", "tls.generate"], found, fix);
    }
    let hands_out = tls.ca_file.is_some() || tls.generate;
    if hands_out && sessions_with_tls(config) && !config.config_map.enabled {
        let keys = ["config_map.enabled", "tls.ca_file", "tls.generate"];
        let found = "found false, and executors get the CA in this ConfigMap";
        notes.contradict(
            &keys,
            found,
            "remove it, or put the CA into their image, with certificate files",
        );
    }
    let listens = config.api.listen.is_some() || config.backend.sessions.listen.is_some();
    if tls.is_on() && !listens {
        let key = if tls.generate { ON[1] } else { ON[0] };
        let keys = [key, "api.listen", "backend.listen"];
        let found = "found, and neither api.listen nor backend.listen is set";
        notes.contradict(&keys, found, "set one of them, or remove it");
    }
}

fn sessions_with_tls(config: &Config) -> bool {
    let sessions = &config.backend.sessions;
    sessions.listen.is_some() && config.tls.is_on() && !sessions.plain_http
}

/// Tokens cross no network without TLS unless the configuration says so.
fn plain_http(config: &Config, notes: &mut Notes) {
    let (api, sessions) = (&config.api, &config.backend.sessions);
    for (listen, plain, address, is_plain) in [
        ("api.listen", "api.plain_http", api.listen, api.plain_http),
        (
            "backend.listen",
            "backend.plain_http",
            sessions.listen,
            sessions.plain_http,
        ),
    ] {
        let Some(address) = address else {
            continue;
        };
        if !address.ip().is_loopback() && !config.tls.is_on() && !is_plain {
            notes.contradict(
                &[listen, plain, ON[0], ON[1]],
                format!("found {address}, which other machines can reach, and there is no TLS: tokens could be read on the way"),
                format!("set tls.generate = true, or tls.certificate_file and tls.key_file; or, if the network keeps others away, {plain} = true"),
            );
        }
    }
    if config.one_port() && api.plain_http != sessions.plain_http {
        notes.contradict(
            &["backend.plain_http", "api.plain_http"],
            "found another value than api.plain_http, and both share a port",
            "set both, or give them two ports",
        );
    }
}

fn scheme(config: &Config, notes: &mut Notes) {
    let url = config.backend.sessions.url.as_deref().unwrap_or_default();
    if url.starts_with("http://") && sessions_with_tls(config) {
        notes.contradict(
            &["backend.url", "backend.plain_http", ON[0], ON[1]],
            format!("found {url:?}, and sessions are HTTPS"),
            "begin it with https://, or set backend.plain_http = true",
        );
    }
}
