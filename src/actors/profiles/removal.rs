//! Removes profiles that were added (spec B-52).
//!
//! The ledger keeps the target of such a profile at 0 and says when its last executor is gone, and the application record
//! that it is being removed. What the profile leaves is forgotten one actor after the other, the record last. So a driver
//! that is killed between two of these steps has a successor that repeats them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix::{
    ActorFutureExt, AsyncContext, Context, Handler, Recipient, ResponseFuture, WrapFuture,
};
use futures::future::join_all;
use tokio::time::timeout;

use super::Profiles;
use super::messages::{ForgetProfile, ProfileRemoved, RefusedRemoval, RemoveProfile};
use crate::actors::snapshot_store::messages::{LookNow, Tell};
use crate::model::news::News;
use crate::model::{ProfileName, Snapshot};

/// The interval between looks at the executors that are left.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a client waits for the record. Shorter than the API's own patience with an actor.
const RECORDED: Duration = Duration::from_secs(4);

pub(super) struct Removal {
    /// The profiles that are being removed.
    pub(super) profiles: BTreeSet<ProfileName>,
    /// Whether a look is under way, or its timer runs.
    pub(super) is_looked_after: bool,
    pub(super) removed: Vec<Recipient<ProfileRemoved>>,
    pub(super) forget: Vec<Recipient<ForgetProfile>>,
    pub(super) look: Recipient<LookNow>,
    pub(super) tell: Recipient<Tell>,
}

/// The first of these profiles of which no executor is left.
fn over(profiles: &BTreeSet<ProfileName>, snapshot: &Snapshot) -> Option<ProfileName> {
    let gone = |profile: &&ProfileName| snapshot.adopted && !snapshot.has_executors(profile);
    profiles.iter().find(gone).cloned()
}

/// Whether nothing of a profile is left in any actor. The first one that keeps it is asked again later, and those after it.
async fn forgotten(
    forget: Vec<Recipient<ForgetProfile>>,
    (tell, look): (Recipient<Tell>, Recipient<LookNow>),
    message: ForgetProfile,
) -> bool {
    for recipient in forget {
        if !recipient.send(message.clone()).await.unwrap_or(false) {
            return false;
        }
    }
    tell.do_send(Tell(News::Forget(message.name.clone())));
    // A pod of a set may have come meanwhile.
    let look = look.send(LookNow).await;
    look.is_ok_and(|look| !look.0.targets.contains_key(&message.name))
}

impl Profiles {
    pub(super) fn look_after_removals(&mut self, ctx: &mut Context<Self>) {
        if self.removal.profiles.is_empty() || self.removal.is_looked_after {
            return;
        }
        self.removal.is_looked_after = true;
        ctx.run_later(LOOK_EVERY, |this, ctx| {
            let look = this.removal.look.send(LookNow).into_actor(this);
            ctx.spawn(look.map(|look, this, ctx| {
                let over = look
                    .ok()
                    .and_then(|look| over(&this.removal.profiles, &look.0));
                match over {
                    Some(profile) => this.forget(profile, ctx),
                    None => this.look_again(ctx),
                }
            }));
        });
    }

    fn look_again(&mut self, ctx: &mut Context<Self>) {
        self.removal.is_looked_after = false;
        self.look_after_removals(ctx);
    }

    /// Tells all that the profile is being removed, also those that know. Becomes true when each has done its part.
    fn tell(&self, name: &ProfileName) -> impl Future<Output = bool> + use<> {
        let told = (self.removal.removed.iter()).map(|one| one.send(ProfileRemoved(name.clone())));
        let told = join_all(told.collect::<Vec<_>>());
        async move { told.await.iter().all(Result::is_ok) }
    }

    fn forget(&mut self, name: ProfileName, ctx: &mut Context<Self>) {
        let message = ForgetProfile {
            name: name.clone(),
            described: Arc::new(self.added.get(&name).cloned().unwrap_or_default()),
        };
        // The record may not have been written yet. A successor must not find the profile without its removal.
        let recorded = self.tell(&name);
        let store = (self.removal.tell.clone(), self.removal.look.clone());
        let forgotten = forgotten(self.removal.forget.clone(), store, message);
        let forgotten = async move { recorded.await && forgotten.await };
        ctx.spawn(forgotten.into_actor(self).map(move |forgotten, this, ctx| {
            if forgotten {
                tracing::info!(profile = name.as_str(), "profile removed");
                this.removal.profiles.remove(&name);
                this.names.remove(&name);
                this.added.remove(&name);
                if let Some(gangs) = &mut this.gangs {
                    gangs.remove(&name);
                }
            }
            this.look_again(ctx);
        }));
    }
}

impl Handler<RemoveProfile> for Profiles {
    type Result = ResponseFuture<Result<(), RefusedRemoval>>;

    fn handle(
        &mut self,
        RemoveProfile(name): RemoveProfile,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        let refused = if self.configured.contains(&name) {
            Some(RefusedRemoval::Configured(name.clone()))
        } else if !self.added.contains_key(&name) {
            Some(RefusedRemoval::Unknown(name.clone()))
        } else {
            None
        };
        if let Some(refused) = refused {
            return Box::pin(async move { Err(refused) });
        }
        if self.removal.profiles.insert(name.clone()) {
            tracing::info!(
                profile = name.as_str(),
                "a profile is being removed: its executors go"
            );
        }
        // A client that repeats the command waits for the record as well.
        let told = self.tell(&name);
        self.look_after_removals(ctx);
        Box::pin(async move {
            let told = timeout(RECORDED, told).await;
            told.is_ok_and(|told| told)
                .then_some(())
                .ok_or(RefusedRemoval::NotRecorded)
        })
    }
}

#[cfg(test)]
mod tests;
