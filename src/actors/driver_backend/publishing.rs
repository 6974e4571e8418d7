//! Tells the other actors of profiles that are added, and of those that are gone (spec B-26, B-52).
//!
//! What a profile leaves is forgotten by one actor after the other, by the record last. So a driver that is killed between
//! two of these steps has a successor that repeats them.

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{
    ActorFutureExt, Addr, AsyncContext, Context, MailboxError, Recipient, ResponseActFuture,
    WrapFuture,
};

use super::DriverBackend;
use super::messages::RefusedProfile;
use crate::actors::profile_messages::{AddedProfile, ProfileAdded, ProfileGone};
use crate::actors::record_keeper::messages::RecordProfiles;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::{Look, LookNow, Tell};
use crate::model::Snapshot;
use crate::model::news::News;

/// Sends the profile to each recipient, one by one, and then its target to the store.
async fn publish(
    recipients: &[Recipient<ProfileAdded>],
    store: &Addr<SnapshotStore>,
    added: &Arc<AddedProfile>,
) -> Result<(), RefusedProfile> {
    let not_now = |_: MailboxError| RefusedProfile::NotNow;
    for recipient in recipients {
        let known = recipient.send(ProfileAdded(Arc::clone(added))).await;
        known
            .map_err(not_now)?
            .map_err(|error| RefusedProfile::NoPod(error.to_string()))?;
    }
    let targets = BTreeMap::from([(added.name.clone(), added.executors)]);
    let news = match added.kept {
        Some(_) => News::Targets(targets),
        None => News::Configured(targets),
    };
    store.send(Tell(news)).await.map_err(not_now)?;
    Ok(())
}

/// Whether nothing of a profile is left in any actor. The first one that keeps it is asked again later, and those after it.
async fn removed(
    recorded: impl Future<Output = Result<(), MailboxError>>,
    recipients: Vec<Recipient<ProfileGone>>,
    store: Addr<SnapshotStore>,
    message: ProfileGone,
) -> Option<Snapshot> {
    // The record may not have been written yet. A successor must not find the profile without its removal.
    recorded.await.ok()?;
    for recipient in recipients {
        let is_removed = recipient.send(message.clone()).await;
        is_removed.ok().filter(|is_removed| *is_removed)?;
    }
    store.do_send(Tell(News::ProfileGone(message.name.clone())));
    // A pod of a set may have come meanwhile.
    let Look(latest) = store.send(LookNow).await.ok()?;
    (!latest.targets.contains_key(&message.name)).then_some(latest)
}

impl DriverBackend {
    /// The list has those that all others know, also if one of them is refused. Then the latest snapshot is known.
    pub(super) fn publish(
        &mut self,
        added: Vec<AddedProfile>,
    ) -> ResponseActFuture<Self, Result<(), RefusedProfile>> {
        let (recipients, store) = (self.to.added.clone(), self.to.store.clone());
        let publishing = async move {
            let (mut known, mut published) = (Vec::new(), Ok(()));
            for added in added.into_iter().map(Arc::new) {
                published = publish(&recipients, &store, &added).await;
                if published.is_err() {
                    break;
                }
                known.push(added);
            }
            (known, published, store.send(LookNow).await)
        };
        Box::pin(
            publishing
                .into_actor(self)
                .map(|(known, published, look), this: &mut Self, _| {
                    known
                        .iter()
                        .for_each(|added| this.profiles.add_profile(added));
                    // The store has stopped only if the driver is ending.
                    if let Ok(Look(latest)) = look {
                        this.keep(latest);
                    }
                    published
                }),
        )
    }

    /// Tells the others of a profile of which no executor is left.
    pub(super) fn look_after_removals(&mut self, ctx: &mut Context<Self>) {
        let Some((name, described)) = self.profiles.over(&self.latest) else {
            return;
        };
        if std::mem::replace(&mut self.is_removing, true) {
            return;
        }
        let recorded = self.to.record.send(RecordProfiles::Removing(name.clone()));
        let message = ProfileGone {
            name: name.clone(),
            described,
        };
        let (recipients, store) = (self.to.gone.clone(), self.to.store.clone());
        let removed = removed(recorded, recipients, store, message).into_actor(self);
        ctx.spawn(removed.map(move |latest, this, _| {
            this.is_removing = false;
            if let Some(latest) = latest {
                this.profiles.remove_profile(&name);
                this.keep(latest);
            }
        }));
    }
}

#[cfg(test)]
mod tests;
