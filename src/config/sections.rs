//! The sections about this process and its surroundings, each with its defaults. Every duration is what its key says; bounds
//! are there to catch slips of the pen and amounts that no timer can hold.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::kinds::{Choice, Count, Loopback, Path, Percent, Text, Whole, one_of, seconds, span};
use super::names::{LONGEST_PREFIX, is_dns_label, is_dns_subdomain, is_label_value};
use super::reader::Section;
use crate::model::AppId;
use crate::telemetry::{LogFormat, is_level};

pub(super) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub(super) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(super) const HOUR: Duration = secs(3600);
pub(super) const DAY: Duration = secs(24 * 3600);

/// `[app]`: the application whose executors these are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct App {
    /// Its id; `None`: the one in the application record, or a new one that is kept there (spec O-30).
    pub id: Option<AppId>,
    /// Its name, for people; the names of its pods begin with it (spec K-7).
    pub name: String,
    /// What every executor is told when it registers (spec B-1).
    pub properties: BTreeMap<String, String>,
    /// It is ready when so many in a hundred of the executors that were wanted at the start are there (spec B-20).
    pub min_registered_ratio: u32,
    /// It is ready after so long, however many are there (spec B-20).
    pub max_wait: Duration,
    /// So many executors it may have over its life; `None`: no limit (spec A-5).
    pub max_executors: Option<u32>,
    /// How long it may be silent before its executors are held; after twice as long it ends. `None`: for ever
    /// (spec B-35).
    pub ttl: Option<Duration>,
}

impl Default for App {
    fn default() -> Self {
        Self {
            id: None,
            name: "boatswain".to_owned(),
            properties: BTreeMap::new(),
            min_registered_ratio: 80,
            max_wait: secs(30),
            max_executors: None,
            ttl: None,
        }
    }
}

impl App {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        let id = Text {
            rule: |id| !id.is_empty() && is_label_value(id),
            allowed: "up to 63 letters, digits, dashes, dots and underscores, as a label's value",
        };
        let property = (
            (|name: &str| (1..=128).contains(&name.len()) && !name.contains('\0'))
                as fn(&str) -> bool,
            "a name of up to 128 bytes",
        );
        Self {
            id: s.option("id", id).map(AppId::from),
            name: s.value("name", Text::SOME, d.name),
            properties: s.table("properties", property, Text::ANY),
            min_registered_ratio: s.value(
                "min_registered_ratio",
                Percent(0..=100),
                d.min_registered_ratio,
            ),
            max_wait: s.value("max_wait", span(ms(0)..=DAY), d.max_wait),
            max_executors: s.option("max_executors", Count(1..=u32::MAX)),
            ttl: s.option("ttl", span(secs(1)..=DAY)),
        }
    }
}

/// Where the executors run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClusterMode {
    /// A Kubernetes cluster.
    #[default]
    Kubernetes,
    /// The cluster inside this process (spec O-70).
    Embedded,
}

impl Choice for ClusterMode {
    const ALL: &'static [(&'static str, Self)] = &[
        ("kubernetes", Self::Kubernetes),
        ("embedded", Self::Embedded),
    ];
}

/// `[cluster]`: which cluster, and how patient to be with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Where the executors run.
    pub mode: ClusterMode,
    /// The kubeconfig; `None`: the pod's service account, else the usual rules. Only for a
    /// Kubernetes cluster.
    pub kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context; `None`: the current one. Only for a Kubernetes cluster.
    pub context: Option<String>,
    /// The executors' namespace; `None`: the service account's or the context's.
    pub namespace: Option<String>,
    /// How long one call may take; also what the server is told (spec A-11).
    pub request_timeout: Duration,
    /// How long a connection may take to come up.
    pub connect_timeout: Duration,
    /// How long the cluster may stay out of reach at the start (spec O-2).
    pub start_timeout: Duration,
}

impl Default for Cluster {
    fn default() -> Self {
        Self {
            mode: ClusterMode::default(),
            kubeconfig: None,
            context: None,
            namespace: None,
            request_timeout: secs(10),
            connect_timeout: secs(10),
            start_timeout: secs(60),
        }
    }
}

impl Cluster {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        let namespace = Text {
            rule: |name| is_dns_label(name, 63),
            allowed: "a namespace: lowercase letters, digits and inner dashes",
        };
        Self {
            mode: s.value("mode", one_of(), d.mode),
            kubeconfig: s.option("kubeconfig", Path),
            context: s.option("context", Text::SOME),
            namespace: s.option("namespace", namespace),
            request_timeout: s.value("request_timeout", span(ms(100)..=HOUR), d.request_timeout),
            connect_timeout: s.value("connect_timeout", span(ms(100)..=HOUR), d.connect_timeout),
            start_timeout: s.value("start_timeout", span(ms(100)..=DAY), d.start_timeout),
        }
    }
}

