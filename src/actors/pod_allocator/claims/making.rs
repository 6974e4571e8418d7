//! Creates volume claims after the pods that mention them (spec K-10, A-61).
//!
//! The missing claims are read from the pods, because an unscheduled pod may be waiting for its
//! claim. So pods of unanswered requests and pods that an earlier driver requested get theirs as
//! well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::model::claims::{ClaimTemplate, claim_name};
use crate::model::executor::{Class, LeaveReason};
use crate::model::pod::{PendingStage, Scheduling};
use crate::model::{Entry, ExecutorId, PodUid, ProfileName, Snapshot, Tick};
use boatswain_agent::backoff::Backoff;

/// The most concurrent calls about claims.
const MAX_IN_FLIGHT: u32 = 32;

/// Between attempts while the API server fails.
const AGAIN: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(15),
};

/// A claim that must exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ensure {
    pub id: ExecutorId,
    pub profile: ProfileName,
    pub pod: Arc<str>,
    pub uid: PodUid,
    pub volume: Arc<str>,
    pub name: Arc<str>,
    /// Whether the claim is believed missing; otherwise it is looked up first.
    pub new: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ensured {
    /// The claim exists.
    There,
    /// The cluster's message.
    Refused(Arc<str>),
    /// The outcome is unknown; the call is repeated.
    Trouble,
}

/// The claims of unscheduled pods.
#[derive(Debug)]
pub struct Making {
    prefix: Arc<str>,
    /// How often the claims of a pod that stays pending are looked up.
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
    /// `None` while a call is in flight.
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

    /// An executor has changed; `templates` are its profile's.
    pub(super) fn observe(&mut self, entry: &Entry, templates: &[ClaimTemplate], now: Tick) {
        let id = entry.id;
        let waits = entry.class() == Class::Pending(PendingStage::Unscheduled);
        let pod = entry
            .pod()
            .filter(|pod| waits && pod.scheduling != Scheduling::Bound);
        let Some((pod, claims)) = pod.and_then(|pod| Some((pod, pod.volume_claims.as_deref()?)))
        else {
            return self.removed(id);
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
            // A claim that was reused was listed a moment ago.
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

    /// The executor no longer waits.
    pub(super) fn removed(&mut self, id: ExecutorId) {
        self.refused.remove(&id);
        let empty: Arc<str> = Arc::from("");
        let of_it = self
            .pieces
            .range((id, empty)..)
            .take_while(|((of, _), _)| *of == id);
        let keys: Vec<_> = of_it.map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.remove(&key);
        }
    }

    fn remove(&mut self, key: &(ExecutorId, Arc<str>)) {
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

    /// The end of an outage ends the backoffs of failed calls (spec W-14).
    pub fn server_is_back(&mut self, now: Tick) {
        let failed = self
            .pieces
            .iter_mut()
            .filter(|(_, piece)| piece.failures > 0);
        for ((id, volume), piece) in failed {
            piece.failures = 0;
            if let Some(at) = piece.at.filter(|at| *at > now) {
                self.order.remove(&(at, *id, Arc::clone(volume)));
                self.order.insert((now, *id, Arc::clone(volume)));
                piece.at = Some(now);
            }
        }
    }

    /// The calls to make now.
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

    /// When the next call is due; `None` if a call in flight must end first.
    pub fn next_at(&self) -> Option<Tick> {
        let free = self.in_flight < MAX_IN_FLIGHT;
        self.order.first().filter(|_| free).map(|(at, ..)| *at)
    }

    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

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
                self.removed(ensure.id);
                self.refused.insert(ensure.id, why);
                return;
            }
        };
        self.plan(&key, at);
    }

    /// Executors with a refused claim, and why. Each is returned once.
    pub fn refused(&mut self, latest: &Snapshot) -> Vec<(ExecutorId, LeaveReason)> {
        // An id is kept while its executor waits, so that no more claims are created for it.
        let news = self.refused.iter_mut().filter(|(_, why)| !why.is_empty());
        news.filter_map(|(id, why)| {
            let why = std::mem::replace(why, Arc::from(""));
            let stays = latest
                .entry(*id)
                .is_some_and(|entry| entry.class().is_live());
            stays.then_some((*id, LeaveReason::NoClaim(why)))
        })
        .collect()
    }
}
