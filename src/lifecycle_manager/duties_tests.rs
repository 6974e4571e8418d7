//! What is owed, on the real ledger: ends told once, pods deleted until they are gone, look-ups in time.

use rand::SeedableRng;

use super::*;
use crate::model::executor::{How, Why};
use crate::model::news::{Found, News, Outcome};
use crate::model::pod::{Claim, Disruption, Sighting};
use crate::model::{Incarnation, Pod};
use crate::snapshot_store::ledger::Inheritance;
use crate::testing::{SERVER_TIMEOUT, Story, at, id, running, terminating};

const CREATION_TIMEOUT: Duration = Duration::from_secs(60);

fn settings() -> Settings {
    Settings {
        delete_on_termination: true,
        max_in_flight: 32,
        server_timeout: SERVER_TIMEOUT,
        creation_timeout: CREATION_TIMEOUT,
        backoff: Backoff {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(30),
        },
    }
}

/// A LifecycleManager on its ledger; the test answers its calls.
struct Manager {
    story: Story,
    duties: Duties,
    told: Vec<(u64, LossClass)>,
    corrected: Vec<(u64, LossClass)>,
    calls: Vec<(Subject, Duty)>,
}

/// A call, in short.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Call {
    Delete(&'static str),
    Label(u64),
    LookUp(u64),
}

impl Manager {
    fn new() -> Self {
        Self::with(settings(), Story::new(&[("default", 9)]))
    }

    fn with(settings: Settings, story: Story) -> Self {
        use rand::rngs::StdRng;
        Self {
            story,
            duties: Duties::new(settings, StdRng::seed_from_u64(7)),
            told: Vec::new(),
            corrected: Vec::new(),
            calls: Vec::new(),
        }
    }

    /// One round, carried out as the actor does; the calls made in it.
    fn round(&mut self) -> Vec<Call> {
        let mut made = Vec::new();
        let batch = self.story.batch();
        for action in self.duties.decide(&batch, self.story.now()) {
            match action {
                Action::Tell(ending) => {
                    let id = ending.entry.id;
                    self.told.push((id.get(), ending.reason.class));
                    self.story.tell(News::Told { id });
                }
                Action::Correct(ending) => self
                    .corrected
                    .push((ending.entry.id.get(), ending.reason.class)),
                Action::Call(subject, duty) => {
                    made.push(short(&subject, &duty));
                    self.calls.push((subject, duty));
                }
            }
        }
        self.story.release();
        made
    }

    /// Rounds until nothing is left to hear; the calls made in them.
    fn rounds(&mut self) -> Vec<Call> {
        let mut made = self.round();
        while self.story.has_news() {
            made.extend(self.round());
        }
        made
    }

    /// The oldest call that is out is answered.
    fn answer(&mut self, succeeded: bool) {
        let (subject, _) = self.calls.remove(0);
        let now = self.story.now().tick;
        self.duties.answered(&subject, succeeded, now);
    }

    fn request(&mut self, n: u64) {
        let profile = "default".into();
        self.story.requested(n, Outcome::Sent { profile });
    }

    fn start(&mut self, n: u64) {
        self.request(n);
        self.story.created(n);
        self.story.runs(n);
    }

    fn retire(&mut self, n: u64, why: Why) {
        let (ids, how) = (vec![id(n)], How::Delete);
        self.story.tell(News::Retire {
            ids,
            targets: std::collections::BTreeMap::new(),
            why,
            how,
        });
    }

    fn looked_up(&mut self, n: u64, found: Found) {
        let (sent, epoch) = (self.story.now().tick, self.story.current().epoch);
        self.story.tell(News::LookedUp {
            id: id(n),
            sent,
            epoch,
            found,
        });
    }

    /// Seconds pass, a round each; when calls were made, and which.
    fn seconds(&mut self, seconds: u64) -> Vec<(u64, Call)> {
        let mut made = Vec::new();
        for _ in 0..seconds {
            self.story.pass(1_000);
            let now = self.story.millis / 1_000;
            made.extend(self.rounds().into_iter().map(|call| (now, call)));
        }
        made
    }
}

