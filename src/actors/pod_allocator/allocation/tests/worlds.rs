//! Invariants in random worlds.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::steps::{Fate, Step, steps};
use super::*;
use crate::actors::lifecycle_manager::call_queue::{PodCall, Subject};
use crate::actors::lifecycle_manager::pending_actions::{self, PendingActions};
use crate::model::news::Found;
use crate::model::pod::{PodState, Sighting};
use crate::model::{Ending, Entry, Epoch, Pod};
use crate::testing::{exited, running, terminating};

const PROFILES: [&str; 3] = ["a", "b", "c"];

struct World {
    driver: Driver,
    pending_actions: PendingActions,
    manager: usize,
    /// The pods on the API server.
    pods: BTreeMap<u64, Pod>,
    events: VecDeque<News>,
    /// Requests that broke and may be committed until this time.
    late: Vec<(u64, Tick)>,
    /// The pod of each request.
    asked: BTreeMap<u64, Pod>,
    calls: Vec<(Subject, PodCall, Tick)>,
    reported: Vec<u64>,
    bound: BTreeSet<u64>,
    /// The target when an executor was requested.
    target_then: BTreeMap<u64, u32>,
    highest_id: u64,
    uids: u64,
}

impl World {
    fn new() -> Self {
        let mut driver = Driver::new(&[("a", 3), ("b", 2)]);
        let manager = driver.scenario.subscribe();
        let settings = pending_actions::PodRules {
            keep: crate::actors::lifecycle_manager::kept::Policy::NONE,
            max_in_flight: 8,
            server_timeout: SERVER_TIMEOUT,
            adoption_grace: None,
            left_to_sets: None,
            reads_events: false,
            protects_busy: false,
            creation_timeout: CREATION_TIMEOUT,
            backoff: Backoff {
                initial: Duration::from_secs(1),
                max: Duration::from_secs(30),
            },
        };
        Self {
            highest_id: 0,
            driver,
            pending_actions: PendingActions::new(settings, StdRng::seed_from_u64(3)),
            manager,
            pods: BTreeMap::new(),
            events: VecDeque::new(),
            late: Vec::new(),
            asked: BTreeMap::new(),
            calls: Vec::new(),
            reported: Vec::new(),
            bound: BTreeSet::new(),
            target_then: BTreeMap::new(),
            uids: 0,
        }
    }

