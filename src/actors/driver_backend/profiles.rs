//! Profiles that are added while the driver runs (spec B-26): refused where there is one of that name already, kept over a
//! restart, and known to the allocator before anything is asked of them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use actix::{ActorFutureExt, AtomicResponse, Handler, Message, Recipient, WrapFuture};
use serde_json::Value;

use super::DriverBackend;
use super::autoscaling::Bounds;
use crate::actors::pod_allocator::messages::KnowProfile;
use crate::actors::snapshot_store::messages::{AskFor, Tell};
use crate::config::Mistake;
use crate::kubernetes::ProfileSpec;
use crate::model::ProfileName;
use crate::model::news::News;

/// So many can be added: each is in the application record, which cannot grow without end.
const MOST_ADDED: usize = 32;

/// A description is not longer than that, as JSON.
const LONGEST: usize = 16 * 1024;

/// There is a new profile; answered with all targets.
#[derive(Debug, Clone, Message)]
#[rtype(result = "Result<BTreeMap<ProfileName, u32>, RefusedProfile>")]
pub struct AddProfile {
    /// Its name.
    pub name: ProfileName,
    /// What it is, by the keys of the configuration.
    pub described: Value,
}

/// Why there is no such profile: nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedProfile {
    /// Executors use it, or may.
    #[error("there is a profile {0} already, and it is another one")]
    Exists(ProfileName),
    /// There is no room for it.
    #[error("it is too large, or too many profiles were added")]
    TooMuch,
    /// The description is wrong; never without a mistake.
    #[error("the profile cannot be as it is described")]
    Mistakes(Vec<Mistake>),
    /// No pod can be made of it.
    #[error("{0}")]
    NoPod(String),
    /// The driver ends, or has just begun.
    #[error("the driver cannot take it now")]
    NotNow,
}

/// A profile, as it was understood.
#[derive(Debug, Clone)]
pub struct Understood {
    /// How many executors are wanted at first.
    pub executors: u32,
    /// How many there may be.
    pub bounds: Bounds,
    /// How their pods are made.
    pub spec: ProfileSpec,
    /// So many may be live and not running yet (spec A-4).
    pub max_pending: Option<u32>,
}

/// What DriverBackend keeps of a profile that the allocator has taken in.
struct Known {
    executors: u32,
    bounds: Bounds,
    /// How long its pods may take to end; nothing: as long as in Kubernetes.
    grace: Option<Duration>,
}

/// How a description is understood.
pub type Read = Box<dyn Fn(&ProfileName, &Value) -> Result<Understood, Vec<Mistake>>>;

/// A profile is to be kept over a restart.
#[derive(Debug, Clone, Message)]
#[rtype(result = "()")]
pub struct KeepProfile {
    /// Its name.
    pub name: ProfileName,
    /// What it is.
    pub described: Value,
}

/// What adding profiles takes.
pub struct Wiring {
    /// How a description is understood.
    pub read: Read,
    /// What was added before this start.
    pub added: BTreeMap<ProfileName, Value>,
    /// Who keeps it over a restart.
    pub keep: Recipient<KeepProfile>,
    /// The actor that makes the pods, and needs to know every profile.
    pub provisioner: Recipient<KnowProfile>,
}

/// Those that were added, and how more are.
pub(super) struct Profiles {
    read: Read,
    added: BTreeMap<ProfileName, Value>,
    keep: Recipient<KeepProfile>,
    provisioner: Recipient<KnowProfile>,
}

impl fmt::Debug for Profiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.added.keys()).finish()
    }
}

impl Profiles {
    pub(super) fn new(wiring: Wiring) -> Self {
        let Wiring {
            read,
            added,
            keep,
            provisioner,
        } = wiring;
        Self {
            read,
            added,
            keep,
            provisioner,
        }
    }
}

impl DriverBackend {
    /// The profile as it is understood; nothing where it is there already, just like that.
    fn understood(&self, add: &AddProfile) -> Result<Option<Understood>, RefusedProfile> {
        let AddProfile { name, described } = add;
        if self.added.added.get(name) == Some(described) && self.profiles.contains_key(name) {
            return Ok(None);
        }
        if self.profiles.contains_key(name) {
            return Err(RefusedProfile::Exists(name.clone()));
        }
        let length = described.to_string().len();
        if self.added.added.len() >= MOST_ADDED || length > LONGEST {
            return Err(RefusedProfile::TooMuch);
        }
        (self.added.read)(name, described)
            .map(Some)
            .map_err(RefusedProfile::Mistakes)
    }

    fn add(&mut self, add: AddProfile, known: Known) {
        let AddProfile { name, described } = add;
        let Known {
            executors,
            bounds,
            grace,
        } = known;
        tracing::info!(profile = name.as_str(), executors, "profile added");
        self.profiles.insert(name.clone(), bounds);
        self.scalers.add(name.clone(), bounds);
        if let Some(grace) = grace {
            self.sessions.registry.know(name.clone(), grace);
        }
        self.added.added.insert(name.clone(), described.clone());
        let keep = KeepProfile {
            name: name.clone(),
            described,
        };
        self.added.keep.do_send(keep);
        let targets = BTreeMap::from([(name, executors)]);
        self.remember_while_held(Some(&targets));
        self.store.do_send(Tell(News::Targets(targets)));
    }
}

impl Handler<AddProfile> for DriverBackend {
    type Result = AtomicResponse<Self, Result<BTreeMap<ProfileName, u32>, RefusedProfile>>;

    /// Nothing else is handled meanwhile, so that of two that are added under one name the second is refused.
    fn handle(&mut self, add: AddProfile, _: &mut Self::Context) -> Self::Result {
        let understood = self.understood(&add);
        let (name, provisioner) = (add.name.clone(), self.added.provisioner.clone());
        let known = async move {
            let Some(Understood {
                executors,
                bounds,
                spec,
                max_pending,
            }) = understood?
            else {
                return Ok(None);
            };
            let (least, grace) = (bounds.least, spec.termination_grace);
            let know = KnowProfile {
                name,
                spec,
                max_pending,
                least,
            };
            let known = provisioner.send(know).await;
            known
                .map_err(|_| RefusedProfile::NotNow)?
                .map_err(|error| RefusedProfile::NoPod(error.to_string()))?;
            Ok(Some(Known {
                executors,
                bounds,
                grace,
            }))
        };
        let added = known.into_actor(self).map(|known, this, _| {
            if let Some(known) = known? {
                this.add(add, known);
            }
            Ok(this.store.clone())
        });
        let answered = added.then(|added, this, _| {
            let asked = async move {
                let asked = added?.send(AskFor(BTreeMap::new())).await;
                asked.map_err(|_| RefusedProfile::NotNow)
            };
            asked.into_actor(this)
        });
        AtomicResponse::new(Box::pin(answered))
    }
}
