//! The sections `[watch]`, `[poll]`, `[allocation]`, `[lifecycle]` and `[scheduling]`: how
//! executors are observed, requested and deleted.

use std::time::Duration;

use super::declare::{choice, section};
use super::kinds::{Flag, Whole, one_of, span};
use super::profile::OBJECT;
use super::sections::{DAY, HOUR, YEAR, ms, secs};
use super::strategy::{Gang, GangKind, Queue, Strategy};

section! {
    /// `[watch]`: the watch on pods (spec W-1).
    pub struct Watch {
        /// Off only if the poll is on (spec W-6).
        pub enabled: bool = value(Flag) or true;
    }
}

section! {
    /// `[poll]`: periodic complete lists of pods (spec P-1).
    pub struct Poll {
        /// Off only if the watch is on (spec P-3).
        pub enabled: bool = value(Flag) or true;
        /// From the end of a poll to the start of the next (spec P-2).
        pub interval: Duration = value(span(ms(100)..=DAY)) or secs(30);
    }
}

impl Allocation {
    /// As many requests may be in flight on any API server (spec A-6).
    pub const USUAL_IN_FLIGHT: u32 = 32;

    /// The most calls in flight where the API server's pace does not decide (spec L-11).
    pub fn usual_in_flight(&self) -> u32 {
        self.max_in_flight.min(Self::USUAL_IN_FLIGHT)
    }
}

choice! {
    /// Which executors may be deleted when there are too many (spec A-41).
    #[derive(Default)]
    pub enum ScaleDown {
        /// Pending executors first, then running ones.
        #[default]
        Running = "running",
        /// Only pending executors.
        PendingOnly = "pending-only",
    }
}

section! {
    /// `[allocation]`: how executors are requested and scaled down.
    pub struct Allocation {
        /// The interval between rounds when nothing changes (spec S-21).
        pub interval: Duration = value(span(ms(10)..=HOUR)) or secs(1);
        /// The most requests that one round decides on (spec A-3).
        pub batch_size: u32 = value(Whole(1..=10_000)) or 500;
        /// The most requests in flight at once (spec A-6).
        pub max_in_flight: u32 = value(Whole(1..=1000)) or 256;
        /// The most requests per second. `None`: no limit (spec A-3).
        pub max_rate: Option<u32> = option(Whole(1..=100_000));
        /// How long the outcome of a request may stay unknown before the pod is looked up (spec
        ///
        pub creation_timeout: Duration = value(span(ms(200)..=DAY)) or secs(60);
        /// The most pending executors over all profiles. `None`: no limit (spec A-4).
        pub max_pending: Option<u32> = option(Whole(1..=u32::MAX));
        /// How long an executor may stay pending. `None`: forever (spec A-50).
        pub pending_timeout: Option<Duration> = option(span(secs(1)..=DAY));
        /// How long an executor may stay in a state that does not resolve by itself, such as an
        /// invalid image name (spec A-51).
        pub stuck_after: Duration = value(span(secs(1)..=DAY)) or secs(30);
        /// How long an executor that has to register may run unregistered (spec A-52).
        pub registration_timeout: Duration = value(span(secs(1)..=DAY)) or secs(300);
        /// How long an executor must have existed, or a target must have been lower, before an
        /// executor is scaled down (spec ).
        pub cancel_delay: Duration = value(span(ms(0)..=DAY)) or secs(10);
        pub scale_down: ScaleDown = value(one_of()) or ScaleDown::default();
        /// What creates the pods (spec A-80).
        pub strategy: Strategy = value(one_of()) or Strategy::default();
    }
}

choice! {
    /// Whose pods are kept after the executor has ended (spec O-77).
    #[derive(Default)]
    pub enum Keep {
        #[default]
        None = "none",
        /// Those of ends that are failures.
        Failed = "failed",
        All = "all",
    }
}

section! {
    /// `[lifecycle]`: what is done about executors that end.
    pub struct Lifecycle {
        /// The interval between rounds when nothing changes (spec S-21).
        pub interval: Duration = value(span(ms(10)..=HOUR)) or secs(1);
        /// Which finished pods are kept, labelled inactive. The others are deleted (spec L-2).
        pub keep: Keep = value(one_of()) or Keep::default();
        /// How many pods are kept. The oldest are deleted beyond that (spec O-77).
        pub keep_most: u32 = value(Whole(1..=10_000)) or 100;
        /// How long a pod is kept (spec O-77).
        pub keep_for: Duration = value(span(secs(1)..=YEAR)) or DAY;
        /// Whether the failure of any container makes the executor fail (spec E-12).
        pub check_all_containers: bool = value(Flag) or true;
    }
}

/// What no file sets, and the simulator varies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuning {
    /// The number of pods in a page of a list (spec P-1).
    pub page_size: u32,
    /// Whether the API server may answer a poll from its cache, provided that this is not older than what was seen.
    pub from_cache: bool,
    /// The delay from a change after a quiet period to a subscriber's round (spec S-21).
    pub quiet_latency: Duration,
    /// The least interval between a subscriber's rounds under constant change (spec S-21).
    pub min_gap: Duration,
    /// How many changes may wait for a round before the changes of each executor are merged into one (spec S-23).
    pub max_buffered: u32,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            page_size: 500,
            from_cache: true,
            quiet_latency: ms(10),
            min_gap: ms(50),
            max_buffered: 10_000,
        }
    }
}

section! {
    /// `[scheduling]`: gang scheduling (spec B-63), and the queue that admits executors (spec A-90).
    pub struct Scheduling {
        /// Whether a profile's executors are of no use below `min_executors`, and which scheduler
        /// enforces that (spec A-82).
        pub gang: Gang = value(GangKind) or Gang::Off;
        /// How long a gang may take to become complete. After that its executors are
        /// deleted for a while, to make room for others.
        pub gang_timeout: Duration = value(span(secs(1)..=DAY)) or secs(300);
        /// Who admits executors before their pods are requested.
        pub queue: Queue = value(one_of()) or Queue::Off;
        /// The name of the LocalQueue.
        pub queue_name: Option<String> = option(OBJECT);
        /// The priority of the Workloads; higher ones are admitted first.
        pub queue_priority: Option<i32> = option(Whole(i32::MIN..=i32::MAX));
    }
}
