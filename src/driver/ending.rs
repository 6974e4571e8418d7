//! How a driver ends: the application's end, the hand-over to a successor, and what ends it of itself
//! (spec O-10, O-11, W-7, A-24).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::{TryStreamExt as _, stream};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::actors::commands::messages::Stop;
use crate::actors::lifecycle_manager::pending_actions::nothing_left;
use crate::actors::pod_allocator::messages::{CannotStart, StopRequesting};
use crate::actors::pod_allocator::refusal::Kind;
use crate::actors::poll_source;
use crate::actors::record_keeper::keeping::Over;
use crate::actors::record_keeper::messages::{DeleteRecord, DriverIsOver, FinishRecord, Flush};
use crate::actors::set_scaler::messages::EndSets;
use crate::actors::snapshot_store::messages::{LookNow, Tell};
use crate::actors::watch_source;
use crate::config::OnSignal;
use crate::exit::{Exit, OVER_BUDGET};
use crate::kubernetes::{Failure, ListQuery};
use crate::model::executor::{How, Why};
use crate::model::news::{Aim, News};
use crate::model::pod::{Claim, Sighting};
use crate::model::{ExecutorId, Snapshot};
use crate::planted::{self, Planted};
use boatswain_agent::backoff::Backoff;

use super::Event;
use super::wiring::Actors;

/// How often the end's progress is looked at, in the ledger.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Between lists that prove that nothing is left: each costs the server as much as there is.
const LIST_EVERY: Backoff = Backoff {
    initial: LOOK_EVERY,
    max: Duration::from_secs(3),
};

/// Beyond the server's own timeout, until an answer is given up.
const MARGIN: Duration = Duration::from_secs(2);

/// Of the time that an end may take, what is kept back for each of its last two steps.
const LAST_STEP: u32 = 5;

/// Of the time that an end may take, how much of it the record may take that the end begins with.
const WRITING: u32 = 4;

/// So many claims are deleted at a time.
const CLAIMS_AT_ONCE: usize = 16;

/// How many of those that are left are named.
const NAMED: usize = 5;

/// A way to stop (spec O-10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// This incarnation is over.
    HandOver,
    /// The application is over.
    End {
        /// What the driver exits with.
        exit_code: u8,
        /// Whether the record stays, marked ended, for whoever is started in this one's place (spec O-11).
        keep_record: bool,
    },
    /// The application is over because it failed too often: its executors may finish what they do, and the record stays
    /// whoever started this one (spec L-30).
    OverBudget {
        /// In words.
        why: Arc<str>,
    },
}

/// How the application ends (spec O-11).
#[derive(Debug, Default)]
struct End {
    /// What the driver exits with.
    exit_code: u8,
    /// Whether the record stays, marked ended.
    keep_record: bool,
    /// That it failed too often, in words: executors may finish what they do first (spec L-30).
    over_budget: Option<Arc<str>>,
}

impl Way {
    /// What a signal, or a test, asks for.
    pub(super) fn of_signal(way: OnSignal, in_a_pod: bool) -> Self {
        match way {
            OnSignal::HandOver => Self::HandOver,
            // What `auto` is was decided at the start.
            OnSignal::End | OnSignal::Auto => Self::end_with(0, in_a_pod),
        }
    }

    /// What the application asks for.
    pub(super) fn asked(stop: Stop, in_a_pod: bool) -> Self {
        match stop {
            Stop::HandOver => Self::HandOver,
            Stop::End { exit_code } => Self::end_with(exit_code, in_a_pod),
            Stop::OverBudget { why } => Self::OverBudget { why },
        }
    }

    /// A pod may be started again by whoever started it, also one that was told to stop, as where its node is drained:
    /// the next one must not begin the application anew.
    fn end_with(exit_code: u8, in_a_pod: bool) -> Self {
        Self::End {
            exit_code,
            keep_record: in_a_pod,
        }
    }
}

/// The exit of a driver that something else than a command ends.
pub(super) fn of_itself(event: Event) -> Exit {
    match event {
        Event::Over(DriverIsOver(Over::Superseded { by })) => {
            tracing::warn!(
                incarnation = by,
                "another driver has taken over: this one ends, executors stay"
            );
            Exit::Superseded
        }
        Event::Over(DriverIsOver(Over::Finished(code))) => {
            tracing::warn!(code, "another driver has ended the application");
            Exit::Finished(code)
        }
        Event::Over(DriverIsOver(Over::Foreign(error))) => {
            tracing::error!(%error, "the application record is not this driver's any more");
            Exit::Configuration
        }
        Event::CannotStart(CannotStart { kind, why }) => {
            let (exit, hint) = match kind {
                Kind::Rights => (
                    Exit::Rights,
                    "grant it, or run with an account that has it: see README, \"A real cluster\"",
                ),
                Kind::Credentials => (
                    Exit::Rights,
                    "look at the kubeconfig's user, or at the pod's service account",
                ),
                Kind::Namespace => (
                    Exit::Configuration,
                    "create the namespace, or set cluster.namespace",
                ),
                Kind::Blocked | Kind::Quota => {
                    (Exit::Configuration, "mend the profile as the server says")
                }
            };
            tracing::error!(
                error = why,
                hint,
                "no executor can be created: none was started, and nothing but the record is left"
            );
            exit
        }
    }
}

