//! Pending actions on the real ledger.

mod calls;
mod ends;
mod going;
mod keeping;
mod look_ups;
mod memory;
mod overdue;
mod probes;
mod spares;

use rand::SeedableRng;

use super::*;
use crate::actors::lifecycle_manager::kept::{Policy, Which};
use crate::model::Incarnation;
use crate::model::executor::{LeaveMethod, LeaveReason};
use crate::model::ledger::Inheritance;
use crate::model::news::{Found, News, Outcome, TargetChange};
use crate::model::pod::{Disruption, PodIdentity, Sighting};
use crate::testing::{SERVER_TIMEOUT, Scenario, at, id, running, terminating};

const CREATION_TIMEOUT: Duration = Duration::from_secs(60);

fn settings() -> PodRules {
    PodRules {
        keep: Policy::NONE,
        max_in_flight: 32,
        server_timeout: SERVER_TIMEOUT,
        creation_timeout: CREATION_TIMEOUT,
        backoff: Backoff {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(30),
        },
        adoption_grace: Some(Duration::from_secs(60)),
        left_to_sets: None,
        reads_events: false,
        protects_busy: false,
    }
}

/// A LifecycleManager on its ledger. The test answers its calls.
struct Manager {
    scenario: Scenario,
    pending_actions: PendingActions,
    reported: Vec<(u64, LossClass)>,
    corrected: Vec<(u64, LossClass)>,
    calls: Vec<(Subject, PodCall)>,
    instructed: Vec<Instruct>,
    /// Whose Events it wants to read.
    asked: Vec<(u64, PodUid)>,
    /// The messages of the reports.
    said: Vec<String>,
    /// Whether reports do not reach the ledger, as while the record cannot be written.
    reports_wait: bool,
}

/// A call, abbreviated.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Delete(&'static str),
    DeleteWithin(&'static str, u64),
    Label(u64),
    MarkDraining(u64),
    LookUp(u64),
    ListKept,
}

impl Manager {
    fn new() -> Self {
        Self::with(settings(), Scenario::new(&[("default", 9)]))
    }

    fn with(settings: PodRules, scenario: Scenario) -> Self {
        use rand::rngs::StdRng;
        Self {
            scenario,
            pending_actions: PendingActions::new(settings, StdRng::seed_from_u64(7)),
            reported: Vec::new(),
            corrected: Vec::new(),
            calls: Vec::new(),
            instructed: Vec::new(),
            asked: Vec::new(),
            said: Vec::new(),
            reports_wait: false,
        }
    }

    /// One round, carried out as the actor does. Returns its calls.
    fn round(&mut self) -> Vec<Call> {
        let mut made = Vec::new();
        let batch = self.scenario.batch();
        for action in self.pending_actions.decide(&batch, self.scenario.now()) {
            match action {
                Action::Report(Ending { entry, reason }) => {
                    let id = entry.id;
                    self.reported.push((id.get(), reason.class));
                    self.said.push(reason.message.clone());
                    if !self.reports_wait {
                        self.scenario.tell(News::Reported { id, reason });
                    }
                }
                Action::Correct(ending) => self
                    .corrected
                    .push((ending.entry.id.get(), ending.reason.class)),
                Action::Instruct(instruct) => self.instructed.push(instruct),
                Action::AskForProbe(id, uid) => self.asked.push((id.get(), uid)),
                Action::Call(subject, pod_call) => {
                    made.push(short(&subject, &pod_call));
                    self.calls.push((subject, pod_call));
                }
            }
        }
        self.scenario.release();
        made
    }

    /// Rounds until there is no news. Returns their calls.
    fn rounds(&mut self) -> Vec<Call> {
        let mut made = self.round();
        while self.scenario.has_news() {
            made.extend(self.round());
        }
        made
    }

    /// Answers the oldest call in flight.
    fn answer(&mut self, succeeded: bool) {
        let (subject, _) = self.calls.remove(0);
        let now = self.scenario.now().tick;
        self.pending_actions.answered(&subject, succeeded, now);
    }

    fn request(&mut self, n: u64) {
        let profile = "default".into();
        self.scenario.requested(n, Outcome::Sent { profile });
    }

    fn start(&mut self, n: u64) {
        self.request(n);
        self.scenario.created(n);
        self.scenario.runs(n);
    }

    fn retire(&mut self, n: u64, why: LeaveReason) {
        self.retire_by(n, why, LeaveMethod::Delete);
    }

    fn retire_by(&mut self, n: u64, why: LeaveReason, how: LeaveMethod) {
        let ids = vec![id(n)];
        self.scenario.tell(News::Retire {
            ids,
            aim: TargetChange::Stay,
            why,
            how,
        });
    }

    fn looked_up(&mut self, n: u64, found: Found) {
        let (sent, epoch) = (self.scenario.now().tick, self.scenario.current().epoch);
        self.scenario.tell(News::LookedUp {
            id: id(n),
            sent,
            epoch,
            found,
        });
    }

    /// A round each second. Returns the calls and their seconds.
    fn seconds(&mut self, seconds: u64) -> Vec<(u64, Call)> {
        let mut made = Vec::new();
        for _ in 0..seconds {
            self.scenario.pass(1_000);
            let now = self.scenario.millis / 1_000;
            made.extend(self.rounds().into_iter().map(|call| (now, call)));
        }
        made
    }
}

fn short(subject: &Subject, pod_call: &PodCall) -> Call {
    match (subject, pod_call) {
        (_, PodCall::Delete { uid, grace, .. }) => {
            let uid = uid.as_str().to_owned().leak();
            match grace {
                None => Call::Delete(uid),
                Some(grace) => Call::DeleteWithin(uid, grace.as_secs()),
            }
        }
        (Subject::Executor(id), PodCall::MarkDraining { .. }) => Call::MarkDraining(id.get()),
        (Subject::Executor(id), PodCall::MarkInactive { .. }) => Call::Label(id.get()),
        (Subject::Executor(_), PodCall::LookUp(id)) => Call::LookUp(id.get()),
        (Subject::KeptPods, PodCall::ListKept) => Call::ListKept,
        other => panic!("a orphan is deleted, nothing else: {other:?}"),
    }
}

fn found(pod: Pod) -> Found {
    Found::Pod(Sighting::Read(Arc::new(pod)))
}
