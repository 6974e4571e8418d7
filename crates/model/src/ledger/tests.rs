//! Tests of the ledger: sequences of news.

mod adoption;
mod batch;
mod drift;
mod end;
mod epoch;
mod history;
mod identity;
mod leaving;
mod list;
mod orphan;
mod set;
mod targets;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::executor::{Class, Gone, GoneEvidence, LeaveMethod, LeaveReason};
use crate::news::{Found, ListKind, ListTicket, Listed, News, Outcome};
use crate::pod::{Deletion, Phase, PodIdentity, Sighting, Unreadable};
use crate::snapshot::Counts;
use crate::{
    Ending, Entry, Epoch, ExecutorId, IdSet, Incarnation, LossReason, Now, Pod, PodUid,
    ProfileName, Snapshot, State, Tick,
};

use crate::testing::pending;

use super::{Applied, Identity, Inheritance, Ledger, ListVerdict, Note};

const PREFIX: &str = "a";
/// The incarnation under test. It has one predecessor.
const INCARNATION: Incarnation = Incarnation(2);
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

/// A ledger that gets one piece of news per second. Invariants are checked after each.
struct Store {
    ledger: Ledger,
    second: u64,
    /// Every id that was ever reserved or found.
    fixed: BTreeSet<ExecutorId>,
}

impl Store {
    /// A ledger that has adopted an empty cluster, by a list of version 10.
    fn new() -> Self {
        let mut store = Self::before_adoption(Inheritance::default());
        store.quorum_list(10, vec![]);
        store
    }

    fn before_adoption(inheritance: Inheritance) -> Self {
        let identity = Identity {
            app: "app".into(),
            prefix: PREFIX.into(),
            incarnation: INCARNATION,
            server_timeout: SERVER_TIMEOUT,
            decommission_timeout: Duration::from_secs(60),
            default_profile: profile(),
        };
        let now = Now::new(Tick::default(), Timestamp::UNIX_EPOCH);
        let targets = BTreeMap::from([(profile(), 3)]);
        Self {
            ledger: Ledger::new(identity, inheritance, targets, "record".into(), now),
            second: 0,
            fixed: BTreeSet::new(),
        }
    }

    fn now(&self) -> Now {
        Now::new(self.tick(), Timestamp::UNIX_EPOCH)
    }

    fn tick(&self) -> Tick {
        Tick::after_start(Duration::from_secs(self.second))
    }

    fn epoch(&self) -> Epoch {
        self.ledger.current().epoch
    }

    fn tell(&mut self, news: News) -> Applied {
        self.second += 1;
        let now = self.now();
        let applied = self.ledger.apply(news, now);
        self.check();
        applied
    }

    fn outcome(&mut self, number: u64, outcome: Outcome) -> Applied {
        let id = id(number);
        self.tell(News::Requested { id, outcome })
    }

    fn request(&mut self, number: u64) -> Applied {
        let profile = profile();
        self.fixed.insert(id(number));
        self.outcome(number, Outcome::Sent { profile })
    }

    /// Adds an executor whose request was answered with this pod.
    fn with(mut self, pod: Pod) -> Self {
        let id = pod.identity.executor().unwrap().get();
        self.request(id);
        self.created(id, pod);
        self
    }

    fn created(&mut self, id: u64, pod: Pod) -> Applied {
        self.outcome(id, Outcome::Created(read(pod)))
    }

    fn broke(&mut self, id: u64) -> Applied {
        self.outcome(id, Outcome::Broke("timeout".into()))
    }

    fn seen(&mut self, pod: Pod) -> Applied {
        let (pod, epoch) = (read(pod), self.epoch());
        self.tell(News::Seen { pod, epoch })
    }

    fn deleted(&mut self, pod: Pod) -> Applied {
        let (pod, epoch) = (read(pod), self.epoch());
        self.tell(News::Deleted { pod, epoch })
    }

