//! The sections about executors that come and go by themselves: with demand, and one after the other (spec B-32, B-40).

use std::time::Duration;

use super::kinds::{Choice, Flag, Text, Thousandths, one_of, span};
use super::reader::Section;
use super::sections::{DAY, HOUR, ms, secs};

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
