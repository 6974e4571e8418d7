//! `[backend]`: executors that speak to the driver, and how they are let go (spec B-1 to B-30, O-50); and `[adoption]`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::kinds::{Address, Choice, Path, Percent, Text, one_of, span};
use super::names::{is_label_key, is_label_value};
use super::reader::Section;
use super::sections::{ClusterMode, DAY, HOUR, ms, secs};

/// Whether executors have to announce themselves to count as working.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Registration {
    /// An executor works when its pod runs.
    Optional,
    /// One that runs and does not register in time is replaced (spec A-52).
    Required,
}

impl Choice for Registration {
    const ALL: &'static [(&'static str, Self)] =
        &[("optional", Self::Optional), ("required", Self::Required)];
}

/// How an executor proves which one it is (spec O-50).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Auth {
    /// By a token in its environment, made of a key that the driver has.
    Derived,
    /// By a service account's token that is bound to its pod.
    Kubernetes,
}

impl Choice for Auth {
    const ALL: &'static [(&'static str, Self)] =
        &[("derived", Self::Derived), ("kubernetes", Self::Kubernetes)];
}

/// How executors speak to the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sessions {
    /// Where the driver listens for executors; `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// Where executors reach it; `None`: at the address where it listens.
    pub url: Option<String>,
    /// The labels of the driver's pod, by which a headless Service finds it; empty: there is none (spec K-9).
    pub service_selector: BTreeMap<String, String>,
    /// Whether executors have to announce themselves; `None`: where the driver listens.
    pub registration: Option<Registration>,
    /// How executors prove who they are; `None`: by derived tokens in the embedded cluster, else as Kubernetes does.
    pub auth: Option<Auth>,
    /// The file of the key that derived tokens are made of; `None`: a new one each start.
    pub key_file: Option<PathBuf>,
    /// From one heartbeat to the next.
    pub heartbeat_interval: Duration,
    /// Without a sign of life for so long an executor is given up.
    pub heartbeat_timeout: Duration,
    /// A lost connection has so long to be explained.
    pub loss_reason_timeout: Duration,
    /// More silent executors than so many in a hundred at the same time, and the driver doubts itself.
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
            allowed: "an address as executors see it, as \"http://driver.jobs:7078\"",
        };
        let label = (
            is_label_key as fn(&str) -> bool,
            "a label's key, as app or app.kubernetes.io/name",
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

    /// Whether executors have to announce themselves, when nothing else is said: where they can.
    pub fn registration(&self) -> Registration {
        self.registration.unwrap_or(match self.listen {
            Some(_) => Registration::Required,
            None => Registration::Optional,
        })
    }

    /// The port at which a Service leads to the driver, where there is to be one (spec K-9).
    pub fn service_port(&self) -> Option<u16> {
        let port = self.listen.map(|address| address.port());
        port.filter(|port| *port != 0 && !self.service_selector.is_empty())
    }

    /// How executors of such a cluster prove who they are.
    pub fn auth(&self, mode: ClusterMode) -> Auth {
        self.auth.unwrap_or(match mode {
            ClusterMode::Embedded => Auth::Derived,
            ClusterMode::Kubernetes => Auth::Kubernetes,
        })
    }
}

/// `[backend]`: what executors have to do with the driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backend {
    /// How executors speak to the driver.
    pub sessions: Sessions,
    /// How long one that is killed may take (spec B-28).
    pub kill_grace: Duration,
    /// How long one that is decommissioned may take (spec B-30).
    pub decommission_timeout: Duration,
    /// The label of a pod whose executor is decommissioned, as `key=value` (spec L-12).
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
            allowed: "a label, as \"example.com/draining=true\"",
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

/// `[adoption]`: executors that were there before this driver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adoption {
    /// So long none of them is given up for want of a session (spec O-31, A-44).
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