fn short(subject: &Subject, duty: &Duty) -> Call {
    match (subject, duty) {
        (_, Duty::Delete { uid, .. }) => Call::Delete(uid.as_str().to_owned().leak()),
        (Subject::Executor(id), Duty::MarkInactive { .. }) => Call::Label(id.get()),
        (Subject::Executor(_), Duty::LookUp(id)) => Call::LookUp(id.get()),
        other => panic!("a ghost is deleted, nothing else: {other:?}"),
    }
}

fn found(pod: Pod) -> Found {
    Found::Pod(Sighting::Read(Arc::new(pod)))
}

// spec: L-1
#[test]
fn an_end_is_told_once_however_often_and_in_whatever_order_it_is_seen() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.round();
    manager.story.exits(1, 3);
    manager.rounds();
    for _ in 0..3 {
        let again = manager.story.pod(1);
        manager.story.see(again);
        manager.rounds();
    }
    manager.story.terminates(1);
    manager.rounds();
    manager.story.goes(1);
    let late = manager.story.pod(1);
    manager.rounds();
    manager.story.see(late);
    manager.rounds();
    assert_eq!(manager.told, [(1, LossClass::Exited)]);
    assert!(manager.story.entry(1).is_none() && manager.story.current().ghosts.is_empty());
}

// spec: L-1
#[test]
fn one_that_was_deleted_without_having_been_seen_to_end_is_told_too() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.story.goes(1);
    manager.rounds();
    assert_eq!(manager.told, [(1, LossClass::Deleted)]);
    assert!(manager.story.entry(1).is_none());
}

// spec: L-1
#[test]
fn what_was_never_created_is_closed_without_a_word() {
    let mut manager = Manager::new();
    manager.request(1);
    manager.story.requested(1, Outcome::Refused("no".into()));
    assert_eq!(manager.rounds(), []);
    manager.rounds();
    assert!(manager.told.is_empty() && manager.story.entry(1).is_none());
}

// spec: L-1
#[test]
fn what_the_record_knows_and_adoption_does_not_find_is_told_as_lost() {
    let mut inheritance = Inheritance {
        reserved: Some(id(50)),
        ..Inheritance::default()
    };
    inheritance.bound.insert(id(4));
    let mut story = Story::before_adoption(&[("default", 1)], inheritance);
    story.list(Vec::new());
    let mut manager = Manager::with(settings(), story);
    manager.rounds();
    assert_eq!(manager.told, [(4, LossClass::Lost)]);
}

// spec: L-1, S-20
#[test]
fn what_adoption_found_is_seen_to_though_the_first_batch_names_only_what_changed_since() {
    let mut story = Story::before_adoption(&[("default", 1)], Inheritance::default());
    let ended = Pod {
        phase: crate::model::pod::Phase::Failed,
        ..story.pod(3)
    };
    let mut manager = Manager::with(settings(), {
        story.list(vec![ended]);
        story.batch();
        story.want("default", 2);
        story
    });
    assert_eq!(manager.rounds(), [Call::Delete("u3")]);
    assert_eq!(manager.told.len(), 1);
}

// spec: L-5
#[test]
fn an_end_that_a_later_snapshot_of_the_batch_no_longer_shows_is_told_as_it_was() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.start(2);
    manager.story.exits(1, 9);
    manager.story.goes(1);
    manager.story.exits(2, 0);
    let relabelled = Pod {
        claim: Claim::Foreign {
            label: "app-id".into(),
        },
        ..manager.story.pod(2)
    };
    manager.story.see(relabelled);
    manager.rounds();
    assert_eq!(
        manager.told,
        [(1, LossClass::Exited), (2, LossClass::Exited)]
    );
}

