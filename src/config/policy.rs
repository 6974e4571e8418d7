//! The sections about seeing and deciding: how executors are watched, asked for and let go.

use std::time::Duration;

use super::kinds::{Choice, Count, Flag, Text, Thousandths, one_of, span};
use super::names::{is_label_key, is_label_value};
use super::reader::Section;
use super::sections::{DAY, HOUR, ms, secs};
use super::sessions::Sessions;
use super::strategy::{Gang, GangKind, Strategy};
use crate::model::LossClass;

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
    /// The most live executors that do not run yet, over all profiles; `None`: no limit (spec A-4).
    pub max_pending: Option<u32>,
    /// How long an executor may wait to run; `None`: without end (spec A-50).
    pub pending_timeout: Option<Duration>,
    /// How long an executor may wait for what does not come by itself (spec A-51).
    pub stuck_after: Duration,
    /// How long an executor that has to register may run before it has (spec A-52).
    pub registration_timeout: Duration,
    /// How long an executor, or a lower target, has to stand before one is chosen to go
    /// (spec ).
    pub cancel_delay: Duration,
    /// What may be chosen to go.
    pub scale_down: ScaleDown,
    /// Who makes the pods (spec A-80).
    pub strategy: Strategy,
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
            max_pending: None,
            pending_timeout: None,
            stuck_after: secs(30),
            registration_timeout: secs(300),
            cancel_delay: secs(10),
            scale_down: ScaleDown::default(),
            strategy: Strategy::default(),
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
            max_pending: s.option("max_pending", Count(1..=u32::MAX)),
            pending_timeout: s.option("pending_timeout", span(secs(1)..=DAY)),
            stuck_after: s.value("stuck_after", span(secs(1)..=DAY), d.stuck_after),
            registration_timeout: s.value(
                "registration_timeout",
                span(secs(1)..=DAY),
                d.registration_timeout,
            ),
            cancel_delay: s.value("cancel_delay", span(ms(0)..=DAY), d.cancel_delay),
            scale_down: s.value("scale_down", one_of(), d.scale_down),
            strategy: s.value("strategy", one_of(), d.strategy),
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

/// What an end that a rule matches is to the application (spec L-31).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailureAction {
    /// No failure.
    #[default]
    Ignore,
    /// A failure.
    Count,
    /// The application's end.
    Stop,
}

impl Choice for FailureAction {
    const ALL: &'static [(&'static str, Self)] = &[
        ("ignore", Self::Ignore),
        ("count", Self::Count),
        ("stop", Self::Stop),
    ];
}

impl Choice for LossClass {
    const ALL: &'static [(&'static str, Self)] = &[
        ("Exited", Self::Exited),
        ("OomKilled", Self::OomKilled),
        ("StartFailed", Self::StartFailed),
        ("Rejected", Self::Rejected),
        ("Evicted", Self::Evicted),
        ("Preempted", Self::Preempted),
        ("Disrupted", Self::Disrupted),
        ("NodeLost", Self::NodeLost),
        ("Deleted", Self::Deleted),
        ("Mislabelled", Self::Mislabelled),
        ("Killed", Self::Killed),
        ("Decommissioned", Self::Decommissioned),
        ("ScaledDown", Self::ScaledDown),
        ("HeartbeatTimeout", Self::HeartbeatTimeout),
        ("Disconnected", Self::Disconnected),
        ("RegistrationTimeout", Self::RegistrationTimeout),
        ("PendingTimeout", Self::PendingTimeout),
        ("TemplateRefused", Self::TemplateRefused),
        ("Missing", Self::Missing),
        ("Lost", Self::Lost),
        ("Stuck", Self::Stuck),
    ];
}

/// `[[failures.rules]]`: what counts as a failure otherwise than its reason says (spec L-31). It matches an end where
/// each of the parts that it has does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureRule {
    /// The exit code is one of these; empty: whatever it is.
    pub exit_codes: Vec<i32>,
    /// The reason is one of these; empty: whichever.
    pub classes: Vec<LossClass>,
    /// The pod has one of these conditions; empty: whether or not it has any.
    pub conditions: Vec<String>,
    /// What is done then.
    pub action: FailureAction,
}

impl FailureRule {
    fn read(s: &mut Section<'_>) -> Option<Self> {
        let condition = Text {
            rule: is_label_key,
            allowed: "the type of a pod's condition, as DisruptionTarget",
        };
        let codes = s.list("exit_codes", Count(0..=255)).into_iter();
        let rule = Self {
            exit_codes: codes.filter_map(|code| i32::try_from(code).ok()).collect(),
            classes: s.list("classes", one_of()),
            conditions: s.list("conditions", condition),
            action: s.option("action", one_of()).unwrap_or_default(),
        };
        if rule.exit_codes.is_empty() && rule.classes.is_empty() && rule.conditions.is_empty() {
            let fix = "name exit_codes, classes or conditions";
            s.refuse_whole("a rule that would match every end", fix);
            return None;
        }
        if !s.is_set("action") {
            let fix = "say action = \"ignore\", \"count\" or \"stop\"";
            s.refuse_whole("a rule that does not say what it does", fix);
            return None;
        }
        Some(rule)
    }
}

