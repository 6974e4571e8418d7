//! The allocator's settings, and what it inherits.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::actors::failures;
use crate::actors::pod_allocator::caps::Caps;
use crate::actors::pod_allocator::crash_loop::BackoffState;
use crate::actors::pod_allocator::messages::NewLimits;
use crate::actors::pod_allocator::pace::Limits;
use crate::actors::pod_allocator::{claims, gang, victims, waiting};
use crate::model::failures::KeptFailures;
use crate::model::made::CreatedCount;
use crate::model::recorded_end::RecordedEnd;
use crate::model::{ExecutorId, ProfileName, Tick};
use boatswain_agent::backoff::Backoff;

use super::Allocation;

#[derive(Debug, Clone)]
pub struct AllocationRules {
    /// The most requests a round.
    pub batch_size: u32,
    pub limits: Limits,
    /// An executor that has run this long is stable.
    pub stable_after: Duration,
    /// The wait before each probe of a crash-looping profile.
    pub crash_backoff: Backoff,
    /// The wait between repeats of a request of unknown outcome.
    pub repeat_backoff: Backoff,
    /// After this long a request of unknown outcome is looked up.
    pub creation_timeout: Duration,
    /// How long the server may take to commit a request.
    pub server_timeout: Duration,
    pub victims: victims::SurplusRules,
    pub failures: failures::FailureBudget,
    pub waiting: waiting::WaitLimits,
    pub caps: Caps,
    pub claims: claims::ClaimRules,
    /// `None`: no gangs.
    pub gang: Option<gang::GangRules>,
}

impl Allocation {
    /// Takes over new settings (spec C-6). Each change shows in the next decision.
    pub fn reconfigure(&mut self, new: NewLimits, now: Tick) {
        let settings = &mut self.settings;
        settings.batch_size = new.batch_size;
        settings.caps.pending = new.max_pending;
        settings.caps.over_life = new.over_life;
        settings.victims.cancel_delay = new.cancel_delay;
        settings.crash_backoff = new.crash_backoff;
        for (profile, most) in new.max_pending_of {
            self.limit_pending(profile, most);
        }
        self.pace.limit_rate(new.max_rate, now);
        self.failures.allow(new.max_failures);
        self.waiting.reconfigure(new.waiting);
        self.reconfigured = true;
    }
}

/// What earlier incarnations wrote to the record.
#[derive(Debug, Clone, Default)]
pub struct Inherited {
    /// The last reserved id.
    pub reserved: Option<ExecutorId>,
    pub backoffs: BTreeMap<ProfileName, BackoffState>,
    pub failures: KeptFailures,
    pub ends: Vec<RecordedEnd>,
    /// How many executors were requested over the application's life.
    pub made: CreatedCount,
}
