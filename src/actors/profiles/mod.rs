//! Profiles: adds profiles while the driver runs (spec B-26).
//!
//! A profile is refused where another one of that name exists. One that is added is published as [`ProfileAdded`] to all
//! actors that have to know it, one after the other, before the client is answered; the application record is among them,
//! so that the profile outlives this driver. This folder uses no other actor's folder.

pub mod messages;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use actix::{Actor, ActorFutureExt, AtomicResponse, Context, Handler, Recipient, WrapFuture};
use serde_json::Value;

use crate::config::Mistake;
use crate::kubernetes::ProfileSpec;
use crate::kubernetes::pod_template::gangs::Gangs;
use crate::model::ProfileName;

use messages::{AddProfile, AddedProfile, Bounds, ProfileAdded, RefusedProfile};

/// At most this many profiles can be added: each is in the application record, whose size is limited.
const MOST_ADDED: usize = 32;

/// The longest description, in bytes of JSON.
const LONGEST: usize = 16 * 1024;

/// A description that was understood.
#[derive(Debug, Clone)]
pub struct Understood {
    /// How many executors are wanted at first.
    pub executors: u32,
    /// How many executors there may be.
    pub bounds: Bounds,
    /// What its pods are made of.
    pub spec: ProfileSpec,
    /// At most this many executors may be live and not running yet (spec A-4).
    pub max_pending: Option<u32>,
}

/// How a description is understood.
pub type Read = Box<dyn Fn(&ProfileName, &Value) -> Result<Understood, Vec<Mistake>>>;

/// What Profiles is made of.
pub struct Wiring {
    /// How a description is understood.
    pub read: Read,
    /// All profiles that exist.
    pub names: BTreeSet<ProfileName>,
    /// The descriptions of those that were added before this start.
    pub added: BTreeMap<ProfileName, Value>,
    /// The gangs of all profiles, where a gang scheduler is told of them (spec A-82).
    pub gangs: Option<Gangs>,
    /// The actors that have to know a new profile, in this order. The provisioner comes first: it alone can refuse a
    /// profile. Commands comes last: executors are wanted once every other actor knows their profile.
    pub recipients: Vec<Recipient<ProfileAdded>>,
}

/// Adds profiles.
pub struct Profiles {
    read: Read,
    names: BTreeSet<ProfileName>,
    added: BTreeMap<ProfileName, Value>,
    gangs: Option<Gangs>,
    recipients: Vec<Recipient<ProfileAdded>>,
}

impl Profiles {
    /// With what the wiring names.
    pub fn new(wiring: Wiring) -> Self {
        let Wiring {
            read,
            names,
            added,
            gangs,
            recipients,
        } = wiring;
        Self {
            read,
            names,
            added,
            gangs,
            recipients,
        }
    }

    /// The profile, and all gangs with its own; `None` where the same profile exists already.
    fn understood(
        &self,
        add: &AddProfile,
    ) -> Result<Option<(AddedProfile, Option<Gangs>)>, RefusedProfile> {
        let AddProfile { name, described } = add;
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
        let Understood {
            executors,
            bounds,
            mut spec,
            max_pending,
        } = (self.read)(name, described).map_err(RefusedProfile::Mistakes)?;
        let mut gangs = self.gangs.clone();
        if let Some(gangs) = &mut gangs {
            gangs.add(name, bounds.least, &mut spec);
        }
        let added = AddedProfile {
            name: name.clone(),
            described: described.clone(),
            executors,
            bounds,
            spec,
            max_pending,
        };
        Ok(Some((added, gangs)))
    }
}

/// Has each recipient take the profile in, one after the other.
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
}

impl Handler<AddProfile> for Profiles {
    type Result = AtomicResponse<Self, Result<(), RefusedProfile>>;

    /// Nothing else is handled meanwhile, so that of two profiles added under one name the second is refused.
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
                    let (profile, executors) = (added.name.as_str(), added.executors);
                    tracing::info!(profile, executors, "profile added");
                    this.names.insert(added.name.clone());
                    this.added
                        .insert(added.name.clone(), added.described.clone());
                    this.gangs = gangs;
                }
                Ok(())
            },
        )))
    }
}

#[cfg(test)]
mod tests;
