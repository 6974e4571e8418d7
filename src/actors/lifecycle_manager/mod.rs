//! LifecycleManager: terminates executors and finds out why they ended.
//!
//! [`pending_actions`] decides on each batch; the actor makes the calls and reports their answers
//! to the store. Only LifecycleManager judges why an executor ended. RecordKeeper reports the reason
//! to the store, which hands it to the other subscribers (spec L-1). Deletes, labels and look-ups have a
//! queue apart from creates (spec L-11).

pub mod call_queue;
pub mod going;
pub mod kept;
pub mod messages;
pub mod pending_actions;

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Context, Handler, Recipient};
use serde_json::{Value, json};

use crate::actors::snapshot_store::handle::{StoreHandle, Subscribes};
use crate::actors::snapshot_store::messages::{Next, Round, Subscriber};
use crate::clock::Clock;
use crate::kubernetes::calls::ServerIsBack;
use crate::kubernetes::draining;
use crate::kubernetes::labels::{INACTIVE, KEPT_SINCE, LabelScheme};
use crate::kubernetes::{Calls, Deleted, Failure};
use crate::metrics::{Measure, whole};
use crate::model::ids::pod_name;
use crate::model::news::{Found, News};
use crate::model::pod::{Draining, Sighting};
use crate::model::{Ending, Epoch, ExecutorId, PodUid, Snapshot, Tick};
use crate::planted::{self, Planted};

use call_queue::{PodCall, Subject};
use kept::KeptPod;
use messages::{Instruct, NewPolicy, Report};
use pending_actions::probes::Answer;
use pending_actions::{Action, PendingActions};

/// How long the Events of a pod may take. Its end is not reported meanwhile.
const EVENTS: Duration = Duration::from_secs(2);

pub struct LifecycleManager {
    pending_actions: PendingActions,
    calls: Calls,
    prefix: Arc<str>,
    labels: LabelScheme,
    clock: Clock,
    store: StoreHandle,
    sessions: Recipient<Instruct>,
    reports: Recipient<Report>,
    /// The epoch of the last batch, to which new calls belong.
    epoch: Epoch,
    /// The snapshot of the last batch. It has the names of pods that sets made.
    latest: Snapshot,
}

pub struct Wiring {
    pub pending_actions: PendingActions,
    pub calls: Calls,
    /// The prefix of pods' names.
    pub prefix: Arc<str>,
    pub labels: LabelScheme,
    pub clock: Clock,
    pub store: StoreHandle,
    pub sessions: Recipient<Instruct>,
    /// Reports ends to the store.
    pub reports: Recipient<Report>,
}

impl LifecycleManager {
    pub fn new(wiring: Wiring) -> Self {
        Self {
            pending_actions: wiring.pending_actions,
            calls: wiring.calls,
            prefix: wiring.prefix,
            labels: wiring.labels,
            clock: wiring.clock,
            store: wiring.store,
            sessions: wiring.sessions,
            reports: wiring.reports,
            epoch: Epoch::default(),
            latest: Snapshot::default(),
        }
    }

    fn carry_out(&mut self, action: Action, ctx: &mut Context<Self>) {
        match action {
            Action::Report(ending) => self.reports.do_send(Report(ending)),
            Action::Correct(Ending { entry, reason }) => {
                let (executor, profile) = (entry.id.get(), entry.profile.as_str());
                let (class, why) = (reason.class, &*reason.message);
                tracing::info!(executor, profile, reason = %class, why, "a better reason is known now");
            }
            Action::Call(subject, pod_call) => self.make(subject, pod_call, ctx),
            Action::Instruct(instruct) => self.sessions.do_send(instruct),
            Action::AskForProbe(id, uid) => self.ask_for_probe(id, uid, ctx),
        }
    }

    /// Reads whether a pod's kubelet killed its executor because a probe failed.
    fn ask_for_probe(&self, id: ExecutorId, uid: PodUid, ctx: &mut Context<Self>) {
        let calls = self.calls.clone();
        let asked = async move { tokio::time::timeout(EVENTS, calls.failed_probe(&uid)).await };
        self.call(ctx, asked, move |this, told| {
            let answer = match told {
                Ok(Ok(Some(words))) => Answer::ProbeFailed(words),
                Ok(Ok(None)) => Answer::NoProbeFailed,
                Ok(Err(failure)) => {
                    let error = &failure.message;
                    tracing::debug!(%id, %error, "its pod's Events cannot be read");
                    Answer::Unknown
                }
                Err(_) => Answer::Unknown,
            };
            let now = this.clock.now().tick;
            this.pending_actions.probe_told(id, answer, now);
        });
    }

