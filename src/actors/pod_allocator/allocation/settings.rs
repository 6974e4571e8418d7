//! How the allocator decides, and what it goes on with.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::actors::pod_allocator::caps::Caps;
use crate::actors::pod_allocator::crash_loop::Kept;
use crate::actors::pod_allocator::pace::Limits;
use crate::actors::pod_allocator::{claims, failures, gang, victims, waiting};
use crate::model::failures::KeptFailures;
use crate::model::made::Made;
use crate::model::{ExecutorId, ProfileName};
use boatswain_agent::backoff::Backoff;

/// How the allocator decides.
#[derive(Debug, Clone)]
pub struct Settings {
    /// At most this many requests a round (spec A-3).
    pub batch_size: u32,
    /// How fast requests leave.
    pub limits: Limits,
    /// An executor that ran this long has stayed (spec A-30).
    pub stable_after: Duration,
    /// Between probes of a profile that crash-loops (spec A-30).
    pub crash_backoff: Backoff,
    /// Between repeats of a request whose outcome is unknown (spec A-13).
    pub repeat_backoff: Backoff,
    /// After this long an unknown request is looked up (spec A-14).
    pub creation_timeout: Duration,
    /// How long the server may take to commit a request (spec A-11).
    pub server_timeout: Duration,
    /// How victims are chosen.
    pub victims: victims::Settings,
    /// How many failures are too many.
    pub failures: failures::Settings,
    /// How long executors may wait to run.
    pub waiting: waiting::Settings,
    /// How many executors there may be that do not run yet, and over the application's life.
    pub caps: Caps,
    /// What is done with claims on volumes.
    pub claims: claims::Settings,
    /// How executors are waited for that are of use only together, where they are (spec B-20).
    pub gang: Option<gang::Settings>,
}

/// What earlier incarnations knew.
#[derive(Debug, Clone, Default)]
pub struct Inherited {
    /// Ids are reserved up to this one.
    pub reserved: Option<ExecutorId>,
    /// The backoffs of profiles that crash.
    pub backoffs: BTreeMap<ProfileName, Kept>,
    /// The failures.
    pub failures: KeptFailures,
    /// How many executors were made.
    pub made: Made,
}
