//! Stops a driver: the application's end, or the hand-over to a successor (spec O-10, O-11).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use actix::MailboxError;
use futures::future::join_all;
use futures::{TryStreamExt as _, stream};
use tokio::sync::watch::error::RecvError;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::actors::api_health::refused_writes::RefusedWrite;
use crate::actors::driver_backend::messages::Stop;
use crate::actors::lifecycle_manager::messages::Report;
use crate::actors::lifecycle_manager::pending_actions::{nothing_left, unawaited_ends};
use crate::actors::pod_allocator::messages::StopRequesting;
use crate::actors::poll_source::messages::NewInterval;
use crate::actors::record_keeper::messages::{DeleteRecord, FinishRecord, Flush};
use crate::actors::snapshot_store::messages::{AskRound, Subscriber, Tell};
use crate::exit::{Exit, OVER_BUDGET};
use crate::kubernetes::Failure;
use crate::kubernetes::calls::StopCalling;
use crate::kubernetes::leftovers::WORKLOADS;
use crate::model::executor::{LeaveMethod, LeaveReason};
use crate::model::news::{News, TargetChange};
use crate::model::{ExecutorId, PodUid, Snapshot};
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

use super::actors::Actors;
use super::event_sinks::Writer;
use super::left::{Left, first};

/// The intervals between lists of what is left. Each list costs as much as there are pods.
const LIST_EVERY: Backoff = Backoff {
    initial: Duration::from_millis(50),
    max: Duration::from_secs(3),
};

/// How often the poll lists in the time of an end, and the least interval of these lists.
const LISTS_OF_AN_END: u32 = 4;
const LEAST_INTERVAL: Duration = Duration::from_secs(3);

/// Answers are awaited this much longer than the server's own timeout.
const MARGIN: Duration = Duration::from_secs(2);

/// Each of the last two steps of an end may take this fraction of its time, as a divisor.
const LAST_STEPS: u32 = 5;

/// The same for writing the record of an application that failed too often.
const RECORD_SHARE: u32 = 4;

const CLAIMS_AT_ONCE: usize = 16;

/// The time for recording the Kubernetes Events that wait at the end, and for writing the last events to their file.
const LAST_EVENTS: Duration = Duration::from_secs(1);

/// Why executors are let go, after "killed by".
const LET_GO: &str = "their driver, which is suspended or scaled to 0";

/// How long the garbage collector is waited for, which needs a second or two after the record is gone.
const COLLECTED_WITHIN: Duration = Duration::from_secs(5);

impl Actors {
    /// `keep_record`: an end keeps the record, marked as ended, for a driver that replaces this one: in a pod, a
    /// controller may start one after any end (spec O-108). `grace` is how long an end may take.
    pub(super) async fn stop(&self, stop: Stop, keep_record: bool, grace: Duration) -> Exit {
        let exit = match stop {
            Stop::HandOver if planted::is(Planted::HandOverEnds) => {
                self.end(0, false, None, grace).await
            }
            Stop::HandOver => self.hand_over().await,
            Stop::End { exit_code } => self.end(exit_code, keep_record, None, grace).await,
            Stop::OverBudget { why } => self.end(OVER_BUDGET, true, Some(why), grace).await,
            Stop::LetGo => self.let_go(grace).await,
            Stop::Collected => self.collected(grace).await,
        };
        if let Some(event_recorder) = &self.event_recorder {
            // What could not be recorded in time is in the log.
            let _ = timeout(LAST_EVENTS, event_recorder.record_rest()).await;
        }
        if !self.event_sinks.is_empty() {
            self.store.do_send(AskRound(Subscriber::History));
            let all = join_all(self.event_sinks.iter().map(Writer::finish));
            let _ = timeout(LAST_EVENTS, all).await;
        }
        for watch in &self.watches {
            watch.do_send(StopCalling);
        }
        self.poll.do_send(StopCalling);
        self.api_health.do_send(StopCalling);
        exit
    }

    /// Ends this incarnation: waits for requests in flight, writes the record, and deletes nothing.
    async fn hand_over(&self) -> Exit {
        let limit = self.request_timeout + MARGIN;
        self.stop_requesting(false).await;
        if timeout(limit, self.nothing_to_await()).await.is_err() {
            tracing::warn!("some requests are unanswered: the successor finds what became of them");
        }
        match timeout(limit, self.record.send(Flush)).await {
            Ok(Ok(true)) => tracing::info!("handed over: executors stay for the successor"),
            Ok(Ok(false)) => {
                tracing::warn!("the record may not be written: the successor lists the executors")
            }
            _ => tracing::warn!(
                "the record could not be written in time: the successor lists the executors"
            ),
        }
        Exit::Superseded
    }

