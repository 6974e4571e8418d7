//! PodAllocator: how many executors there are, when they are asked for, and which go.
//!
//! Gets batches, has [`allocation`] decide, sends the requests and tells their outcomes to the store.

pub mod allocation;
pub mod crash_loop;
pub mod decision;
pub mod demand;
pub mod gang;
pub mod hold;
pub mod ids;
pub mod messages;
pub mod pace;
pub mod rate;
pub mod slots;
pub mod victims;

use std::collections::BTreeMap;
use std::sync::Arc;

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, Recipient, WrapFuture,
};

use crate::clock::Clock;
use crate::kubernetes::pod_template::{Common, TemplateError};
use crate::kubernetes::{Calls, Failure, Kind as FailureKind, PodBody, ProfileSpec, Template};
use crate::metrics::messages::{AskDepths, Depths};
use crate::model::news::{Aim, News, Outcome};
use crate::model::pod::Sighting;
use crate::model::{ExecutorId, PodUid, ProfileName, Tick};
use crate::planted::{self, Planted};
use crate::snapshot_store::SnapshotStore;
use crate::snapshot_store::delivery::Timing;
use crate::snapshot_store::messages::{AskRound, Decided, Round, Subscribe, Subscriber, Tell};
use crate::telemetry::millis;

use allocation::Allocation;
use decision::{Action, Answer, Decision, Saying};
use hold::Kind;
use messages::{CannotStart, Keep, KnowProfile, Reserve, StopRequesting};

/// Decides how many executors are asked for and which go.
pub struct PodAllocator {
    allocation: Allocation,
    calls: Calls,
    pods: Pods,
    clock: Clock,
    timing: Timing,
    store: Addr<SnapshotStore>,
    reserve: Recipient<Reserve>,
    keep: Recipient<Keep>,
    cannot_start: Recipient<CannotStart>,
    stopped: bool,
    armed: Option<Tick>,
}

/// What PodAllocator is made of.
pub struct Wiring {
    /// What decides.
    pub allocation: Allocation,
    /// The API server.
    pub calls: Calls,
    /// How pods are made.
    pub pods: Pods,
    /// The time.
    pub clock: Clock,
    /// When batches come.
    pub timing: Timing,
    /// Where news goes.
    pub store: Addr<SnapshotStore>,
    /// Who reserves ids.
    pub reserve: Recipient<Reserve>,
    /// Who keeps backoffs.
    pub keep: Recipient<Keep>,
    /// Who hears that there is no way to go on.
    pub cannot_start: Recipient<CannotStart>,
}

/// How pods are made; the application record that owns them may be made anew (spec K-2).
pub struct Pods {
    common: Common,
    profiles: BTreeMap<ProfileName, ProfileSpec>,
    template: Template,
}

impl Pods {
    /// Pods of these profiles.
    ///
    /// # Errors
    /// Where the API server would refuse the pods for a reason that can be told beforehand.
    pub fn new(
        common: Common,
        profiles: BTreeMap<ProfileName, ProfileSpec>,
    ) -> Result<Self, TemplateError> {
        let template = Template::new(&common, &profiles)?;
        Ok(Self {
            common,
            profiles,
            template,
        })
    }

    /// Takes a new profile in; where no pod can be made of it, nothing changes.
    fn know(&mut self, name: ProfileName, spec: ProfileSpec) -> Result<(), TemplateError> {
        let mut profiles = self.profiles.clone();
        profiles.insert(name, spec);
        self.template = Template::new(&self.common, &profiles)?;
        self.profiles = profiles;
        Ok(())
    }

    /// The pod of an executor, owned by this record; `None` where there is no such profile.
    fn pod(&mut self, profile: &ProfileName, id: ExecutorId, record: &PodUid) -> Option<PodBody> {
        if self.common.record_uid != *record {
            self.common.record_uid = record.clone();
            self.template = Template::new(&self.common, &self.profiles).ok()?;
        }
        self.template.pod(profile, id)
    }
}

/// The time of a next decision has come.
#[derive(Message)]
#[rtype(result = "()")]
struct Wake(Tick);