// spec: L-2, L-11
#[test]
fn a_finished_pod_is_told_and_then_deleted_by_uid_until_its_deletion_has_begun() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.story.exits(1, 1);
    assert_eq!(manager.round(), [], "told first");
    assert_eq!(manager.told.len(), 1);
    assert_eq!(manager.round(), [Call::Delete("u1")]);
    let (_, duty) = manager.calls.last().unwrap();
    assert!(matches!(duty, Duty::Delete { name, .. } if &**name == "a-exec-1"));
    let again = manager.story.pod(1);
    manager.story.see(again);
    assert_eq!(manager.seconds(60), [], "one call at a time");
    manager.answer(true);
    manager.story.terminates(1);
    assert_eq!(manager.seconds(60), []);
    assert_eq!(manager.duties.outstanding(), 0);
}

// spec: L-11
#[test]
fn a_delete_that_fails_is_repeated_with_backoff_and_without_end() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.retire(1, Why::ScaledDown);
    let mut at = Vec::new();
    for second in 0..600 {
        at.extend(manager.rounds().iter().map(|_| second));
        if !manager.calls.is_empty() {
            manager.answer(false);
        }
        manager.story.pass(1_000);
    }
    let gaps: Vec<i32> = at.windows(2).map(|two| two[1] - two[0]).collect();
    let doubling = [1..=1, 2..=2, 3..=4, 6..=8, 12..=16, 23..=30, 23..=30];
    for (gap, expected) in gaps.iter().zip(doubling) {
        assert!(expected.contains(gap), "{gaps:?}");
    }
    assert!(
        gaps.len() > 20 && gaps.iter().all(|gap| *gap <= 30),
        "{gaps:?}"
    );
}

// spec: L-11
#[test]
fn a_delete_that_was_accepted_is_asked_for_again_where_nothing_comes_of_it() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.retire(1, Why::ScaledDown);
    let mut calls = 0;
    for _ in 0..120 {
        calls += manager.rounds().len();
        if !manager.calls.is_empty() {
            manager.answer(true);
        }
        manager.story.pass(1_000);
    }
    assert!((5..=10).contains(&calls), "less and less often: {calls}");
}

// spec: L-11
#[test]
fn a_delete_that_finds_nothing_is_the_end() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.retire(1, Why::ScaledDown);
    assert_eq!(manager.rounds(), [Call::Delete("u1")]);
    manager.story.tell(News::DeleteFoundNothing {
        uid: "u1".into(),
        name: "a-exec-1".into(),
    });
    manager.answer(true);
    assert_eq!(manager.seconds(5), []);
    assert_eq!(manager.told, [(1, LossClass::ScaledDown)]);
    assert_eq!(manager.duties.outstanding(), 0);
}

// spec: L-10, L-11
#[test]
fn a_mark_is_carried_out_once_there_is_a_pod() {
    let mut manager = Manager::new();
    manager.request(1);
    manager.retire(1, Why::ApplicationEnded);
    assert_eq!(
        manager.seconds(100),
        [],
        "the answer to its request is awaited"
    );
    manager.story.created(1);
    assert_eq!(manager.round(), [Call::Delete("u1")]);
}

// spec: E-3
#[test]
fn a_ghost_is_deleted_by_uid_again_and_again_until_it_is_gone() {
    let mut manager = Manager::new();
    manager.start(1);
    let ghost = Pod {
        uid: "copy".into(),
        ..manager.story.pod(1)
    };
    manager.story.see(ghost.clone());
    assert_eq!(manager.round(), [Call::Delete("copy")]);
    manager.answer(false);
    assert_eq!(manager.seconds(2), [(1, Call::Delete("copy"))]);
    manager.answer(true);
    manager.story.see(terminating(ghost));
    assert_eq!(manager.seconds(60), []);
    assert_eq!(manager.duties.outstanding(), 0);
    assert!(manager.told.is_empty(), "it was no executor");
}

// spec: E-3, O-31
#[test]
fn nothing_is_deleted_before_adoption() {
    let mut story = Story::before_adoption(&[("default", 1)], Inheritance::default());
    let seen_early = running(story.pod(1));
    story.see(seen_early);
    let mut manager = Manager::with(settings(), story);
    assert_eq!(manager.rounds(), []);
}