    /// Ends the executors and this incarnation: the record stays open, with the targets (spec O-67).
    async fn let_go(&self, grace: Duration) -> Exit {
        let last_step = MARGIN.min(grace / LAST_STEPS);
        let deadline = Instant::now() + (grace - 2 * last_step);
        self.stop_requesting(true).await;
        let why = LeaveReason::Killed(Arc::from(LET_GO));
        let deleted = self.delete_executors(&why, LeaveMethod::Delete, deadline, last_step);
        let Ok(left) = deleted.await else {
            return Exit::Bug;
        };
        let last = deadline.max(Instant::now()) + last_step;
        self.delete_workloads(last).await;
        let flush = async || timeout_at(last, self.record.send(Flush)).await;
        let written = matches!(flush().await, Ok(Ok(true)));
        if self.report_the_rest(left.as_ref()).await {
            // Without it a successor reports these ends once more.
            let _ = flush().await;
        }
        match left {
            Some(left) if left.undeleted.is_empty() && written => {
                left.log_what_terminates();
                tracing::info!(
                    "executors were let go: a later driver begins with the same targets"
                );
            }
            left => self.log_what_is_left(left.as_ref().map(|left| &left.undeleted), written),
        }
        Exit::Superseded
    }

    /// Ends an application that was deleted with its record and with this driver's rights. Kubernetes' garbage
    /// collector deletes what the record owned. This driver can neither delete nor list; its watch, which was open
    /// before, may go on to show what becomes of the executors.
    async fn collected(&self, grace: Duration) -> Exit {
        let deadline = Instant::now() + COLLECTED_WITHIN.min(grace);
        self.stop_requesting(false).await;
        // Executors with a session are ordered to stop at once.
        let (why, how) = (&LeaveReason::ApplicationEnded, LeaveMethod::Delete);
        let Ok(last) = self.retire_until(nothing_left, why, how, deadline).await else {
            return Exit::Bug;
        };
        self.report_the_rest(None).await;
        let living = last.entries.values().filter(|entry| !entry.is_gone());
        let pods = living.filter_map(|entry| entry.pod());
        let left: BTreeMap<_, _> = (pods.filter(|pod| pod.deletion.is_none()))
            .map(|pod| (pod.name.to_string(), Some(pod.uid.clone())))
            .collect();
        if left.is_empty() {
            tracing::info!(
                "the application was deleted, with its record and this driver's rights: the garbage collector has taken \
                 its executors"
            );
            return Exit::Clean;
        }
        self.log_what_is_left(Some(&left), true);
        Exit::Unreachable
    }

    /// Ends the application: deletes every executor, then the record. Each step runs even if the
    /// previous one failed. All steps end within `grace`, after which the process may be killed. Executors of an
    /// application that failed too often, for the reason given, may finish their work (spec L-30).
    async fn end(
        &self,
        exit_code: u8,
        keep_record: bool,
        over_budget: Option<Arc<str>>,
        grace: Duration,
    ) -> Exit {
        let last_step = MARGIN.min(grace / LAST_STEPS);
        let within = grace - 2 * last_step;
        let deadline = Instant::now() + within;
        let how = match over_budget {
            Some(_) => {
                self.write_record(within / RECORD_SHARE).await;
                // Executors that have not finished after half of the time are deleted in the other
                // half.
                LeaveMethod::Drain {
                    within: self.decommission_timeout.min(within / 2),
                }
            }
            None => LeaveMethod::Delete,
        };
        self.stop_requesting(true).await;
        let why = LeaveReason::ApplicationEnded;
        let may_have_claims = self.may_have_claims();
        let deleted = self.delete_executors(&why, how, deadline, last_step);
        let Ok(left) = deleted.await else {
            return Exit::Bug;
        };
        self.delete_workloads(deadline.max(Instant::now()) + last_step)
            .await;
        if keep_record && may_have_claims {
            let deleted = timeout_at(
                deadline.max(Instant::now()) + last_step,
                self.delete_claims(),
            );
            if !matches!(deleted.await, Ok(Ok(()))) {
                tracing::warn!(
                    "claims on volumes may be left: they go with the application's record"
                );
            }
        }
        let close = || self.close_record(exit_code, keep_record, over_budget.clone());
        let mut until = deadline.max(Instant::now()) + last_step;
        let mut record_closed = matches!(timeout_at(until, close()).await, Ok(Ok(())));
        let left = match left {
            Some(left) if keep_record && !left.undeleted.is_empty() => {
                let left = self.delete_the_rest(left).await;
                until = Instant::now() + last_step;
                Some(left)
            }
            left => left,
        };
        // While executors end one after the other, the record is never written to its end.
        if self.report_the_rest(left.as_ref()).await || !record_closed {
            record_closed |= matches!(timeout_at(until, close()).await, Ok(Ok(())));
        }
        match left {
            Some(left) if left.undeleted.is_empty() && record_closed => {
                match left.is_empty() {
                    true => tracing::info!(exit_code, "the application has ended, nothing is left"),
                    false => {
                        left.log_what_terminates();
                        tracing::info!(exit_code, "the application has ended");
                    }
                }
                match exit_code {
                    0 => Exit::Clean,
                    code => Exit::Finished(code),
                }
            }
            left => {
                self.log_what_is_left(left.as_ref().map(|left| &left.undeleted), record_closed);
                Exit::Unreachable
            }
        }
    }

