//! PodAllocator: creates executors' pods and chooses the executors to retire.
//!
//! [`allocation`] decides on each batch; the actor sends the requests and reports their outcomes to
//! the store.

pub mod allocation;
pub mod caps;
pub mod claims;
pub mod crash_loop;
pub mod decision;
pub mod demand;
mod ensuring;
pub mod gang;
pub mod ids;
pub mod kubernetes_events;
pub mod messages;
pub mod notices;
pub mod pace;
pub mod pause;
mod pods;
pub mod queue;
mod queueing;
pub mod rate;
pub mod refusal;
pub mod slots;
pub mod victims;
pub mod waiting;
mod window;

use std::sync::Arc;

use actix::{Actor, Context, Handler, Recipient};
use tokio::sync::{mpsc, watch};

use crate::actors::profile_messages::{ProfileAdded, ProfileGone};
use crate::actors::snapshot_store::handle::{StoreHandle, Subscribes};
use crate::actors::snapshot_store::messages::{Next, Round};
use crate::clock::Clock;
use crate::event_recorder::EventRecorder;
use crate::kubernetes::calls::ServerIsBack;
use crate::kubernetes::pod_template::TemplateError;
use crate::kubernetes::{Calls, Failure, FailureKind};
use crate::metrics::{Measure, whole};
use crate::model::executor::LeaveReason;
use crate::model::news::{News, Outcome, TargetChange};
use crate::model::pod::Sighting;
use crate::model::{ExecutorId, PodUid, ProfileName, Snapshot, Tick};
use crate::planted::{self, Planted};

use allocation::Allocation;
use decision::{Action, Answer, Decision, Notice};
use messages::{
    CannotStart, GroupsRefused, KeepBackoffs, KeepFailures, NewLimits, OverBudget, PreferNodes,
    Reserve, StopRequesting,
};
use pause::Paused;
use refusal::RefusalKind;

pub use pods::Pods;

pub struct PodAllocator {
    allocation: Allocation,
    calls: Calls,
    pods: Pods,
    clock: Clock,
    store: StoreHandle,
    reserve: Recipient<Reserve>,
    keep_backoffs: Recipient<KeepBackoffs>,
    keep_failures: Recipient<KeepFailures>,
    cannot_start: mpsc::UnboundedSender<CannotStart>,
    stop: Recipient<OverBudget>,
    paused: Recipient<Paused>,
    left: watch::Sender<u32>,
    event_recorder: Option<EventRecorder>,
    /// The paused profiles as last reported.
    pauses: Paused,
    stopped: bool,
}

pub struct Wiring {
    pub allocation: Allocation,
    pub calls: Calls,
    pub pods: Pods,
    pub clock: Clock,
    pub store: StoreHandle,
    pub reserve: Recipient<Reserve>,
    pub keep_backoffs: Recipient<KeepBackoffs>,
    pub keep_failures: Recipient<KeepFailures>,
    /// Is informed if the driver cannot start.
    pub cannot_start: mpsc::UnboundedSender<CannotStart>,
    /// Is informed if the application has failed too often.
    pub stop: Recipient<OverBudget>,
    pub paused: Recipient<Paused>,
    /// Shows how many requests are in flight.
    pub left: watch::Sender<u32>,
    /// Records Kubernetes Events on the driver's pod; `None` if there is no such pod.
    pub event_recorder: Option<EventRecorder>,
}

impl PodAllocator {
    pub fn new(wiring: Wiring) -> Self {
        Self {
            allocation: wiring.allocation,
            calls: wiring.calls,
            pods: wiring.pods,
            clock: wiring.clock,
            store: wiring.store,
            reserve: wiring.reserve,
            keep_backoffs: wiring.keep_backoffs,
            keep_failures: wiring.keep_failures,
            cannot_start: wiring.cannot_start,
            stop: wiring.stop,
            paused: wiring.paused,
            left: wiring.left,
            event_recorder: wiring.event_recorder,
            pauses: Paused::default(),
            stopped: false,
        }
    }

