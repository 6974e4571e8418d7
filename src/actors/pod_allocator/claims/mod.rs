//! Volume claims: which free claim a new executor gets, and when it waits for one (spec A-60).
//!
//! Claims in use are read from snapshots and from requests whose pod is not known yet. Free claims
//! are listed only when executors are missing, and a list is used only for a short time.

pub mod making;
mod pool;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::model::claims::{Claim, ClaimOwner, ClaimTemplate, PodClaim};
use crate::model::executor::Class;
use crate::model::{Batch, Entry, Epoch, ExecutorId, Now, Pod, ProfileName, Snapshot, Tick};
use crate::planted::{self, Planted};

use super::decision::{Action, Decision};
use super::demand::Demand;
use making::Making;
use pool::Pool;

/// How long a list is used. A burst needs one list, and deletions by hand must be noticed.
const VALID: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimRules {
    /// The prefix of claims' names.
    pub prefix: Arc<str>,
    pub reuse: Reuse,
    pub profiles: BTreeMap<ProfileName, Arc<[ClaimTemplate]>>,
}

/// Whether a new executor gets a claim that another executor left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reuse {
    #[default]
    Never,
    /// If one is free.
    IfFree,
    /// If one is free; executors wait for a claim that is about to become free.
    OrWait,
}

#[derive(Debug)]
pub struct Claims {
    settings: ClaimRules,
    /// A younger claim may be meant for a pod that has not been seen yet.
    min_age: Duration,
    /// Until then a request of an earlier driver may commit, with a claim that seems free.
    settled_at: Tick,
    now: Now,
    holdings: BTreeMap<ExecutorId, Holding>,
    holders: BTreeMap<Arc<str>, BTreeSet<ExecutorId>>,
    /// Executors whose pods, and so whose claims, cannot be read.
    unread: BTreeSet<ExecutorId>,
    /// What executors were given, while in the ledger: a repeat must be the same request.
    given: BTreeMap<ExecutorId, Arc<[PodClaim]>>,
    /// The claims that this round's snapshots mention.
    mentioned: BTreeSet<Arc<str>>,
    /// Claims of orphan pods; when they become free is unknown.
    orphans: BTreeSet<Arc<str>>,
    listing: Option<Listing>,
    /// Whether a list is in flight.
    asked: bool,
    /// When claims were first listed, by uid; the least age by our own clock.
    first_seen: BTreeMap<Arc<str>, Tick>,
    pool: Pool,
    pub making: Making,
}

/// The claims of one executor.
#[derive(Debug)]
struct Holding {
    names: BTreeSet<Arc<str>>,
    /// Whether the executor is leaving and will free its claims.
    goes: bool,
    /// Since when the executor has ended while its pod still exists. It may be kept forever.
    ended: Option<Tick>,
}

#[derive(Debug)]
struct Listing {
    asked: Tick,
    epoch: Epoch,
    claims: Vec<Claim>,
}

impl Claims {
    /// A request may commit until `server_timeout` after it was sent.
    pub fn new(
        settings: ClaimRules,
        min_age: Duration,
        server_timeout: Duration,
        now: Now,
    ) -> Self {
        Self {
            making: Making::new(Arc::clone(&settings.prefix), min_age),
            settings,
            min_age,
            settled_at: now.tick + server_timeout,
            now,
            holdings: BTreeMap::new(),
            holders: BTreeMap::new(),
            unread: BTreeSet::new(),
            given: BTreeMap::new(),
            mentioned: BTreeSet::new(),
            orphans: BTreeSet::new(),
            listing: None,
            asked: false,
            first_seen: BTreeMap::new(),
            pool: Pool::default(),
        }
    }

    /// Adds a profile and its claims.
    pub fn add_profile(&mut self, profile: ProfileName, templates: Arc<[ClaimTemplate]>) {
        self.settings.profiles.insert(profile, templates);
    }

    pub fn remove_profile(&mut self, profile: &ProfileName) {
        self.settings.profiles.remove(profile);
    }

