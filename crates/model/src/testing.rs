//! For the tests of decisions: a ledger that they drive step by step, pods, and the tables of the documentation.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

pub mod pages;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::ledger::{Identity, Inheritance, Ledger};
use crate::news::{ListKind, Listed, News, Outcome};
use crate::pod::{ContainerState, Deletion, Phase, PodIdentity, Scheduling, Sighting, Termination};
use crate::reasoning::reason_of;
use crate::snapshot::{Counts, Hold};
use crate::{
    AppId, Batch, Entry, Epoch, ExecutorId, Incarnation, Now, Pod, ProfileName, Snapshot, Tick,
};

/// How long the server may take to commit a request.
pub const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

pub fn id(n: u64) -> ExecutorId {
    ExecutorId::new(n).unwrap()
}

pub fn at(millis: u64) -> Tick {
    Tick::after_start(Duration::from_millis(millis))
}

pub fn pending(prefix: &str, id: u64, uid: &str, version: u64) -> Pod {
    let id = ExecutorId::new(id).unwrap();
    Pod {
        uid: uid.into(),
        name: crate::ids::pod_name(prefix, id).into(),
        version: version.into(),
        identity: PodIdentity::Executor {
            id,
            profile: Some("default".into()),
            incarnation: Some(Incarnation(1)),
        },
        ..Pod::blank()
    }
}

pub fn ended(exit_code: i32) -> Termination {
    Termination {
        exit_code: Some(exit_code),
        reason: None,
        message: None,
        started: None,
        finished: None,
    }
}

/// A ledger, a clock, and each subscriber's undelivered snapshots.
pub struct Scenario {
    pub ledger: Ledger,
    pub millis: u64,
    version: u64,
    subscribers: Vec<Subscriber>,
}

#[derive(Default)]
struct Subscriber {
    waiting: Vec<Arc<Snapshot>>,
    delivered: u64,
}

impl Scenario {
    /// A ledger before the first list.
    pub fn before_adoption(targets: &[(&str, u32)], inheritance: Inheritance) -> Self {
        let identity = Identity {
            app: AppId::from("app"),
            prefix: Arc::from("a"),
            incarnation: Incarnation(1),
            server_timeout: SERVER_TIMEOUT,
            decommission_timeout: Duration::from_secs(60),
            default_profile: "default".into(),
        };
        let targets = targets.iter().map(|(p, n)| ((*p).into(), *n)).collect();
        let now = Now::new(at(0), jiff::Timestamp::UNIX_EPOCH);
        let ledger = Ledger::new(identity, inheritance, targets, "record".into(), now);
        Self {
            ledger,
            millis: 0,
            version: 100,
            subscribers: vec![Subscriber::default()],
        }
    }

    /// A ledger after a first list without pods.
    pub fn new(targets: &[(&str, u32)]) -> Self {
        let mut scenario = Self::before_adoption(targets, Inheritance::default());
        scenario.list(Vec::new());
        scenario
    }

    /// The same with a strategy in which sets create the pods.
    pub fn new_of_sets(targets: &[(&str, u32)]) -> Self {
        let scenario = Self::before_adoption(targets, Inheritance::default());
        let mut scenario = Self {
            ledger: scenario.ledger.of_sets(),
            ..scenario
        };
        scenario.list(Vec::new());
        scenario
    }

    /// The same with profiles that failed before the start.
    pub fn with_profiles_failed(self, failed: Vec<(ProfileName, Arc<str>)>) -> Self {
        let ledger = self.ledger.with_profiles_failed(failed);
        Self { ledger, ..self }
    }

    /// The same with executors held since before the start.
    pub fn with_executors_held(self) -> Self {
        let ledger = self.ledger.with_executors_held(Hold { by: None });
        Self { ledger, ..self }
    }

    pub fn now(&self) -> Now {
        Now::new(at(self.millis), jiff::Timestamp::UNIX_EPOCH)
    }

    pub fn pass(&mut self, millis: u64) {
        self.millis += millis;
    }

    /// Reports the end of executor `n`, with the reason in its entry.
    pub fn report(&mut self, n: u64) {
        if let Some(entry) = self.entry(n) {
            let reason = Arc::new(reason_of(entry));
            self.tell(News::Reported { id: id(n), reason });
        }
    }

    pub fn tell(&mut self, news: News) {
        let applied = self.ledger.apply(news, self.now());
        self.publish(applied.snapshot);
    }

    /// A quorum list of these pods.
    pub fn list(&mut self, pods: Vec<Pod>) {
        let ticket = self.ledger.begin_list(self.now());
        self.version += 1;
        let listed = Listed {
            ticket,
            version: self.version.into(),
            kind: ListKind::ForWatch,
            items: pods
                .into_iter()
                .map(|p| Sighting::Read(Arc::new(p)))
                .collect(),
        };
        let (_, applied) = self.ledger.list(listed, self.now());
        self.publish(applied.snapshot);
    }