impl Actors {
    /// Stops in this way; `grace` is how long the application's end may take.
    pub(super) async fn stop(&self, way: Way, grace: Duration) -> Exit {
        let exit = match way {
            Way::HandOver if planted::is(Planted::HandOverEnds) => {
                self.end(End::default(), grace).await
            }
            Way::HandOver => self.hand_over().await,
            Way::End {
                exit_code,
                keep_record,
            } => {
                let end = End {
                    exit_code,
                    keep_record,
                    over_budget: None,
                };
                self.end(end, grace).await
            }
            Way::OverBudget { why } => {
                let end = End {
                    exit_code: OVER_BUDGET,
                    keep_record: true,
                    over_budget: Some(why),
                };
                self.end(end, grace).await
            }
        };
        // What the cluster does from here on is nobody's news any more.
        if let Some(watch) = &self.watch {
            watch.do_send(watch_source::messages::Stop);
        }
        self.poll.do_send(poll_source::messages::Stop);
        exit
    }

    /// This incarnation is over: requests in flight are waited for, the record is written, nothing is deleted.
    async fn hand_over(&self) -> Exit {
        let patience = self.request_timeout + MARGIN;
        let answered = timeout(patience, async {
            while self
                .provisioner
                .stop
                .send(StopRequesting)
                .await
                .is_ok_and(|in_flight| in_flight > 0)
            {
                sleep(LOOK_EVERY).await;
            }
        });
        if answered.await.is_err() {
            tracing::warn!("some requests are unanswered: the successor finds what became of them");
        }
        match timeout(patience, self.record.send(Flush)).await {
            Ok(Ok(())) => tracing::info!("handed over: executors stay for the successor"),
            _ => tracing::warn!(
                "the record could not be written in time: the successor lists the executors"
            ),
        }
        Exit::Superseded
    }

    /// The application is over: every executor goes, then the record. Each step runs whatever the one before did.
    /// All within `grace`: whoever told it to stop may kill it after that.
    async fn end(&self, end: End, grace: Duration) -> Exit {
        let End {
            exit_code,
            keep_record,
            over_budget,
        } = end;
        let last_step = MARGIN.min(grace / LAST_STEP);
        let most = grace - 2 * last_step;
        let deadline = Instant::now() + most;
        // Without the allocator there is nobody who could request anything; sets go on making pods until they go.
        if self.provisioner.end.is_none() {
            let _ = self.provisioner.stop.send(StopRequesting).await;
        }
        let how = match over_budget {
            Some(_) => {
                self.write_down(most / WRITING).await;
                // Half of the time, for who does not finish has to go all the same.
                How::Drain {
                    within: self.decommission_timeout.min(most / 2),
                }
            }
            None => How::Delete,
        };
        let (mut told, mut lists) = (None, 0);
        let left = loop {
            let mut pause = LOOK_EVERY;
            let snapshot = match self.store.send(LookNow).await {
                Ok(look) => look.0,
                Err(_) => return Exit::Bug,
            };
            let sets_left = self.sets_left().await;
            self.retire_all(&snapshot, how);
            if told.is_none() && snapshot.adopted {
                let executors = snapshot.entries.len();
                tracing::info!(
                    executors,
                    "ending the application: its executors are deleted"
                );
                told = Some(());
            }
            if snapshot.adopted && sets_left == 0 && nothing_left(&snapshot) {
                lists += 1;
                pause = LIST_EVERY.delay(lists);
                match timeout_at(deadline, self.list_left()).await {
                    Ok(Ok(left)) if left.is_empty() => break Some(left),
                    Ok(Ok(left)) if Instant::now() >= deadline => break Some(left),
                    Ok(Ok(_)) => {}
                    Ok(Err(error)) => tracing::debug!(%error, "what is left could not be listed"),
                    Err(_) => tracing::debug!("what is left could not be listed in time"),
                }
            }
            if Instant::now() >= deadline {
                break timeout(last_step, self.list_left())
                    .await
                    .ok()
                    .and_then(Result::ok);
            }
            sleep_until(deadline.min(Instant::now() + pause)).await;
        };
        if keep_record && self.has_claims {
            let swept = timeout_at(
                deadline.max(Instant::now()) + last_step,
                self.delete_claims(),
            );
            if !matches!(swept.await, Ok(Ok(()))) {
                tracing::warn!(
                    "claims on volumes may be left: they go with the application's record"
                );
            }
        }
        let closing = async {
            match keep_record {
                true => {
                    let (code, why) = (exit_code, over_budget);
                    self.record.send(FinishRecord { code, why }).await
                }
                false => self.record.send(DeleteRecord).await,
            }
        };
        let closed = timeout_at(deadline.max(Instant::now()) + last_step, closing).await;
        let record_closed = matches!(closed, Ok(Ok(())));
        match left {
            Some(left) if left.is_empty() && record_closed => {
                tracing::info!(exit_code, "the application has ended, nothing is left");
                match exit_code {
                    0 => Exit::Clean,
                    code => Exit::Finished(code),
                }
            }
            left => {
                self.say_left(left, record_closed);
                Exit::Unreachable
            }
        }
    }

