//! The sections `[backend]` and `[adoption]`: sessions between executors and the driver, and how
//! executors are ended (spec B-1 to B-30, O-50).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::kinds::{Address, Choice, Path, Percent, Text, one_of, span};
use super::names::{is_label_key, is_label_value};
use super::reader::Section;
use super::sections::{ClusterMode, DAY, HOUR, ms, secs};

/// Whether an executor has to register before it counts as working.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// An executor counts as working when its pod runs.
    Optional,
    /// A running executor that does not register in time is replaced (spec A-52).
    Required,
}

impl Choice for Registration {
    const ALL: &'static [(&'static str, Self)] =
        &[("optional", Self::Optional), ("required", Self::Required)];
}

/// How an executor proves its identity (spec O-50).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// By a token in its environment, which is derived from a key of the driver's.
    Derived,
    /// By a service account token that is bound to its pod.
    Kubernetes,
}

impl Choice for Auth {
    const ALL: &'static [(&'static str, Self)] =
        &[("derived", Self::Derived), ("kubernetes", Self::Kubernetes)];
}

/// The sessions between executors and the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    /// `None`: the driver does not accept sessions.
    pub listen: Option<SocketAddr>,
    /// The URL that executors connect to. `None`: the address of the listener.
    pub url: Option<String>,
    /// The labels of the driver's pod that a headless Service selects; empty: no Service is created
    /// (spec K-9).
    pub service_selector: BTreeMap<String, String>,
    /// `None`: required where the driver listens for sessions.
    pub registration: Option<Registration>,
    /// `None`: derived tokens in the embedded cluster, otherwise service account tokens.
    pub auth: Option<Auth>,
    /// The file of the key that tokens are derived from. `None`: a new key at each start.
    pub key_file: Option<PathBuf>,
    pub heartbeat_interval: Duration,
    /// An executor that is silent for this long is lost.
    pub heartbeat_timeout: Duration,
    /// How long the reason for a lost connection may take to become known.
    pub loss_reason_timeout: Duration,
    /// If more than this percentage of executors is silent at the same time, the driver doubts its
    /// own network path.
    pub mass_loss: u32,
}

impl Default for Sessions {
    fn default() -> Self {
        Self {
            listen: None,
            url: None,
            service_selector: BTreeMap::new(),
            registration: None,
            auth: None,
            key_file: None,
            heartbeat_interval: secs(10),
            heartbeat_timeout: secs(120),
            loss_reason_timeout: secs(60),
            mass_loss: 20,
        }
    }
}

impl Sessions {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        let url = Text {
            rule: |url| {
                let host = url.strip_prefix("http://").unwrap_or_default();
                let host = host.strip_suffix('/').unwrap_or(host);
                !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && b != b'/')
            },
            allowed: "an address as executors see it, such as \"http://driver.jobs:7078\"",
        };
        let label = (
            is_label_key as fn(&str) -> bool,
            "a label's key, such as app or app.kubernetes.io/name",
        );
        let label_value = Text {
            rule: |value| !value.is_empty() && is_label_value(value),
            allowed: "a label's value: up to 63 letters, digits, dashes, dots and underscores",
        };
        Self {
            listen: s.option("listen", Address),
            url: s.option("url", url),
            service_selector: s.table("service_selector", label, label_value),
            registration: s.option("registration", one_of()),
            auth: s.option("auth", one_of()),
            key_file: s.option("key_file", Path),
            heartbeat_interval: s.value(
                "heartbeat_interval",
                span(ms(100)..=HOUR),
                d.heartbeat_interval,
            ),
            heartbeat_timeout: s.value(
                "heartbeat_timeout",
                span(secs(1)..=DAY),
                d.heartbeat_timeout,
            ),
            loss_reason_timeout: s.value(
                "loss_reason_timeout",
                span(secs(1)..=DAY),
                d.loss_reason_timeout,
            ),
            mass_loss: s.value("mass_loss", Percent(1..=100), d.mass_loss),
        }
    }

    /// The configured value, or else: required where the driver listens.
    pub fn registration(&self) -> Registration {
        self.registration.unwrap_or(match self.listen {
            Some(_) => Registration::Required,
            None => Registration::Optional,
        })
    }

    /// The port of the Service that leads to the driver, if one is to be created (spec K-9).
    pub fn service_port(&self) -> Option<u16> {
        let port = self.listen.map(|address| address.port());
        port.filter(|port| *port != 0 && !self.service_selector.is_empty())
    }

    /// The configured value, or else the default for the cluster's mode.
    pub fn auth(&self, mode: ClusterMode) -> Auth {
        self.auth.unwrap_or(match mode {
            ClusterMode::Embedded => Auth::Derived,
            ClusterMode::Kubernetes => Auth::Kubernetes,
        })
    }
}

/// `[backend]`: how the driver works with executors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    pub sessions: Sessions,
    /// How long a killed executor may take to exit (spec B-28).
    pub kill_grace: Duration,
    /// How long a decommissioned executor may take to finish (spec B-30).
    pub decommission_timeout: Duration,
    /// The label, as `key=value`, of the pods of decommissioned executors (spec L-12).
    pub decommission_label: String,
}

impl Default for Backend {
    fn default() -> Self {
        Self {
            sessions: Sessions::default(),
            kill_grace: secs(5),
            decommission_timeout: secs(60),
            decommission_label: "boatswain.dev/decommissioning=true".to_owned(),
        }
    }
}

impl Backend {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        let label = Text {
            rule: |text| {
                (text.split_once('=')).is_some_and(|(k, v)| is_label_key(k) && is_label_value(v))
            },
            allowed: "a label, such as \"example.com/draining=true\"",
        };
        Self {
            sessions: Sessions::read(s),
            kill_grace: s.value("kill_grace", span(ms(0)..=HOUR), d.kill_grace),
            decommission_timeout: s.value(
                "decommission_timeout",
                span(ms(0)..=DAY),
                d.decommission_timeout,
            ),
            decommission_label: s.value("decommission_label", label, d.decommission_label),
        }
    }
}

/// `[adoption]`: executors of an earlier driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    /// How long after the start adopted executors may lack a session without being lost (spec O-31,
    ///
    pub grace: Duration,
}

impl Default for Adoption {
    fn default() -> Self {
        Self { grace: secs(60) }
    }
}

impl Adoption {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            grace: s.value("grace", span(ms(0)..=DAY), d.grace),
        }
    }
}
