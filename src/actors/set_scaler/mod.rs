//! SetScaler: scales the StatefulSets or Deployments that make the pods, and assigns executor ids
//! to those pods (spec ).
//!
//! [`decision`] decides on each batch; the actor makes the calls and reports their answers to the
//! store. It replaces PodAllocator.

pub mod decision;
mod sizing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Context, Handler, Recipient};
use serde_json::json;
use tokio::sync::watch;

use crate::actors::failures::Spent;
use crate::actors::pod_allocator::messages::{
    KeepFailures, NewLimits, OverBudget, Reserve, StopRequesting,
};
use crate::actors::pod_allocator::notices::{self, log_restart};
use crate::actors::profile_messages::{ProfileAdded, ProfileGone};
use crate::actors::snapshot_store::handle::{StoreHandle, Subscribes};
use crate::actors::snapshot_store::messages::{Next, Round};
use crate::clock::Clock;
use crate::event_recorder::EventRecorder;
use crate::kubernetes::calls::ServerIsBack;
use crate::kubernetes::labels::POD_DELETION_COST;
use crate::kubernetes::pod_template::TemplateError;
use crate::kubernetes::set_template::Sets;
use crate::kubernetes::{Calls, Failure, SetSeen};
use crate::metrics::{Measure, whole};
use crate::model::executor::{LeaveMethod, LeaveReason};
use crate::model::news::{News, TargetChange};
use crate::model::pod::Sighting;
use crate::model::{Epoch, ExecutorId, PodUid};

use decision::{Action, Scaling};

/// The deletion cost of a pod that must be deleted first.
const CHEAPEST: &str = "-2147483647";

/// The interval between rounds at the application's end, which lasts until the sets are gone.
const LOOK_AT_THE_END: Duration = Duration::from_millis(100);

pub struct SetScaler {
    scaling: Scaling,
    sets: Sets,
    calls: Calls,
    clock: Clock,
    store: StoreHandle,
    reserve: Recipient<Reserve>,
    keep_failures: Recipient<KeepFailures>,
    stop: Recipient<OverBudget>,
    left: watch::Sender<u32>,
    event_recorder: Option<EventRecorder>,
    epoch: Epoch,
    stopped: bool,
}

pub struct Wiring {
    pub scaling: Scaling,
    pub sets: Sets,
    pub calls: Calls,
    pub clock: Clock,
    pub store: StoreHandle,
    pub reserve: Recipient<Reserve>,
    pub keep_failures: Recipient<KeepFailures>,
    /// Is informed if the application has failed too often.
    pub stop: Recipient<OverBudget>,
    /// Shows how many calls are in flight or, at the end, how many sets are left.
    pub left: watch::Sender<u32>,
    /// Records Kubernetes Events on the driver's pod; `None` if there is no such pod.
    pub event_recorder: Option<EventRecorder>,
}

/// The set as the answer shows it; `Err(None)` if the sets must be listed again.
type Written = Result<SetSeen, Option<Failure>>;

impl SetScaler {
    pub fn new(wiring: Wiring) -> Self {
        Self {
            scaling: wiring.scaling,
            sets: wiring.sets,
            calls: wiring.calls,
            clock: wiring.clock,
            store: wiring.store,
            reserve: wiring.reserve,
            keep_failures: wiring.keep_failures,
            stop: wiring.stop,
            left: wiring.left,
            event_recorder: wiring.event_recorder,
            epoch: Epoch::default(),
            stopped: false,
        }
    }

