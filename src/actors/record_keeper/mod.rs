//! RecordKeeper: keeps in the application record what a successor cannot learn from Kubernetes
//! (spec O-30), and detects changes by other drivers (spec W-7).
//!
//! A subscriber: [`keeping`] decides, the actor makes the calls. The actor also makes the current
//! record the owner of every living executor's pod (spec K-13).

mod handlers;
pub mod keeping;
pub mod messages;
pub mod owned_resources;
pub mod owners;
pub mod profile_objects;
mod record_watch;
mod reports;
mod watching;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::{ActorFutureExt, Addr, AsyncContext, Context, SpawnHandle, WrapFuture};
use imbl::OrdMap;
use serde_json::json;
use tokio::sync::{mpsc, oneshot, watch};

use crate::actors::snapshot_store::SnapshotStore;
use crate::actors::snapshot_store::messages::Tell;
use crate::clock::Clock;
use crate::kubernetes::pod_template::owner_reference;
use crate::kubernetes::record::{Held, Record, record_name};
use crate::kubernetes::{Calls, Deleted};
use crate::model::made::CreatedCount;
use crate::model::news::News;
use crate::model::snapshot::Target;
use crate::model::{Epoch, ExecutorId, IdSet, LossReason, PodUid, ProfileName, Snapshot, Tick};

use keeping::{Answer, Effect, Keeping, Op, Over};
use owned_resources::OwnedResources;
use owners::{Adoption, Owners};
use profile_objects::ProfileObjects;
use reports::{PATIENCE, Reports};
use watching::Watching;

/// The interval between attempts to change the owner of pods.
const ADOPT_AGAIN: Duration = Duration::from_secs(1);

/// A call that is this old when the API server is back was sent before its first answer.
const OVERTAKEN: Duration = Duration::from_secs(1);

pub struct RecordKeeper {
    keeping: Keeping,
    owners: Owners,
    owned_resources: OwnedResources,
    objects: Vec<ProfileObjects>,
    calls: Calls,
    prefix: String,
    clock: Clock,
    store: Addr<SnapshotStore>,
    over: mpsc::UnboundedSender<Over>,
    latest: Snapshot,
    /// The targets in the last batch.
    targets: OrdMap<ProfileName, Target>,
    /// The hold in the last batch, or at the start.
    held: Option<Held>,
    /// The number of executors created so far.
    made: CreatedCount,
    /// Whether executors have changed since the record's intervals were computed.
    stale: bool,
    /// A record that was seen while some pods have another owner.
    unconfirmed: Option<(PodUid, Epoch)>,
    reservations: Vec<(ExecutorId, oneshot::Sender<ExecutorId>)>,
    reports: Reports,
    flushes: Vec<oneshot::Sender<()>>,
    /// As `flushes`, of those who do not wait for a missing right.
    impatient: Vec<oneshot::Sender<()>>,
    /// Who waits for a call about the record that begins from now on.
    reads: Vec<oneshot::Sender<()>>,
    deletions: Vec<oneshot::Sender<()>>,
    armed: Option<Tick>,
    watching: Watching,
    /// The watch that is open or being opened.
    watch: Option<SpawnHandle>,
    /// The call about the record that is in flight, and since when.
    in_flight: Option<(SpawnHandle, Tick)>,
    /// Shows whether the record is known to be deleted.
    is_gone: watch::Sender<bool>,
}

pub struct Wiring {
    /// The record as the start has written it.
    pub keeping: Keeping,
    /// The hold with which the ledger begins. The record has it, if only with the targets of before.
    pub held: Option<Held>,
    pub owned_resources: OwnedResources,
    /// What else the record owns, one for each kind.
    pub objects: Vec<ProfileObjects>,
    pub calls: Calls,
    /// The prefix of all object names.
    pub prefix: String,
    pub clock: Clock,
    pub store: Addr<SnapshotStore>,
    /// Is informed when this driver must end.
    pub over: mpsc::UnboundedSender<Over>,
}

