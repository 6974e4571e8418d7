//! RecordKeeper: what Kubernetes cannot tell a successor is kept in the application record (spec O-30), and whoever
//! changes it is noticed (spec W-7).
//!
//! Gets batches like every subscriber, has [`keeping`] decide and makes the calls. It also sees to it that every
//! living executor's pod is owned by the record that is (spec K-2).

pub mod keeping;
pub mod messages;
pub mod owners;

use std::time::Duration;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, Recipient,
    ResponseFuture, StreamHandler, WrapFuture,
};
use futures::StreamExt;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::driver_backend::messages::KeepTargets;
use crate::kubernetes::calls::ConfigMap;
use crate::kubernetes::pod_template::owner_reference;
use crate::kubernetes::record::{SavedBackoff, record_name};
use crate::kubernetes::{Calls, Deleted, Failure, WatchLine};
use crate::model::backoff::Backoff;
use crate::model::news::News;
use crate::model::{Epoch, ExecutorId, IdSet, Now, PodUid, Snapshot, Tick};
use crate::pod_allocator::messages::{Keep, Reserve};
use crate::snapshot_store::SnapshotStore;
use crate::snapshot_store::delivery::Timing;
use crate::snapshot_store::messages::{Decided, Round, Subscribe, Subscriber, Tell};

use keeping::{Answer, Effect, Keeping, Op};
use messages::{DeleteRecord, DriverIsOver, Flush};
use owners::{Adoption, Owners};

/// The server ends the watch on the record after this long; then the record is read, and watched from there.
const WATCH_SECONDS: u32 = 300;

/// A watch that the server has not ended by then is cut.
const WATCH_DEADLINE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);

/// Between watches that end at once; one that lasted this long begins the count anew.
const REWATCH: Backoff = Backoff {
    initial: Duration::from_secs(1),
    max: Duration::from_secs(30),
};

/// Between tries to give executors to a new record.
const ADOPT_AGAIN: Duration = Duration::from_secs(1);

/// Keeps the application record.
pub struct RecordKeeper {
    keeping: Keeping,
    owners: Owners,
    calls: Calls,
    prefix: String,
    clock: Clock,
    timing: Timing,
    store: Addr<SnapshotStore>,
    over: Recipient<DriverIsOver>,
    latest: Snapshot,
    /// Executors changed since the record's intervals were made from a snapshot.
    stale: bool,
    /// The record was seen, but not all of the living are given to it yet.
    unconfirmed: Option<(PodUid, Epoch)>,
    reservations: Vec<(ExecutorId, oneshot::Sender<ExecutorId>)>,
    flushes: Vec<oneshot::Sender<()>>,
    deletions: Vec<oneshot::Sender<()>>,
    armed: Option<Tick>,
    watch: Watch,
}

/// The watch on the record.
#[derive(Debug, Default)]
struct Watch {
    open: bool,
    opened: Tick,
    failures: u32,
    not_before: Tick,
}

/// What RecordKeeper is made of.
pub struct Wiring {
    /// The record as the start has written it.
    pub keeping: Keeping,
    /// The API server.
    pub calls: Calls,
    /// The prefix of all that boatswain makes.
    pub prefix: String,
    /// The time.
    pub clock: Clock,
    /// When batches come.
    pub timing: Timing,
    /// Where news goes.
    pub store: Addr<SnapshotStore>,
    /// Who hears that this driver is over.
    pub over: Recipient<DriverIsOver>,
}

/// The time of a next call has come.
#[derive(Message)]
#[rtype(result = "()")]
struct Wake(Tick);

impl RecordKeeper {
    /// With the record as it is.
    pub fn new(wiring: Wiring) -> Self {
        let Wiring {
            keeping,
            calls,
            prefix,
            clock,
            timing,
            store,
            over,
        } = wiring;
        Self {
            keeping,
            owners: Owners::default(),
            calls,
            prefix,
            clock,
            timing,
            store,
            over,
            latest: Snapshot::default(),
            stale: false,
            unconfirmed: None,
            reservations: Vec::new(),
            flushes: Vec::new(),
            deletions: Vec::new(),
            armed: None,
            watch: Watch::default(),
        }
    }