    /// Takes over what earlier drivers kept (spec O-77).
    fn list_kept(&self, ctx: &mut Context<Self>) {
        let calls = self.calls.clone();
        let listed = async move { calls.list_kept_pods().await };
        self.call(ctx, listed, |this, answer| {
            let answer = answer.map(|pods| {
                let now = this.clock.now();
                let (mut living, mut ended) = (Vec::new(), Vec::new());
                for pod in pods {
                    let of = if pod.lives { &mut living } else { &mut ended };
                    of.push(KeptPod {
                        uid: pod.uid,
                        name: pod.name,
                        since: pod.since,
                        executor: None,
                    });
                }
                this.pending_actions.inherit_kept(ended, now);
                this.pending_actions.delete_living(living, now.tick);
                Vec::new()
            });
            this.answered(&Subject::KeptPods, answer, None);
        });
    }

    fn make(&self, subject: Subject, pod_call: PodCall, ctx: &mut Context<Self>) {
        if pod_call == PodCall::ListKept {
            return self.list_kept(ctx);
        }
        let (calls, epoch, now) = (self.calls.clone(), self.epoch, self.clock.now());
        let sent = now.tick;
        let labels = self.labels;
        let looked_up = match &pod_call {
            PodCall::LookUp(id) => self.name_of(*id),
            _ => Arc::from(""),
        };
        let of = subject.clone();
        let looked_up_at = matches!(pod_call, PodCall::LookUp(_)).then_some(sent);
        let unprotects = self.pending_actions.protects_busy();
        let call = async move {
            match pod_call {
                PodCall::Delete { name, uid, grace } => {
                    match calls.delete_pod(&name, &uid, grace).await? {
                        Deleted::Accepted(pod) => Ok(seen(pod, epoch)),
                        Deleted::NothingThere => Ok(vec![News::DeleteFoundNothing { uid, name }]),
                    }
                }
                PodCall::MarkDraining {
                    name,
                    uid,
                    why,
                    until,
                } => {
                    let left = now.tick.until(until);
                    let until = now.wall.checked_add(left).unwrap_or(now.wall);
                    let patch = draining::patch(&uid, &Draining { why, until }, unprotects);
                    patch_pod(&calls, name, uid, &patch, epoch).await
                }
                PodCall::MarkInactive { name, uid } => {
                    let patch = json!({"metadata": {
                        "uid": uid.as_str(),
                        "labels": {labels.keys().inactive: INACTIVE},
                        "annotations": {KEPT_SINCE: now.wall.to_string()},
                    }});
                    let pod = calls.patch_pod(&name, &patch).await?;
                    let id = inactive(&of, pod.as_ref());
                    let mut news = patched(pod, epoch, uid.clone(), name);
                    news.extend(id.map(|id| News::Inactive { id, uid }));
                    Ok(news)
                }
                PodCall::Protect {
                    name,
                    uid,
                    is_protected,
                } => {
                    let patch = draining::protect(&uid, is_protected);
                    patch_pod(&calls, name, uid, &patch, epoch).await
                }
                PodCall::Resize {
                    name,
                    uid,
                    memory_limit,
                } => {
                    let pod = calls.resize_pod(&name, &uid, memory_limit).await?;
                    Ok(patched(pod, epoch, uid, name))
                }
                PodCall::Promote { name, uid, profile } => {
                    let patch = draining::promote(&uid, labels, &profile);
                    patch_pod(&calls, name, uid, &patch, epoch).await
                }
                PodCall::ListKept => Ok(Vec::new()),
                PodCall::LookUp(id) => {
                    let pod = calls.get_pod(&looked_up).await?;
                    let found = pod.map_or(Found::Nothing, Found::Pod);
                    Ok(vec![News::LookedUp {
                        id,
                        sent,
                        epoch,
                        found,
                    }])
                }
            }
        };
        self.call(ctx, call, move |this, answer| {
            this.answered(&subject, answer, looked_up_at);
        });
    }

    /// The name of the pod the executor is bound to, else of the requested pod.
    fn name_of(&self, id: ExecutorId) -> Arc<str> {
        let pod = self.latest.entry(id).and_then(|entry| entry.pod());
        match pod {
            Some(pod) => Arc::clone(&pod.name),
            None => Arc::from(pod_name(&self.prefix, id)),
        }
    }

