//! `[log]`, `[history]` and `[traces]`: what is written of what happens.

use std::path::PathBuf;

use http::Uri;
use tracing_subscriber::EnvFilter;

use super::declare::{choice, section};
use super::kinds::{Amount, PATH, Parsed, Text, one_of};
use boatswain_model::quantity::Quantity;

choice! {
    pub enum LogFormat {
        /// A JSON object per line.
        Json = "json",
        /// For terminals.
        Pretty = "pretty",
    }
}

section! {
    /// `[log]`: the format and level of logs.
    pub struct Log {
        /// `None`: pretty on a terminal, otherwise JSON.
        pub format: Option<LogFormat> = option(one_of());
        /// The least level that is logged, or directives such as
        /// `info,boatswain::actors::pod_allocator=debug`.
        pub level: String = value(LEVEL) or "info".to_owned();
    }
}

section! {
    /// `[history]`: the file that has the application's events (spec B-70).
    pub struct History {
        /// `None`: there is none.
        pub file: Option<PathBuf> = option(PATH);
        /// How many bytes it and the one before it may have together.
        pub max_size: Quantity = value(Amount::MEMORY) or Quantity::mebibytes(64);
    }
}

section! {
    /// `[traces]`: the collector that gets executors' lives as traces (spec O-141).
    pub struct Traces {
        /// `None`: none are sent.
        pub collector: Option<Uri> = option(COLLECTOR);
        /// The file with the token that the collector wants. `None`: it wants none.
        pub token_file: Option<PathBuf> = option(PATH);
        /// The CA that the collector's certificate has to lead to. `None`: this machine's CAs.
        pub ca_file: Option<PathBuf> = option(PATH);
    }
}

const COLLECTOR: Parsed<Uri> = Parsed {
    read: |text| {
        let uri: Uri = text.parse().ok()?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        (is_http && uri.host().is_some_and(|host| !host.is_empty()) && uri.query().is_none())
            .then_some(uri)
    },
    show: |uri| uri.to_string().trim_end_matches('/').to_owned(),
    allowed: "a collector's URL, such as \"http://otel-collector.monitoring:4318\"",
};

const LEVEL: Text = Text {
    rule: is_level,
    allowed: "a level (error, warn, info, debug, trace, off) or directives, \
              such as \"info,boatswain::actors::pod_allocator=debug\"",
};

/// Libraries' messages below warnings are logged only on request, such as `info,kube=debug`. kube's client logs every
/// 5xx as an error; the driver itself logs what it means. The embedded cluster's log is for commands that serve it.
const QUIET: &str = "h2=warn,hyper=warn,hyper_util=warn,kube=warn,kube_client=warn,kube_core=warn,\
                     kube_client::client::builder=off,apiserver=off,\
                     rustls=warn,tower=warn,actix=warn,mio=warn";

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Whether the text is a valid filter: a level, or directives separated by commas.
pub fn is_level(text: &str) -> bool {
    filter(text).is_some()
}

/// Which messages are logged; `None` if the text is no level or directive.
pub fn filter(text: &str) -> Option<EnvFilter> {
    // The filter would take a single unknown word for a target, and silence everything else.
    let known = |part: &str| part.contains('=') || LEVELS.contains(&part);
    let written = |c: char| c.is_ascii_alphanumeric() || "_:-=[]{}\".,".contains(c);
    if !text.split(',').all(known) || !text.chars().all(written) {
        return None;
    }
    EnvFilter::builder().parse(format!("{QUIET},{text}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-40
    #[test]
    fn a_level_is_a_level_or_directives() {
        for good in [
            "info",
            "off",
            "debug",
            "info,boatswain::pod_allocator=trace",
            "kube=debug,warn",
        ] {
            assert!(is_level(good), "{good}");
        }
        for bad in ["", "loud", "info,,", "boatswain=loud", "info;kube=debug"] {
            assert!(!is_level(bad), "{bad}");
        }
    }
}