    fn now(&self) -> Tick {
        self.driver.scenario.now().tick
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Pass(millis) => self.driver.scenario.pass(u64::from(*millis)),
            Step::Allocate => {
                self.allocate();
            }
            Step::Manage => {
                self.manage();
            }
            Step::Want(profile, n) => self.driver.scenario.want(PROFILES[*profile], *n),
            Step::Answer(place, fate) => {
                let n = self.driver.flights.keys().nth(*place).copied();
                n.into_iter().for_each(|n| self.answer(n.get(), *fate));
            }
            Step::CommitLate(place) => {
                if *place < self.late.len() {
                    let (n, until) = self.late.swap_remove(*place);
                    if self.now() <= until && !self.pods.contains_key(&n) {
                        self.commit(n);
                    }
                }
            }
            Step::Call(place, works) => {
                if *place < self.calls.len() {
                    self.answer_call(*place, *works);
                }
            }
            Step::Run(place) => self.change(*place, running, PodState::Running),
            Step::Exit(place, code) => {
                self.change(*place, |pod| exited(pod, *code), PodState::Succeeded);
            }
            Step::Delete(place) => {
                if let Some(n) = self.pods.keys().nth(*place).copied() {
                    self.delete(n);
                }
            }
            Step::Watch(n) => {
                for event in self.events.drain(..self.events.len().min(*n)) {
                    self.driver.scenario.tell(event);
                }
            }
            Step::List => {
                let pods = self.pods.values().cloned().collect();
                self.driver.scenario.list(pods);
            }
            Step::Record(true) => {
                let (uid, epoch) = ("record".into(), Epoch::default());
                self.driver.scenario.tell(News::RecordSeen { uid, epoch });
            }
            Step::Record(false) => self.driver.scenario.tell(News::RecordLost),
        }
    }

    fn put(&mut self, n: u64, pod: Pod) -> Pod {
        let pod = self.driver.scenario.changed(pod);
        self.pods.insert(n, pod.clone());
        self.events.push_back(News::Seen {
            pod: Sighting::Read(Arc::new(pod.clone())),
            epoch: Epoch::default(),
        });
        pod
    }

    fn commit(&mut self, n: u64) -> Pod {
        self.uids += 1;
        let uid = format!("u{n}-{}", self.uids).into();
        let pod = Pod {
            uid,
            ..self.asked[&n].clone()
        };
        self.put(n, pod)
    }

    /// Changes a pod that has not ended and is not in state `not`.
    fn change(&mut self, place: usize, into: impl Fn(Pod) -> Pod, not: PodState) {
        let Some((&n, pod)) = self.pods.iter().nth(place) else {
            return;
        };
        let (pod, state) = (pod.clone(), pod.state());
        if !state.is_finished() && pod.deletion.is_none() && state != not {
            self.put(n, into(pod));
        }
    }

    /// A running pod needs two deletions: the request, and its execution by the node.
    fn delete(&mut self, n: u64) {
        let Some(pod) = self.pods.get(&n).cloned() else {
            return;
        };
        let at_once = pod.deletion.is_some() || pod.state() != PodState::Running;
        let pod = self.put(n, terminating(pod));
        if at_once {
            self.pods.remove(&n);
            let pod = self.driver.scenario.changed(pod);
            self.events.push_back(News::Deleted {
                pod: Sighting::Read(Arc::new(pod)),
                epoch: Epoch::default(),
            });
        }
    }

    fn answer(&mut self, n: u64, fate: Fate) {
        let sent = self.driver.flights[&id(n)].sent;
        let until = sent + SERVER_TIMEOUT;
        let why: Arc<str> = Arc::from("no");
        let broke = (
            Outcome::Broke(Arc::clone(&why)),
            Answer::Trouble(None, Arc::clone(&why)),
        );
        let refused = Outcome::Refused(Arc::clone(&why));
        let too_late = self.now() > until;
        let taken = self.pods.contains_key(&n);
        let (outcome, answer) = match fate {
            Fate::Unreachable => (refused, Answer::Trouble(None, why)),
            Fate::Wait => (refused, Answer::Trouble(Some(Duration::from_secs(2)), why)),
            Fate::Refused(kind) => (refused, Answer::Refused(kind, why)),
            _ if too_late => broke,
            _ if taken => (Outcome::NameTaken, Answer::NameTaken),
            Fate::Broke => {
                self.late.push((n, until));
                broke
            }
            Fate::CreatedButBroke => {
                self.commit(n);
                broke
            }
            Fate::Created => {
                let pod = Sighting::Read(Arc::new(self.commit(n)));
                (Outcome::Created(pod), Answer::Created)
            }
        };
        self.driver.answer_so(n, outcome, &answer);
    }

    fn answer_call(&mut self, place: usize, works: bool) {
        let (subject, pod_call, sent) = self.calls.remove(place);
        let epoch = Epoch::default();
        let news = match pod_call {
            PodCall::LookUp(id) => {
                let pod = self.pods.get(&id.get()).cloned().map(Arc::new);
                let found = pod.map_or(Found::Nothing, |pod| Found::Pod(Sighting::Read(pod)));
                let found = if works { found } else { Found::NoAnswer };
                Some(News::LookedUp {
                    id,
                    sent,
                    epoch,
                    found,
                })
            }
            _ if !works => None,
            PodCall::MarkInactive { .. }
            | PodCall::MarkDraining { .. }
            | PodCall::Protect { .. }
            | PodCall::Resize { .. }
            | PodCall::Promote { .. }
            | PodCall::ListKept => panic!("pods are deleted here, and not drained"),
            PodCall::Delete { name, uid, .. } => {
                let own = |(_, pod): &(&u64, &Pod)| pod.name == name && pod.uid == uid;
                match self.pods.iter().find(own).map(|(n, _)| *n) {
                    None => Some(News::DeleteFoundNothing { uid, name }),
                    Some(n) => {
                        if self.pods[&n].deletion.is_none() {
                            self.delete(n);
                        }
                        None
                    }
                }
            }
        };
        news.into_iter()
            .for_each(|news| self.driver.scenario.tell(news));
        let now = self.now();
        self.pending_actions.answered(&subject, works, now);
    }

    /// A round of the allocator. Returns the number of its writes.
    fn allocate(&mut self) -> usize {
        let before = self.driver.scenario.current().clone();
        let retired = self.driver.retired.len();
        let asked = self.driver.round();
        let after = self.driver.scenario.current().clone();
        for n in &asked {
            let profile = after.entry(id(*n)).unwrap().profile.clone();
            let target = after.target(&profile);
            assert!(after.counts(&profile).live() <= target, "I-3: {profile}");
            if before.entry(id(*n)).is_none() {
                assert!(before.counts(&profile).live() < target, "I-3: {profile}");
                assert!(*n > self.highest_id, "I-1: {n} after {}", self.highest_id);
                self.highest_id = *n;
                self.target_then.insert(*n, target);
                self.asked.insert(*n, self.driver.scenario.pod(*n));
            }
        }
        for n in &self.driver.retired[retired..] {
            let profile = &before.entry(id(*n)).unwrap().profile;
            let (live, target) = (after.counts(profile).live(), after.target(profile));
            assert!(live >= target, "A-40: {live} left of {target} {profile}");
        }
        for profile in PROFILES {
            let live = after.counts(&profile.into()).live();
            let of =
                |entry: &&Arc<Entry>| entry.profile.as_str() == profile && entry.class().is_live();
            let then = |entry: &Arc<Entry>| self.target_then.get(&entry.id.get()).copied();
            let most = after.entries.values().filter(of).filter_map(then).max();
            assert!(
                live <= most.unwrap_or(0),
                "I-3: {live} live of {profile}, {most:?}"
            );
        }
        let in_flight = self.driver.allocation.in_flight();
        assert!(in_flight <= settings().limits.max_in_flight, "A-6");
        assert_eq!(in_flight as usize, self.driver.flights.len());
        self.driver.scenario.release();
        asked.len() + self.driver.retired.len() - retired
    }

    /// A round of LifecycleManager. Returns the number of its calls.
    fn manage(&mut self) -> usize {
        let batch = self.driver.scenario.batch_of(self.manager);
        for entry in batch.latest().entries.values() {
            if entry.uid().is_some() {
                self.bound.insert(entry.id.get());
            }
        }
        let (now, before) = (self.driver.scenario.now(), self.calls.len());
        for action in self.pending_actions.decide(&batch, now) {
            match action {
                pending_actions::Action::Report(Ending { entry, reason }) => {
                    let id = entry.id;
                    assert!(
                        !self.reported.contains(&id.get()),
                        "L-1: {id} reported twice"
                    );
                    self.reported.push(id.get());
                    self.driver.scenario.tell(News::Reported { id, reason });
                }
                pending_actions::Action::Correct(_)
                | pending_actions::Action::Instruct(_)
                | pending_actions::Action::AskForProbe(..) => {}
                pending_actions::Action::Call(subject, pod_call) => {
                    let another = |(out, ..): &(Subject, PodCall, Tick)| *out == subject;
                    assert!(
                        !self.calls.iter().any(another),
                        "L-11: two calls for one pod"
                    );
                    self.calls.push((subject, pod_call, now.tick));
                }
            }
        }
        assert!(self.calls.len() <= 8, "L-11");
        self.driver.scenario.release();
        self.calls.len() - before
    }

    /// Half a second without faults. Returns the number of writes and look-ups.
    fn good_time(&mut self) -> usize {
        self.driver.scenario.pass(250);
        for n in self.pods.keys().copied().collect::<Vec<_>>() {
            let pod = self.pods[&n].clone();
            match pod.state() {
                PodState::Pending(_) => {
                    self.put(n, running(pod));
                }
                PodState::Terminating => self.delete(n),
                _ => {}
            }
        }
        self.step(&Step::Watch(usize::MAX));
        for n in self.driver.flights.keys().copied().collect::<Vec<_>>() {
            self.answer(n.get(), Fate::Created);
        }
        while !self.calls.is_empty() {
            self.answer_call(0, true);
        }
        self.step(&Step::Watch(usize::MAX));
        self.driver.scenario.pass(250);
        self.allocate() + self.manage()
    }

    fn is_as_wanted(&self) -> bool {
        let scenario = &self.driver.scenario;
        let wanted = |profile: &str| {
            let (counts, target) = (
                scenario.counts(profile),
                scenario.current().target(&profile.into()),
            );
            counts.running == target && counts.all() == target
        };
        PROFILES.into_iter().all(wanted)
            && scenario.current().orphans.is_empty()
            && scenario.current().entries.len() == self.pods.len()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 400, ..ProptestConfig::with_cases(200) })]

    // spec: I-1, I-2, I-3, I-4, L-1, L-11
    #[test]
    fn in_every_world_nothing_is_lost_or_requested_twice_and_the_targets_are_reached_without_faults(
        steps in prop::collection::vec(steps(), 0..400)
    ) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.step(&Step::Record(true));

        // A blocked template, the creation timeout with its look-up, the longest backoff in such a
        // world, and the probe's stable time.
        let bound = 2 * (300 + 70 + 256 + 60);
        let mut half_seconds = 0;
        while !world.is_as_wanted() {
            world.good_time();
            half_seconds += 1;
            prop_assert!(half_seconds < bound, "{:#?}", world.driver.scenario.current().entries);
        }
        // The stable time of the last probe.
        for _ in 0..240 {
            world.good_time();
        }
        let writes: usize = (0..1_200).map(|_| world.good_time()).sum();
        prop_assert_eq!((writes, world.is_as_wanted()), (0, true));

        // Each id is an entry or ended. Each executor that was bound and ended was reported once.
        let snapshot = world.driver.scenario.current();
        for n in 1..=world.highest_id {
            let there = snapshot.entry(id(n)).is_some();
            prop_assert!(there != snapshot.ended.contains(id(n)), "I-2: {}", n);
            let reported = world.reported.contains(&n);
            prop_assert_eq!(reported, world.bound.contains(&n) && !there, "L-1: {}", n);
        }
    }
}

// spec: A-24
#[test]
fn a_fatal_refusal_answers_the_test_request_as_any_other() {
    let mut world = World::new();
    for step in [
        Step::Allocate,
        Step::Answer(0, Fate::Refused(RefusalKind::Quota)),
        Step::Pass(1_000),
        Step::Allocate,
        Step::Answer(0, Fate::Refused(RefusalKind::Blocked)),
        Step::Record(true),
        // After five minutes the profile is tried again.
        Step::Pass(60_000),
        Step::Pass(60_000),
        Step::Pass(60_000),
        Step::Pass(60_000),
        Step::Pass(60_000),
    ] {
        world.step(&step);
    }
    for _ in 0..20 {
        world.good_time();
    }
    assert!(world.is_as_wanted());
}
