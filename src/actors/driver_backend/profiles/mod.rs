//! Profiles: the one list of them, which grows and shrinks while the driver runs (spec B-26, B-52).
//!
//! A profile is refused if a different one of that name exists. One that is being removed has a target of 0 in the ledger,
//! and its name is free when nothing of it is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::messages::{RefusedProfile, RefusedRemoval};
use super::status::views::ContainerView;
use crate::actors::profile_messages::{AddedProfile, Bounds, KeptProfile};
use crate::config::{Mistake, profile_ttl};
use crate::kubernetes::pod_template::gangs::Gangs;
use crate::model::{ProfileName, Snapshot, Tick};

/// The most profiles that can be added: each is in the application record, whose size is limited.
const MOST_ADDED: usize = 32;

/// The longest description, in bytes of JSON.
const LONGEST: usize = 16 * 1024;

/// A look that comes this much later than the one before shows that the process stood still: so did its clients' requests.
const STOOD_STILL: Duration = Duration::from_secs(10);

/// Parses a description.
pub type Read = Box<dyn Fn(&ProfileName, &Value) -> Result<AddedProfile, Vec<Mistake>>>;

/// Makes the proof that a driver of this application added a profile; `None` without a secret that a successor has too
/// (spec O-58).
pub type Prove = Box<dyn Fn(&ProfileName, &Value) -> Option<String>>;

/// The profiles at the start.
#[derive(Default)]
pub struct Known {
    /// Those of which executors may be wanted.
    pub bounds: BTreeMap<ProfileName, Bounds>,
    /// Their executors' containers.
    pub containers: BTreeMap<ProfileName, ContainerView>,
    /// Those of them that the configuration has.
    pub configured: BTreeSet<ProfileName>,
    /// The descriptions of profiles that were added before this start.
    pub added: BTreeMap<ProfileName, Value>,
    /// Those of them that are being removed since an earlier start.
    pub removing: BTreeSet<ProfileName>,
    /// The gangs of all profiles; `None` without a gang scheduler.
    pub gangs: Option<Gangs>,
}

#[derive(Debug, Default)]
struct Profile {
    /// `None` if it was added before this start and is not understood by this driver.
    bounds: Option<Bounds>,
    /// For the status. As `bounds`.
    container: Option<Arc<ContainerView>>,
    is_configured: bool,
    /// With the keys of the configuration, if it was added.
    described: Option<Value>,
    is_being_removed: bool,
    /// When a request has renewed it last, or this driver knew it first.
    renewed: Option<Tick>,
}

pub struct Profiles {
    read: Read,
    prove: Prove,
    by_name: BTreeMap<ProfileName, Profile>,
    gangs: Option<Gangs>,
    /// When it was last looked for silent ones.
    looked: Tick,
}

impl Profiles {
    pub fn new(read: Read, prove: Prove, known: Known) -> Self {
        let mut by_name: BTreeMap<ProfileName, Profile> = BTreeMap::new();
        for (name, bounds) in known.bounds {
            by_name.entry(name).or_default().bounds = Some(bounds);
        }
        for (name, container) in known.containers {
            by_name.entry(name).or_default().container = Some(Arc::new(container));
        }
        for (name, described) in known.added {
            by_name.entry(name).or_default().described = Some(described);
        }
        for name in known.configured {
            by_name.entry(name).or_default().is_configured = true;
        }
        for name in known.removing {
            by_name.entry(name).or_default().is_being_removed = true;
        }
        Self {
            read,
            prove,
            by_name,
            gangs: known.gangs,
            looked: Tick::default(),
        }
    }