    pub fn begin_round(&mut self, batch: &Batch, now: Now) {
        self.now = now;
        self.pool = Pool::default();
        self.mentioned.clear();
        self.orphans.clear();
        if !self.are_there() {
            return;
        }
        for snapshot in batch.snapshots() {
            let executors = snapshot.changes.executors.iter();
            let pods = executors.filter_map(|id| snapshot.entry(*id)?.pod());
            let of_pods = pods.filter_map(|pod| pod.volume_claims.as_deref());
            let orphans = snapshot.changes.orphans.iter();
            let orphans = orphans.filter_map(|uid| snapshot.orphans.get(uid)?.claims.as_deref());
            let claims = of_pods.chain(orphans).flatten();
            self.mentioned
                .extend(claims.map(|claim| Arc::clone(&claim.name)));
        }
        let orphans = batch.latest().orphans.values();
        let claims = orphans
            .filter_map(|orphan| orphan.claims.as_deref())
            .flatten();
        (self.orphans).extend(claims.map(|claim| Arc::clone(&claim.name)));
    }

    /// An executor has changed, or has left the ledger (`None`).
    pub fn observe(&mut self, id: ExecutorId, entry: Option<&Entry>) {
        let before = self.let_go(id);
        self.unread.remove(&id);
        let now = self.now.tick;
        let Some(entry) = entry.filter(|entry| !entry.is_gone()) else {
            self.given.remove(&id);
            self.making.removed(id);
            return;
        };
        let templates = self.settings.profiles.get(&entry.profile);
        let templates = templates.map(AsRef::as_ref).unwrap_or_default();
        self.making.observe(entry, templates, now);
        let unread = |pod: &&Arc<Pod>| pod.phase.is_unreadable() && pod.volume_claims.is_none();
        if entry.pod().filter(unread).is_some() {
            self.unread.insert(id);
        }
        let of_pod = entry.pod().and_then(|pod| pod.volume_claims.as_deref());
        let given = self.given.get(&id).map(AsRef::as_ref);
        let names: BTreeSet<Arc<str>> = ([of_pod, given].into_iter().flatten().flatten())
            .map(|claim| Arc::clone(&claim.name))
            .collect();
        if names.is_empty() {
            return;
        }
        let class = entry.class();
        let ended = (class == Class::Finished)
            .then(|| before.and_then(|before| before.ended).unwrap_or(now));
        let goes = match class {
            Class::Leaving | Class::Finished => true,
            // The end was reported before the pod was gone: the pod may stay for long (spec L-3).
            Class::Terminating => !entry.is_reported(),
            _ => false,
        };
        self.hold(id, Holding { names, goes, ended });
    }

    fn hold(&mut self, id: ExecutorId, holding: Holding) {
        for name in &holding.names {
            self.holders.entry(Arc::clone(name)).or_default().insert(id);
        }
        self.holdings.insert(id, holding);
    }

    fn let_go(&mut self, id: ExecutorId) -> Option<Holding> {
        let before = self.holdings.remove(&id)?;
        for name in &before.names {
            if let Some(holders) = self.holders.get_mut(name) {
                holders.remove(&id);
                if holders.is_empty() {
                    self.holders.remove(name);
                }
            }
        }
        Some(before)
    }

    /// Removes new executors that must wait for a claim or for a list of claims (spec A-60), and those of profiles whose
    /// claims are refused, but for as many as free claims suffice for (spec A-61).
    pub fn limit(&mut self, latest: &Snapshot, demands: &mut [Demand], decision: &mut Decision) {
        for demand in demands.iter_mut() {
            if self.making.holds(&demand.profile) && !self.reuses_all(&demand.profile) {
                demand.new = 0;
            }
        }
        let concerned = |demand: &Demand| demand.new > 0 && self.reuses(&demand.profile);
        if !demands.iter().any(concerned) {
            return;
        }
        if !self.is_fresh(latest.epoch) {
            for demand in demands.iter_mut().filter(|demand| concerned(demand)) {
                demand.new = 0;
            }
            if !std::mem::replace(&mut self.asked, true) {
                decision.actions.push(Action::ListClaims(latest.epoch));
            }
            return;
        }
        self.pool = self.gather(latest);
        let mut trial = self.pool.counts();
        for demand in demands {
            let templates = reusable(&self.settings, &demand.profile);
            if self.making.holds(&demand.profile) {
                demand.new = trial.suffice_for(templates, demand.new);
            } else if self.settings.reuse == Reuse::OrWait {
                demand.new = trial.need_not_wait(templates, demand.new);
            }
        }
    }

    /// Whether a list of claims is awaited, which may show some that are free.
    pub fn is_listing(&self) -> bool {
        self.asked
    }