impl PodAllocator {
    /// With nothing asked for yet.
    pub fn new(wiring: Wiring) -> Self {
        let Wiring {
            allocation,
            calls,
            pods,
            clock,
            timing,
            store,
            reserve,
            keep,
            cannot_start,
        } = wiring;
        Self {
            allocation,
            calls,
            pods,
            clock,
            timing,
            store,
            reserve,
            keep,
            cannot_start,
            stopped: false,
            armed: None,
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
                self.store.do_send(Tell(News::Retire {
                    ids,
                    aim: Aim::Stay,
                    why,
                    how,
                }));
            }
            Action::Reserve(up_to) => {
                let reserved = self.reserve.send(Reserve(up_to)).into_actor(self);
                ctx.spawn(reserved.map(|answer, this, _| {
                    this.allocation.reserved(answer.ok().flatten());
                    this.store.do_send(AskRound(Subscriber::Allocator));
                }));
            }
            Action::Keep(backoffs) => self.keep.do_send(Keep(backoffs)),
            Action::Say(saying) => self.say(saying),
        }
    }

    /// Makes a request, of which the store is told before it is made.
    fn send(
        &mut self,
        id: ExecutorId,
        profile: ProfileName,
        outcome: Outcome,
        record: Option<&PodUid>,
        ctx: &mut Context<Self>,
    ) {
        if !planted::is(Planted::RequestUnannounced) {
            self.store.do_send(Tell(News::Requested { id, outcome }));
        }
        let sent = self.clock.now().tick;
        let Some(pod) = record.and_then(|record| self.pods.pod(&profile, id, record)) else {
            let why: Arc<str> = Arc::from(format!("there is no profile {profile}"));
            return self.answered(id, &profile, sent, Err(Refusal::NoSuchProfile(why)));
        };
        let calls = self.calls.clone();
        let request = async move { calls.create_pod(&pod).await.map_err(Refusal::Failed) };
        ctx.spawn(request.into_actor(self).map(move |answer, this, _| {
            this.answered(id, &profile, sent, answer);
        }));
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
                Answer::Refused(Kind::Blocked, why),
            ),
            Err(Refusal::Failed(failure)) => meaning(&failure),
        };
        self.store.do_send(Tell(News::Requested { id, outcome }));
        for saying in self
            .allocation
            .answered(profile, sent, &answer, self.clock.now())
        {
            self.say(saying);
        }
        self.store.do_send(AskRound(Subscriber::Allocator));
    }

    fn say(&mut self, saying: Saying) {
        match saying {
            Saying::BackoffBegan { profile, wait } => tracing::warn!(
                profile = profile.as_str(),
                wait_ms = millis(wait),
                "executors end early, again and again: backing off, then one at a time is tried"
            ),
            Saying::BackoffEnded { profile, after } => tracing::info!(
                profile = profile.as_str(),
                duration_ms = millis(after),
                "an executor stayed: no longer backing off"
            ),
            Saying::GangMissed {
                profile,
                least,
                there,
                wait,
            } => tracing::warn!(
                profile = profile.as_str(),
                least,
                there,
                wait_ms = millis(wait),
                "too few executors of this profile came in time: those that wait are let go, and asked for again later"
            ),
            Saying::GangOver { profile, after } => tracing::info!(
                profile = profile.as_str(),
                duration_ms = millis(after),
                "no longer waiting for enough executors of this profile"
            ),
            Saying::HoldBegan {
                profile,
                kind,
                why,
                wait,
            } => tracing::warn!(
                profile = profile.as_str(),
                reason = ?kind,
                error = &*why,
                wait_ms = millis(wait),
                "the API server refuses executors of this profile: waiting"
            ),
            Saying::HoldEnded { profile, after } => tracing::info!(
                profile = profile.as_str(),
                duration_ms = millis(after),
                "the API server accepts executors of this profile again"
            ),
            Saying::Degraded { why } => {
                tracing::warn!(error = &*why, "requests for executors fail: backing off");
            }
            Saying::Recovered { after } => {
                tracing::info!(
                    duration_ms = millis(after),
                    "requests for executors are answered again"
                );
            }
            Saying::Fatal { kind, why } => {
                self.stopped = true;
                self.cannot_start.do_send(CannotStart {
                    kind,
                    why: why.to_string(),
                });
            }
            Saying::OutOfIds => {
                tracing::error!("all executor ids are used up: no more executors can be requested");
            }
        }
    }

    /// Asks for a round at a deadline, if that is before the next round comes anyway.
    fn arm(&mut self, wake: Option<Tick>, ctx: &mut Context<Self>) {
        let now = self.clock.now().tick;
        let soon = |at: &Tick| now.until(*at) < self.timing.interval;
        if let Some(at) = wake.filter(soon)
            && self.armed != Some(at)
        {
            self.armed = Some(at);
            ctx.notify_later(Wake(at), now.until(at));
        }
    }
}

