//! Profiles: adds profiles while the driver runs, and removes them (spec B-26, B-52).
//!
//! A profile is refused if a different one of that name exists. An added profile is published as
//! [`ProfileAdded`] to all actors that must know it, one by one, before the client is answered. One
//! of them writes the application record, for later starts. `removal` removes profiles. Uses the
//! messages of the store.

pub mod messages;
mod removal;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::{Actor, ActorFutureExt, AtomicResponse, Context, Handler, Recipient, WrapFuture};
use serde_json::Value;

use crate::actors::snapshot_store::messages::{LookNow, Tell};
use crate::config::Mistake;
use crate::kubernetes::ProfileSpec;
use crate::kubernetes::pod_template::gangs::Gangs;
use crate::model::ProfileName;

use messages::{
    AddConfigured, AddProfile, AddedProfile, Bounds, ForgetProfile, KeptProfile, ProfileAdded,
    ProfileRemoved, RefusedProfile,
};
use removal::Removal;

/// The most profiles that can be added: each is in the application record, whose size is limited.
const MOST_ADDED: usize = 32;

/// The longest description, in bytes of JSON.
const LONGEST: usize = 16 * 1024;

/// A parsed description.
#[derive(Debug, Clone)]
pub struct Understood {
    /// The first target.
    pub executors: u32,
    pub bounds: Bounds,
    pub spec: ProfileSpec,
    /// The most executors that may be live and not running yet (spec A-4).
    pub max_pending: Option<u32>,
    /// The number of executors that evictions leave (spec K-12).
    pub min_available: Option<u32>,
}

/// Parses a description.
pub type Read = Box<dyn Fn(&ProfileName, &Value) -> Result<Understood, Vec<Mistake>>>;

/// Makes the proof that a driver of this application added a profile; `None` without a secret that a successor has too
/// (spec O-58).
pub type Prove = Box<dyn Fn(&ProfileName, &Value) -> Option<String>>;

pub struct Wiring {
    pub read: Read,
    pub prove: Prove,
    /// The names of all profiles.
    pub names: BTreeSet<ProfileName>,
    /// Those of them that the configuration has.
    pub configured: BTreeSet<ProfileName>,
    /// The descriptions of profiles that were added before this start.
    pub added: BTreeMap<ProfileName, Value>,
    /// Those of them that are being removed since an earlier start.
    pub removing: BTreeSet<ProfileName>,
    /// The gangs of all profiles; `None` without a gang scheduler (spec A-82).
    pub gangs: Option<Gangs>,
    /// The actors that must know a new profile, in this order: first the provisioner, which alone
    /// can refuse it, and last Commands, which sets its target.
    pub recipients: Vec<Recipient<ProfileAdded>>,
    /// The actors that must know that a profile is being removed.
    pub removed: Vec<Recipient<ProfileRemoved>>,
    /// The actors that forget a removed profile, in this order: last the record, which keeps it until then.
    pub forget: Vec<Recipient<ForgetProfile>>,
    pub look: Recipient<LookNow>,
    pub tell: Recipient<Tell>,
}

pub struct Profiles {
    read: Read,
    prove: Prove,
    names: BTreeSet<ProfileName>,
    configured: BTreeSet<ProfileName>,
    added: BTreeMap<ProfileName, Value>,
    gangs: Option<Gangs>,
    recipients: Vec<Recipient<ProfileAdded>>,
    removal: Removal,
}

impl Profiles {
    pub fn new(wiring: Wiring) -> Self {
        Self {
            read: wiring.read,
            prove: wiring.prove,
            names: wiring.names,
            configured: wiring.configured,
            added: wiring.added,
            gangs: wiring.gangs,
            recipients: wiring.recipients,
            removal: Removal {
                profiles: wiring.removing,
                is_looked_after: false,
                removed: wiring.removed,
                forget: wiring.forget,
                look: wiring.look,
                tell: wiring.tell,
            },
        }
    }

    fn is_known(&self, name: &ProfileName) -> bool {
        self.names.contains(name) || self.removal.profiles.contains(name)
    }

    fn know(&mut self, added: &AddedProfile) {
        let (profile, executors) = (added.name.as_str(), added.executors);
        tracing::info!(profile, executors, "profile added");
        self.names.insert(added.name.clone());
        let Some(kept) = &added.kept else {
            self.configured.insert(added.name.clone());
            return;
        };
        if kept.proof.is_none() {
            tracing::warn!(
                profile,
                hint = "set backend.key_file to a file that outlasts the driver",
                "no successor will use this profile: there is no secret to prove it with"
            );
        }
        self.added
            .insert(added.name.clone(), kept.described.clone());
    }