    fn carry_out(&mut self, action: Action, record: Option<&PodUid>, ctx: &mut Context<Self>) {
        match action {
            Action::Request { id, profile } => {
                let outcome = Outcome::Sent {
                    profile: profile.clone(),
                };
                self.send(id, profile, outcome, record, ctx);
            }
            Action::Repeat { id, profile } => {
                self.send(id, profile, Outcome::SentAgain, record, ctx);
            }
            Action::Retire(ids, why, how) => {
                let aim = match why {
                    LeaveReason::ScaledDown => TargetChange::Surplus,
                    _ => TargetChange::Stay,
                };
                self.store.tell(News::Retire { ids, aim, why, how });
            }
            Action::Promote(ids) => self.store.tell(News::Promote(ids)),
            Action::ListClaims(epoch) => self.list_claims(epoch, ctx),
            Action::EnsureClaim(ensure) => self.ensure_claim(ensure, record, ctx),
            Action::Reserve(up_to) => {
                self.call(ctx, self.reserve.send(Reserve(up_to)), |this, answer| {
                    this.allocation.reserved(answer.ok().flatten());
                });
            }
            Action::KeepBackoffs(backoffs) => self.keep_backoffs.do_send(KeepBackoffs(backoffs)),
            Action::KeepFailures(failures) => self.keep_failures.do_send(KeepFailures(failures)),
            Action::Avoid(avoid) => {
                let (nodes, rather_not) = (&avoid.never, &avoid.rather_not);
                let rejecting = &avoid.rejecting;
                tracing::info!(
                    ?nodes,
                    ?rather_not,
                    ?rejecting,
                    "new executors avoid the nodes on which too many failed, or that reject them"
                );
                self.pods.avoid(avoid);
            }
            Action::LimitMemory(limits) => self.pods.limit_memory(limits),
            Action::Queue(writes) => self.queue(&writes, record, ctx),
            Action::Say(notice) => self.say(notice),
        }
    }

    /// Sends a request for a pod. The store is informed first: the entry counts from then on.
    fn send(
        &mut self,
        id: ExecutorId,
        profile: ProfileName,
        outcome: Outcome,
        record: Option<&PodUid>,
        ctx: &mut Context<Self>,
    ) {
        if !planted::is(Planted::RequestUnrecorded) {
            self.store.tell(News::Requested { id, outcome });
        }
        let sent = self.clock.now().tick;
        let pod = record.and_then(|record| self.pods.pod(&profile, id, record));
        let Some(pod) = pod else {
            let why: Arc<str> = Arc::from(format!("there is no profile {profile}"));
            self.answered(id, &profile, sent, Err(Refusal::NoSuchProfile(why)));
            return self.store.ask();
        };
        let mut pod = pod.with_claims(self.allocation.claims().given(id));
        let block = self.allocation.queue().and_then(|queue| queue.given(id));
        if let Some((number, placement)) = block {
            pod = pod.in_block(number, &placement);
        }
        if self.allocation.gangs().is_alone(id) {
            pod = pod.without_group();
        }
        let calls = self.calls.clone();
        let request = async move { calls.create_pod(&pod).await.map_err(Refusal::Failed) };
        self.call(ctx, request, move |this, answer| {
            this.answered(id, &profile, sent, answer);
        });
    }

    fn answered(
        &mut self,
        id: ExecutorId,
        profile: &ProfileName,
        sent: Tick,
        answer: Result<Sighting, Refusal>,
    ) {
        let (outcome, answer) = match answer {
            Ok(pod) => (Outcome::Created(pod), Answer::Created),
            Err(Refusal::NoSuchProfile(why)) => (
                Outcome::Refused(Arc::clone(&why)),
                Answer::Refused(RefusalKind::Blocked, why),
            ),
            Err(Refusal::Failed(failure)) => meaning(&failure),
        };
        self.store.tell(News::Requested { id, outcome });
        for notice in self
            .allocation
            .answered(profile, sent, &answer, self.clock.now())
        {
            self.say(notice);
        }
    }

    fn say(&mut self, notice: Notice) {
        notices::say(&notice, self.event_recorder.as_ref());
        match notice {
            Notice::Spent { why } => {
                self.stopped = true;
                // There may be no further round, and the record needs the failures before the end.
                if let Some(failures) = self.allocation.keep_failures() {
                    self.keep_failures.do_send(KeepFailures(failures));
                }
                self.stop.do_send(OverBudget { why });
            }
            Notice::ProfileFailed { profile, why } => {
                self.store.tell(News::Failed { profile, why });
            }
            Notice::Grown { profile, limit } => {
                self.store.tell(News::Grown { profile, limit });
            }
            Notice::Fatal { kind, why } => {
                self.stopped = true;
                // The driver's task may have ended already.
                let _ = self.cannot_start.send(CannotStart {
                    kind,
                    why: why.to_string(),
                });
            }
            _ => {}
        }
    }

    /// Reports which profiles are paused, if that has changed (spec A-31).
    fn show_pauses(&mut self, latest: &Snapshot) {
        let pauses = Paused(self.allocation.pauses(latest));
        if pauses != self.pauses {
            self.paused.do_send(pauses.clone());
            self.pauses = pauses;
        }
    }
}

enum Refusal {
    NoSuchProfile(Arc<str>),
    Failed(Failure),
}