    fn publish(&mut self, snapshot: Option<Arc<Snapshot>>) {
        for subscriber in &mut self.subscribers {
            subscriber.waiting.extend(snapshot.clone());
        }
    }

    /// The next batch of the first subscriber.
    pub fn batch(&mut self) -> Batch {
        self.batch_of(0)
    }

    pub fn batch_of(&mut self, subscriber: usize) -> Batch {
        let current = self.current().clone();
        let subscriber = &mut self.subscribers[subscriber];
        subscriber.delivered = current.seq;
        Batch::new(std::mem::take(&mut subscriber.waiting), current)
    }

    /// Adds a subscriber, and returns its index.
    pub fn subscribe(&mut self) -> usize {
        let waiting = vec![Arc::new(self.current().with_everything_changed())];
        self.subscribers.push(Subscriber {
            waiting,
            delivered: 0,
        });
        self.subscribers.len() - 1
    }

    /// Whether any subscriber has undelivered changes.
    pub fn has_news(&self) -> bool {
        self.subscribers.iter().any(|s| !s.waiting.is_empty())
    }

    /// Releases the ended entries that all subscribers have received.
    pub fn release(&mut self) {
        let everyone = self.subscribers.iter().map(|s| s.delivered).min();
        let applied = self.ledger.release(everyone.unwrap_or(0), self.now());
        self.publish(applied.snapshot);
    }

    pub fn current(&self) -> &Snapshot {
        self.ledger.current()
    }

    pub fn entry(&self, n: u64) -> Option<&Arc<Entry>> {
        self.current().entry(id(n))
    }

    pub fn counts(&self, profile: &str) -> Counts {
        self.current().counts(&profile.into())
    }

    pub fn want(&mut self, profile: &str, executors: u32) {
        self.tell(News::Targets(BTreeMap::from([(profile.into(), executors)])));
    }

    pub fn requested(&mut self, n: u64, outcome: Outcome) {
        self.tell(News::Requested { id: id(n), outcome });
    }

    /// The pod of this executor as in the ledger, or else as it would be created.
    pub fn pod(&self, n: u64) -> Pod {
        if let Some(pod) = self.entry(n).and_then(|entry| entry.pod()) {
            return Pod::clone(pod);
        }
        let mut pod = pending("a", n, &format!("u{n}"), 1);
        if let (PodIdentity::Executor { profile, .. }, Some(entry)) =
            (&mut pod.identity, self.entry(n))
        {
            *profile = Some(entry.profile.clone());
        }
        pod
    }

    /// The pod with the next resource version.
    pub fn changed(&mut self, mut pod: Pod) -> Pod {
        self.version += 1;
        pod.version = self.version.into();
        pod
    }

    fn newer(&mut self, pod: Pod) -> Sighting {
        Sighting::Read(Arc::new(self.changed(pod)))
    }

    /// The outcome of a successful create (201).
    pub fn creation(&mut self, n: u64) -> Outcome {
        let pod = self.pod(n);
        Outcome::Created(self.newer(pod))
    }

    pub fn created(&mut self, n: u64) {
        let outcome = self.creation(n);
        self.requested(n, outcome);
    }

    pub fn observe(&mut self, pod: Pod) {
        let pod = self.newer(pod);
        self.tell(News::Seen {
            pod,
            epoch: Epoch::default(),
        });
    }

    pub fn runs(&mut self, n: u64) {
        let pod = running(self.pod(n));
        self.observe(pod);
    }

    pub fn exits(&mut self, n: u64, code: i32) {
        let pod = exited(self.pod(n), code);
        self.observe(pod);
    }

    /// The pod's deletion has begun.
    pub fn terminates(&mut self, n: u64) {
        let pod = terminating(self.pod(n));
        self.observe(pod);
    }

    /// The pod's DELETED event.
    pub fn goes(&mut self, n: u64) {
        let pod = terminating(self.pod(n));
        let pod = self.newer(pod);
        self.tell(News::Deleted {
            pod,
            epoch: Epoch::default(),
        });
    }

    pub fn profile_of(&self, n: u64) -> ProfileName {
        self.entry(n).map(|entry| entry.profile.clone()).unwrap()
    }
}

pub fn running(pod: Pod) -> Pod {
    Pod {
        phase: Phase::Running,
        scheduling: Scheduling::Bound,
        executor: ContainerState::Running { started: None },
        ..pod
    }
}

pub fn terminating(pod: Pod) -> Pod {
    Pod {
        deletion: Some(Deletion {
            deadline: None,
            grace: None,
        }),
        ..pod
    }
}

pub fn exited(pod: Pod, code: i32) -> Pod {
    let phase = if code == 0 {
        Phase::Succeeded
    } else {
        Phase::Failed
    };
    Pod {
        phase,
        executor: ContainerState::Terminated(ended(code)),
        ..pod
    }
}
