//! The sections `[autoscaling]` and `[roll]`: targets that follow demand, and rolling replacement
//! (spec B-32, B-40).

use std::time::Duration;

use super::kinds::{Choice, Flag, Text, Thousandths, one_of, span};
use super::reader::Section;
use super::sections::{DAY, HOUR, ms, secs};

/// `[autoscaling]`: how demand determines the number of executors (spec B-40 to B-42).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autoscaling {
    pub enabled: bool,
    /// The slots to provide for each task, in thousandths.
    pub ratio: u32,
    /// How long demand must exceed supply before the first step up.
    pub backlog_timeout: Duration,
    /// The interval between further steps up.
    pub sustained_timeout: Duration,
    /// How long an executor must be idle before it is removed.
    pub idle_timeout: Duration,
    /// How long a demand is valid unless it is renewed.
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

/// Which executor is replaced next (spec B-32).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RollPolicy {
    /// The one with the lowest id.
    Id,
    /// The one with the oldest pod.
    #[default]
    Oldest,
    /// The one whose metric deviates most from the others'.
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
    /// The interval between replacements; zero: executors are not replaced.
    pub interval: Duration,
    pub policy: RollPolicy,
    /// For the outlier policy: the key in the `metrics` of heartbeats that is compared.
    pub metric: Option<String>,
    /// For the outlier policy: the least deviation from the median, in thousandths of a standard
    /// deviation.
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