    /// The parsed profile, with all gangs; `None` if the same profile exists already.
    fn understood(
        &self,
        add: &AddProfile,
    ) -> Result<Option<(AddedProfile, Option<Gangs>)>, RefusedProfile> {
        let AddProfile { name, described } = add;
        if self.removal.profiles.contains(name) {
            return Err(RefusedProfile::BeingRemoved(name.clone()));
        }
        if self.added.get(name) == Some(described) && self.names.contains(name) {
            return Ok(None);
        }
        if self.names.contains(name) {
            return Err(RefusedProfile::Exists(name.clone()));
        }
        let length = described.to_string().len();
        if self.added.len() >= MOST_ADDED || length > LONGEST {
            return Err(RefusedProfile::TooMuch);
        }
        let understood = (self.read)(name, described).map_err(RefusedProfile::Mistakes)?;
        let mut gangs = self.gangs.clone();
        let kept = KeptProfile {
            described: described.clone(),
            proof: (self.prove)(name, described).map(Arc::from),
        };
        let added = added(name, understood, Some(kept), &mut gangs);
        Ok(Some((added, gangs)))
    }
}

fn added(
    name: &ProfileName,
    understood: Understood,
    kept: Option<KeptProfile>,
    gangs: &mut Option<Gangs>,
) -> AddedProfile {
    let Understood {
        executors,
        bounds,
        mut spec,
        max_pending,
        min_available,
    } = understood;
    if let Some(gangs) = gangs {
        gangs.add(name, bounds.least, &mut spec);
    }
    AddedProfile {
        name: name.clone(),
        kept,
        executors,
        bounds,
        spec,
        max_pending,
        min_available,
    }
}

/// Sends the profile to each recipient, one by one.
async fn publish(
    recipients: Vec<Recipient<ProfileAdded>>,
    added: ProfileAdded,
) -> Result<(), RefusedProfile> {
    for recipient in recipients {
        let known = recipient.send(added.clone()).await;
        known
            .map_err(|_| RefusedProfile::NotNow)?
            .map_err(|error| RefusedProfile::NoPod(error.to_string()))?;
    }
    Ok(())
}

impl Actor for Profiles {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.look_after_removals(ctx);
    }
}

impl Handler<AddProfile> for Profiles {
    type Result = AtomicResponse<Self, Result<(), RefusedProfile>>;

    /// No other message is handled meanwhile: of two profiles of one name the second is refused.
    fn handle(&mut self, add: AddProfile, _: &mut Self::Context) -> Self::Result {
        let understood = self.understood(&add);
        let recipients = self.recipients.clone();
        let published = async move {
            let Some((added, gangs)) = understood? else {
                return Ok(None);
            };
            let added = Arc::new(added);
            publish(recipients, ProfileAdded(Arc::clone(&added))).await?;
            Ok(Some((added, gangs)))
        };
        AtomicResponse::new(Box::pin(published.into_actor(self).map(
            |published, this, _| {
                if let Some((added, gangs)) = published? {
                    this.gangs = gangs;
                    this.know(&added);
                }
                Ok(())
            },
        )))
    }
}

impl Handler<AddConfigured> for Profiles {
    type Result = AtomicResponse<Self, Result<Vec<ProfileName>, RefusedProfile>>;

    fn handle(
        &mut self,
        AddConfigured(profiles): AddConfigured,
        _: &mut Self::Context,
    ) -> Self::Result {
        let (known, new): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (profiles.into_iter()).partition(|(name, _)| self.is_known(name));
        let mut gangs = self.gangs.clone();
        let new: Vec<_> = (new.into_iter())
            .map(|(name, understood)| Arc::new(added(&name, understood, None, &mut gangs)))
            .collect();
        let recipients = self.recipients.clone();
        let published = async move {
            for added in &new {
                publish(recipients.clone(), ProfileAdded(Arc::clone(added))).await?;
            }
            Ok((new, gangs))
        };
        AtomicResponse::new(Box::pin(published.into_actor(self).map(
            |published: Result<_, RefusedProfile>, this, _| {
                let (new, gangs) = published?;
                this.gangs = gangs;
                new.iter().for_each(|added| this.know(added));
                Ok(known.into_keys().collect())
            },
        )))
    }
}

#[cfg(test)]
mod tests;
