//! State that all simulated connections share: the network conditions, the server's earlier states, and the writes
//! carried out for drivers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use devcluster::State;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::Instant;

use crate::credentials::Tokens;
use crate::network_conditions::{NetworkConditions, RequestFault};
use crate::requests::CompletedWrite;
use crate::webhook::Webhook;

/// Most earlier states kept to answer lists from a lagging cache.
const MAX_STATES: usize = 20;

pub struct Shared {
    pub conditions: NetworkConditions,
    /// The drivers' token.
    pub tokens: Tokens,
    /// Whether the server supports streamed lists (spec W-4).
    pub streams: bool,
    /// Whether watches carry bookmarks.
    pub bookmarks: bool,
    /// How the server is unreachable, if it is.
    pub outage: Option<Outage>,
    /// Whether requests to delete a pod are refused.
    pub refuses_deletes: bool,
    /// Changes pods at their creation.
    pub webhook: Option<Webhook>,
    /// The faults injected into each driver's requests.
    pub injected_faults: BTreeMap<usize, BTreeSet<RequestFault>>,
    /// Number of templates refused since the world last looked.
    pub refused_templates: usize,
    pub(super) rng: StdRng,
    /// Number of requests so far.
    pub(super) count: u64,
    /// Number of watches so far, and up to which of them watches are silent, or break at the next line.
    pub(super) watches: u64,
    pub(super) silenced_up_to: u64,
    pub(super) broken_up_to: u64,
    pub(super) states: VecDeque<State>,
    /// Writes carried out for drivers since the world last looked.
    pub completed_writes: Vec<CompletedWrite>,
    /// When each driver last opened a watch on the executors' pods, and the number of that watch.
    pub watch_opened: BTreeMap<usize, (Instant, u64)>,
    /// When each driver has read the application record last.
    pub record_read: BTreeMap<usize, Instant>,
    /// When each driver made its first call during the present outage, or the last one.
    pub called_in_outage: BTreeMap<usize, Instant>,
    /// A driver is killed after this many more requests were carried out.
    pub kill_countdown: Option<u32>,
    /// The driver that has reached that request.
    pub killed: Option<usize>,
}

/// How an unreachable server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// Connections are refused.
    Refusing,
    /// Requests are never answered.
    Silent,
}

impl Shared {
    /// No faults. Whether the server streams lists and sends bookmarks depends on the seed.
    pub fn new(seed: u64) -> Self {
        Self {
            conditions: NetworkConditions::faultless(),
            tokens: Tokens::default(),
            streams: !seed.is_multiple_of(3),
            bookmarks: !seed.is_multiple_of(7),
            outage: None,
            refuses_deletes: false,
            webhook: None,
            injected_faults: BTreeMap::new(),
            refused_templates: 0,
            rng: StdRng::seed_from_u64(seed),
            count: 0,
            watches: 0,
            silenced_up_to: 0,
            broken_up_to: 0,
            states: VecDeque::new(),
            completed_writes: Vec::new(),
            watch_opened: BTreeMap::new(),
            record_read: BTreeMap::new(),
            called_in_outage: BTreeMap::new(),
            kill_countdown: None,
            killed: None,
        }
    }

    /// Whether requests neither fail nor are delayed.
    pub fn is_faultless(&self) -> bool {
        self.conditions.is_faultless() && !self.tokens.are_expired() && !self.refuses_deletes
    }

    /// Whether the driver's watch on the executors' pods is not silent and not about to break.
    pub fn has_working_watch(&self, driver: usize) -> bool {
        let disturbed_up_to = self.silenced_up_to.max(self.broken_up_to);
        let opened = self.watch_opened.get(&driver);
        opened.is_some_and(|(_, number)| *number > disturbed_up_to)
    }

    /// Keeps every open watch open, but silent.
    pub fn silence_watches(&mut self) {
        self.silenced_up_to = self.watches;
    }

    /// Breaks every open watch within its next line.
    pub fn break_watches(&mut self) {
        self.broken_up_to = self.watches;
    }

    pub fn remember(&mut self, state: State) {
        let newer = (self.states.back())
            .is_none_or(|last| last.resource_version() != state.resource_version());
        if newer {
            self.states.push_back(state);
        }
        if self.states.len() > MAX_STATES {
            self.states.pop_front();
        }
    }

    /// Forgets the earlier states, because the server's history was replaced.
    pub fn forget_states(&mut self) {
        self.states.clear();
    }

    /// An earlier state, this share of the remembered ones back, in thousandths.
    pub(super) fn earlier_state(&self, by: u32) -> Option<State> {
        let back = self.states.len() * by as usize / 1_000;
        self.states
            .get(self.states.len().checked_sub(1 + back)?)
            .cloned()
    }
}
