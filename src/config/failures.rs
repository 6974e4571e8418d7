//! The section `[failures]`: which ends count as failures, how many are tolerated, and how long a
//! failing profile backs off (spec A-30, L-30 to L-32).

use std::time::Duration;

use super::kinds::{Choice, Count, Text, one_of, span};
use super::names::is_label_key;
use super::reader::Section;
use super::sections::{DAY, HOUR, ms, secs};
use crate::model::LossClass;

/// What happens when an executor's end matches a rule (spec L-31).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailureAction {
    /// The end does not count as a failure.
    #[default]
    Ignore,
    /// The end counts as a failure.
    Count,
    /// The application ends.
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

/// `[[failures.rules]]`: an exception to how ends are classified (spec L-31). A rule matches if all
/// of its non-empty criteria match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureRule {
    /// The exit code is one of these; empty: any.
    pub exit_codes: Vec<i32>,
    /// The class of the reason is one of these; empty: any.
    pub classes: Vec<LossClass>,
    /// The pod has one of these conditions; empty: any.
    pub conditions: Vec<String>,
    pub action: FailureAction,
}

impl FailureRule {
    fn read(s: &mut Section<'_>) -> Option<Self> {
        let condition = Text {
            rule: is_label_key,
            allowed: "the type of a pod's condition, such as DisruptionTarget",
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
            s.refuse_whole("the rule would match every end", fix);
            return None;
        }
        if !s.is_set("action") {
            let fix = "say action = \"ignore\", \"count\" or \"stop\"";
            s.refuse_whole("the rule has no action", fix);
            return None;
        }
        Some(rule)
    }
}

/// `[failures]`: crash loops (spec A-30), and how many failures the application may have (spec
/// L-30).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// The most failures that are tolerated within the window. `None`: derived from the number of
    /// executors wanted.
    pub max: Option<u32>,
    /// How long a failure counts. Zero: forever.
    pub window: Duration,
    /// Exceptions to the classification; the first rule that matches decides.
    pub rules: Vec<FailureRule>,
    /// A node with this many failures within the window is avoided. `None`: nodes are never avoided
    /// (spec L-32).
    pub node_max_failures: Option<u32>,
    /// An executor that has run for this long is considered stable.
    pub stable_after: Duration,
    /// The first back-off of a profile in a crash loop.
    pub backoff_initial: Duration,
    /// The longest back-off.
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