    fn carry_out(&mut self, action: Action, record: Option<&PodUid>, ctx: &mut Context<Self>) {
        let calls = self.calls.clone();
        let kind = self.sets.kind();
        match action {
            Action::Look => self.look(ctx),
            Action::Create(profile, replicas) => {
                let set = record.and_then(|record| self.sets.set(&profile, replicas, record));
                let name = format!("{}-{profile}", self.sets.prefix());
                tracing::info!(set = name, replicas, "making the set of a profile");
                let write = async move {
                    let set = set.ok_or(None)?;
                    calls.create_set(kind, &set).await.map_err(Some)
                };
                self.write(name, write, ctx);
            }
            Action::Update(profile, seen) => {
                let patch = record.map(|record| self.sets.patch(&profile, &seen, record));
                tracing::info!(set = seen.name, "bringing a set's template up to date");
                let name = seen.name.clone();
                let write = async move {
                    let patch = patch.ok_or(None)?;
                    let patched = calls.patch_set(kind, &seen.name, &patch).await;
                    patched.map_err(Some)?.ok_or(None)
                };
                self.write(name, write, ctx);
            }
            Action::Scale(seen, replicas) => {
                let (set, before) = (seen.name.clone(), seen.replicas);
                tracing::info!(set, before, replicas, "scaling a set");
                let write = async move {
                    let scaled = calls.scale_set(kind, &seen.name, &seen.uid, replicas).await;
                    match scaled.map_err(Some)? {
                        true => Ok(SetSeen { replicas, ..seen }),
                        false => Err(None),
                    }
                };
                self.write(set, write, ctx);
            }
            Action::Delete(seen) => {
                let name = seen.name.clone();
                tracing::info!(
                    set = name,
                    "deleting a set: no executors of it are wanted again"
                );
                let write = async move {
                    let deleted = calls.delete_set(kind, &seen.name, &seen.uid).await;
                    deleted.map_err(Some)?;
                    // Only a list shows whether it is gone.
                    Err(None)
                };
                self.write(name, write, ctx);
            }
            Action::Number {
                id,
                uid,
                name,
                version,
            } => {
                let patch = self.sets.number_patch(id, &uid, &version.to_string());
                let call = async move { calls.patch_pod(&name, &patch).await };
                self.call(ctx, call, move |this, pod| this.numbered(id, &uid, pod));
            }
            Action::Unused(ids) => self.store.tell(News::Unused { ids }),
            Action::Cheapen { id, uid, name } => self.cheapen(id, &uid, name, ctx),
            Action::Retire(ids, aim, why, how) => self.retire(ids, aim, why, how),
            Action::Reserve(up_to) => {
                self.call(ctx, self.reserve.send(Reserve(up_to)), |this, answer| {
                    this.scaling.reserved(answer.ok().flatten());
                });
            }
            Action::KeepFailures(failures) => self.keep_failures.do_send(KeepFailures(failures)),
            Action::Restarted(entry, reason) => log_restart(&entry, &reason),
            Action::OutOfIds => {
                tracing::error!("all executor ids are used up: no more pods can be given one");
            }
            Action::Spent(spent) => self.spent(spent),
        }
    }

    fn look(&self, ctx: &mut Context<Self>) {
        let (calls, kind) = (self.calls.clone(), self.sets.kind());
        let look = async move { calls.list_sets(kind).await };
        self.call(ctx, look, |this, sets| {
            let now = this.clock.now().tick;
            if let Err(failure) = &sets {
                let error = &*failure.message;
                tracing::debug!(error, "the sets could not be looked at");
            }
            this.scaling.looked(sets.ok(), now);
        });
    }

    fn cheapen(&self, id: ExecutorId, uid: &PodUid, name: Arc<str>, ctx: &mut Context<Self>) {
        let calls = self.calls.clone();
        let patch = json!({"metadata": {
            "uid": uid.as_str(),
            "annotations": {POD_DELETION_COST: CHEAPEST},
        }});
        let call = async move { calls.patch_pod(&name, &patch).await };
        self.call(ctx, call, move |this, pod| {
            this.tell_pod(pod.ok().flatten());
            this.scaling.cheapened(id);
        });
    }

    fn retire(&self, ids: Vec<ExecutorId>, aim: TargetChange, why: LeaveReason, how: LeaveMethod) {
        self.store.tell(News::Retire { ids, aim, why, how });
    }

    fn spent(&mut self, spent: Spent) {
        notices::say(&spent.clone().into(), self.event_recorder.as_ref());
        match spent {
            Spent::Application(why) => {
                // There may be no further round, and the record needs the failures before the end.
                if let Some(failures) = self.scaling.keep_failures() {
                    self.keep_failures.do_send(KeepFailures(failures));
                }
                self.stop.do_send(OverBudget { why });
            }
            Spent::Profile(profile, why) => self.store.tell(News::Failed { profile, why }),
        }
    }

