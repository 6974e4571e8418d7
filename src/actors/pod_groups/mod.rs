//! GroupKeeper: keeps the PodGroups that Volcano reads, one for each profile whose executors come in gangs (spec A-82).
//!
//! It reads them at an interval and when a profile is added, creates the missing ones, and corrects those that differ. This
//! folder uses the store's, the event recorder's and the profiles' messages.

use std::collections::BTreeMap;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, Recipient, SpawnHandle,
    WrapFuture,
};
use serde_json::{Value, json};

use crate::actors::event_recorder::RecordEvent;
use crate::actors::event_recorder::events::Note;
use crate::actors::profiles::messages::ProfileAdded;
use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::LookNow;
use crate::kubernetes::calls::PodGroupSeen;
use crate::kubernetes::pod_template::gangs::group_name;
use crate::kubernetes::pod_template::{TemplateError, owner_reference};
use crate::kubernetes::{Calls, Failure, Kind};
use crate::model::{PodUid, ProfileName};
use boatswain_agent::backoff::Backoff;

/// The time between two looks at the PodGroups, where nothing is wrong.
const LOOK_EVERY: Duration = Duration::from_secs(300);

/// The time between two looks while the application record is not there.
const WAIT: Duration = Duration::from_secs(1);

const TRIES: Backoff = Backoff {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(60),
};

/// Keeps the PodGroups.
pub struct GroupKeeper {
    calls: Calls,
    prefix: String,
    least: BTreeMap<ProfileName, u32>,
    store: Addr<SnapshotStore>,
    event_recorder: Option<Recipient<RecordEvent>>,
    failures: u32,
    /// The look that is under way, or the timer of the next one.
    look: Option<SpawnHandle>,
}

/// What is to be done about a PodGroup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Todo {
    /// It is as it should be.
    Nothing,
    /// Make it.
    Create(Value),
    /// Change it, by a merge patch.
    Patch(Value),
}

/// What is to be done about a profile's PodGroup: pure.
pub fn todo(
    prefix: &str,
    profile: &ProfileName,
    least: u32,
    record: &PodUid,
    seen: Option<&PodGroupSeen>,
) -> Todo {
    let owners = json!([owner_reference(prefix, record)]);
    let spec = json!({"minMember": least});
    match seen {
        None => Todo::Create(json!({
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": group_name(prefix, profile), "ownerReferences": owners},
            "spec": spec,
        })),
        Some(seen) if seen.least == least && seen.owner.as_deref() == Some(record.as_str()) => {
            Todo::Nothing
        }
        Some(_) => Todo::Patch(json!({
            "metadata": {"ownerReferences": owners},
            "spec": spec,
        })),
    }
}

/// What a look came to.
enum Looked {
    /// All are as they should be.
    InOrder,
    /// The application record is not there at the moment.
    TooEarly,
    /// The cluster has no such kind.
    NotInstalled,
}

/// It is time to look.
#[derive(Message)]
#[rtype(result = "()")]
struct LookAgain;

impl GroupKeeper {
    /// Keeps PodGroups of at least this many executors of these profiles; a profile with 0 has none.
    pub fn new(
        calls: Calls,
        prefix: String,
        mut least: BTreeMap<ProfileName, u32>,
        store: Addr<SnapshotStore>,
        event_recorder: Option<Recipient<RecordEvent>>,
    ) -> Self {
        least.retain(|_, least| *least > 0);
        Self {
            calls,
            prefix,
            least,
            store,
            event_recorder,
            failures: 0,
            look: None,
        }
    }

    fn looked(&mut self, looked: Result<Looked, Failure>, ctx: &mut Context<Self>) {
        let pause = match looked {
            Ok(Looked::InOrder) => {
                if std::mem::take(&mut self.failures) > 0 {
                    tracing::info!("recovered: the PodGroups are as Volcano needs them");
                }
                LOOK_EVERY
            }
            Ok(Looked::TooEarly) => WAIT,
            Ok(Looked::NotInstalled) => self.failed(
                "the cluster has no kind PodGroup of scheduling.volcano.sh",
                "install Volcano (volcano.sh), or set scheduling.gang to another word",
            ),
            Err(failure) => {
                let hint = match failure.kind {
                    Kind::Rights => "grant it: see docs/kubernetes.md, \"Rights\"",
                    _ => "it is tried again",
                };
                self.failed(&failure.explained(), hint)
            }
        };
        self.look = Some(ctx.notify_later(LookAgain, pause));
    }

    /// Reports the first failure; returns the time until the next look.
    fn failed(&mut self, error: &str, hint: &str) -> Duration {
        self.failures += 1;
        if self.failures == 1 {
            tracing::warn!(
                error,
                hint,
                "degraded: Volcano is not told of the gangs, and their executors may wait"
            );
            if let Some(event_recorder) = &self.event_recorder {
                event_recorder.do_send(RecordEvent(Note {
                    reason: "PodGroupMissing",
                    about: self.prefix.clone(),
                    text: format!("Volcano is not told of the gangs: {error}: {hint}"),
                    warning: true,
                }));
            }
        }
        TRIES.delay(self.failures)
    }
}

impl Actor for GroupKeeper {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.notify(LookAgain);
    }
}

impl Handler<LookAgain> for GroupKeeper {
    type Result = ();

    fn handle(&mut self, _: LookAgain, ctx: &mut Self::Context) {
        // A look that is under way may not know the newest profile. This one does what that one has not done yet.
        if let Some(look) = self.look.take() {
            ctx.cancel_future(look);
        }
        let (calls, store) = (self.calls.clone(), self.store.clone());
        let (prefix, least) = (self.prefix.clone(), self.least.clone());
        let look = async move {
            let snapshot = store.send(LookNow).await.ok();
            // While the record is not there nothing may be owned by it (spec K-2).
            let record = snapshot
                .filter(|look| look.0.adopted)
                .and_then(|look| look.0.record);
            let Some(record) = record else {
                return Ok(Looked::TooEarly);
            };
            if !calls.serves_pod_groups().await? {
                return Ok(Looked::NotInstalled);
            }
            for (profile, least) in &least {
                let name = group_name(&prefix, profile);
                let seen = calls.get_pod_group(&name).await?;
                match todo(&prefix, profile, *least, &record, seen.as_ref()) {
                    Todo::Nothing => {}
                    Todo::Create(group) => calls.create_pod_group(&group).await?,
                    Todo::Patch(patch) => calls.patch_pod_group(&name, &patch).await?,
                }
            }
            Ok(Looked::InOrder)
        };
        let look = ctx.spawn(look.into_actor(self).map(|looked, this, ctx| {
            this.looked(looked, ctx);
        }));
        self.look = Some(look);
    }
}

impl Handler<ProfileAdded> for GroupKeeper {
    type Result = Result<(), TemplateError>;

    fn handle(
        &mut self,
        ProfileAdded(added): ProfileAdded,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        let least = added.bounds.least;
        if least > 0 {
            self.least.insert(added.name.clone(), least);
            ctx.notify(LookAgain);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