/// What runs the pods of the embedded cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EmbeddedNode {
    /// Each pod is a local process (spec O-73).
    #[default]
    Process,
    /// Nothing runs; pods only pass through their states (spec O-73).
    Simulated,
}

impl Choice for EmbeddedNode {
    const ALL: &'static [(&'static str, Self)] =
        &[("process", Self::Process), ("simulated", Self::Simulated)];
}

/// `[embedded]`: the cluster inside this process; only for `cluster.mode = "embedded"`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Embedded {
    /// What runs the pods.
    pub node: EmbeddedNode,
    /// Where the processes' working directories and logs are; `None`: a new directory among the
    /// temporary files. Only for processes.
    pub state_dir: Option<PathBuf>,
    /// How long a simulated pod takes to start.
    pub start_delay: Duration,
}

impl Embedded {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            node: s.value("node", one_of(), d.node),
            state_dir: s.option("state_dir", Path),
            start_delay: s.value("start_delay", span(ms(0)..=HOUR), d.start_delay),
        }
    }
}

/// `[driver]`: this process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Driver {
    /// The pod that this process runs in; `None`: it runs in none.
    pub pod_name: Option<String>,
    /// What jitter and new ids are drawn from; `None`: the system's randomness.
    pub seed: Option<u64>,
}

impl Driver {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let pod_name = Text {
            rule: is_dns_subdomain,
            allowed: "a pod's name: lowercase letters, digits, inner dashes and dots",
        };
        Self {
            pod_name: s.option("pod_name", pod_name),
            seed: s.option("seed", Whole(0..=u64::MAX)),
        }
    }
}

/// Whose labels the executors bear (spec K-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Labels {
    /// boatswain's own.
    #[default]
    Boatswain,
    /// Spark's, so that tools made for Spark go on working.
    Spark,
}

impl Choice for Labels {
    const ALL: &'static [(&'static str, Self)] =
        &[("boatswain", Self::Boatswain), ("spark", Self::Spark)];
}

/// `[executors]`: what all executors have in common.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Executors {
    /// What the names of all that is made begin with; `None`: made from `app.name` (spec K-7).
    pub pod_name_prefix: Option<String>,
    /// Whose labels they bear.
    pub labels: Labels,
}

impl Executors {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        let prefix = Text {
            rule: |p| {
                is_dns_label(p, LONGEST_PREFIX) && p.starts_with(|c: char| c.is_ascii_lowercase())
            },
            allowed: "at most 38 lowercase letters, digits and inner dashes, a letter first",
        };
        Self {
            pod_name_prefix: s.option("pod_name_prefix", prefix),
            labels: s.value("labels", one_of(), d.labels),
        }
    }
}

/// `[api]`: how people and programs speak to the driver (spec O-50).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Api {
    /// Where it listens; `None`: nowhere.
    pub listen: Option<SocketAddr>,
    /// The file of the tokens that are let in; needed where it listens.
    pub token_file: Option<PathBuf>,
}

impl Api {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        Self {
            listen: s.option("listen", Loopback),
            token_file: s.option("token_file", Path),
        }
    }
}

/// What a signal means (spec O-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnSignal {
    /// The latter where a successor is started in this process's place, the former otherwise.
    #[default]
    Auto,
    /// The application is over: its executors go.
    End,
    /// This process is over: its executors stay for a successor.
    HandOver,
}

impl Choice for OnSignal {
    const ALL: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("end", Self::End),
        ("hand-over", Self::HandOver),
    ];
}

/// `[shutdown]`: how this process stops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shutdown {
    /// What a signal means.
    pub on_signal: OnSignal,
    /// How long the end may take (spec O-11).
    pub grace: Duration,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self {
            on_signal: OnSignal::default(),
            grace: secs(20),
        }
    }
}

impl Shutdown {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            on_signal: s.value("on_signal", one_of(), d.on_signal),
            grace: s.value("grace", seconds(secs(1)..=DAY), d.grace),
        }
    }
}

impl Choice for LogFormat {
    const ALL: &'static [(&'static str, Self)] = &[("json", Self::Json), ("pretty", Self::Pretty)];
}

/// `[log]`: what is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    /// How lines look; `None`: pretty on a terminal, else JSON.
    pub format: Option<LogFormat>,
    /// The least level that is logged, or directives as `info,boatswain::actors::pod_allocator=debug`.
    pub level: String,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: None,
            level: "info".to_owned(),
        }
    }
}

impl Log {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        let level = Text {
            rule: is_level,
            allowed: "a level (error, warn, info, debug, trace, off) or directives, \
                      as \"info,boatswain::actors::pod_allocator=debug\"",
        };
        Self {
            format: s.option("format", one_of()),
            level: s.value("level", level, d.level),
        }
    }
}