/// `[failures]`: executors that end again and again soon after they began (spec A-30), and how many failures the
/// application may have (spec L-30).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// So many failures within the window are put up with; `None`: it follows from how many executors are wanted.
    pub max: Option<u32>,
    /// How long a failure counts; zero: for ever.
    pub window: Duration,
    /// What counts otherwise than its reason says; the first that matches decides.
    pub rules: Vec<FailureRule>,
    /// A node with so many failures within the window is avoided; `None`: none is (spec L-32).
    pub node_max_failures: Option<u32>,
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
            max: None,
            window: HOUR,
            rules: Vec::new(),
            node_max_failures: None,
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
            max: s.option("max", Count(0..=1_000_000_000)),
            window: s.value("window", span(ms(0)..=DAY * 365), d.window),
            rules: s.list_of_sections("rules", FailureRule::read),
            node_max_failures: s.option("node_max_failures", Count(1..=100)),
            stable_after: s.value("stable_after", span(ms(100)..=DAY), d.stable_after),
            backoff_initial: s.value("backoff_initial", span(ms(10)..=DAY), d.backoff_initial),
            backoff_max: s.value("backoff_max", span(ms(10)..=DAY), d.backoff_max),
        }
    }
}

/// `[autoscaling]`: from what an application has to do to how many executors it gets (spec B-40 to B-42).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autoscaling {
    /// Whether targets follow demand.
    pub enabled: bool,
    /// How many slots are wanted for each that has work, in thousandths.
    pub ratio: u32,
    /// How long more has to be wanted before the first step up.
    pub backlog_timeout: Duration,
    /// From one step to the next.
    pub sustained_timeout: Duration,
    /// How long an executor has to have nothing to do before it goes.
    pub idle_timeout: Duration,
    /// How long a demand stands that is not renewed.
    pub demand_ttl: Duration,
}

impl Default for Autoscaling {
    fn default() -> Self {
        Self {
            enabled: false,
            ratio: 1_000,
            backlog_timeout: secs(1),
            sustained_timeout: secs(1),
            idle_timeout: secs(60),
            demand_ttl: secs(60),
        }
    }
}

impl Autoscaling {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            enabled: s.value("enabled", Flag, d.enabled),
            ratio: s.value("ratio", Thousandths(1..=1_000_000), d.ratio),
            backlog_timeout: s.value("backlog_timeout", span(ms(0)..=HOUR), d.backlog_timeout),
            sustained_timeout: s.value(
                "sustained_timeout",
                span(ms(100)..=HOUR),
                d.sustained_timeout,
            ),
            idle_timeout: s.value("idle_timeout", span(secs(1)..=DAY), d.idle_timeout),
            demand_ttl: s.value("demand_ttl", span(secs(1)..=DAY), d.demand_ttl),
        }
    }
}

/// `[scheduling]`: executors that are of use only together (spec B-20).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduling {
    /// Whether an application can do nothing with fewer executors of a profile than its `min_executors`, and which
    /// scheduler is told of that (spec A-82).
    pub gang: Gang,
    /// They have so long to come together; then those that wait make room for a while.
    pub gang_timeout: Duration,
}

impl Default for Scheduling {
    fn default() -> Self {
        Self {
            gang: Gang::Off,
            gang_timeout: secs(300),
        }
    }
}

impl Scheduling {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            gang: s.value("gang", GangKind, d.gang),
            gang_timeout: s.value("gang_timeout", span(secs(1)..=DAY), d.gang_timeout),
        }
    }
}

/// Who is replaced next (spec B-32).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RollPolicy {
    /// The one with the lowest id.
    Id,
    /// The one whose pod is the oldest.
    #[default]
    Oldest,
    /// The one whose figure is unlike the others'.
    Outlier,
}

impl Choice for RollPolicy {
    const ALL: &'static [(&'static str, Self)] = &[
        ("id", Self::Id),
        ("oldest", Self::Oldest),
        ("outlier", Self::Outlier),
    ];
}

/// `[roll]`: replacing one executor after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roll {
    /// From one replacement to the next; nothing: none is replaced.
    pub interval: Duration,
    /// Who is next.
    pub policy: RollPolicy,
    /// What is compared, of what heartbeats have in `metrics`; only for the outlier.
    pub metric: Option<String>,
    /// How far from the median is unlike the others, in thousandths of a standard deviation.
    pub threshold: u32,
}

impl Default for Roll {
    fn default() -> Self {
        Self {
            interval: Duration::ZERO,
            policy: RollPolicy::default(),
            metric: None,
            threshold: 3_000,
        }
    }
}

impl Roll {
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        let d = Self::default();
        Self {
            interval: s.value("interval", span(ms(0)..=DAY * 365), d.interval),
            policy: s.value("policy", one_of(), d.policy),
            metric: s.option("metric", Text::SOME),
            threshold: s.value("threshold", Thousandths(500..=1_000_000), d.threshold),
        }
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