// spec: L-4
#[test]
fn one_that_a_list_lacks_is_looked_up_and_told_as_missing_when_it_is_not_found() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.story.list(Vec::new());
    assert_eq!(manager.round(), [Call::LookUp(1)]);
    assert!(manager.told.is_empty());
    manager.looked_up(1, Found::NoAnswer);
    manager.answer(false);
    assert_eq!(manager.seconds(1), [(1, Call::LookUp(1))]);
    manager.looked_up(1, Found::Nothing);
    manager.answer(true);
    manager.rounds();
    assert_eq!(manager.told, [(1, LossClass::Missing)]);
}

// spec: L-4
#[test]
fn one_that_a_list_lacks_and_a_look_up_finds_is_let_be() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.story.list(Vec::new());
    manager.round();
    let there = manager.story.pod(1);
    manager.looked_up(1, found(there));
    manager.answer(true);
    assert_eq!(manager.seconds(60), []);
    assert!(manager.told.is_empty());
    assert_eq!(manager.duties.outstanding(), 0);
}

// spec: A-14
#[test]
fn an_unknown_request_is_looked_up_after_creation_timeout_and_never_before_the_server_gave_it_up() {
    let mut manager = Manager::new();
    manager.request(1);
    manager.story.requested(1, Outcome::Broke("?".into()));
    assert_eq!(manager.seconds(70), [(60, Call::LookUp(1))]);

    let mut manager = Manager::new();
    manager.request(1);
    manager.story.requested(1, Outcome::Broke("?".into()));
    manager.story.pass(57_000);
    manager.story.requested(1, Outcome::SentAgain);
    manager.story.requested(1, Outcome::Broke("?".into()));
    assert_eq!(manager.seconds(30), [(67, Call::LookUp(1))]);
}

// spec
#[test]
fn an_unknown_request_whose_repeat_was_refused_is_looked_up_after_the_server_timeout() {
    for outcome in [Outcome::NameTaken, Outcome::Refused("full".into())] {
        let mut manager = Manager::new();
        manager.request(1);
        manager.story.requested(1, Outcome::Broke("?".into()));
        manager.round();
        manager.story.pass(2_000);
        manager.story.requested(1, Outcome::SentAgain);
        manager.story.requested(1, outcome);
        assert_eq!(manager.seconds(30), [(12, Call::LookUp(1))]);
        manager.looked_up(1, Found::Nothing);
        manager.answer(true);
        manager.rounds();
        manager.rounds();
        assert!(manager.story.entry(1).is_none(), "not created");
        assert!(manager.told.is_empty());
    }
}

// spec: A-14
#[test]
fn while_a_repeat_is_in_flight_nothing_is_looked_up() {
    let mut manager = Manager::new();
    manager.request(1);
    manager.story.requested(1, Outcome::Broke("?".into()));
    manager.story.requested(1, Outcome::SentAgain);
    assert_eq!(manager.seconds(100), []);
}

// spec: L-14
#[test]
fn an_unknown_request_that_is_leaving_is_looked_up_as_soon_as_that_can_settle_it() {
    for leaves_after in [0, 30] {
        let mut manager = Manager::new();
        manager.request(1);
        manager.story.requested(1, Outcome::Broke("?".into()));
        manager.seconds(leaves_after);
        manager.retire(1, Why::ApplicationEnded);
        let at = leaves_after.max(10);
        let mut made: Vec<(u64, Call)> = (manager.rounds().into_iter())
            .map(|call| (leaves_after, call))
            .collect();
        made.extend(manager.seconds(30));
        assert_eq!(made, [(at, Call::LookUp(1))]);
        let there = manager.story.pod(1);
        manager.looked_up(1, found(there));
        manager.answer(true);
        assert_eq!(
            manager.rounds(),
            [Call::Delete("u1")],
            "there: deleted by uid"
        );
    }
}