    /// Gives free claims to a new executor. Must follow `limit` in the same round.
    pub fn give(&mut self, id: ExecutorId, profile: &ProfileName) {
        let mut given = Vec::new();
        for template in reusable(&self.settings, profile) {
            if let Some(name) = self.pool.take(&template.shape) {
                let volume = Arc::clone(&template.volume);
                given.push(PodClaim { volume, name });
            }
        }
        if given.is_empty() {
            return;
        }
        let names = given.iter().map(|claim| Arc::clone(&claim.name)).collect();
        let (goes, ended) = (false, None);
        self.hold(id, Holding { names, goes, ended });
        self.given.insert(id, given.into());
    }

    pub fn given(&self, id: ExecutorId) -> &[PodClaim] {
        self.given.get(&id).map(AsRef::as_ref).unwrap_or_default()
    }

    /// A list requested at `asked` was answered; `None`: it failed, and nothing is reused.
    pub fn listed(&mut self, claims: Option<Vec<Claim>>, asked: Tick, epoch: Epoch) {
        self.asked = false;
        let claims = claims.unwrap_or_default();
        let known = std::mem::take(&mut self.first_seen);
        self.first_seen = (claims.iter())
            .map(|claim| {
                let seen = known.get(&claim.uid).copied().unwrap_or(asked);
                (Arc::clone(&claim.uid), seen)
            })
            .collect();
        self.listing = Some(Listing {
            asked,
            epoch,
            claims,
        });
    }

    fn are_there(&self) -> bool {
        self.settings
            .profiles
            .values()
            .any(|templates| !templates.is_empty())
    }

    fn reuses(&self, profile: &ProfileName) -> bool {
        reusable(&self.settings, profile).next().is_some()
    }

    fn reuses_all(&self, profile: &ProfileName) -> bool {
        let templates = self.settings.profiles.get(profile);
        let all = templates.map(|templates| templates.len());
        all == Some(reusable(&self.settings, profile).count())
    }

    fn is_fresh(&self, epoch: Epoch) -> bool {
        (self.listing.as_ref()).is_some_and(|listing| {
            listing.epoch == epoch && self.now.tick.since(listing.asked) < VALID
        })
    }

    /// The free claims and those that are about to become free.
    fn gather(&self, latest: &Snapshot) -> Pool {
        let mut pool = Pool::default();
        if !self.unread.is_empty() {
            return pool;
        }
        let listed = self.listing.iter().flat_map(|listing| &listing.claims);
        for claim in listed {
            let gets_lost = claim.spent || claim.of_a_pod || claim.record != latest.record;
            let orphans = self.orphans.contains(&claim.name);
            if !claim.ours || gets_lost || claim.record.is_none() || orphans {
                continue;
            }
            let name = &claim.name;
            let holders = self
                .holders
                .get(name)
                .filter(|_| !planted::is(Planted::ClaimGivenTwice));
            match holders {
                Some(holders) if holders.iter().all(|id| self.gives_back(*id)) => {
                    pool.expect(claim)
                }
                Some(_) => {}
                None if self.mentioned.contains(name) || !self.is_ripe(claim) => pool.expect(claim),
                None => pool.add(claim),
            }
        }
        pool
    }

    /// Whether the executor's claims can be waited for: it is leaving without a long delay.
    fn gives_back(&self, id: ExecutorId) -> bool {
        (self.holdings.get(&id)).is_some_and(|holding| {
            let kept = |ended: Tick| self.now.tick.since(ended) >= self.min_age;
            holding.goes && !holding.ended.is_some_and(kept)
        })
    }

    /// Whether an unused claim can be given away.
    fn is_ripe(&self, claim: &Claim) -> bool {
        let by_server = claim.created.is_some_and(|created| {
            let age = Duration::try_from(self.now.wall.duration_since(created));
            age.is_ok_and(|age| age >= self.min_age)
        });
        // Clocks differ, so the age by our own clock counts too.
        let known = self.first_seen.get(&claim.uid);
        let by_us = known.is_some_and(|seen| self.now.tick.since(*seen) >= self.min_age);
        (by_server || by_us) && self.now.tick >= self.settled_at
    }
}

/// A profile's claims that may be reused.
fn reusable<'a>(
    settings: &'a ClaimRules,
    profile: &ProfileName,
) -> impl Iterator<Item = &'a ClaimTemplate> + Clone + use<'a> {
    let templates = settings
        .profiles
        .get(profile)
        .filter(|_| settings.reuse != Reuse::Never);
    let templates = templates.map(AsRef::as_ref).unwrap_or_default();
    templates
        .iter()
        .filter(|t| t.owner == ClaimOwner::Application)
}
