//! DriverBackend: who is there, what is wanted.
//!
//! It owns the targets and is told of every end. With `registration = "optional"` executors count as working when
//! they run; nobody is registered or idle yet.

pub mod messages;

use std::collections::BTreeSet;

use actix::{Actor, Addr, Context, Handler, Recipient};

use crate::lifecycle_manager::messages::Ended;
use crate::model::ProfileName;
use crate::model::news::News;
use crate::snapshot_store::SnapshotStore;
use crate::snapshot_store::messages::Tell;

use messages::{HearOfEnds, KeepTargets, SetTargets, UnknownProfile};

/// The application's side of the driver.
pub struct DriverBackend {
    profiles: BTreeSet<ProfileName>,
    store: Addr<SnapshotStore>,
    keep: Recipient<KeepTargets>,
    /// Those who hear of ends; one for each reader that the wiring attaches.
    readers: Vec<Recipient<Ended>>,
}

impl DriverBackend {
    /// With these profiles; their first targets are in the ledger already.
    pub fn new(
        profiles: BTreeSet<ProfileName>,
        store: Addr<SnapshotStore>,
        keep: Recipient<KeepTargets>,
    ) -> Self {
        Self {
            profiles,
            store,
            keep,
            readers: Vec::new(),
        }
    }
}

impl Actor for DriverBackend {
    type Context = Context<Self>;
}

impl Handler<SetTargets> for DriverBackend {
    type Result = Result<(), UnknownProfile>;

    fn handle(&mut self, SetTargets(targets): SetTargets, _: &mut Self::Context) -> Self::Result {
        if let Some(profile) = targets
            .keys()
            .find(|profile| !self.profiles.contains(*profile))
        {
            let known: Vec<&str> = self.profiles.iter().map(ProfileName::as_str).collect();
            return Err(UnknownProfile {
                profile: profile.clone(),
                known: known.join(", "),
            });
        }
        for (profile, target) in &targets {
            tracing::info!(profile = profile.as_str(), target, "target set");
        }
        self.store.do_send(Tell(News::Targets(targets.clone())));
        self.keep.do_send(KeepTargets(targets));
        Ok(())
    }
}

impl Handler<Ended> for DriverBackend {
    type Result = ();

    fn handle(&mut self, ended: Ended, _: &mut Self::Context) {
        self.readers.retain(Recipient::connected);
        for reader in &self.readers {
            reader.do_send(ended.clone());
        }
    }
}

impl Handler<HearOfEnds> for DriverBackend {
    type Result = ();

    fn handle(&mut self, HearOfEnds(reader): HearOfEnds, _: &mut Self::Context) {
        self.readers.push(reader);
    }
}
