//! Claims that are still to be made, once there is a pod that mentions them (spec K-10, A-61): pure.
//!
//! Which those are is read from the pods: one that waits for a node may be waiting for its claims. So a pod whose request
//! was not answered, and one that an earlier driver asked for, get theirs in the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::model::claims::{ClaimTemplate, claim_name};
use crate::model::executor::{Class, Why};
use crate::model::pod::{PendingStage, Scheduling};
use crate::model::{Entry, ExecutorId, PodUid, ProfileName, Snapshot, Tick};
use boatswain_agent::backoff::Backoff;

/// At most so many calls about claims at a time.
const MAX_IN_FLIGHT: u32 = 32;

/// Between tries while the API server is in trouble.
const AGAIN: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(15),
};

/// A claim that has to be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ensure {
    /// Whose.
    pub id: ExecutorId,
    /// Its profile.
    pub profile: ProfileName,
    /// The name of its pod.
    pub pod: Arc<str>,
    /// And what Kubernetes calls that.
    pub uid: PodUid,
    /// The volume's name.
    pub volume: Arc<str>,
    /// The claim's.
    pub name: Arc<str>,
    /// Whether there is none as far as is known; otherwise it is looked for first.
    pub new: bool,
}

/// What came of that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensured {
    /// It is there.
    There,
    /// The cluster refuses it, in its own words.
    Refused(Arc<str>),
    /// Nobody knows; it is tried again.
    Trouble,
}

/// Claims that pods may be waiting for.
#[derive(Debug)]
pub struct Making {
    prefix: Arc<str>,
    /// Of a pod that goes on waiting the claims are looked for so often.
    look_every: Duration,
    pieces: BTreeMap<(ExecutorId, Arc<str>), Piece>,
    order: BTreeSet<(Tick, ExecutorId, Arc<str>)>,
    in_flight: u32,
    refused: BTreeMap<ExecutorId, Arc<str>>,
}

#[derive(Debug)]
struct Piece {
    ensure: Ensure,
    failures: u32,
    /// `None` while a call is under way.
    at: Option<Tick>,
}

impl Making {
    pub(super) fn new(prefix: Arc<str>, look_every: Duration) -> Self {
        Self {
            prefix,
            look_every,
            pieces: BTreeMap::new(),
            order: BTreeSet::new(),
            in_flight: 0,
            refused: BTreeMap::new(),
        }
    }

    /// An executor has changed, which has these claims.
    pub(super) fn see(&mut self, entry: &Entry, templates: &[ClaimTemplate], now: Tick) {
        let id = entry.id;
        let waits = entry.class() == Class::Pending(PendingStage::Unscheduled);
        let pod = entry
            .pod()
            .filter(|pod| waits && pod.scheduling != Scheduling::Bound);
        let Some((pod, claims)) = pod.and_then(|pod| Some((pod, pod.volume_claims.as_deref()?)))
        else {
            return self.left(id);
        };
        for claim in claims {
            let ours = templates.iter().any(|t| t.volume == claim.volume);
            let key = (id, Arc::clone(&claim.volume));
            if !ours || self.pieces.contains_key(&key) || self.refused.contains_key(&id) {
                continue;
            }
            let new = *claim.name == *claim_name(&self.prefix, id, &claim.volume);
            let ensure = Ensure {
                id,
                profile: entry.profile.clone(),
                pod: Arc::clone(&pod.name),
                uid: pod.uid.clone(),
                volume: Arc::clone(&claim.volume),
                name: Arc::clone(&claim.name),
                new,
            };
            // One that another executor has left was listed just now.
            let at = if new { now } else { now + self.look_every };
            let piece = Piece {
                ensure,
                failures: 0,
                at: None,
            };
            self.pieces.insert(key.clone(), piece);
            self.plan(&key, at);
        }
    }

    /// An executor waits no more.
    pub(super) fn left(&mut self, id: ExecutorId) {
        self.refused.remove(&id);
        let empty: Arc<str> = Arc::from("");
        let of_it = self
            .pieces
            .range((id, empty)..)
            .take_while(|((of, _), _)| *of == id);
        let keys: Vec<_> = of_it.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.forget(&key);
        }
    }

    fn forget(&mut self, key: &(ExecutorId, Arc<str>)) {
        if let Some(piece) = self.pieces.remove(key)
            && let Some(at) = piece.at
        {
            self.order.remove(&(at, key.0, Arc::clone(&key.1)));
        }
    }

    fn plan(&mut self, key: &(ExecutorId, Arc<str>), at: Tick) {
        if let Some(piece) = self.pieces.get_mut(key) {
            piece.at = Some(at);
            self.order.insert((at, key.0, Arc::clone(&key.1)));
        }
    }

    /// What is to be done now.
    pub fn due(&mut self, now: Tick) -> Vec<Ensure> {
        let mut due = Vec::new();
        while self.in_flight < MAX_IN_FLIGHT
            && self.order.first().is_some_and(|(at, ..)| *at <= now)
            && let Some((_, id, volume)) = self.order.pop_first()
        {
            if let Some(piece) = self.pieces.get_mut(&(id, volume)) {
                piece.at = None;
                self.in_flight += 1;
                due.push(piece.ensure.clone());
            }
        }
        due
    }

    /// When something is to be done next, where only time stands in the way.
    pub fn next_at(&self) -> Option<Tick> {
        let free = self.in_flight < MAX_IN_FLIGHT;
        self.order.first().filter(|_| free).map(|(at, ..)| *at)
    }

    /// How many calls are under way.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// A call was answered, or failed.
    pub fn answered(&mut self, ensure: &Ensure, ensured: Ensured, now: Tick) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let key = (ensure.id, Arc::clone(&ensure.volume));
        let Some(piece) = self
            .pieces
            .get_mut(&key)
            .filter(|p| p.ensure.uid == ensure.uid)
        else {
            return;
        };
        let at = match ensured {
            Ensured::There => {
                (piece.failures, piece.ensure.new) = (0, false);
                now + self.look_every
            }
            Ensured::Trouble => {
                piece.failures = piece.failures.saturating_add(1);
                now + AGAIN.delay(piece.failures)
            }
            Ensured::Refused(why) => {
                self.left(ensure.id);
                self.refused.insert(ensure.id, why);
                return;
            }
        };
        self.plan(&key, at);
    }

    /// Those of whose claims one was refused, and why; each is named once.
    pub fn refused(&mut self, latest: &Snapshot) -> Vec<(ExecutorId, Why)> {
        // It is remembered until it is seen to go, so that nothing more is made for it.
        let news = self.refused.iter_mut().filter(|(_, why)| !why.is_empty());
        news.filter_map(|(id, why)| {
            let why = std::mem::replace(why, Arc::from(""));
            let stays = latest
                .entry(*id)
                .is_some_and(|entry| entry.class().is_live());
            stays.then_some((*id, Why::NoClaim(why)))
        })
        .collect()
    }
}
