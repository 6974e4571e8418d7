use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, AsyncContext, Context, Handler, ResponseActFuture, ResponseFuture,
    WrapFuture,
};
use futures::future::join_all;
use jiff::Timestamp;
use tokio::sync::oneshot;

use super::RecordKeeper;
use super::keeping::Effect;
use super::messages::{DeleteRecord, FinishRecord, Flush, RecordProfiles};
use super::profile_objects::ProfileObjects;
use crate::actors::executor_registry::messages::ReadRecord;
use crate::actors::lifecycle_manager::messages::Report;
use crate::actors::pod_allocator::crash_loop::BackoffState;
use crate::actors::pod_allocator::messages::{KeepBackoffs, KeepFailures, Reserve};
use crate::actors::profile_messages::{ProfileAdded, ProfileGone};
use crate::actors::snapshot_store::messages::{Look, LookNow, Next, Round};
use crate::kubernetes::calls::ServerIsBack;
use crate::kubernetes::pod_template::TemplateError;
use crate::kubernetes::record::{Record, SavedBackoff};
use crate::model::failures::KeptBudget;
use crate::model::recorded_end::RecordedEnd;
use crate::model::{Ending, ExecutorId, Now};

impl Actor for RecordKeeper {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.check_what_is_owned();
        self.pump(ctx);
    }
}

impl Handler<Round> for RecordKeeper {
    type Result = Next;

    fn handle(&mut self, Round(batch): Round, ctx: &mut Self::Context) -> Next {
        let before = std::mem::replace(&mut self.latest, batch.latest().clone());
        if self.latest.epoch != before.epoch {
            self.keeping.begin_epoch(self.latest.epoch);
        }
        if self.latest.record.is_none() && before.record.is_some() {
            self.keeping.check();
        }
        if let Some(later) = self.latest.later {
            self.keeping.found_later_driver(later);
        }
        self.keep_targets(batch.latest());
        self.keep_hold(batch.latest());
        let changed = batch.changed_executors();
        if !changed.is_empty() {
            self.stale = true;
            self.keeping.gather(self.clock.now().tick);
        }
        // Also without a record: an executor that ends meanwhile must not delay the next record.
        let record = self.keeping.uid();
        let mut is_unsure = false;
        for id in changed {
            let entry = self.latest.entry(id).map(AsRef::as_ref);
            if !self.latest.of_sets {
                is_unsure |= self.owners.observe(id, entry, record);
            }
            self.made.observe(id, entry);
        }
        if is_unsure {
            self.keeping.check();
        }
        self.pump(ctx);
        Next::default()
    }
}

impl Handler<ServerIsBack> for RecordKeeper {
    type Result = ();

    fn handle(&mut self, _: ServerIsBack, ctx: &mut Self::Context) {
        let now = self.clock.now().tick;
        self.cancel_overtaken(ctx);
        self.keeping.server_is_back();
        self.watch_anew(ctx);
        self.check_what_is_owned();
        self.owned_resources.server_is_back(now);
        self.objects.iter().for_each(ProfileObjects::server_is_back);
        self.pump(ctx);
    }
}

impl Handler<Reserve> for RecordKeeper {
    type Result = ResponseFuture<Option<ExecutorId>>;

    fn handle(&mut self, Reserve(up_to): Reserve, ctx: &mut Self::Context) -> Self::Result {
        let (answer, reserved) = oneshot::channel();
        self.reservations.push((up_to, answer));
        self.keeping
            .change_now(|record| record.reserved = record.reserved.max(Some(up_to)));
        self.pump(ctx);
        Box::pin(async move { reserved.await.ok() })
    }
}

impl Handler<KeepBackoffs> for RecordKeeper {
    type Result = ();

    fn handle(&mut self, KeepBackoffs(kept): KeepBackoffs, ctx: &mut Self::Context) {
        let now = self.clock.now();
        let save = |kept: BackoffState| SavedBackoff {
            step: kept.step,
            until: wall_deadline(now, kept.remaining),
            trial_ms: (kept.trial).and_then(|trial| u64::try_from(trial.as_millis()).ok()),
        };
        let backoffs = kept
            .into_iter()
            .map(|(profile, kept)| (profile, save(kept)))
            .collect();
        self.change(|record| record.backoffs = backoffs, ctx);
    }
}

impl Handler<KeepFailures> for RecordKeeper {
    type Result = ();

    fn handle(&mut self, KeepFailures(failures): KeepFailures, ctx: &mut Self::Context) {
        let now = self.clock.now().tick;
        self.keeping.set_failures(failures, now);
        self.pump(ctx);
    }
}

impl Handler<Report> for RecordKeeper {
    type Result = ();

    fn handle(&mut self, Report(ending): Report, ctx: &mut Self::Context) {
        let now = self.clock.now();
        let Ending { entry, reason } = &ending;
        if self.reports.insert(entry.id, Arc::clone(reason), now.tick) {
            (self.keeping).add_end(RecordedEnd::new(&ending, now.wall), now.tick);
        }
        self.pump(ctx);
    }
}

impl Handler<ProfileAdded> for RecordKeeper {
    type Result = Result<(), TemplateError>;