// spec: L-2, E-9
#[test]
fn a_kept_pod_is_labelled_once_and_never_read_again() {
    let settings = Settings {
        delete_on_termination: false,
        ..settings()
    };
    let mut manager = Manager::with(settings, Story::new(&[("default", 9)]));
    manager.start(1);
    manager.story.exits(1, 0);
    assert_eq!(manager.rounds(), [Call::Label(1)]);
    manager.answer(false);
    assert_eq!(manager.seconds(1), [(1, Call::Label(1))]);
    let uid = "u1".into();
    manager.story.tell(News::Inactive { id: id(1), uid });
    manager.answer(true);
    let kept = manager.story.pod(1);
    assert_eq!(manager.seconds(10), []);
    assert!(manager.story.entry(1).is_none());
    manager.story.see(kept);
    assert_eq!(manager.seconds(60), []);
    assert_eq!(manager.told, [(1, LossClass::Exited)]);
    assert!(manager.corrected.is_empty(), "{:?}", manager.corrected);
}

// spec: L-20, E-10
#[test]
fn one_whose_labels_are_no_longer_ours_is_looked_up_and_then_deleted_by_uid() {
    let mut manager = Manager::new();
    manager.start(1);
    let foreign = Pod {
        claim: Claim::Foreign {
            label: "app-id".into(),
        },
        ..manager.story.pod(1)
    };
    manager.story.see(foreign.clone());
    assert_eq!(manager.round(), [Call::LookUp(1)]);
    manager.looked_up(1, found(foreign));
    manager.answer(true);
    assert_eq!(manager.round(), [Call::Delete("u1")]);
    manager.story.goes(1);
    manager.answer(true);
    manager.rounds();
    assert_eq!(manager.told, [(1, LossClass::Mislabelled)]);
}

// spec: L-13
#[test]
fn a_better_reason_that_comes_later_is_a_correction_and_said_once() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.story.exits(1, 137);
    manager.rounds();
    for _ in 0..3 {
        let evicted = Pod {
            disruption: Some(Disruption {
                reason: "EvictionByEvictionAPI".into(),
                message: None,
            }),
            ..manager.story.pod(1)
        };
        manager.story.see(evicted);
        manager.rounds();
    }
    manager.story.goes(1);
    manager.rounds();
    assert_eq!(manager.told, [(1, LossClass::Exited)]);
    assert_eq!(manager.corrected, [(1, LossClass::Disrupted)]);
}

// spec: L-13
#[test]
fn our_own_delete_of_what_had_ended_is_no_better_reason() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.story.exits(1, 1);
    manager.rounds();
    manager.story.terminates(1);
    manager.rounds();
    manager.story.goes(1);
    manager.rounds();
    assert!(manager.corrected.is_empty(), "{:?}", manager.corrected);
}

// spec: L-6
#[test]
fn a_round_without_changes_does_nothing_and_one_change_concerns_one_executor() {
    let mut manager = Manager::new();
    for n in 1..=1_000 {
        manager.start(n);
    }
    manager.rounds();
    assert_eq!(
        (manager.rounds(), manager.duties.outstanding()),
        (vec![], 0)
    );
    manager.story.exits(500, 1);
    assert_eq!(manager.rounds(), [Call::Delete("u500")]);
    assert_eq!(manager.duties.outstanding(), 1);
}

// spec: L-11
#[test]
fn ten_thousand_deletes_leave_in_order_as_many_at_a_time_as_may() {
    let mut manager = Manager::new();
    for n in 1..=10_000 {
        manager.start(n);
    }
    manager.rounds();
    for n in 1..=10_000 {
        manager.retire(n, Why::ApplicationEnded);
    }
    let mut order = Vec::new();
    while order.len() < 10_000 {
        for call in manager.rounds() {
            let Call::Delete(uid) = call else {
                panic!("{call:?}")
            };
            order.push(uid[1..].parse::<u64>().unwrap());
        }
        assert_eq!(
            manager.calls.len(),
            32.min(10_000 - (order.len() - manager.calls.len()))
        );
        // News of one that waits must not put it behind all others.
        if order.len() < 9_000 {
            manager.story.runs(9_000);
            let noisy = Pod {
                message: Some(order.len().to_string().as_str().into()),
                ..manager.story.pod(9_000)
            };
            manager.story.see(noisy);
        }
        manager.story.pass(1);
        while let Some((Subject::Executor(id), _)) = manager.calls.first().cloned() {
            manager.story.terminates(id.get());
            manager.answer(true);
        }
    }
    assert!(
        order.is_sorted(),
        "{:?}",
        order.windows(2).find(|w| w[0] > w[1])
    );
    manager.rounds();
    assert_eq!(manager.duties.outstanding(), 0);
}

