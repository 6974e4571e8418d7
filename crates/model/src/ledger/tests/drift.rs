//! Tests of drift between poll and watch (spec P-4).

use proptest::prelude::*;

use super::*;
use crate::ledger::Contradiction;

impl Store {
    fn watch_list(&mut self, version: u64, pods: Vec<Pod>) {
        self.listed(ListKind::ForWatch, version, pods);
    }

    /// Returns the drift that a poll reveals.
    fn poll(&mut self, version: u64, pods: Vec<Pod>) -> Vec<Contradiction> {
        self.listed(ListKind::PollCached, version, pods)
    }

    fn listed(&mut self, kind: ListKind, version: u64, pods: Vec<Pod>) -> Vec<Contradiction> {
        let ticket = self.begin_list();
        self.answered(ticket, kind, version, pods)
    }

    fn answered(
        &mut self,
        ticket: ListTicket,
        kind: ListKind,
        version: u64,
        pods: Vec<Pod>,
    ) -> Vec<Contradiction> {
        let listed = Listed {
            ticket,
            version: version.into(),
            kind,
            items: pods.into_iter().map(read).collect(),
        };
        let now = self.now();
        drifts(self.ledger.list(listed, now).1)
    }

    fn bookmark(&mut self, version: u64) -> Vec<Contradiction> {
        let (version, epoch) = (version.into(), self.epoch());
        drifts(self.tell(News::Bookmark { version, epoch }))
    }

    fn watched() -> Self {
        let mut store = Self::before_adoption(Inheritance::default());
        store.watch_list(10, vec![]);
        store.with(pod(1, "u1", 20)).with(pod(2, "u2", 21))
    }
}

fn drifts(applied: Applied) -> Vec<Contradiction> {
    let drift = |note| match note {
        Note::Drift(contradiction) => Some(contradiction),
        _ => None,
    };
    applied.notes.into_iter().filter_map(drift).collect()
}

fn contradiction(id: u64, watched: Option<u64>, polled: Option<u64>, at: u64) -> Contradiction {
    Contradiction {
        name: format!("{PREFIX}-exec-{id}").into(),
        uid: format!("u{id}").as_str().into(),
        watched: watched.map(Into::into),
        polled: polled.map(Into::into),
        at: at.into(),
    }
}

// spec: P-4
#[test]
fn a_change_that_the_watch_has_passed_without_showing_it_is_drift() {
    let mut store = Store::watched();
    assert_eq!(store.bookmark(40), []);
    let polled = vec![running(1, "u1", 30), pod(2, "u2", 21)];
    let expected = [contradiction(1, Some(20), Some(30), 30)];
    assert_eq!(store.poll(40, polled.clone()), expected);
    assert_eq!(store.snapshot().drifts, 1);
    assert_eq!(store.poll(45, polled), [], "told once");
}

// spec: P-4
#[test]
fn a_poll_ahead_of_the_watch_shows_drift_only_once_the_watch_has_passed_its_version() {
    let mut store = Store::watched();
    let polled = vec![running(1, "u1", 30), running(2, "u2", 31)];
    assert_eq!(store.poll(40, polled), []);
    store.seen(running(2, "u2", 31));
    assert_eq!(store.bookmark(29), []);
    let expected = [contradiction(1, Some(20), Some(30), 30)];
    assert_eq!(store.bookmark(30), expected);
    assert_eq!(store.bookmark(50), [], "told once");
}

// spec: P-4
#[test]
fn an_end_that_the_watch_has_passed_without_showing_it_is_drift() {
    let mut store = Store::watched();
    assert_eq!(store.poll(40, vec![pod(2, "u2", 21)]), []);
    let expected = [contradiction(1, Some(20), None, 40)];
    assert_eq!(store.bookmark(41), expected);
    assert_eq!(store.poll(45, vec![pod(2, "u2", 21)]), [], "told once");
    assert_eq!(store.bookmark(46), []);
}

// spec: P-4
#[test]
fn a_pod_that_the_watch_never_showed_is_drift() {
    let mut store = Store::watched();
    store.request(3);
    store.broke(3);
    assert_eq!(store.bookmark(40), []);
    let polled = vec![pod(1, "u1", 20), pod(2, "u2", 21), pod(3, "u3", 35)];
    assert_eq!(
        store.poll(40, polled),
        [contradiction(3, None, Some(35), 35)]
    );
}

// spec: P-4
#[test]
fn a_change_that_the_watch_shows_late_is_no_drift() {
    let mut store = Store::watched();
    assert_eq!(store.poll(40, vec![running(1, "u1", 30)]), []);
    store.seen(running(1, "u1", 30));
    let gone = drifts(store.deleted(terminating(pod(2, "u2", 39))));
    assert_eq!(gone, []);
    assert_eq!(store.bookmark(60), []);
    assert_eq!(store.snapshot().drifts, 0);
}