    /// Makes the next call, if one is to be made, and arms a timer for the one after.
    fn pump(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now();
        if self.stale && self.keeping.wants_intervals(now.tick) {
            self.stale = false;
            self.gather();
        }
        if let Some(op) = self.keeping.next(now.tick) {
            self.call(op, ctx);
        }
        self.adopt(ctx);
        self.rewatch(now.tick, ctx);
        let watch_at = (!self.watch.open).then_some(self.watch.not_before);
        let next = [self.keeping.next_at(), watch_at]
            .into_iter()
            .flatten()
            .filter(|at| *at > now.tick);
        if let Some(at) = next.min()
            && self.armed != Some(at)
        {
            self.armed = Some(at);
            ctx.notify_later(Wake(at), now.tick.until(at));
        }
    }

    /// Puts into the record what the latest snapshot says of ids, where it knows them all.
    fn gather(&mut self) {
        if let Some((ended, bound)) = intervals(&self.latest) {
            self.keeping.set_intervals(ended, bound);
        }
    }

    fn call(&self, op: Op, ctx: &mut Context<Self>) {
        let (calls, name) = (self.calls.clone(), record_name(&self.prefix));
        let call =
            async move {
                let answer =
                    match op {
                        Op::Get => calls.get_config_map(&name).await.map(Answer::Got),
                        Op::Create(map) => calls.create_config_map(&map).await.map(Answer::Written),
                        Op::Replace(map) => calls
                            .replace_config_map(&name, &map)
                            .await
                            .map(Answer::Written),
                        Op::Delete(uid) => calls.delete_config_map(&name, &uid).await.map(
                            |deleted| match deleted {
                                Deleted::Accepted(_) | Deleted::NothingThere => Answer::Deleted,
                            },
                        ),
                    };
                answer.unwrap_or_else(Answer::Failed)
            };
        ctx.spawn(call.into_actor(self).map(|answer, this, ctx| {
            let effects = this.keeping.answered(answer, this.clock.now().tick);
            this.carry_out(effects);
            this.pump(ctx);
        }));
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Seen { uid, epoch } => self.record_seen(uid, epoch),
                Effect::Lost => {
                    tracing::warn!(
                        "the application record is gone: nothing is requested until it is made anew"
                    );
                    self.store.do_send(Tell(News::RecordLost));
                }
                Effect::Reserved(up_to) => {
                    let waiting = std::mem::take(&mut self.reservations);
                    let (done, left): (Vec<_>, Vec<_>) = waiting
                        .into_iter()
                        .partition(|(wanted, _)| *wanted <= up_to);
                    self.reservations = left;
                    for (_, answer) in done {
                        // Whoever asked may be gone.
                        let _ = answer.send(up_to);
                    }
                }
                Effect::Flushed => answer_all(&mut self.flushes),
                Effect::Deleted => answer_all(&mut self.deletions),
                Effect::Over(over) => self.over.do_send(DriverIsOver(over)),
                Effect::Troubled(error) => {
                    tracing::warn!(%error, "the application record cannot be read or written: trying again");
                }
                Effect::Recovered => {
                    tracing::info!("the application record can be read and written again")
                }
            }
        }
    }

    fn record_seen(&mut self, uid: PodUid, epoch: Epoch) {
        let known = self.latest.record.as_ref() == Some(&uid) && self.latest.epoch == epoch;
        if known {
            return;
        }
        for (id, entry) in &self.latest.entries {
            self.owners.see(*id, Some(entry), &uid);
        }
        self.unconfirmed = Some((uid, epoch));
        self.confirm();
    }

    /// Tells the store that the record is there, once all the living are given to it (spec K-2).
    fn confirm(&mut self) {
        if self.owners.is_settled()
            && let Some((uid, epoch)) = self.unconfirmed.take()
        {
            self.store.do_send(Tell(News::RecordSeen { uid, epoch }));
        }
    }

    /// Gives executors to the record.
    fn adopt(&mut self, ctx: &mut Context<Self>) {
        let Some(record) = self.keeping.uid() else {
            return;
        };
        let owner = owner_reference(&self.prefix, record);
        let latest = &self.latest;
        for Adoption { id, name, uid } in self.owners.next(|id| latest.entry(id)) {
            let (calls, epoch) = (self.calls.clone(), self.latest.epoch);
            let patch =
                json!({"metadata": {"uid": uid.as_str(), "ownerReferences": [owner.clone()]}});
            let call = async move { calls.patch_pod(&name, &patch).await };
            ctx.spawn(call.into_actor(self).map(move |answer, this, ctx| {
                let succeeded = answer.is_ok();
                match answer {
                    Ok(Some(pod)) => this.store.do_send(Tell(News::Seen { pod, epoch })),
                    Ok(None) => {}
                    Err(failure) => {
                        let (executor, error) = (id.get(), failure.message);
                        tracing::warn!(executor, %error, "its pod could not be given to the application record");
                    }
                }
                this.owners.answered(id, succeeded);
                this.confirm();
                let again = this.clock.now().tick + if succeeded { Duration::ZERO } else { ADOPT_AGAIN };
                ctx.notify_later(Wake(again), this.clock.now().tick.until(again));
                this.armed = Some(again);
            }));
        }
    }

    /// Watches the record from the version that is known, where it is not watched (spec W-7).
    fn rewatch(&mut self, now: Tick, ctx: &mut Context<Self>) {
        if self.watch.open || now < self.watch.not_before || !self.keeping.is_settled() {
            return;
        }
        let Some(version) = self.keeping.version().cloned() else {
            return;
        };
        (self.watch.open, self.watch.opened) = (true, now);
        let (calls, name) = (self.calls.clone(), record_name(&self.prefix));
        let open = async move {
            calls
                .watch_config_map(&name, Some(&version), WATCH_SECONDS)
                .await
        };
        ctx.spawn(open.into_actor(self).map(|opened, this, ctx| match opened {
            Ok(lines) => {
                let deadline = tokio::time::sleep(WATCH_DEADLINE);
                ctx.add_stream(lines.take_until(Box::pin(deadline)));
            }
            Err(failure) => {
                let error = &failure.message;
                tracing::debug!(%error, "the watch on the application record did not begin");
                this.watch_ended(ctx);
            }
        }));
    }

    fn watch_ended(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now().tick;
        let lasted = now.since(self.watch.opened) >= REWATCH.max;
        self.watch.failures = if lasted {
            1
        } else {
            self.watch.failures.saturating_add(1)
        };
        self.watch.open = false;
        self.watch.not_before = now + REWATCH.delay(self.watch.failures);
        self.keeping.check();
        self.pump(ctx);
    }

    fn change(
        &mut self,
        change: impl FnOnce(&mut crate::kubernetes::Record),
        ctx: &mut Context<Self>,
    ) {
        self.keeping.change(change, self.clock.now().tick);
        self.pump(ctx);
    }
}