    /// Deletes every executor until a list shows none, or until the deadline. Returns what is left, `None` if unknown,
    /// or an error if an actor has stopped.
    async fn delete_executors(
        &self,
        why: &LeaveReason,
        how: LeaveMethod,
        deadline: Instant,
        last_step: Duration,
    ) -> Result<Option<Left>, RecvError> {
        // A watch may be silent for minutes before that is noticed, and the poll may be off.
        let time = deadline.saturating_duration_since(Instant::now());
        let interval = LEAST_INTERVAL.max(time / LISTS_OF_AN_END);
        let is_firm = true;
        self.poll.do_send(NewInterval { interval, is_firm });
        let known = self.retire_until(|ledger| ledger.adopted, why, how, deadline);
        let known = known.await?;
        if known.adopted {
            let executors = known.entries.len();
            match why {
                LeaveReason::ApplicationEnded => tracing::info!(
                    executors,
                    "ending the application: its executors are deleted"
                ),
                _ => tracing::info!(executors, "letting the executors go: they are deleted"),
            }
        }
        let is_over = |ledger: &Snapshot| {
            ledger.adopted && *self.provisioner.left.borrow() == 0 && nothing_left(ledger)
        };
        let mut lists = 0;
        loop {
            self.retire_until(is_over, why, how, deadline).await?;
            if Instant::now() >= deadline {
                let left = timeout(last_step, self.left()).await;
                return Ok(left.ok().and_then(Result::ok));
            }
            match timeout_at(deadline, self.left()).await {
                Ok(Ok(left)) if left.is_empty() => return Ok(Some(left)),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "what is left could not be listed"),
                Err(_) => tracing::debug!("what is left could not be listed in time"),
            }
            lists += 1;
            sleep_until(deadline.min(Instant::now() + LIST_EVERY.delay(lists))).await;
        }
    }

    /// Goes on deleting as long as that leaves fewer, since it may be that no driver comes next (spec O-144).
    async fn delete_the_rest(&self, mut left: Left) -> Left {
        while !left.undeleted.is_empty() {
            let executors = left.undeleted.len();
            tracing::warn!(
                executors,
                "the time to end is over, and executors are left: they are deleted as fast as the API server allows"
            );
            sleep(LIST_EVERY.max).await;
            match timeout(self.request_timeout, self.left()).await {
                Ok(Ok(fewer)) if fewer.undeleted.len() < executors => left = fewer,
                _ => break,
            }
        }
        left
    }

    /// Reports the executors that were deleted and terminate still, because nobody waits for their ends any more (spec
    /// L-3). Returns whether there are any. `left`: what a list has shown, if there was one.
    async fn report_the_rest(&self, left: Option<&Left>) -> bool {
        let snapshot = Arc::clone(&self.snapshots.borrow());
        let rest = unawaited_ends(&snapshot, |pod| match left {
            Some(left) => !left.undeleted.contains_key(&*pod.name),
            None => pod.deletion.is_some(),
        });
        let is_any = !rest.is_empty();
        for ending in rest {
            // It has stopped only if the driver's process ends.
            let _ = self.record.send(Report(ending)).await;
        }
        is_any
    }

    /// Has every executor leave, again whenever the ledger changes, until it is as wanted or until the deadline.
    /// Returns the last snapshot, or an error if an actor has stopped.
    async fn retire_until(
        &self,
        is_wanted: impl Fn(&Snapshot) -> bool,
        why: &LeaveReason,
        how: LeaveMethod,
        deadline: Instant,
    ) -> Result<Arc<Snapshot>, RecvError> {
        let (mut snapshots, mut left) = (self.snapshots.clone(), self.provisioner.left.clone());
        loop {
            let snapshot = Arc::clone(&snapshots.borrow_and_update());
            left.mark_unchanged();
            self.retire_all(&snapshot, why, how);
            if is_wanted(&snapshot) || Instant::now() >= deadline {
                return Ok(snapshot);
            }
            tokio::select! {
                biased;
                changed = snapshots.changed() => changed?,
                changed = left.changed() => changed?,
                () = sleep_until(deadline) => {}
            }
            if let Some(pause) = pause_between_looks(snapshot.entries.len()) {
                sleep_until(deadline.min(Instant::now() + pause)).await;
            }
        }
    }

    /// `delete_sets`: the application ends, and with it the sets that make its pods.
    async fn stop_requesting(&self, delete_sets: bool) {
        let stop = self.provisioner.stop.send(StopRequesting { delete_sets });
        // It has stopped only if the driver's process ends.
        let _ = stop.await;
    }

    /// Waits until requests in flight are answered and sets that are deleted are gone.
    async fn nothing_to_await(&self) {
        let _ = (self.provisioner.left.clone())
            .wait_for(|left| *left == 0)
            .await;
    }

    /// Records that the application has failed too often, before any executor is decommissioned.
    /// Otherwise a successor would replace the decommissioned executors.
    async fn write_record(&self, within: Duration) {
        if !matches!(timeout(within, self.record.send(Flush)).await, Ok(Ok(true))) {
            tracing::warn!(
                "that the application failed too often could not be written to its record: should this driver die \
                 before it has ended, its successor goes on"
            );
        }
    }

    fn retire_all(&self, snapshot: &Snapshot, why: &LeaveReason, how: LeaveMethod) {
        let ids: Vec<ExecutorId> = (snapshot.entries.values())
            .filter(|entry| entry.leaving.is_none() && !entry.is_gone())
            .map(|entry| entry.id)
            .collect();
        if !ids.is_empty() {
            self.store.do_send(Tell(News::Retire {
                ids,
                aim: TargetChange::Stay,
                why: why.clone(),
                how,
            }));
        }
    }

    /// Whether claims on volumes may have to be deleted. Without any a driver has no right to list them. A profile that
    /// was added while a driver ran shows in its executors only.
    fn may_have_claims(&self) -> bool {
        let snapshot = self.snapshots.borrow();
        let mut pods = snapshot.entries.values().filter_map(|entry| entry.pod());
        self.has_claims || pods.any(|pod| pod.volume_claims.is_some())
    }

    /// Deletes the claims on volumes, which a record that is kept would keep too.
    async fn delete_claims(&self) -> Result<(), Failure> {
        let claims = self.calls.list_claims().await?;
        let ours = claims
            .into_iter()
            .filter(|claim| claim.ours && !claim.spent);
        stream::iter(ours.map(Ok))
            .try_for_each_concurrent(CLAIMS_AT_ONCE, |claim| async move {
                self.calls.delete_claim(&claim).await
            })
            .await
    }

    /// Deletes the Workloads, which a record that is kept would keep too, with their quota (spec A-95).
    async fn delete_workloads(&self, until: Instant) {
        if !self.has_queue {
            return;
        }
        let deleted = timeout_at(until, async {
            // A write in flight could bring one back.
            self.nothing_to_await().await;
            let app_id = &self.calls.reader().app_id;
            let left = self.calls.list_leftovers(WORKLOADS, app_id).await?;
            stream::iter(left.iter().map(Ok))
                .try_for_each_concurrent(CLAIMS_AT_ONCE, |one| self.calls.delete_leftover(one))
                .await
        });
        if !matches!(deleted.await, Ok(Ok::<(), Failure>(()))) {
            tracing::warn!(
                "Workloads may be left, with their quota: they go with the application's record, or by `boatswain clean`"
            );
        }
    }

    async fn close_record(
        &self,
        code: u8,
        keep: bool,
        why: Option<Arc<str>>,
    ) -> Result<(), MailboxError> {
        match keep {
            true => self.record.send(FinishRecord { code, why }).await,
            false => self.record.send(DeleteRecord).await,
        }
    }

    async fn left(&self) -> Result<Left, Failure> {
        Left::of(&self.calls, self.page_size).await
    }

    /// `undeleted`: the pods that nobody has deleted; `None` if they are not known.
    fn log_what_is_left(
        &self,
        undeleted: Option<&BTreeMap<String, Option<PodUid>>>,
        record_closed: bool,
    ) {
        let clean = self.remover.command();
        let refused = self.health.borrow().refused.clone();
        let refused = refused.first().map(|write| {
            let RefusedWrite {
                verb,
                resource,
                why,
                ..
            } = write;
            format!("{verb} {resource}: {why}")
        });
        let names = |undeleted: &BTreeMap<String, _>| first(undeleted.keys());
        tracing::error!(
            count = undeleted.map(BTreeMap::len),
            pods = undeleted.map_or_else(|| "unknown".to_owned(), names),
            record_closed,
            refused,
            clean,
            "the time to end is over and not everything is gone"
        );
    }
}
/// How long to wait before all entries are looked at again; `None`: not at all. Each end of an executor changes the ledger,
/// so that without a pause the time of an end would grow with the square of the fleet.
fn pause_between_looks(entries: usize) -> Option<Duration> {
    let pause = Duration::from_micros(entries as u64);
    (pause >= Duration::from_millis(1)).then_some(pause)
}
