//! State that all simulated connections share: the network conditions, the server's earlier states, and the writes
//! carried out for drivers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use devcluster::State;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::network_conditions::{Ill, Weather};
use crate::requests::Done;
use crate::webhook::Webhook;

/// Number of earlier states kept to answer lists from a lagging cache.
const REMEMBERED: usize = 20;

pub struct Net {
    pub weather: Weather,
    /// Whether the server supports streamed lists (spec W-4).
    pub streams: bool,
    /// Whether watches carry bookmarks.
    pub bookmarks: bool,
    /// How the server is unreachable, if it is.
    pub down: Option<Down>,
    /// Changes pods at their creation.
    pub webhook: Option<Webhook>,
    /// The faults in requests of each driver that were not answered normally.
    pub refused: BTreeMap<usize, BTreeSet<Ill>>,
    pub(super) rng: StdRng,
    /// Number of requests so far.
    pub(super) count: u64,
    /// Number of watches so far, and up to which of them watches are silent, or break at the next line.
    pub(super) watches: u64,
    pub(super) silent_to: u64,
    pub(super) torn_to: u64,
    pub(super) states: VecDeque<State>,
    /// Writes carried out for drivers since the world last looked.
    pub done: Vec<Done>,
    /// A driver is killed after this many more requests were carried out.
    pub trap: Option<u32>,
    /// The driver that has reached that request.
    pub sprung: Option<usize>,
}

/// How an unreachable server behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Down {
    /// Connections are refused.
    Refusing,
    /// Requests are never answered.
    Silent,
}

impl Net {
    /// No faults. Whether the server streams lists and sends bookmarks depends on the seed.
    pub fn new(seed: u64) -> Self {
        Self {
            weather: Weather::calm(),
            streams: !seed.is_multiple_of(3),
            bookmarks: !seed.is_multiple_of(7),
            down: None,
            webhook: None,
            refused: BTreeMap::new(),
            rng: StdRng::seed_from_u64(seed),
            count: 0,
            watches: 0,
            silent_to: 0,
            torn_to: 0,
            states: VecDeque::new(),
            done: Vec::new(),
            trap: None,
            sprung: None,
        }
    }

    /// Keeps every open watch open, but silent.
    pub fn silence_watches(&mut self) {
        self.silent_to = self.watches;
    }

    /// Breaks every open watch within its next line.
    pub fn tear_watches(&mut self) {
        self.torn_to = self.watches;
    }

    pub fn remember(&mut self, state: State) {
        let newer = (self.states.back())
            .is_none_or(|last| last.resource_version() != state.resource_version());
        if newer {
            self.states.push_back(state);
        }
        if self.states.len() > REMEMBERED {
            self.states.pop_front();
        }
    }

    /// Forgets the earlier states, because the server's history was replaced.
    pub fn forget(&mut self) {
        self.states.clear();
    }

    /// An earlier state, this share of the remembered ones back, in thousandths.
    pub(super) fn past(&self, by: u32) -> Option<State> {
        let back = self.states.len() * by as usize / 1_000;
        self.states
            .get(self.states.len().checked_sub(1 + back)?)
            .cloned()
    }
}
