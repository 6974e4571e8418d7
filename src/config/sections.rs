//! The sections of the file, each with its defaults. Every duration is what its key says; bounds
//! are there to catch slips of the pen and amounts that no timer can hold.

use std::path::PathBuf;
use std::time::Duration;

use super::kinds::{Choice, Count, Flag, Path, Text, Whole, one_of, seconds, span};
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

const HOUR: Duration = secs(3600);
const DAY: Duration = secs(24 * 3600);

/// `[app]`: the application whose executors these are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct App {
    /// Its id; `None`: the one in the application record, or a new one that is kept there (spec O-30).
    pub id: Option<AppId>,
    /// Its name, for people; the names of its pods begin with it (spec K-7).
    pub name: String,
}

impl Default for App {
    fn default() -> Self {
        Self {
            id: None,
            name: "boatswain".to_owned(),
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
        Self {
            id: s.option("id", id).map(AppId::from),
            name: s.value("name", Text::SOME, d.name),
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

/// `[watch]`: being told of changes (spec W-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Whether to watch at all (spec W-6).
    pub enabled: bool,
}

impl Default for Watch {
    fn default() -> Self {
        Self { enabled: true }
    }
}

impl Watch {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            enabled: s.value("enabled", Flag, d.enabled),
        }
    }
}

/// `[poll]`: asking for everything now and then (spec P-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poll {
    /// Whether to poll at all (spec P-3).
    pub enabled: bool,
    /// From the end of a poll to the next (spec P-2).
    pub interval: Duration,
    /// How many pods a page has.
    pub page_size: u32,
    /// Whether the server may answer from its cache, as long as that is not older than what was
    /// seen.
    pub from_cache: bool,
}

impl Default for Poll {
    fn default() -> Self {
        Self {
            enabled: true,
            interval: secs(30),
            page_size: 500,
            from_cache: true,
        }
    }
}

impl Poll {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            enabled: s.value("enabled", Flag, d.enabled),
            interval: s.value("interval", span(ms(100)..=DAY), d.interval),
            page_size: s.value("page_size", Count(1..=10_000), d.page_size),
            from_cache: s.value("from_cache", Flag, d.from_cache),
        }
    }
}

/// What may be chosen to go when there are too many (spec A-41).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScaleDown {
    /// Those that do not run yet, then those that do.
    #[default]
    Running,
    /// Only those that do not run yet.
    PendingOnly,
}

impl Choice for ScaleDown {
    const ALL: &'static [(&'static str, Self)] = &[
        ("running", Self::Running),
        ("pending-only", Self::PendingOnly),
    ];
}

/// `[allocation]`: how executors are asked for and let go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// From round to round when nothing happens (spec S-21).
    pub interval: Duration,
    /// From a change after a quiet time to its round (spec S-21).
    pub quiet_latency: Duration,
    /// From round to round under steady change (spec S-21).
    pub min_gap: Duration,
    /// The most requests that one round decides on (spec A-3).
    pub batch_size: u32,
    /// The most requests, and apart from them the most deletes, under way at once (spec A-6, L-11).
    pub max_in_flight: u32,
    /// The most requests in a second; `None`: no limit (spec A-3).
    pub max_rate: Option<u32>,
    /// How long the outcome of a request may stay unknown before it is looked up (spec A-14).
    pub creation_timeout: Duration,
    /// How long an executor, or a lower target, has to stand before one is chosen to go
    /// (spec ).
    pub cancel_delay: Duration,
    /// What may be chosen to go.
    pub scale_down: ScaleDown,
}

impl Default for Allocation {
    fn default() -> Self {
        Self {
            interval: secs(1),
            quiet_latency: ms(10),
            min_gap: ms(50),
            batch_size: 500,
            max_in_flight: 32,
            max_rate: None,
            creation_timeout: secs(60),
            cancel_delay: secs(10),
            scale_down: ScaleDown::default(),
        }
    }
}

