//! The sections `[backend]`, `[agent]` and `[adoption]`: sessions between executors and the driver,
//! and how executors are ended (spec B-1 to B-30, O-112, O-65).

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::declare::{choice, section};
use super::kinds::{ADDRESS, Flag, PATH, Percent, Text, one_of, span};
use super::names::{NameRule, is_label_key, is_label_value};
use super::profile::IMAGE;
use super::sections::{ClusterMode, DAY, HOUR, ms, secs};

choice! {
    /// Whether an executor has to register before it counts as working.
    pub enum Registration {
        /// An executor counts as working when its pod runs.
        Optional = "optional",
        /// A running executor that does not register in time is replaced (spec A-52).
        Required = "required",
    }
}

choice! {
    /// How an executor proves its identity (spec O-112).
    pub enum Auth {
        /// By a token in its environment, which is derived from a key of the driver's.
        Derived = "derived",
        /// By a service account token that is bound to its pod.
        Kubernetes = "kubernetes",
    }
}

section! {
    /// The sessions between executors and the driver.
    pub struct Sessions {
        /// `None`: the driver does not accept sessions.
        pub listen: Option<SocketAddr> = option(ADDRESS);
        /// Whether sessions are plain HTTP, with `[tls]` or on an address that others can reach.
        pub plain_http: bool = value(Flag) or false;
        /// The URL that executors connect to. `None`: the address of the listener.
        pub url: Option<String> = option(URL);
        /// The labels of the driver's pod that a headless Service selects; empty: no Service is
        /// created (spec K-9).
        pub service_selector: BTreeMap<String, String> = table(SELECTOR_KEY, SELECTOR_VALUE);
        /// `None`: required where the driver listens for sessions.
        pub registration: Option<Registration> = option(one_of());
        /// `None`: derived tokens in the embedded cluster, otherwise service account tokens.
        pub auth: Option<Auth> = option(one_of());
        /// The file of the key that tokens are derived from. `None`: a new key at each start.
        pub key_file: Option<PathBuf> = option(PATH);
        pub heartbeat_interval: Duration = value(span(ms(100)..=HOUR)) or secs(10);
        /// An executor that is silent for this long is lost.
        pub heartbeat_timeout: Duration = value(span(secs(1)..=DAY)) or secs(120);
        /// How long the reason for a lost connection may take to become known; two heartbeat intervals at least.
        pub loss_reason_timeout: Duration = value(span(secs(1)..=DAY)) or secs(60);
        /// If more than this percentage of executors is silent at the same time, the driver doubts
        /// its own network path.
        pub mass_loss: u32 = value(Percent(1..=100)) or 20;
    }
}

const URL: Text = Text {
    rule: |url| {
        let host = url.strip_prefix("http://");
        let host = host.or_else(|| url.strip_prefix("https://"));
        let host = host.unwrap_or_default();
        let host = host.strip_suffix('/').unwrap_or(host);
        !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && b != b'/')
    },
    allowed: "an address as executors see it, such as \"http://driver.jobs:7078\"",
};

const SELECTOR_KEY: NameRule = (
    is_label_key,
    "a label's key, such as app or app.kubernetes.io/name",
);

const SELECTOR_VALUE: Text = Text {
    rule: |value| !value.is_empty() && is_label_value(value),
    allowed: "a label's value: up to 63 letters, digits, dashes, dots and underscores",
};

impl Sessions {
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

section! {
    /// `[backend]`: how the driver works with executors.
    pub struct Backend {
        pub sessions: Sessions = flattened(Sessions::read);
        /// How long a killed executor may take to exit (spec B-28).
        pub kill_grace: Duration = value(span(ms(0)..=HOUR)) or secs(5);
        /// How long a decommissioned executor may take to finish (spec B-30).
        pub decommission_timeout: Duration = value(span(ms(0)..=DAY)) or secs(60);
    }
}

choice! {
    /// How the agent's program gets into executors' containers (spec O-65).
    pub enum Inject {
        /// Not at all: the executors' image contains it if it is wanted.
        None = "none",
        /// An init container copies it to a volume.
        Init = "init",
        /// Its image is mounted as a volume.
        Image = "image",
    }
}

section! {
    /// `[agent]`: the agent that handles an executor's session.
    pub struct Agent {
        pub inject: Inject = value(one_of()) or Inject::None;
        /// The image that contains `/usr/bin/boatswain-agent`.
        pub image: Option<String> = option(IMAGE);
        /// The shell command that an injected agent runs instead of sending SIGTERM when the executor is decommissioned or
        /// its pod evicted.
        pub decommission_command: Option<String> = option(Text::SOME);
    }
}

section! {
    /// `[adoption]`: executors of an earlier driver.
    pub struct Adoption {
        /// How long after the start adopted executors may lack a session without being lost (spec
        /// O-31, A-44).
        pub grace: Duration = value(span(ms(0)..=DAY)) or secs(60);
    }
}