fn answer_all(waiting: &mut Vec<oneshot::Sender<()>>) {
    for done in waiting.drain(..) {
        // Whoever asked may be gone.
        let _ = done.send(());
    }
}

/// The ids that have ended, and those that are bound to a pod and have not. Before adoption nobody knows: then the
/// record keeps what earlier incarnations wrote (spec O-30, O-31).
fn intervals(snapshot: &Snapshot) -> Option<(IdSet, IdSet)> {
    let bound = (snapshot.entries.values())
        .filter(|entry| entry.uid().is_some() && !entry.is_gone())
        .map(|entry| entry.id)
        .collect();
    (snapshot.adopted).then(|| (snapshot.ended.clone(), bound))
}

/// When a backoff ends, by the wall clock, for a successor.
fn wall_deadline(now: Now, remaining: Duration) -> Timestamp {
    now.wall.checked_add(remaining).unwrap_or(now.wall)
}

impl Actor for RecordKeeper {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.store.do_send(Subscribe {
            subscriber: Subscriber::Record,
            timing: self.timing,
            recipient: ctx.address().recipient(),
        });
        self.pump(ctx);
    }
}

impl Handler<Round> for RecordKeeper {
    type Result = ();

    fn handle(&mut self, Round(batch): Round, ctx: &mut Self::Context) {
        let before = std::mem::replace(&mut self.latest, batch.latest().clone());
        if self.latest.epoch != before.epoch {
            self.keeping.begin_epoch(self.latest.epoch);
        }
        if self.latest.record.is_none() && before.record.is_some() {
            self.keeping.check();
        }
        let changed = batch.changed_executors();
        if !changed.is_empty() {
            self.stale = true;
            self.keeping.gather(self.clock.now().tick);
        }
        if let Some(record) = self.keeping.uid() {
            for id in changed {
                self.owners
                    .see(id, self.latest.entry(id).map(AsRef::as_ref), record);
            }
        }
        self.pump(ctx);
        self.store.do_send(Decided(Subscriber::Record));
    }
}