    fn looked_up(&mut self, number: u64, sent: Tick, found: Found) -> Applied {
        let (id, epoch) = (id(number), self.epoch());
        self.tell(News::LookedUp {
            id,
            sent,
            epoch,
            found,
        })
    }

    /// A look-up that is answered at once.
    fn look_up(&mut self, id: u64, found: Found) -> Applied {
        self.second += 1;
        let sent = self.tick();
        self.looked_up(id, sent, found)
    }

    fn retire(&mut self, number: u64) -> Applied {
        self.tell(News::Retire {
            ids: vec![id(number)],
            aim: crate::news::TargetChange::Stay,
            why: LeaveReason::ScaledDown,
            how: LeaveMethod::Delete,
        })
    }

    fn reported(&mut self, number: u64) -> Applied {
        self.tell(News::Reported {
            id: id(number),
            reason: some_reason(),
        })
    }

    fn begin_list(&mut self) -> ListTicket {
        self.second += 1;
        let now = self.now();
        self.ledger.begin_list(now)
    }

    fn list_arrives(
        &mut self,
        ticket: ListTicket,
        version: u64,
        kind: ListKind,
        items: Vec<Sighting>,
    ) -> (ListVerdict, Applied) {
        self.second += 1;
        let now = self.now();
        let listed = Listed {
            ticket,
            version: version.into(),
            kind,
            items,
        };
        let known: BTreeSet<_> = self.ledger.current().entries.keys().collect();
        let result = self.ledger.list(listed, now);
        let adopted = self.ledger.current().entries.keys();
        self.fixed.extend(adopted.filter(|id| !known.contains(id)));
        self.check();
        result
    }

    fn list(&mut self, version: u64, pods: Vec<Pod>) -> ListVerdict {
        let ticket = self.begin_list();
        let items = pods.into_iter().map(read).collect();
        self.list_arrives(ticket, version, ListKind::PollCached, items)
            .0
    }

    fn quorum_list(&mut self, version: u64, pods: Vec<Pod>) -> ListVerdict {
        let ticket = self.begin_list();
        let items = pods.into_iter().map(read).collect();
        self.list_arrives(ticket, version, ListKind::PollNewest, items)
            .0
    }

    fn deliver(&mut self) -> Applied {
        self.deliver_up_to(self.ledger.current().seq)
    }

    fn deliver_up_to(&mut self, seq: u64) -> Applied {
        let applied = self.ledger.release(seq, self.now());
        self.check();
        applied
    }

    fn snapshot(&self) -> Snapshot {
        self.ledger.current().clone()
    }

    fn entry(&self, number: u64) -> Arc<Entry> {
        let entry = self.ledger.current().entry(id(number));
        Arc::clone(entry.unwrap_or_else(|| panic!("no entry {number}")))
    }

    /// The executor's state; `ended` after its entry was removed, `–` if it never had one.
    fn state(&self, number: u64) -> &'static str {
        let snapshot = self.ledger.current();
        match snapshot.entry(id(number)).map(|entry| entry.class()) {
            None if snapshot.ended.contains(id(number)) => "ended",
            None => "–",
            Some(Class::Sent) => "Sent",
            Some(Class::Unknown) => "Unknown",
            Some(Class::Pending(_)) => "Pending",
            Some(Class::Running) => "Running",
            Some(Class::Odd) => "Odd",
            Some(Class::Absent) => "Absent",
            Some(Class::Leaving) => "Leaving",
            Some(Class::Terminating) => "Terminating",
            Some(Class::Finished) => "Finished",
            Some(Class::Gone) => "Gone",
        }
    }

    fn how_gone(&self, number: u64) -> GoneEvidence {
        match &self.entry(number).state {
            State::Gone(Gone { how, .. }) => how.clone(),
            other => panic!("{number} is not gone: {other:?}"),
        }
    }

    fn orphans(&self) -> Vec<String> {
        let orphans = self.ledger.current().orphans.keys();
        orphans.map(|uid| uid.as_str().to_owned()).collect()
    }

    fn check(&self) {
        check(self.ledger.current());
        // spec: I-2
        for id in &self.fixed {
            let snapshot = self.ledger.current();
            let there = snapshot.entry(*id).is_some();
            assert!(there != snapshot.ended.contains(*id), "{id} is there once");
        }
    }
}