    /// Makes a call about a set. There is at most one per set.
    fn write(
        &self,
        name: String,
        call: impl Future<Output = Written> + 'static,
        ctx: &mut Context<Self>,
    ) {
        self.call(ctx, call, move |this, answer| {
            let now = this.clock.now().tick;
            let failed_before = this.scaling.failures_of(&name);
            let set = name.as_str();
            match &answer {
                Err(Some(failure)) if failed_before == 0 => {
                    let error = &*failure.explained();
                    tracing::warn!(
                        set,
                        error,
                        "degraded: the API server refuses what a set needs"
                    );
                }
                Ok(_) if failed_before > 0 => {
                    tracing::info!(set, "recovered: the API server accepts what a set needs");
                }
                _ => {}
            }
            this.scaling.written(set, answer.map_err(|_| ()), now);
        });
    }

    fn numbered(&mut self, id: ExecutorId, uid: &PodUid, pod: Result<Option<Sighting>, Failure>) {
        if let Err(failure) = &pod {
            let (executor, error) = (id.get(), &*failure.message);
            tracing::debug!(
                executor,
                error,
                "a pod was not given its id, it is tried again"
            );
        }
        let succeeded = pod.is_ok();
        self.tell_pod(pod.ok().flatten());
        self.scaling.numbered(uid, succeeded, self.clock.now().tick);
    }

    /// A pod in an answer is news like any other (spec E-8).
    fn tell_pod(&self, pod: Option<Sighting>) {
        let epoch = self.epoch;
        if let Some(pod) = pod {
            self.store.tell(News::Seen { pod, epoch });
        }
    }
}

impl Actor for SetScaler {
    type Context = Context<Self>;
}

impl Subscribes for SetScaler {
    fn store(&self) -> &StoreHandle {
        &self.store
    }
}

impl Handler<Round> for SetScaler {
    type Result = Next;

    fn handle(&mut self, Round(batch): Round, ctx: &mut Self::Context) -> Next {
        self.epoch = batch.latest().epoch;
        if !self.stopped {
            let actions = self.scaling.decide(&batch, self.clock.now());
            let record = batch.latest().record.as_ref();
            for action in actions {
                self.carry_out(action, record, ctx);
            }
        }
        self.left.send_replace(self.scaling.left());
        // Sets are listed, not watched.
        let wake = (self.scaling.is_ending()).then(|| self.clock.now().tick + LOOK_AT_THE_END);
        Next { wake }
    }
}

impl Handler<Measure> for SetScaler {
    type Result = ();

    fn handle(&mut self, Measure(metrics): Measure, _: &mut Self::Context) {
        let depth = metrics.depths.of(["requests-in-flight".into()]);
        depth.set(whole(self.scaling.in_flight()));
        let now = self.clock.now().tick;
        metrics.show_failures(self.scaling.failures().counted(now));
    }
}

impl Handler<ProfileAdded> for SetScaler {
    type Result = Result<(), TemplateError>;

    fn handle(&mut self, ProfileAdded(added): ProfileAdded, _: &mut Self::Context) -> Self::Result {
        let name = added.name.clone();
        self.sets.add_profile(name.clone(), added.spec.clone())?;
        let hash = self.sets.hash(&name).unwrap_or_default().to_owned();
        if added.kept.is_none() {
            self.scaling.failures().add_configured(name.clone());
        }
        self.scaling.add_profile(name, hash);
        Ok(())
    }
}

impl Handler<ProfileGone> for SetScaler {
    type Result = bool;

    /// Nothing is left once the set is gone.
    fn handle(&mut self, profile: ProfileGone, _: &mut Self::Context) -> bool {
        let gone = self.scaling.remove_profile(&profile.name);
        if gone {
            self.sets.remove_profile(&profile.name);
        }
        gone
    }
}

impl Handler<ServerIsBack> for SetScaler {
    type Result = ();

    fn handle(&mut self, _: ServerIsBack, _: &mut Self::Context) {
        self.scaling.server_is_back(self.clock.now().tick);
        self.store.ask();
    }
}

impl Handler<NewLimits> for SetScaler {
    type Result = ();

    fn handle(&mut self, new: NewLimits, _: &mut Self::Context) {
        self.scaling.reconfigure(new.look_every, new.max_failures);
        self.store.ask();
    }
}

impl Handler<StopRequesting> for SetScaler {
    type Result = ();

    fn handle(&mut self, stop: StopRequesting, _: &mut Self::Context) {
        if stop.delete_sets {
            self.scaling.end();
            self.store.ask();
        } else {
            self.stopped = true;
        }
        self.left.send_replace(self.scaling.left());
    }
}