impl Handler<Wake> for RecordKeeper {
    type Result = ();

    fn handle(&mut self, Wake(at): Wake, ctx: &mut Self::Context) {
        if self.armed == Some(at) {
            self.armed = None;
            self.pump(ctx);
        }
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

impl Handler<Keep> for RecordKeeper {
    type Result = ();

    fn handle(&mut self, Keep(kept): Keep, ctx: &mut Self::Context) {
        let now = self.clock.now();
        let save = |kept: crate::pod_allocator::crash_loop::Kept| SavedBackoff {
            step: kept.step,
            until: wall_deadline(now, kept.remaining),
        };
        let backoffs = kept
            .into_iter()
            .map(|(profile, kept)| (profile, save(kept)))
            .collect();
        self.change(|record| record.backoffs = backoffs, ctx);
    }
}

impl Handler<KeepTargets> for RecordKeeper {
    type Result = ();

    fn handle(&mut self, KeepTargets(targets): KeepTargets, ctx: &mut Self::Context) {
        self.change(|record| record.targets.extend(targets), ctx);
    }
}

impl Handler<Flush> for RecordKeeper {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, _: Flush, ctx: &mut Self::Context) -> Self::Result {
        let (done, flushed) = oneshot::channel();
        self.flushes.push(done);
        self.gather();
        self.keeping.change_now(|_| ());
        if self.keeping.is_written() {
            self.carry_out(vec![Effect::Flushed]);
        }
        self.pump(ctx);
        Box::pin(async move { flushed.await.unwrap_or_default() })
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

impl StreamHandler<Result<WatchLine<ConfigMap>, Failure>> for RecordKeeper {
    fn handle(&mut self, line: Result<WatchLine<ConfigMap>, Failure>, ctx: &mut Self::Context) {
        let effects = match line {
            Ok(WatchLine::Seen(map)) => self.keeping.seen(&map),
            Ok(WatchLine::Deleted(map)) => self.keeping.seen_deleted(&map.uid),
            Ok(WatchLine::Bookmark(_) | WatchLine::UnknownType(_)) => Vec::new(),
            // The stream ends after these by itself, or goes on; the record is read in any case.
            Ok(WatchLine::Expired | WatchLine::Error(_)) | Err(_) => {
                self.keeping.check();
                Vec::new()
            }
        };
        self.carry_out(effects);
        self.pump(ctx);
    }

    fn finished(&mut self, ctx: &mut Self::Context) {
        self.watch_ended(ctx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-30, O-31, L-1
    #[test]
    fn a_driver_that_ends_before_it_has_adopted_leaves_what_the_record_says_of_executors() {
        let mut snapshot = Snapshot::default();
        assert_eq!(intervals(&snapshot), None);
        snapshot.adopted = true;
        assert_eq!(intervals(&snapshot), Some((IdSet::new(), IdSet::new())));
    }
}