impl RecordKeeper {
    /// The other part shows whether the record is known to be deleted, and not made anew yet.
    pub fn new(wiring: Wiring) -> (Self, watch::Receiver<bool>) {
        let (is_gone, shown) = watch::channel(false);
        let keeper = Self {
            made: wiring.keeping.made(),
            keeping: wiring.keeping,
            owners: Owners::default(),
            owned_resources: wiring.owned_resources,
            objects: wiring.objects,
            calls: wiring.calls,
            prefix: wiring.prefix,
            clock: wiring.clock,
            store: wiring.store,
            over: wiring.over,
            latest: Snapshot::default(),
            targets: OrdMap::new(),
            held: wiring.held,
            stale: false,
            unconfirmed: None,
            reservations: Vec::new(),
            reports: Reports::default(),
            flushes: Vec::new(),
            impatient: Vec::new(),
            reads: Vec::new(),
            deletions: Vec::new(),
            armed: None,
            watching: Watching::default(),
            watch: None,
            in_flight: None,
            is_gone,
        };
        (keeper, shown)
    }

    /// Makes the next call if it is due, and arms a timer for the following one.
    fn pump(&mut self, ctx: &mut Context<Self>) {
        let is_gone = self.keeping.is_gone();
        (self.is_gone).send_if_modified(|shown| std::mem::replace(shown, is_gone) != is_gone);
        let now = self.clock.now();
        // Nobody will write a record that this driver has deleted, or that is gone together with the right to make it
        // anew.
        let is_given_up = self.keeping.is_deleted() || is_gone && self.keeping.may_not_write();
        let patience = match is_given_up {
            true => PATIENCE,
            false => Duration::ZERO,
        };
        let overdue = self.reports.overdue(now.tick + patience);
        self.report(overdue);
        if self.stale && self.keeping.wants_intervals(now.tick) {
            self.stale = false;
            self.gather();
        }
        if let Some(op) = self.keeping.next(now.tick) {
            self.call(op, ctx);
        }
        self.look_after(now.tick, ctx);
        self.adopt(ctx);
        self.rewatch(now.tick, ctx);
        let next = [
            self.keeping.next_at(),
            self.owned_resources.next_at(),
            self.watching.next_at(),
            self.reports.next_at(),
        ]
        .into_iter()
        .flatten()
        .filter(|at| *at > now.tick);
        if let Some(at) = next.min()
            && self.armed != Some(at)
        {
            self.arm(at, ctx);
        }
    }

    fn arm(&mut self, at: Tick, ctx: &mut Context<Self>) {
        self.armed = Some(at);
        ctx.run_later(self.clock.now().tick.until(at), move |this, ctx| {
            if this.armed == Some(at) {
                this.armed = None;
                this.pump(ctx);
            }
        });
    }

    /// Writes the ids of the latest snapshot to the record, if all are known.
    fn gather(&mut self) {
        if let Some((ended, bound)) = intervals(&self.latest) {
            let waits = |id| self.reports.contains(id);
            (self.keeping).set_intervals(ended, bound, self.made.count(), waits);
        }
    }

    fn report(&mut self, ends: Vec<(ExecutorId, Arc<LossReason>)>) {
        for (id, reason) in ends {
            self.store.do_send(Tell(News::Reported { id, reason }));
        }
    }

    /// Keeps the targets that were set while this driver runs (spec O-30).
    fn keep_targets(&mut self, snapshot: &Snapshot) {
        let set = newly_set(&self.targets, &snapshot.targets);
        self.targets = snapshot.targets.clone();
        if !set.is_empty() {
            let now = self.clock.now().tick;
            (self.keeping).change(|record| record.targets.extend(set), now);
        }
    }

    /// Written at once: a successor that does not know of the hold would start executors again (spec B-31).
    fn keep_hold(&mut self, snapshot: &Snapshot) {
        let held = Held::of(snapshot);
        if held != self.held {
            self.held.clone_from(&held);
            self.keeping.change_now(|record| record.held = held);
        }
    }

