//! What all connections share: the weather, and what is remembered of what was done.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use devcluster::State;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::requests::Done;
use crate::weather::{Ill, Weather};
use crate::webhook::Webhook;

/// So many earlier states are remembered, for lists from a cache that lags behind.
const REMEMBERED: usize = 20;

/// What all connections share.
pub struct Net {
    pub weather: Weather,
    /// Whether the server streams lists, or refuses to (spec W-4).
    pub streams: bool,
    /// Whether bookmarks come.
    pub bookmarks: bool,
    /// Whether the server is out of reach, and how that looks.
    pub down: Option<Down>,
    /// What changes pods as they are created.
    pub webhook: Option<Webhook>,
    /// What the answers to drivers were that were not carried out.
    pub refused: BTreeMap<usize, BTreeSet<Ill>>,
    pub(super) rng: StdRng,
    /// How many requests were made.
    pub(super) count: u64,
    /// Watches opened so far, and up to which of them they are silent, or tear at the next chunk.
    pub(super) watches: u64,
    pub(super) silent_to: u64,
    pub(super) torn_to: u64,
    /// Earlier states of the server, oldest first.
    pub(super) states: VecDeque<State>,
    /// What the server did for drivers since the world last looked.
    pub done: Vec<Done>,
    /// A driver is killed when so many more requests were carried out.
    pub trap: Option<u32>,
    /// It has.
    pub sprung: Option<usize>,
}

/// How a server looks that is out of reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Down {
    /// Nobody listens.
    Refusing,
    /// Nothing is ever answered.
    Silent,
}

impl Net {
    /// Fair weather, and a server of this seed's kind.
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

    /// Every watch that is open now stays open and says nothing more.
    pub fn silence_watches(&mut self) {
        self.silent_to = self.watches;
    }

    /// Every watch that is open now ends within its next line.
    pub fn tear_watches(&mut self) {
        self.torn_to = self.watches;
    }

    /// Remembers a state.
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

    /// What was before is no part of the server's history any more.
    pub fn forget(&mut self) {
        self.states.clear();
    }

    /// A state of some time ago: this share of what is remembered, in thousandths.
    pub(super) fn past(&self, by: u32) -> Option<State> {
        let back = self.states.len() * by as usize / 1_000;
        self.states
            .get(self.states.len().checked_sub(1 + back)?)
            .cloned()
    }
}