    fn answered(
        &mut self,
        subject: &Subject,
        answer: Result<Vec<News>, Failure>,
        looked_up_at: Option<Tick>,
    ) {
        let succeeded = answer.is_ok();
        let news = answer.unwrap_or_else(|failure| {
            let error = &failure.message;
            match subject {
                Subject::Memory(executor) => {
                    let executor = executor.get();
                    tracing::warn!(executor, %error, "an executor near its memory limit cannot get more: tried again");
                }
                _ => tracing::debug!(?subject, %error, "a call failed, it is tried again"),
            }
            self.unanswered(subject, looked_up_at)
        });
        for news in news {
            self.store.tell(news);
        }
        self.pending_actions
            .answered(subject, succeeded, self.clock.now().tick);
    }

    /// A failed look-up is news too, so that it is repeated (spec E-10).
    fn unanswered(&self, subject: &Subject, looked_up_at: Option<Tick>) -> Vec<News> {
        let (Subject::Executor(id), Some(sent)) = (subject, looked_up_at) else {
            return Vec::new();
        };
        let id = *id;
        let found = if planted::is(Planted::SilenceIsAnswer) {
            Found::Nothing
        } else {
            Found::NoAnswer
        };
        let epoch = self.epoch;
        vec![News::LookedUp {
            id,
            sent,
            epoch,
            found,
        }]
    }
}

/// A pod in an answer is news like any other (spec E-8).
fn seen(pod: Option<Sighting>, epoch: Epoch) -> Vec<News> {
    pod.map(|pod| News::Seen { pod, epoch })
        .into_iter()
        .collect()
}

/// The executor whose pod was labelled inactive. Only the answer shows whether the label was kept.
fn inactive(subject: &Subject, pod: Option<&Sighting>) -> Option<ExecutorId> {
    match (subject, pod?) {
        (Subject::Executor(id), Sighting::Read(pod)) => {
            pod.identity.executor().is_none().then_some(*id)
        }
        _ => None,
    }
}

async fn patch_pod(
    calls: &Calls,
    name: Arc<str>,
    uid: PodUid,
    patch: &Value,
    epoch: Epoch,
) -> Result<Vec<News>, Failure> {
    let pod = calls.patch_pod(&name, patch).await?;
    Ok(patched(pod, epoch, uid, name))
}

/// A patch that found no pod of this uid tells the same as such a delete.
fn patched(pod: Option<Sighting>, epoch: Epoch, uid: PodUid, name: Arc<str>) -> Vec<News> {
    match pod {
        Some(pod) => seen(Some(pod), epoch),
        None => vec![News::DeleteFoundNothing { uid, name }],
    }
}

impl Actor for LifecycleManager {
    type Context = Context<Self>;
}

impl Subscribes for LifecycleManager {
    fn store(&self) -> &StoreHandle {
        &self.store
    }
}

impl Handler<Round> for LifecycleManager {
    type Result = Next;

    fn handle(&mut self, Round(batch): Round, ctx: &mut Self::Context) -> Next {
        self.epoch = batch.latest().epoch;
        self.latest = batch.latest().clone();
        let actions = self.pending_actions.decide(&batch, self.clock.now());
        let reports = (actions.iter()).any(|action| matches!(action, Action::Report(_)));
        for action in actions {
            self.carry_out(action, ctx);
        }
        if reports {
            // The allocator can replace these executors without waiting for the next regular batch.
            self.store.ask_for(Subscriber::Allocator);
        }
        let now = self.clock.now().tick;
        let wake = self.pending_actions.next_try().filter(|at| *at > now);
        Next { wake }
    }
}

impl Handler<Measure> for LifecycleManager {
    type Result = ();

    fn handle(&mut self, Measure(metrics): Measure, _: &mut Self::Context) {
        let depth = self.pending_actions.outstanding();
        metrics.depths.of(["calls-owed".into()]).set(whole(depth));
    }
}

impl Handler<NewPolicy> for LifecycleManager {
    type Result = ();

    fn handle(&mut self, NewPolicy(policy): NewPolicy, _: &mut Self::Context) {
        self.pending_actions.keep_by(policy);
        self.store.ask();
    }
}

impl Handler<ServerIsBack> for LifecycleManager {
    type Result = ();

    fn handle(&mut self, _: ServerIsBack, _: &mut Self::Context) {
        self.pending_actions.server_is_back(self.clock.now().tick);
        self.store.ask();
    }
}