    /// The configuration says these targets now, and a successor reads it (spec C-6).
    fn forget_targets(&mut self, profiles: &[ProfileName]) {
        let now = self.clock.now().tick;
        let forget = |record: &mut Record| {
            record
                .targets
                .retain(|profile, _| !profiles.contains(profile));
        };
        (self.keeping).change(forget, now);
    }

    fn call(&mut self, op: Op, ctx: &mut Context<Self>) {
        let (calls, name) = (self.calls.clone(), record_name(&self.prefix));
        let call = async move {
            let answer = match op {
                Op::Get => calls.get_config_map(&name).await.map(Answer::Got),
                Op::GetDeleted(version) => calls
                    .deleted_config_map(&name, &version)
                    .await
                    .map(Answer::GotDeleted),
                Op::Create(map) => calls.create_config_map(&map).await.map(Answer::Written),
                Op::Replace(map) => calls
                    .replace_config_map(&name, &map)
                    .await
                    .map(Answer::Written),
                Op::Delete(uid, version) => {
                    let deleted = calls.delete_config_map(&name, &uid, &version).await;
                    deleted.map(|deleted| match deleted {
                        Deleted::Accepted(_) | Deleted::NothingThere => Answer::Deleted,
                    })
                }
            };
            answer.unwrap_or_else(Answer::Failed)
        };
        let mut reads = std::mem::take(&mut self.reads);
        let call = ctx.spawn(call.into_actor(self).map(move |answer, this, ctx| {
            this.in_flight = None;
            let effects = this.keeping.answered(answer, this.clock.now().tick);
            // Who asked meanwhile waits for the next call.
            if !this.reads.is_empty() {
                this.keeping.check();
            }
            if (effects.iter()).any(|effect| matches!(effect, Effect::Seen { .. })) {
                answer_all(&mut reads);
            }
            this.reads.append(&mut reads);
            let recorded = this.reports.recorded(|id| this.keeping.has_end(id));
            this.report(recorded);
            this.carry_out(effects);
            this.pump(ctx);
        }));
        self.in_flight = Some((call, self.clock.now().tick));
    }