/// Why there is no pod.
enum Refusal {
    NoSuchProfile(Arc<str>),
    Failed(Failure),
}

/// What a failed create means for its entry (spec) and for what may be asked for (spec ).
fn meaning(failure: &Failure) -> (Outcome, Answer) {
    let why = Arc::clone(&failure.message);
    let trouble = || Answer::Trouble(failure.retry_after, Arc::clone(&why));
    let refused = |kind| Answer::Refused(kind, Arc::clone(&why));
    let answer = match failure.kind {
        FailureKind::AlreadyExists => return (Outcome::NameTaken, Answer::NameTaken),
        FailureKind::Quota => refused(Kind::Quota),
        FailureKind::Admission | FailureKind::Invalid => refused(Kind::Blocked),
        FailureKind::Rights => refused(Kind::Rights),
        FailureKind::Credentials => refused(Kind::Credentials),
        FailureKind::NamespaceTerminating
        | FailureKind::NamespaceMissing
        | FailureKind::NotFound => refused(Kind::Namespace),
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

    fn started(&mut self, ctx: &mut Self::Context) {
        self.store.do_send(Subscribe {
            subscriber: Subscriber::Allocator,
            timing: self.timing,
            recipient: ctx.address().recipient(),
        });
    }
}

impl Handler<Round> for PodAllocator {
    type Result = ();

    fn handle(&mut self, Round(batch): Round, ctx: &mut Self::Context) {
        if !self.stopped {
            let Decision {
                actions,
                cut_short,
                wake,
            } = self.allocation.decide(&batch, self.clock.now());
            let record = batch.latest().record.as_ref();
            for action in actions {
                self.carry_out(action, record, ctx);
            }
            if cut_short {
                self.store.do_send(AskRound(Subscriber::Allocator));
            }
            self.arm(wake, ctx);
        }
        self.store.do_send(Decided(Subscriber::Allocator));
    }
}

impl Handler<AskDepths> for PodAllocator {
    type Result = Depths;

    fn handle(&mut self, _: AskDepths, _: &mut Self::Context) -> Depths {
        let requests = self.allocation.in_flight() as usize;
        Depths(vec![("requests-in-flight", requests)])
    }
}

impl Handler<Wake> for PodAllocator {
    type Result = ();

    fn handle(&mut self, Wake(at): Wake, _: &mut Self::Context) {
        if self.armed == Some(at) {
            self.armed = None;
            self.store.do_send(AskRound(Subscriber::Allocator));
        }
    }
}

impl Handler<KnowProfile> for PodAllocator {
    type Result = Result<(), TemplateError>;

    fn handle(&mut self, know: KnowProfile, _: &mut Self::Context) -> Self::Result {
        let (name, least) = (know.name.clone(), know.least);
        self.pods.know(know.name, know.spec)?;
        self.allocation.know(name, least);
        Ok(())
    }
}

impl Handler<StopRequesting> for PodAllocator {
    type Result = u32;

    fn handle(&mut self, _: StopRequesting, _: &mut Self::Context) -> u32 {
        self.stopped = true;
        self.allocation.in_flight()
    }
}