    /// Has the sets go, where there are any; how many are left.
    async fn sets_left(&self) -> usize {
        match &self.provisioner.end {
            Some(end) => end.send(EndSets).await.unwrap_or_default(),
            None => 0,
        }
    }

    /// Has it in the record that the application may not go on, before anybody is told to go: a successor that did not
    /// know would bring back those that this one sent away.
    async fn write_down(&self, within: Duration) {
        if !matches!(timeout(within, self.record.send(Flush)).await, Ok(Ok(()))) {
            tracing::warn!(
                "that the application failed too often could not be written to its record: should this driver die \
                 before it has ended, its successor goes on"
            );
        }
    }

    fn retire_all(&self, snapshot: &Snapshot, how: How) {
        let ids: Vec<ExecutorId> = (snapshot.entries.values())
            .filter(|entry| entry.leaving.is_none() && !entry.is_gone())
            .map(|entry| entry.id)
            .collect();
        if !ids.is_empty() {
            let why = Why::ApplicationEnded;
            self.store.do_send(Tell(News::Retire {
                ids,
                aim: Aim::Stay,
                why,
                how,
            }));
        }
    }

    /// The record stays, and so would what it owns: volumes are not kept for it.
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

    /// The executors that the API server still has and that nobody is deleting.
    async fn list_left(&self) -> Result<BTreeSet<String>, Failure> {
        let mut left = BTreeSet::new();
        let mut query = ListQuery {
            limit: Some(self.page_size),
            ..ListQuery::default()
        };
        loop {
            let page = self.calls.list_pods(&query).await?;
            left.extend(page.items.iter().filter_map(still_wanted));
            match page.continue_token {
                Some(token) => query.continue_token = Some(token),
                None => return Ok(left),
            }
        }
    }

    fn say_left(&self, left: Option<BTreeSet<String>>, record_closed: bool) {
        let namespace = self.calls.namespace();
        let selector = self.calls.selector();
        let clean = format!("kubectl -n {namespace} delete pods -l '{selector}'");
        let (count, names) = match &left {
            Some(left) => {
                let names: Vec<&str> = left.iter().map(String::as_str).take(NAMED).collect();
                (Some(left.len()), names.join(", "))
            }
            None => (None, "unknown".to_owned()),
        };
        tracing::error!(
            count,
            pods = names,
            record_closed,
            clean,
            "the time to end is over and not everything is gone"
        );
    }
}

/// The name of an executor's pod that nobody has begun to delete.
fn still_wanted(pod: &Sighting) -> Option<String> {
    match pod {
        Sighting::Read(pod) => {
            let ours = matches!(
                pod.claim,
                Claim::Executor { .. } | Claim::UnassignedPod { .. }
            );
            (ours && pod.deletion.is_none()).then(|| pod.name.to_string())
        }
        Sighting::Unreadable(part) => part.name.as_ref().map(ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // spec: O-10, O-11
    #[test]
    fn an_end_in_a_pod_keeps_the_record_whoever_asked_for_it() {
        for in_a_pod in [true, false] {
            let end = |exit_code| Way::End {
                exit_code,
                keep_record: in_a_pod,
            };
            assert_eq!(Way::of_signal(OnSignal::End, in_a_pod), end(0));
            let asked = Stop::End { exit_code: 3 };
            assert_eq!(Way::asked(asked, in_a_pod), end(3));
            let hand_over = Way::of_signal(OnSignal::HandOver, in_a_pod);
            assert_eq!(hand_over, Way::HandOver);
        }
    }
}