    /// Cancels a call that began during an outage that is over (spec W-14). On a dead connection it
    /// would be waited for until its timeout.
    fn cancel_overtaken(&mut self, ctx: &mut Context<Self>) {
        let now = self.clock.now().tick;
        let overtaken = |(_, since): &mut (SpawnHandle, Tick)| now.since(*since) >= OVERTAKEN;
        if let Some((call, _)) = self.in_flight.take_if(overtaken) {
            ctx.cancel_future(call);
            self.keeping.cancelled();
        }
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
                        // The requester may have stopped.
                        let _ = answer.send(up_to);
                    }
                }
                Effect::Flushed => {
                    answer_all(&mut self.flushes);
                    answer_all(&mut self.impatient);
                }
                // Who waits learns that nobody answers any more.
                Effect::MayNotWrite => self.impatient.clear(),
                Effect::Deleted => answer_all(&mut self.deletions),
                // The driver's task may have ended already.
                Effect::Over(over) => drop(self.over.send(over)),
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
        // Sets own their pods, and the record owns the sets, which SetScaler corrects.
        if !self.latest.of_sets {
            for (id, entry) in self.latest.entries.iter() {
                self.owners.observe(id, Some(entry), Some(&uid));
            }
        }
        self.owners.try_again();
        self.owned_resources.check(&uid);
        self.unconfirmed = Some((uid, epoch));
        self.confirm();
    }

    /// Reports the record to the store, once it owns all living executors' pods (spec K-13) and the
    /// resources that executors mount (spec K-8).
    fn confirm(&mut self) {
        if self.owners.is_settled()
            && self.owned_resources.is_settled()
            && let Some((uid, epoch)) = self.unconfirmed.take()
        {
            self.store.do_send(Tell(News::RecordSeen { uid, epoch }));
        }
    }

    fn look_after(&mut self, now: Tick, ctx: &mut Context<Self>) {
        let Some(record) = self.owned_resources.next(now) else {
            return;
        };
        let settle = (self.owned_resources).settle(self.calls.clone(), &self.prefix, &record);
        ctx.spawn(settle.into_actor(self).map(move |settled, this, ctx| {
            let now = this.clock.now().tick;
            if let Some(failure) = this.owned_resources.answered(record, settled, now) {
                let error = failure.explained();
                tracing::warn!(%error, "what the application record owns cannot be looked after");
            }
            this.confirm();
            this.pump(ctx);
        }));
    }

    /// Gives pods to the record, unless it is to be read first: with a record that is gone as their owner, the pods of
    /// another driver would be garbage-collected.
    fn adopt(&mut self, ctx: &mut Context<Self>) {
        let Some(record) = self.keeping.uid().filter(|_| self.keeping.is_settled()) else {
            return;
        };
        let latest = &self.latest;
        for Adoption { id, name, uid } in self.owners.next(|id| latest.entry(id)) {
            let (calls, epoch) = (self.calls.clone(), self.latest.epoch);
            let owner = owner_reference(&self.prefix, record);
            let patch = json!({"metadata": {"uid": uid.as_str(), "ownerReferences": [owner]}});
            let call = async move { calls.patch_pod(&name, &patch).await };
            ctx.spawn(call.into_actor(self).map(move |answer, this, ctx| {
                let failed = answer.as_ref().err().map(|failure| failure.kind);
                match answer {
                    Ok(Some(pod)) => this.store.do_send(Tell(News::Seen { pod, epoch })),
                    Ok(None) => {}
                    Err(failure) => {
                        let (executor, error) = (id.get(), failure.message);
                        tracing::debug!(executor, %error, "its pod could not be given to the application record");
                    }
                }
                this.owners.answered(id, failed);
                this.confirm();
                let again = this.clock.now().tick + failed.map_or(Duration::ZERO, |_| ADOPT_AGAIN);
                this.arm(again, ctx);
            }));
        }
    }

    fn check_what_is_owned(&mut self) {
        self.owners.try_again();
        if let Some(record) = self.keeping.uid() {
            self.owned_resources.check(record);
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Record), ctx: &mut Context<Self>) {
        self.keeping.change(change, self.clock.now().tick);
        self.pump(ctx);
    }
}

fn answer_all(waiting: &mut Vec<oneshot::Sender<()>>) {
    for done in waiting.drain(..) {
        // The requester may have stopped.
        let _ = done.send(());
    }
}

/// The numbers of executors that were requested since `before`. They differ from the targets during
/// a hold or a replacement, because a successor does not continue the replacement (spec B-31,
/// B-65).
fn newly_set(
    before: &OrdMap<ProfileName, Target>,
    now: &OrdMap<ProfileName, Target>,
) -> BTreeMap<ProfileName, u32> {
    if now.ptr_eq(before) {
        return BTreeMap::new();
    }
    let is_new = |(profile, target): &(&ProfileName, &Target)| {
        let before = before.get(*profile).filter(|before| before.is_set);
        target.is_set && before.is_none_or(|before| before.asked != target.asked)
    };
    (now.iter().filter(is_new))
        .map(|(profile, target)| (profile.clone(), target.asked))
        .collect()
}

/// The ended ids, and the ids that are bound and whose end is not reported. `None` before adoption:
/// then the record keeps what earlier incarnations wrote (spec O-30, O-31, L-1).
fn intervals(snapshot: &Snapshot) -> Option<(IdSet, IdSet)> {
    let mut bound = snapshot.not_found.clone();
    let known =
        (bound.ids()).filter(|id| snapshot.entry(*id).is_some() || snapshot.ended.contains(*id));
    for id in known.collect::<Vec<_>>() {
        bound.remove(id);
    }
    let mut ended = snapshot.ended.clone();
    for entry in snapshot.entries.values() {
        if entry.has_unreported_end() || entry.uid().is_some() && !entry.is_gone() {
            bound.insert(entry.id);
        } else if entry.is_gone() {
            // Its entry stays until every subscriber has seen that.
            ended.insert(entry.id);
        }
    }
    (snapshot.adopted).then_some((ended, bound))
}

#[cfg(test)]
mod tests;
