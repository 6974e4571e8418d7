//! `[failures]`: which ends count as failures, how many are too many, and how long those who fail pause (spec A-30, L-30 to
//! L-32).

use std::time::Duration;

use super::kinds::{Choice, Count, Text, one_of, span};
use super::names::is_label_key;
use super::reader::Section;
use super::sections::{DAY, HOUR, ms, secs};
use crate::model::LossClass;

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