// spec: P-4
#[test]
fn a_stale_list_a_restarted_watch_and_a_new_epoch_cause_no_drift() {
    let mut store = Store::watched();
    store.bookmark(50);
    assert_eq!(
        store.poll(45, vec![running(1, "u1", 30)]),
        [],
        "a stale list"
    );

    let mut store = Store::watched();
    assert_eq!(
        store.poll(40, vec![running(1, "u1", 30), pod(2, "u2", 21)]),
        []
    );
    store.watch_list(45, vec![running(1, "u1", 30), pod(2, "u2", 21)]);
    assert_eq!(
        store.bookmark(60),
        [],
        "it never had to show what was before it began"
    );

    let mut store = Store::watched();
    assert_eq!(store.poll(40, vec![pod(2, "u2", 21)]), []);
    store.quorum_list(5, vec![]);
    assert_eq!(store.bookmark(60), [], "the server was restored");
}

// spec: P-4
#[test]
fn a_watch_need_not_show_the_end_of_a_pod_that_the_list_lacks_from_which_it_begins() {
    let without = || vec![pod(2, "u2", 21)];
    let with = || vec![pod(1, "u1", 20), pod(2, "u2", 21)];
    let list = ListKind::ForWatch;
    let mut store = Store::watched();
    let asked = store.begin_list();
    assert_eq!(store.poll(40, without()), []);
    store.answered(asked, list, 35, without());
    assert_eq!(store.bookmark(60), [], "the poll came first");

    let mut store = Store::watched();
    let asked = store.begin_list();
    store.seen(pod(2, "u2", 40));
    store.answered(asked, list, 35, without());
    assert_eq!(store.poll(45, vec![pod(2, "u2", 40)]), []);
    assert_eq!(store.bookmark(60), [], "the watch came first");

    let mut store = Store::watched();
    let asked = store.begin_list();
    assert_eq!(store.poll(40, without()), []);
    store.answered(asked, list, 35, with());
    let expected = [contradiction(1, Some(20), None, 40)];
    assert_eq!(store.bookmark(60), expected, "it has to show this end");
    assert_eq!(store.epoch(), Epoch::default());
}

// spec: P-4
#[test]
fn without_a_watch_there_is_no_drift() {
    let mut store = Store::new().with(pod(1, "u1", 20));
    assert_eq!(store.poll(40, vec![running(1, "u1", 30)]), []);
    assert_eq!(store.poll(50, vec![]), []);
    assert_eq!(store.snapshot().drifts, 0);
}

// spec: P-4, L-12
#[test]
fn a_pod_that_left_the_selector_is_rightly_missing_in_every_poll() {
    let mut store = Store::watched();
    store.deleted(relabelled(pod(1, "u1", 30)));
    for version in [40, 50, 60] {
        assert_eq!(store.poll(version, vec![pod(2, "u2", 21)]), []);
        assert_eq!(store.bookmark(version + 5), []);
        // The answer to a look-up or a delete, not a line of the watch.
        store.seen(relabelled(pod(1, "u1", version + 6)));
    }
}

// spec: P-4, L-20
#[test]
fn a_pod_that_was_made_without_its_labels_is_not_watched_and_its_end_is_no_drift() {
    let mut store = Store::watched();
    store.request(3);
    store.created(3, relabelled(pod(3, "u3", 30)));
    // The answer to its delete.
    store.seen(terminating(relabelled(pod(3, "u3", 31))));
    let polled = vec![pod(1, "u1", 20), pod(2, "u2", 21)];
    assert_eq!(store.poll(40, polled), []);
    assert_eq!(store.bookmark(45), []);
    assert_eq!(store.snapshot().drifts, 0);
}

/// A step in a cluster whose watch loses nothing.
#[derive(Debug, Clone)]
enum Step {
    Change(u64),
    Delete(u64),
    /// The watch delivers this many events.
    Deliver(usize),
    Bookmark,
    /// A poll of the state this many events ago.
    Poll(usize),
    /// The same, but begun before this many further events are delivered.
    SlowPoll(usize, usize),
    WatchList,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..6_u64).prop_map(Step::Change),
        1 => (1..6_u64).prop_map(Step::Delete),
        4 => (0..4_usize).prop_map(Step::Deliver),
        2 => Just(Step::Bookmark),
        2 => (0..4_usize).prop_map(Step::Poll),
        1 => (0..4_usize, 0..4_usize).prop_map(|(ago, later)| Step::SlowPoll(ago, later)),
        1 => Just(Step::WatchList),
    ]
}

struct World {
    store: Store,
    /// All states, oldest first: the server's version, and the version of each pod.
    states: Vec<(u64, BTreeMap<u64, u64>)>,
    /// Not delivered yet.
    events: std::collections::VecDeque<(u64, u64, bool)>,
    found: Vec<Contradiction>,
}

