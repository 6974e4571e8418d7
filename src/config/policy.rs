//! The sections `[watch]`, `[poll]`, `[allocation]`, `[lifecycle]` and `[scheduling]`: how
//! executors are observed, requested and deleted.

use std::time::Duration;

use super::kinds::{Choice, Count, Flag, one_of, span};
use super::reader::Section;
use super::sections::{DAY, HOUR, ms, secs};
use super::strategy::{Gang, GangKind, Strategy};

/// `[watch]`: the watch on pods (spec W-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watch {
    /// Off only if the poll is on (spec W-6).
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

/// `[poll]`: periodic complete lists of pods (spec P-1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Poll {
    /// Off only if the watch is on (spec P-3).
    pub enabled: bool,
    /// From the end of a poll to the start of the next (spec P-2).
    pub interval: Duration,
    /// The number of pods in a page.
    pub page_size: u32,
    /// Whether the API server may answer from its cache, provided that this is not older than what
    /// was seen.
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

/// Which executors may be deleted when there are too many (spec A-41).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ScaleDown {
    /// Pending executors first, then running ones.
    #[default]
    Running,
    /// Only pending executors.
    PendingOnly,
}

impl Choice for ScaleDown {
    const ALL: &'static [(&'static str, Self)] = &[
        ("running", Self::Running),
        ("pending-only", Self::PendingOnly),
    ];
}

/// `[allocation]`: how executors are requested and scaled down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    /// The interval between rounds when nothing changes (spec S-21).
    pub interval: Duration,
    /// The delay from a change after a quiet period to its round (spec S-21).
    pub quiet_latency: Duration,
    /// The least interval between rounds under constant change (spec S-21).
    pub min_gap: Duration,
    /// The most requests that one round decides on (spec A-3).
    pub batch_size: u32,
    /// The most requests in flight at once. The same limit applies separately to deletes (spec A-6,
    /// L-11).
    pub max_in_flight: u32,
    /// The most requests per second. `None`: no limit (spec A-3).
    pub max_rate: Option<u32>,
    /// How long the outcome of a request may stay unknown before the pod is looked up (spec A-14).
    pub creation_timeout: Duration,
    /// The most pending executors over all profiles. `None`: no limit (spec A-4).
    pub max_pending: Option<u32>,
    /// How long an executor may stay pending. `None`: forever (spec A-50).
    pub pending_timeout: Option<Duration>,
    /// How long an executor may stay in a state that does not resolve by itself, such as an
    /// invalid image name (spec A-51).
    pub stuck_after: Duration,
    /// How long an executor that has to register may run unregistered (spec A-52).
    pub registration_timeout: Duration,
    /// How long an executor must have existed, or a target must have been lower, before an executor
    /// is scaled down (spec ).
    pub cancel_delay: Duration,
    pub scale_down: ScaleDown,
    /// What creates the pods (spec A-80).
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
    /// The interval between rounds when nothing changes (spec S-21).
    pub interval: Duration,
    /// How many changes may wait for a round before the changes of each executor are merged into
    /// one (spec S-23).
    pub max_buffered: u32,
    /// Whether finished pods are deleted. Otherwise they are kept and labelled inactive (spec L-2).
    pub delete_on_termination: bool,
    /// Whether the failure of any container makes the executor fail (spec E-12).
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

/// `[scheduling]`: gang scheduling (spec B-20).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scheduling {
    /// Whether a profile's executors are of no use below `min_executors`, and which scheduler
    /// enforces that (spec A-82).
    pub gang: Gang,
    /// How long a gang may take to become complete. After that its pending executors are deleted
    /// for a while, to make room for others.
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