impl Allocation {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            interval: s.value("interval", span(ms(10)..=HOUR), d.interval),
            quiet_latency: s.value("quiet_latency", span(ms(0)..=secs(60)), d.quiet_latency),
            min_gap: s.value("min_gap", span(ms(0)..=secs(60)), d.min_gap),
            batch_size: s.value("batch_size", Count(1..=10_000), d.batch_size),
            max_in_flight: s.value("max_in_flight", Count(1..=1000), d.max_in_flight),
            max_rate: s.option("max_rate", Count(1..=100_000)),
            creation_timeout: s.value("creation_timeout", span(ms(200)..=DAY), d.creation_timeout),
            cancel_delay: s.value("cancel_delay", span(ms(0)..=DAY), d.cancel_delay),
            scale_down: s.value("scale_down", one_of(), d.scale_down),
        }
    }
}

/// `[lifecycle]`: what is done about executors that end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifecycle {
    /// From round to round when nothing happens (spec S-21).
    pub interval: Duration,
    /// How many changes may wait for a round before they are merged, an executor's to one
    /// (spec S-23).
    pub max_buffered: u32,
    /// Whether pods that have finished are deleted; otherwise they are kept, labelled inactive
    /// (spec L-2).
    pub delete_on_termination: bool,
    /// Whether any container that fails makes the executor a failed one (spec E-12).
    pub check_all_containers: bool,
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            interval: secs(1),
            max_buffered: 10_000,
            delete_on_termination: true,
            check_all_containers: true,
        }
    }
}

impl Lifecycle {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            interval: s.value("interval", span(ms(10)..=HOUR), d.interval),
            max_buffered: s.value("max_buffered", Count(1..=10_000_000), d.max_buffered),
            delete_on_termination: s.value("delete_on_termination", Flag, d.delete_on_termination),
            check_all_containers: s.value("check_all_containers", Flag, d.check_all_containers),
        }
    }
}

/// `[failures]`: executors that end again and again soon after they began (spec A-30).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// An executor that has run so long has stayed.
    pub stable_after: Duration,
    /// The first pause of a profile whose executors do not stay.
    pub backoff_initial: Duration,
    /// The longest.
    pub backoff_max: Duration,
}

impl Default for Failures {
    fn default() -> Self {
        Self {
            stable_after: secs(60),
            backoff_initial: secs(1),
            backoff_max: secs(300),
        }
    }
}

impl Failures {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            stable_after: s.value("stable_after", span(ms(100)..=DAY), d.stable_after),
            backoff_initial: s.value("backoff_initial", span(ms(10)..=DAY), d.backoff_initial),
            backoff_max: s.value("backoff_max", span(ms(10)..=DAY), d.backoff_max),
        }
    }
}

/// Whether executors have to announce themselves to count as working.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Registration {
    /// An executor works when its pod runs.
    #[default]
    Optional,
}

impl Choice for Registration {
    const ALL: &'static [(&'static str, Self)] = &[("optional", Self::Optional)];

    fn hint(refused: &str) -> Option<&'static str> {
        (refused == "required")
            .then_some("sessions, which \"required\" needs, are not built in yet")
    }
}

/// `[backend]`: what executors have to do with the driver.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Backend {
    /// Whether executors have to announce themselves.
    pub registration: Registration,
}

impl Backend {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            registration: s.value("registration", one_of(), d.registration),
        }
    }
}

/// What a signal means (spec O-10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnSignal {
    /// The application is over: its executors go.
    #[default]
    End,
    /// This process is over: its executors stay for a successor.
    HandOver,
}

impl Choice for OnSignal {
    const ALL: &'static [(&'static str, Self)] =
        &[("end", Self::End), ("hand-over", Self::HandOver)];
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
    /// The least level that is logged, or directives as `info,boatswain::pod_allocator=debug`.
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
                      as \"info,boatswain::pod_allocator=debug\"",
        };
        Self {
            format: s.option("format", one_of()),
            level: s.value("level", level, d.level),
        }
    }
}