impl World {
    fn now(&self) -> &(u64, BTreeMap<u64, u64>) {
        self.states.last().unwrap()
    }

    fn pods(state: &BTreeMap<u64, u64>) -> Vec<Pod> {
        let pods = state.iter();
        pods.map(|(id, version)| running(*id, &format!("u{id}"), *version))
            .collect()
    }

    fn deliver(&mut self, events: usize) {
        for _ in 0..events {
            let Some((version, id, gone)) = self.events.pop_front() else {
                return;
            };
            let pod = running(id, &format!("u{id}"), version);
            let applied = if gone {
                self.store.deleted(terminating(pod))
            } else {
                self.store.seen(pod)
            };
            self.found.extend(drifts(applied));
        }
    }

    fn arrives(&mut self, ticket: ListTicket, version: u64, state: &BTreeMap<u64, u64>) {
        let items = Self::pods(state).into_iter().map(read).collect();
        self.found.extend(drifts(
            self.store
                .list_arrives(ticket, version, ListKind::PollCached, items)
                .1,
        ));
    }

    fn step(&mut self, step: &Step) {
        let (version, mut state) = self.now().clone();
        match *step {
            Step::Change(id) | Step::Delete(id) => {
                if !state.contains_key(&id) {
                    return;
                }
                let gone = matches!(step, Step::Delete(_));
                let version = version + 1;
                if gone {
                    state.remove(&id);
                } else {
                    state.insert(id, version);
                }
                self.events.push_back((version, id, gone));
                self.states.push((version, state));
            }
            Step::Deliver(events) => self.deliver(events),
            Step::Bookmark => {
                // Up to the first undelivered event.
                let to = self.events.front().map_or(version, |(next, ..)| next - 1);
                let found = self.store.bookmark(to);
                self.found.extend(found);
            }
            Step::Poll(ago) => self.step(&Step::SlowPoll(ago, 0)),
            Step::SlowPoll(ago, later) => {
                let ago = ago.min(self.states.len() - 1);
                let (version, state) = self.states[self.states.len() - 1 - ago].clone();
                let ticket = self.store.begin_list();
                self.deliver(later);
                self.arrives(ticket, version, &state);
            }
            Step::WatchList => {
                self.events.clear();
                self.store.watch_list(version, Self::pods(&state));
            }
        }
    }
}

proptest! {
    // spec: P-4
    #[test]
    fn a_watch_that_loses_nothing_never_causes_drift(steps in proptest::collection::vec(step(), 1..60)) {
        let mut store = Store::before_adoption(Inheritance::default());
        store.watch_list(10, vec![]);
        for id in 1..6 {
            store = store.with(running(id, &format!("u{id}"), 10 + id));
        }
        let state: BTreeMap<u64, u64> = (1..6).map(|id| (id, 10 + id)).collect();
        let events = (1..6).map(|id| (10 + id, id, false)).collect();
        let mut world = World { store, states: vec![(15, state)], events, found: Vec::new() };
        for step in &steps {
            world.step(step);
        }
        prop_assert!(world.found.is_empty(), "{:?}", world.found);
    }

    // spec: P-4
    #[test]
    fn an_event_that_the_watch_lost_is_found_by_a_poll_and_a_bookmark(lost in 1..6_u64, gone: bool, bookmark_first: bool) {
        let mut store = Store::before_adoption(Inheritance::default());
        store.watch_list(10, vec![]);
        for id in 1..6 {
            store = store.with(running(id, &format!("u{id}"), 10 + id));
        }
        let mut state: BTreeMap<u64, u64> = (1..6).map(|id| (id, 10 + id)).collect();
        if gone {
            state.remove(&lost);
        } else {
            state.insert(lost, 16);
        }
        let mut found = Vec::new();
        if bookmark_first {
            found.extend(store.bookmark(20));
        }
        found.extend(store.poll(20, World::pods(&state)));
        if !bookmark_first {
            found.extend(store.bookmark(20));
        }
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(store.snapshot().drifts, 1);
    }
}

// spec: P-4
#[test]
fn a_pod_that_one_poll_lacks_and_a_later_one_has_is_no_drift() {
    let pods = || vec![pod(1, "u1", 20), pod(2, "u2", 21)];
    for wrong_again in [false, true] {
        let mut store = Store::watched();
        assert_eq!(store.poll(30, vec![pod(1, "u1", 20)]), []);
        assert_eq!(store.poll(31, pods()), []);
        let mut proven = Vec::new();
        if wrong_again {
            proven.push(contradiction(2, Some(21), None, 32));
            assert_eq!(store.poll(32, vec![pod(1, "u1", 20)]), []);
        }
        assert_eq!(store.bookmark(40), proven);
    }
}