/// The invariants of every snapshot.
// spec: I-1, I-2
fn check(snapshot: &Snapshot) {
    let mut counts: BTreeMap<ProfileName, Counts> = BTreeMap::new();
    for (id, entry) in snapshot.entries.iter() {
        assert!(!snapshot.ended.contains(id), "{id} has not ended");
        if let Some(uid) = entry.uid().filter(|_| !entry.is_gone()) {
            assert!(!snapshot.orphans.contains_key(uid), "{id} is no orphan");
        }
        let counts = counts.entry(entry.profile.clone()).or_default();
        match entry.class() {
            Class::Sent => counts.sent += 1,
            Class::Unknown => counts.unknown += 1,
            Class::Pending(_) => counts.pending += 1,
            Class::Running => counts.running += 1,
            Class::Odd | Class::Absent => counts.uncertain += 1,
            Class::Leaving => counts.leaving += 1,
            Class::Terminating => counts.terminating += 1,
            Class::Finished => counts.finished += 1,
            Class::Gone => {}
        }
    }
    for (profile, kept) in &snapshot.counts {
        let recount = counts.remove(profile).unwrap_or_default();
        assert_eq!(*kept, recount, "counts of {profile}");
    }
    counts.retain(|_, counts| *counts != Counts::default());
    assert_eq!(counts, BTreeMap::new(), "counts of no profile are missing");
}

fn id(number: u64) -> ExecutorId {
    ExecutorId::new(number).unwrap()
}

fn ids(numbers: impl IntoIterator<Item = u64>) -> IdSet {
    numbers.into_iter().map(id).collect()
}

fn profile() -> ProfileName {
    "default".into()
}

fn read(pod: Pod) -> Sighting {
    Sighting::Read(Arc::new(pod))
}

fn some_reason() -> Arc<LossReason> {
    Arc::new(LossReason::of_a_refusal("any"))
}

/// A pending pod that this incarnation requested.
fn pod(id: u64, uid: &str, version: u64) -> Pod {
    let mut pod = pending(PREFIX, id, uid, version);
    let PodIdentity::Executor { incarnation, .. } = &mut pod.identity else {
        panic!("an executor's pod");
    };
    *incarnation = Some(INCARNATION);
    pod
}

fn running(id: u64, uid: &str, version: u64) -> Pod {
    Pod {
        phase: Phase::Running,
        ..pod(id, uid, version)
    }
}

fn failed(id: u64, uid: &str, version: u64) -> Pod {
    Pod {
        phase: Phase::Failed,
        ..pod(id, uid, version)
    }
}

/// The same pod with a deletionTimestamp.
fn terminating(pod: Pod) -> Pod {
    let deletion = Some(Deletion {
        deadline: None,
        grace: None,
    });
    Pod { deletion, ..pod }
}

/// The same pod, requested by the previous incarnation.
fn of_predecessor(mut pod: Pod) -> Pod {
    if let PodIdentity::Executor { incarnation, .. } = &mut pod.identity {
        *incarnation = Some(Incarnation(1));
    }
    pod
}

/// The same pod without a label that makes it ours.
fn relabelled(pod: Pod) -> Pod {
    let label = "role".into();
    Pod {
        identity: PodIdentity::Foreign { label },
        ..pod
    }
}

/// The same pod with only its name, uid and version readable.
fn unreadable(pod: &Pod) -> Unreadable {
    Unreadable {
        name: Some(Arc::clone(&pod.name)),
        uid: Some(pod.uid.clone()),
        version: Some(pod.version.clone()),
        identity: Some(pod.identity.clone()),
        error: "invalid type".into(),
    }
}

fn found(pod: Pod) -> Found {
    Found::Pod(read(pod))
}
