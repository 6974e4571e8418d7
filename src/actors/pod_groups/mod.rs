//! GroupKeeper: maintains the PodGroups that Volcano reads, one for each profile that is a gang
//! (spec A-82).
//!
//! It checks them periodically and when a profile is added, creates missing ones and corrects others.

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
use crate::kubernetes::calls::{PodGroupSeen, ServerIsBack};
use crate::kubernetes::pod_template::gangs::group_name;
use crate::kubernetes::pod_template::{TemplateError, owner_reference};
use crate::kubernetes::{Calls, Failure, Kind};
use crate::model::{PodUid, ProfileName};
use boatswain_agent::backoff::Backoff;

const LOOK_EVERY: Duration = Duration::from_secs(300);

/// The interval between checks for the application record.
const WAIT: Duration = Duration::from_secs(1);

const TRIES: Backoff = Backoff {
    initial: Duration::from_millis(500),
    max: Duration::from_secs(60),
};

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

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Todo {
    Nothing,
    Create(Value),
    /// Apply this merge patch.
    Patch(Value),
}

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

enum Looked {
    /// All PodGroups are correct.
    InOrder,
    /// The application record does not exist at the moment.
    TooEarly,
    /// The cluster does not have this kind.
    NotInstalled,
}

#[derive(Message)]
#[rtype(result = "()")]
struct LookAgain;

impl GroupKeeper {
    /// PodGroups with these minimum numbers of executors by profile. A profile with 0 gets none.
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
                    tracing::info!("recovered: the PodGroups are correct");
                }
                LOOK_EVERY
            }
            Ok(Looked::TooEarly) => WAIT,
            Ok(Looked::NotInstalled) => self.failed(
                "the cluster does not have the kind PodGroup of scheduling.volcano.sh",
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

    /// Logs the first failure, and returns the delay until the next check.
    fn failed(&mut self, error: &str, hint: &str) -> Duration {
        self.failures += 1;
        if self.failures == 1 {
            tracing::warn!(
                error,
                hint,
                "degraded: the PodGroups for Volcano are out of date, and executors may stay pending"
            );
            if let Some(event_recorder) = &self.event_recorder {
                event_recorder.do_send(RecordEvent(Note {
                    reason: "PodGroupMissing",
                    about: self.prefix.clone(),
                    text: format!("The PodGroups for Volcano are out of date: {error}: {hint}"),
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
        // A check in flight may not know the newest profile. This one replaces it.
        if let Some(look) = self.look.take() {
            ctx.cancel_future(look);
        }
        let (calls, store) = (self.calls.clone(), self.store.clone());
        let (prefix, least) = (self.prefix.clone(), self.least.clone());
        let look = async move {
            let snapshot = store.send(LookNow).await.ok();
            // The PodGroups are owned by the record, so they wait for it (spec K-2).
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

impl Handler<ServerIsBack> for GroupKeeper {
    type Result = ();

    /// The end of an outage ends the backoff (spec W-8).
    fn handle(&mut self, _: ServerIsBack, ctx: &mut Self::Context) {
        if self.failures > 0 {
            // The first failure is reported already.
            self.failures = 1;
            ctx.notify(LookAgain);
        }
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