    fn handle(
        &mut self,
        ProfileAdded(added): ProfileAdded,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        for objects in &self.objects {
            objects.add_profile(Arc::clone(&added));
        }
        let name = added.name.clone();
        let Some(kept) = added.kept.clone() else {
            self.forget_targets(&[name]);
            return Ok(());
        };
        self.keeping.change_now(|record| {
            match kept.proof {
                Some(proof) => record.profile_proofs.insert(name.clone(), proof),
                None => record.profile_proofs.remove(&name),
            };
            record.profiles.insert(name, kept.described);
        });
        self.pump(ctx);
        Ok(())
    }
}

impl Handler<RecordProfiles> for RecordKeeper {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, change: RecordProfiles, ctx: &mut Self::Context) -> Self::Result {
        match change {
            RecordProfiles::Configured(profiles) => {
                self.forget_targets(&profiles);
                Box::pin(async {})
            }
            RecordProfiles::Removing(name) => {
                let removing = |record: &mut Record| {
                    record.removing.insert(name);
                };
                self.recorded(removing, ctx)
            }
            RecordProfiles::Reset(name) => {
                let reset = |record: &mut Record| {
                    let budgets = &mut record.failures.profiles;
                    let is_reset = |budget: &KeptBudget| budget.failed.is_some();
                    if budgets.get(&name).is_some_and(is_reset) {
                        budgets.remove(&name);
                    } else if let Some(budget) = budgets.get_mut(&name) {
                        budget.memory_limit = None;
                    }
                };
                self.recorded(reset, ctx)
            }
        }
    }
}

impl Handler<ProfileGone> for RecordKeeper {
    type Result = ResponseActFuture<Self, bool>;

    /// The record keeps the profile until nothing else of it is left.
    fn handle(&mut self, profile: ProfileGone, _: &mut Self::Context) -> Self::Result {
        let gone = self
            .objects
            .iter()
            .map(|one| one.remove_profile(profile.clone()));
        let gone = join_all(gone).into_actor(self);
        Box::pin(gone.map(move |gone, this, ctx| {
            let is_gone = gone.into_iter().all(|gone| gone);
            if is_gone {
                (this.keeping).change_now(|record| record.remove_profile(&profile.name));
                this.pump(ctx);
            }
            is_gone
        }))
    }
}

impl Handler<Flush> for RecordKeeper {
    type Result = ResponseFuture<bool>;

    fn handle(&mut self, _: Flush, ctx: &mut Self::Context) -> Self::Result {
        let written = self.written(|this, done| this.impatient.push(done), ctx);
        Box::pin(async move { written.await.is_ok() })
    }
}

impl RecordKeeper {
    /// Changes the record. Answered when it is written.
    fn recorded(
        &mut self,
        change: impl FnOnce(&mut Record),
        ctx: &mut Context<Self>,
    ) -> ResponseFuture<()> {
        self.keeping.change_now(change);
        let written = self.written(|this, done| this.flushes.push(done), ctx);
        Box::pin(async move { written.await.unwrap_or_default() })
    }

    /// Writes pending changes. `wait` keeps whom to answer when they are written.
    fn written(
        &mut self,
        wait: impl FnOnce(&mut Self, oneshot::Sender<()>) + 'static,
        ctx: &mut Context<Self>,
    ) -> oneshot::Receiver<()> {
        let (done, written) = oneshot::channel();
        // Includes what the ledger knows and no batch has delivered yet.
        let look = self.store.send(LookNow).into_actor(self);
        ctx.spawn(look.map(|look, this, ctx| {
            wait(this, done);
            if let Ok(Look(snapshot)) = look {
                this.keep_targets(&snapshot);
                this.keep_hold(&snapshot);
            }
            this.gather();
            this.keeping.change_now(|_| ());
            if this.keeping.is_written() {
                this.carry_out(vec![Effect::Flushed]);
            }
            this.pump(ctx);
        }));
        written
    }
}

impl Handler<ReadRecord> for RecordKeeper {
    type Result = ResponseFuture<bool>;

    fn handle(&mut self, _: ReadRecord, ctx: &mut Self::Context) -> Self::Result {
        let (done, is_own) = oneshot::channel();
        self.reads.push(done);
        self.keeping.check();
        self.pump(ctx);
        Box::pin(async move { is_own.await.is_ok() })
    }
}

impl Handler<FinishRecord> for RecordKeeper {
    type Result = ResponseFuture<()>;

    fn handle(
        &mut self,
        FinishRecord { code, why }: FinishRecord,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        let change = |record: &mut Record| {
            (record.finished, record.finished_why) = (Some(code), why);
        };
        self.recorded(change, ctx)
    }
}

impl Handler<DeleteRecord> for RecordKeeper {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: DeleteRecord, ctx: &mut Self::Context) -> Self::Result {
        let (done, deleted) = oneshot::channel();
        self.deletions.push(done);
        self.keeping.delete();
        if self.keeping.uid().is_none() {
            self.carry_out(vec![Effect::Deleted]);
        }
        self.pump(ctx);
        Box::pin(async move { deleted.await.unwrap_or_default() })
    }
}

/// The end of a backoff as wall-clock time, for a successor.
fn wall_deadline(now: Now, remaining: Duration) -> Timestamp {
    now.wall.checked_add(remaining).unwrap_or(now.wall)
}