    /// A request for these profiles has come (spec B-69).
    pub fn renew<'a>(&mut self, names: impl IntoIterator<Item = &'a ProfileName>, now: Tick) {
        for name in names {
            if let Some(profile) = self.by_name.get_mut(name) {
                profile.renewed = Some(now);
            }
        }
    }

    /// The profiles that no request has renewed for their ttl, with that (spec B-69).
    pub fn silent(&mut self, now: Tick) -> Vec<(ProfileName, Duration)> {
        let pause = now.since(std::mem::replace(&mut self.looked, now));
        let mut silent = Vec::new();
        for (name, profile) in &mut self.by_name {
            let described = profile.described.as_ref();
            let Some(ttl) = described
                .filter(|_| !profile.is_configured)
                .and_then(profile_ttl)
            else {
                continue;
            };
            let renewed = profile.renewed.get_or_insert(now);
            if pause >= STOOD_STILL {
                *renewed = (*renewed + pause).min(now);
            }
            if now.since(*renewed) >= ttl && !profile.is_being_removed {
                silent.push((name.clone(), ttl));
            }
        }
        silent
    }

    /// The limits of a profile of which executors may be wanted.
    pub fn bounds(&self, name: &ProfileName) -> Option<Bounds> {
        let profile = self.by_name.get(name)?;
        profile.bounds.filter(|_| !profile.is_being_removed)
    }

    /// What an executor of this profile is made of.
    pub fn container(&self, name: &ProfileName) -> Option<Arc<ContainerView>> {
        self.by_name.get(name)?.container.clone()
    }

    /// The profiles of which executors may be wanted.
    pub fn names(&self) -> impl Iterator<Item = &ProfileName> {
        self.by_name
            .keys()
            .filter(|name| self.bounds(name).is_some())
    }

    /// A described profile; `None` if the same one exists already.
    ///
    /// # Errors
    /// Why it cannot be added.
    pub fn read(
        &self,
        name: &ProfileName,
        described: &Value,
    ) -> Result<Option<AddedProfile>, RefusedProfile> {
        if let Some(known) = self.by_name.get(name) {
            if known.is_being_removed {
                return Err(RefusedProfile::BeingRemoved(name.clone()));
            }
            if known.bounds.is_some() && known.described.as_ref() == Some(described) {
                return Ok(None);
            }
            if known.bounds.is_some() {
                return Err(RefusedProfile::Exists(name.clone()));
            }
        }
        let length = described.to_string().len();
        let described_ones = self.by_name.values().filter(|one| one.described.is_some());
        if described_ones.count() >= MOST_ADDED || length > LONGEST {
            return Err(RefusedProfile::TooMuch);
        }
        let mut added = (self.read)(name, described).map_err(RefusedProfile::Mistakes)?;
        added.kept = Some(KeptProfile {
            described: described.clone(),
            proof: (self.prove)(name, described).map(Arc::from),
        });
        join_gangs(&mut self.gangs.clone(), &mut added);
        Ok(Some(added))
    }

    /// Those of these profiles of the configuration that exist already, and the new ones (spec C-6).
    pub fn read_configured(
        &self,
        profiles: Vec<AddedProfile>,
    ) -> (Vec<ProfileName>, Vec<AddedProfile>) {
        let exists = |added: &AddedProfile| {
            let known = self.by_name.get(&added.name);
            known.is_some_and(|known| known.bounds.is_some() || known.is_being_removed)
        };
        let (known, mut new): (Vec<_>, Vec<_>) = profiles.into_iter().partition(exists);
        let mut gangs = self.gangs.clone();
        for added in &mut new {
            join_gangs(&mut gangs, added);
        }
        (known.into_iter().map(|added| added.name).collect(), new)
    }

    /// The other actors know it.
    pub fn add_profile(&mut self, added: &AddedProfile) {
        let (profile, executors) = (added.name.as_str(), added.executors);
        tracing::info!(profile, executors, "profile added");
        join_gangs(&mut self.gangs, &mut added.clone());
        let known = self.by_name.entry(added.name.clone()).or_default();
        known.bounds = Some(added.bounds);
        known.container = Some(Arc::new(ContainerView::of(&added.spec)));
        let Some(kept) = &added.kept else {
            known.is_configured = true;
            return;
        };
        if kept.proof.is_none() {
            tracing::warn!(
                profile,
                hint = "set backend.key_file to a file that outlasts the driver",
                "no successor will use this profile: there is no secret to prove it with"
            );
        }
        known.described = Some(kept.described.clone());
    }

    /// Takes over the highest target of each of these profiles (spec C-6).
    pub fn limit(&mut self, most: &BTreeMap<ProfileName, u32>) {
        for (name, profile) in &mut self.by_name {
            if let (Some(bounds), Some(most)) = (&mut profile.bounds, most.get(name)) {
                bounds.most = *most;
            }
        }
    }

    /// No executors of this profile are wanted any more (spec B-52). May be repeated.
    ///
    /// # Errors
    /// Why it stays.
    pub fn remove(&mut self, name: &ProfileName) -> Result<(), RefusedRemoval> {
        let known = self.by_name.get_mut(name);
        let Some(known) = known.filter(|known| known.is_configured || known.described.is_some())
        else {
            return Err(RefusedRemoval::Unknown(name.clone()));
        };
        if known.is_configured {
            return Err(RefusedRemoval::Configured(name.clone()));
        }
        if !std::mem::replace(&mut known.is_being_removed, true) {
            tracing::info!(
                profile = name.as_str(),
                "a profile is being removed: its executors go"
            );
        }
        Ok(())
    }

    /// The first of the profiles that are being removed of which no executor is left, and its description.
    pub fn over(&self, snapshot: &Snapshot) -> Option<(ProfileName, Arc<Value>)> {
        let gone = |(name, profile): &(&ProfileName, &Profile)| {
            profile.is_being_removed && snapshot.adopted && !snapshot.has_executors(name)
        };
        let (name, profile) = self.by_name.iter().find(gone)?;
        let described = profile.described.clone().unwrap_or_default();
        Some((name.clone(), Arc::new(described)))
    }

    /// Nothing of a profile that was being removed is left in any actor.
    pub fn remove_profile(&mut self, name: &ProfileName) {
        tracing::info!(profile = name.as_str(), "profile removed");
        self.by_name.remove(name);
        if let Some(gangs) = &mut self.gangs {
            gangs.remove(name);
        }
    }
}

fn join_gangs(gangs: &mut Option<Gangs>, added: &mut AddedProfile) {
    if let Some(gangs) = gangs {
        gangs.add(&added.name, added.bounds.least, &mut added.spec);
    }
}

#[cfg(test)]
mod tests;
