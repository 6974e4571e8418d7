//! Creates volume claims after the pods that mention them (spec K-10, A-61).
//!
//! The missing claims are read from the pods, because an unscheduled pod may be waiting for its
//! claim. So pods of unanswered requests and pods that an earlier driver requested get theirs as
//! well. A refused claim is held back with all others of its profile: its pod goes on waiting for it, and the profile's
//! pause decides when one of them is tried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::kubernetes::{Failure, FailureKind};
use crate::model::claims::{ClaimTemplate, claim_name};
use crate::model::executor::{Class, LeaveReason};
use crate::model::pod::{PendingStage, Scheduling};
use crate::model::{Entry, ExecutorId, PodUid, ProfileName, Snapshot, Tick};
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

use crate::actors::pod_allocator::refusal::RefusalKind;

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
    /// Something else has its name, as this says.
    Taken(Arc<str>),
    /// The API server refuses it, with this message.
    Refused(RefusalKind, Arc<str>),
    /// The call failed, and is repeated.
    Failed(Failure),
    /// A claim of that name is on its way out; the call is repeated.
    NotYet,
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
    /// The claims that are not made before their profile's pause allows a try.
    held: BTreeSet<(ProfileName, ExecutorId, Arc<str>)>,
    /// Executors whose claim's name is taken; the text is empty once it was handed out.
    taken: BTreeMap<ExecutorId, Arc<str>>,
    /// How calls have failed since all worked: each way is said once.
    failing: BTreeSet<FailureKind>,
}

#[derive(Debug)]
struct Piece {
    ensure: Ensure,
    failures: u32,
    /// `None` while a call is in flight, and while it is held back.
    at: Option<Tick>,
}

/// What is worth a line in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Calls fail in a way that was not said yet.
    Fails(Arc<str>),
    /// All that failed has succeeded, or is not needed any more.
    Works,
}

impl Making {
    pub(super) fn new(prefix: Arc<str>, look_every: Duration) -> Self {
        Self {
            prefix,
            look_every,
            pieces: BTreeMap::new(),
            order: BTreeSet::new(),
            in_flight: 0,
            held: BTreeSet::new(),
            taken: BTreeMap::new(),
            failing: BTreeSet::new(),
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
            if !ours || self.pieces.contains_key(&key) || self.taken.contains_key(&id) {
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
            match new && self.holds(&entry.profile) {
                true => self.hold(&key, &entry.profile),
                false => self.plan(&key, at),
            }
        }
    }

    /// The executor no longer waits.
    pub(super) fn removed(&mut self, id: ExecutorId) {
        self.taken.remove(&id);
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
        let Some(piece) = self.pieces.remove(key) else {
            return;
        };
        let (id, volume) = key.clone();
        match piece.at {
            Some(at) => self.order.remove(&(at, id, volume)),
            None => self.held.remove(&(piece.ensure.profile, id, volume)),
        };
    }

    fn hold(&mut self, (id, volume): &(ExecutorId, Arc<str>), profile: &ProfileName) {
        (self.held).insert((profile.clone(), *id, Arc::clone(volume)));
    }

    /// Holds back what is planned of a profile's missing claims.
    fn hold_planned(&mut self, profile: &ProfileName) {
        let planned = self.pieces.iter_mut().filter_map(|(key, piece)| {
            let its = piece.ensure.profile == *profile && piece.ensure.new;
            Some((key.clone(), piece.at.take_if(|_| its)?))
        });
        for (key, at) in planned.collect::<Vec<_>>() {
            self.order.remove(&(at, key.0, Arc::clone(&key.1)));
            self.hold(&key, profile);
        }
    }

    /// Whether a claim of this profile was refused and is not made yet.
    pub fn holds(&self, profile: &ProfileName) -> bool {
        self.held_of(profile).next().is_some()
    }

    /// How many executors of this profile wait for claims that are held back.
    pub fn waiting(&self, profile: &ProfileName) -> u32 {
        let ids: BTreeSet<ExecutorId> = self.held_of(profile).map(|(_, id, _)| *id).collect();
        u32::try_from(ids.len()).unwrap_or(u32::MAX)
    }

    /// The profiles of which claims are held back.
    pub fn held_profiles(&self) -> BTreeSet<ProfileName> {
        (self.held.iter())
            .map(|(profile, ..)| profile.clone())
            .collect()
    }

    fn held_of(
        &self,
        profile: &ProfileName,
    ) -> impl Iterator<Item = &(ProfileName, ExecutorId, Arc<str>)> {
        let first = (profile.clone(), ExecutorId::FIRST, Arc::from(""));
        (self.held.range(first..)).take_while(move |(of, ..)| of == profile)
    }

    /// The call about one claim of this profile that was held back.
    pub fn try_one(&mut self, profile: &ProfileName) -> Option<Ensure> {
        if self.in_flight >= MAX_IN_FLIGHT || planted::is(Planted::RefusedClaimLeft) {
            return None;
        }
        let one = self.held_of(profile).next()?.clone();
        self.held.remove(&one);
        let piece = self.pieces.get(&(one.1, one.2))?;
        self.in_flight += 1;
        Some(piece.ensure.clone())
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

    pub fn answered(&mut self, ensure: &Ensure, ensured: Ensured, now: Tick) -> Option<Change> {
        self.in_flight = self.in_flight.saturating_sub(1);
        let fails = match &ensured {
            Ensured::Failed(failure) => {
                let is_new = self.failing.insert(failure.kind);
                is_new.then(|| Change::Fails(failure.explained()))
            }
            _ => None,
        };
        self.settle(ensure, ensured, now);
        fails.or_else(|| {
            let works = || self.pieces.values().all(|piece| piece.failures == 0);
            let over = !self.failing.is_empty() && works();
            over.then(|| {
                self.failing.clear();
                Change::Works
            })
        })
    }

    fn settle(&mut self, ensure: &Ensure, ensured: Ensured, now: Tick) {
        let key = (ensure.id, Arc::clone(&ensure.volume));
        let Some(piece) = self
            .pieces
            .get_mut(&key)
            .filter(|p| p.ensure.uid == ensure.uid)
        else {
            return;
        };
        match ensured {
            Ensured::There => {
                (piece.failures, piece.ensure.new) = (0, false);
                self.plan(&key, now + self.look_every);
            }
            Ensured::Failed(_) | Ensured::NotYet => {
                piece.failures = piece.failures.saturating_add(1);
                let wait = AGAIN.delay(piece.failures);
                self.plan(&key, now + wait);
            }
            Ensured::Refused(..) => {
                // What was there and is gone is as missing as what never was.
                (piece.failures, piece.ensure.new) = (0, true);
                self.hold(&key, &ensure.profile);
                self.hold_planned(&ensure.profile);
            }
            Ensured::Taken(why) => {
                self.removed(ensure.id);
                self.taken.insert(ensure.id, why);
            }
        }
    }

    /// Executors with a claim whose name is taken, and by what. Each is returned once.
    pub fn taken(&mut self, latest: &Snapshot) -> Vec<(ExecutorId, LeaveReason)> {
        // An id is kept while its executor waits, so that no more claims are created for it.
        let news = self.taken.iter_mut().filter(|(_, why)| !why.is_empty());
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