// spec: L-11
#[test]
fn an_answer_that_comes_after_its_duty_vanished_and_came_back_is_not_taken_for_the_new_ones() {
    let settings = Settings {
        max_in_flight: 2,
        ..settings()
    };
    let mut manager = Manager::with(settings, Story::new(&[("default", 9)]));
    for n in 1..=3 {
        manager.start(n);
    }
    manager.story.list(Vec::new());
    assert_eq!(manager.round(), [Call::LookUp(1), Call::LookUp(2)]);
    // Seen again, and missed again, while the look-up is in flight.
    for _ in 0..5 {
        let there = manager.story.pod(1);
        manager.story.see(there);
        manager.story.pass(100);
        assert_eq!(manager.round(), []);
        manager.story.list(vec![]);
        manager.story.pass(100);
        assert_eq!(manager.round(), [], "one call for one pod at a time");
    }
    manager.answer(true);
    assert_eq!(
        manager.round(),
        [Call::LookUp(3)],
        "it has waited for longer"
    );
    manager.answer(true);
    assert_eq!(
        manager.round(),
        [Call::LookUp(1)],
        "asked since it was missed last, without any backoff"
    );
    manager.answer(true);
    manager.answer(true);
    for n in 1..=3 {
        manager.looked_up(n, Found::Nothing);
    }
    manager.rounds();
    assert_eq!((manager.told.len(), manager.duties.outstanding()), (3, 0));
    for n in 4..=6 {
        manager.start(n);
        manager.retire(n, Why::ScaledDown);
    }
    assert_eq!(
        manager.rounds().len(),
        2,
        "nothing of the window has leaked"
    );
}

// spec: L-11
#[test]
fn a_duty_that_changes_while_a_call_is_in_flight_follows_it_without_backoff() {
    let mut manager = Manager::new();
    manager.start(1);
    manager.story.list(Vec::new());
    assert_eq!(manager.round(), [Call::LookUp(1)]);
    let there = manager.story.pod(1);
    manager.story.see(there);
    manager.retire(1, Why::ScaledDown);
    assert_eq!(manager.round(), []);
    manager.answer(false);
    assert_eq!(manager.round(), [Call::Delete("u1")]);
    manager.answer(false);
    assert_eq!(manager.round(), [], "its own failure is backed off");
}

// spec: O-11
#[test]
fn nothing_is_left_when_every_pod_is_gone_or_being_deleted() {
    let mut manager = Manager::new();
    assert!(nothing_left(manager.story.current()));
    manager.start(1);
    assert!(!nothing_left(manager.story.current()));
    manager.story.terminates(1);
    assert!(nothing_left(manager.story.current()));
    manager.request(2);
    assert!(!nothing_left(manager.story.current()));
    manager.story.requested(2, Outcome::Refused("no".into()));
    assert!(nothing_left(manager.story.current()));
    let ghost = Pod {
        uid: "copy".into(),
        claim: Claim::Executor {
            id: id(1),
            profile: None,
            incarnation: Some(Incarnation(0)),
        },
        ..running(manager.story.pod(9))
    };
    let ghost = Pod {
        name: "a-exec-1".into(),
        ..ghost
    };
    manager.story.see(ghost);
    assert!(!nothing_left(manager.story.current()));
    assert_eq!(at(0), manager.story.now().tick);
}