/// What a failed create means for its entry (spec) and later requests (spec A-20 to
///
pub(crate) fn meaning(failure: &Failure) -> (Outcome, Answer) {
    let why = failure.explained();
    let trouble = || Answer::Trouble(failure.retry_after, Arc::clone(&why));
    let refused = |kind| Answer::Refused(kind, Arc::clone(&why));
    let answer = match failure.kind {
        FailureKind::AlreadyExists => return (Outcome::NameTaken, Answer::NameTaken),
        FailureKind::Quota => refused(RefusalKind::Quota),
        FailureKind::Admission | FailureKind::Invalid => refused(RefusalKind::Blocked),
        FailureKind::Rights => refused(RefusalKind::Rights),
        FailureKind::Credentials => refused(RefusalKind::Credentials),
        FailureKind::NamespaceTerminating
        | FailureKind::NamespaceMissing
        | FailureKind::NotFound => refused(RefusalKind::Namespace),
        FailureKind::Wait
        | FailureKind::Conflict
        | FailureKind::Expired
        | FailureKind::TooLargeVersion
        | FailureKind::Server
        | FailureKind::TimedOut
        | FailureKind::Unreachable
        | FailureKind::Broken
        | FailureKind::Garbage => trouble(),
    };
    let outcome = if failure.is_refused() {
        Outcome::Refused(why.clone())
    } else {
        Outcome::Broke(why.clone())
    };
    (outcome, answer)
}

impl Actor for PodAllocator {
    type Context = Context<Self>;
}

impl Subscribes for PodAllocator {
    fn store(&self) -> &StoreHandle {
        &self.store
    }
}

impl Handler<Round> for PodAllocator {
    type Result = Next;

    fn handle(&mut self, Round(batch): Round, ctx: &mut Self::Context) -> Next {
        let mut next = Next::default();
        if !self.stopped {
            let Decision { actions, wake } = self.allocation.decide(&batch, self.clock.now());
            let record = batch.latest().record.as_ref();
            for action in actions {
                self.carry_out(action, record, ctx);
            }
            self.show_pauses(batch.latest());
            next.wake = wake;
        }
        self.left.send_replace(self.allocation.in_flight());
        next
    }
}

impl Handler<Measure> for PodAllocator {
    type Result = ();

    fn handle(&mut self, Measure(metrics): Measure, _: &mut Self::Context) {
        let claims = self.allocation.claims().making.in_flight();
        for (queue, depth) in [
            ("requests-in-flight", self.allocation.in_flight()),
            ("claims-in-flight", claims),
        ] {
            metrics.depths.of([queue.into()]).set(whole(depth));
        }
        let now = self.clock.now().tick;
        metrics.show_failures(self.allocation.failures().counted(now));
    }
}

impl Handler<ServerIsBack> for PodAllocator {
    type Result = ();

    fn handle(&mut self, _: ServerIsBack, _: &mut Self::Context) {
        self.allocation.server_is_back(self.clock.now().tick);
        self.store.ask();
    }
}

impl Handler<ProfileAdded> for PodAllocator {
    type Result = Result<(), TemplateError>;

    fn handle(&mut self, ProfileAdded(added): ProfileAdded, _: &mut Self::Context) -> Self::Result {
        let (name, spec) = (&added.name, &added.spec);
        let claims = (spec.claims.iter())
            .map(|claim| claim.template.clone())
            .collect();
        self.pods.add_profile(name.clone(), spec.clone())?;
        (self.allocation.failures()).let_grow(name.clone(), spec.growth);
        self.allocation.claims().add_profile(name.clone(), claims);
        self.allocation
            .limit_pending(name.clone(), added.max_pending);
        let hash = self.pods.queued(name).map(|pods| pods.hash);
        let hash = hash.unwrap_or_default();
        self.allocation
            .add_profile(name.clone(), added.bounds.least, hash);
        if added.kept.is_none() {
            self.allocation.failures().add_configured(name.clone());
        }
        Ok(())
    }
}

impl Handler<ProfileGone> for PodAllocator {
    type Result = bool;

    fn handle(&mut self, gone: ProfileGone, _: &mut Self::Context) -> bool {
        self.pods.remove_profile(&gone.name);
        self.allocation.remove_profile(&gone.name);
        true
    }
}

impl Handler<NewLimits> for PodAllocator {
    type Result = ();

    fn handle(&mut self, new: NewLimits, _: &mut Self::Context) {
        self.allocation.reconfigure(new, self.clock.now().tick);
        self.store.ask();
    }
}

impl Handler<GroupsRefused> for PodAllocator {
    type Result = ();

    fn handle(&mut self, GroupsRefused(refused): GroupsRefused, _: &mut Self::Context) {
        self.allocation
            .groups_refused(refused, self.clock.now().tick);
        self.store.ask();
    }
}

impl Handler<PreferNodes> for PodAllocator {
    type Result = ();

    fn handle(&mut self, PreferNodes(nodes): PreferNodes, _: &mut Self::Context) {
        self.pods.prefer(nodes);
    }
}

impl Handler<StopRequesting> for PodAllocator {
    type Result = ();

    fn handle(&mut self, _: StopRequesting, _: &mut Self::Context) {
        self.stopped = true;
        self.left.send_replace(self.allocation.in_flight());
    }
}
