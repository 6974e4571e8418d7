//! The real ledger, told a story step by step: what the tests of decisions stand on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::model::news::{Listed, News, Outcome};
use crate::model::pod::tests::{ended, pending};
use crate::model::pod::{Claim, ContainerState, Deletion, Phase, Scheduling, Sighting};
use crate::model::snapshot::Counts;
use crate::model::{
    AppId, Batch, Entry, Epoch, ExecutorId, Incarnation, Now, Pod, ProfileName, Snapshot, Tick,
};
use crate::snapshot_store::ledger::{Identity, Inheritance, Ledger};

/// How long the server may take to commit a request.
pub(crate) const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) fn id(n: u64) -> ExecutorId {
    ExecutorId::new(n).unwrap()
}

pub(crate) fn at(millis: u64) -> Tick {
    Tick::after_start(Duration::from_millis(millis))
}

/// A ledger, the time, and the snapshots that its one subscriber has not got yet.
pub(crate) struct Story {
    pub(crate) ledger: Ledger,
    pub(crate) millis: u64,
    version: u64,
    waiting: Vec<Snapshot>,
    /// The last snapshot that the subscriber has got.
    delivered: u64,
}

impl Story {
    /// Before the first list.
    pub(crate) fn before_adoption(targets: &[(&str, u32)], inheritance: Inheritance) -> Self {
        let identity = Identity {
            app: AppId::from("app"),
            prefix: Arc::from("a"),
            incarnation: Incarnation(1),
            server_timeout: SERVER_TIMEOUT,
            default_profile: "default".into(),
        };
        let targets = targets.iter().map(|(p, n)| ((*p).into(), *n)).collect();
        let now = Now::new(at(0), jiff::Timestamp::UNIX_EPOCH);
        let ledger = Ledger::new(identity, inheritance, targets, "record".into(), now);
        Self {
            ledger,
            millis: 0,
            version: 100,
            waiting: Vec::new(),
            delivered: 0,
        }
    }

    /// After a first list that found nothing.
    pub(crate) fn new(targets: &[(&str, u32)]) -> Self {
        let mut story = Self::before_adoption(targets, Inheritance::default());
        story.list(Vec::new());
        story
    }

    pub(crate) fn now(&self) -> Now {
        Now::new(at(self.millis), jiff::Timestamp::UNIX_EPOCH)
    }

    pub(crate) fn pass(&mut self, millis: u64) {
        self.millis += millis;
    }

    pub(crate) fn tell(&mut self, news: News) {
        let applied = self.ledger.apply(news, self.now());
        self.waiting.extend(applied.snapshot);
    }

    /// A quorum list of these pods.
    pub(crate) fn list(&mut self, pods: Vec<Pod>) {
        let ticket = self.ledger.begin_list(self.now());
        self.version += 1;
        let listed = Listed {
            ticket,
            version: self.version.into(),
            quorum: true,
            items: pods
                .into_iter()
                .map(|p| Sighting::Read(Arc::new(p)))
                .collect(),
        };
        let (_, applied) = self.ledger.list(listed, self.now());
        self.waiting.extend(applied.snapshot);
    }

    pub(crate) fn batch(&mut self) -> Batch {
        self.delivered = self.current().seq;
        Batch::new(
            std::mem::take(&mut self.waiting),
            self.ledger.current().clone(),
        )
    }

    /// Whether anything waits for the subscriber.
    pub(crate) fn has_news(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// What is gone and was in the last batch leaves.
    pub(crate) fn release(&mut self) {
        let applied = self.ledger.release(self.delivered);
        self.waiting.extend(applied.snapshot);
    }

    pub(crate) fn current(&self) -> &Snapshot {
        self.ledger.current()
    }

    pub(crate) fn entry(&self, n: u64) -> Option<&Arc<Entry>> {
        self.current().entry(id(n))
    }

    pub(crate) fn counts(&self, profile: &str) -> Counts {
        self.current().counts(&profile.into())
    }

    pub(crate) fn want(&mut self, profile: &str, executors: u32) {
        self.tell(News::Targets(BTreeMap::from([(profile.into(), executors)])));
    }

    pub(crate) fn requested(&mut self, n: u64, outcome: Outcome) {
        self.tell(News::Requested { id: id(n), outcome });
    }

    /// The pod of this executor, as it is known, or as it would be created.
    pub(crate) fn pod(&self, n: u64) -> Pod {
        if let Some(pod) = self.entry(n).and_then(|entry| entry.pod()) {
            return Pod::clone(pod);
        }
        let mut pod = pending("a", n, &format!("u{n}"), 1);
        if let (Claim::Executor { profile, .. }, Some(entry)) = (&mut pod.claim, self.entry(n)) {
            *profile = Some(entry.profile.clone());
        }
        pod
    }

    fn newer(&mut self, mut pod: Pod) -> Sighting {
        self.version += 1;
        pod.version = self.version.into();
        Sighting::Read(Arc::new(pod))
    }

    /// The request is answered 201.
    pub(crate) fn created(&mut self, n: u64) {
        let pod = self.newer(self.pod(n));
        self.requested(n, Outcome::Created(pod));
    }

    /// An event of the watch.
    pub(crate) fn see(&mut self, pod: Pod) {
        let pod = self.newer(pod);
        self.tell(News::Seen {
            pod,
            epoch: Epoch::default(),
        });
    }

    pub(crate) fn runs(&mut self, n: u64) {
        let pod = running(self.pod(n));
        self.see(pod);
    }

    pub(crate) fn exits(&mut self, n: u64, code: i32) {
        let phase = if code == 0 {
            Phase::Succeeded
        } else {
            Phase::Failed
        };
        let pod = Pod {
            phase,
            executor: ContainerState::Terminated(ended(code)),
            ..self.pod(n)
        };
        self.see(pod);
    }

    /// Its deletion has begun.
    pub(crate) fn terminates(&mut self, n: u64) {
        let pod = terminating(self.pod(n));
        self.see(pod);
    }

    /// The DELETED event of a deletion.
    pub(crate) fn goes(&mut self, n: u64) {
        let pod = self.newer(terminating(self.pod(n)));
        self.tell(News::Deleted {
            pod,
            epoch: Epoch::default(),
        });
    }

    pub(crate) fn profile_of(&self, n: u64) -> ProfileName {
        self.entry(n).map(|entry| entry.profile.clone()).unwrap()
    }
}

pub(crate) fn running(pod: Pod) -> Pod {
    Pod {
        phase: Phase::Running,
        scheduling: Scheduling::Bound,
        executor: ContainerState::Running { started: None },
        ..pod
    }
}

pub(crate) fn terminating(pod: Pod) -> Pod {
    Pod {
        deletion: Some(Deletion {
            deadline: None,
            grace: None,
        }),
        ..pod
    }
}
