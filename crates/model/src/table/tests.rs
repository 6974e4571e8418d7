mod evidence;
mod spares;

use crate::executor::{Class, Session};
use crate::pod::{Deletion, Phase, PodIdentity};
use crate::testing::pending;
use crate::{Incarnation, ProfileName};

use super::*;

/// The table of spec E-10. A cell names the state after the news and, after a plus, what else
/// changed. `–`: nothing changes. `.`: the ledger never lets this case reach the table, because the
/// name alone does not bind.
const E_10: &str = "
news                              | Sent         | Unknown      | Pending      | Running      | Odd          | Absent       | Terminating | Finished    | Gone
created answered 201              | Running      | Running      | –            | –            | –            | –            | –           | –           | –
create refused                    | NotCreated   | to look up   | –            | –            | –            | –            | –           | –           | –
create broke                      | Unknown      | Unknown      | –            | –            | –            | –            | –           | –           | –
create answered 409               | NotCreated   | to look up   | –            | –            | –            | –            | –           | –           | –
about to be sent again            | –            | in flight    | –            | –            | –            | –            | –           | –           | –
seen, newer                       | Running      | Running      | Running      | Running      | Running      | Running      | Running     | Running     | –
seen, as held                     | as held      | as held      | –            | –            | –            | –            | –           | –           | –
seen, older                       | Running      | Running      | –            | –            | –            | –            | –           | –           | –
seen in a full list, as held      | as held      | as held      | –            | –            | –            | Running      | –           | –           | –
seen in an older list, as held    | as held      | as held      | –            | –            | –            | –            | –           | –           | –
seen, labels no longer ours       | .            | .            | Absent       | Absent       | Absent       | Absent       | Terminating | Absent      | –
seen, unreadable, newer           | –            | –            | Odd          | Odd          | Odd          | Odd          | Terminating | –           | –
seen, unreadable, as held         | –            | –            | –            | –            | –            | –            | –           | –           | –
DELETED, deletionTimestamp        | gone         | gone         | gone         | gone         | gone         | gone         | gone        | gone        | –
DELETED, none                     | –            | –            | Absent       | Absent       | Absent       | Absent       | gone        | gone        | –
DELETED, none, but reported       | –            | –            | gone         | gone         | gone         | gone         | gone        | gone        | –
DELETED, none, not newer          | –            | –            | –            | –            | –            | –            | –           | –           | –
a full list lacks it              | –            | –            | Absent       | Absent       | Absent       | –            | gone        | gone        | –
a full list lacks it, but reported| –            | –            | gone         | gone         | gone         | gone         | gone        | gone        | –
looked up: there, ours            | Running      | Running      | Running      | Running      | Running      | Running      | Running     | Running     | –
looked up: there, as held         | as held      | as held      | –            | –            | –            | Running      | –           | –           | –
looked up before, there, older    | Running      | Running      | –            | –            | –            | –            | –           | –           | –
looked up: there, not ours        | .            | .            | Pending+mark | Running+mark | Odd+mark     | Running+mark | gone        | gone        | –
looked up before, not ours, older | .            | .            | –            | –            | –            | –            | –           | –           | –
looked up: there, unreadable      | –            | –            | –            | –            | –            | Running      | –           | –           | –
looked up: 404                    | –            | NotCreated   | Missing      | Missing      | Missing      | Missing      | Missing     | Missing     | –
looked up too early: 404          | –            | –            | –            | –            | –            | –            | –           | –           | –
look-up unanswered                | –            | –            | –            | –            | –            | –            | –           | –           | –
delete answered 404               | –            | –            | gone         | gone         | gone         | gone         | gone        | gone        | –
inactive label confirmed          | –            | –            | gone         | gone         | gone         | gone         | gone        | gone        | –
reported                          | –            | –            | Pending+reported | Running+reported | Odd+reported     | Absent+reported  | Terminating+reported | Finished+reported | gone+reported
leaving mark                      | Sent+mark    | Unknown+mark | Pending+mark | Running+mark | Odd+mark     | Absent+mark  | –           | –           | –
session facts                     | Sent+session | Unknown+session | Pending+session | Running+session | Odd+session | Absent+session | Terminating+session | Finished+session | gone+session
";

fn reason() -> Arc<LossReason> {
    Arc::new(LossReason::of_a_refusal("any"))
}

const HELD: u64 = 5;
const NEWER: u64 = 9;
const OLDER: u64 = 3;
/// The version of the list that lacked the entry in the column "Absent".
const MISSED_AT: u64 = 6;

fn at(second: u64) -> Tick {
    Tick::after_start(Duration::from_secs(second))
}

/// The entry is known since second 10, and absent since second 20.
const NOW: u64 = 100;
const LOOKED_UP: u64 = 95;
const LOOKED_UP_EARLY: u64 = 10;

fn here() -> At {
    At {
        now: at(NOW),
        count: 7,
        epoch: Epoch::default(),
        server_timeout: Duration::from_secs(10),
    }
}

fn deletion() -> Option<Deletion> {
    Some(Deletion {
        deadline: None,
        grace: None,
    })
}

fn pod(state: &str, version: u64) -> Arc<Pod> {
    let mut pod = pending("a", 1, "u", version);
    match state {
        "Pending" => {}
        "Running" | "Absent" => pod.phase = Phase::Running,
        "Odd" => pod.phase = Phase::parse("hibernating"),
        "Terminating" => (pod.phase, pod.deletion) = (Phase::Running, deletion()),
        "Finished" | "Gone" => pod.phase = Phase::Failed,
        other => panic!("no such state: {other}"),
    }
    Arc::new(pod)
}

fn relabelled(state: &str, version: u64) -> Arc<Pod> {
    let mut pod = Pod::clone(&pod(state, version));
    pod.identity = PodIdentity::Foreign {
        label: Arc::from("role"),
    };
    Arc::new(pod)
}

fn entry_in(column: &str) -> Entry {
    let (id, epoch) = (ExecutorId::FIRST, Epoch::default());
    let profile = ProfileName::from("default");
    let mut entry = Entry::requested(id, profile, Incarnation(1), at(10), epoch);
    let State::Sent(request) = entry.state else {
        panic!("a fresh entry is sent");
    };
    if column == "Sent" {
        return entry;
    }
    if column == "Unknown" {
        entry.state = State::Unknown(Unanswered {
            request,
            since: at(11),
            repeats: 0,
            in_flight: false,
            look_up: false,
            why: Arc::from("timeout"),
        });
        return entry;
    }
    let absence = Absence {
        since: at(20),
        as_of: MISSED_AT.into(),
        epoch,
    };
    let bound = Bound {
        pod: pod(column, HELD),
        epoch,
        bound_at: 1,
        since: at(10),
        running_since: None,
        absent: (column == "Absent").then_some(absence),
    };
    entry.state = if column == "Gone" {
        State::Gone(Gone {
            bound: Some(bound),
            how: GoneEvidence::Deleted,
            at: at(30),
        })
    } else {
        State::Bound(bound)
    };
    entry
}

fn name_of(state: &State) -> &'static str {
    match state {
        State::Sent(_) => "Sent",
        State::Unknown(unanswered) if unanswered.in_flight => "in flight",
        State::Unknown(unanswered) if unanswered.look_up => "to look up",
        State::Unknown(_) => "Unknown",
        State::Bound(bound) if bound.absent.is_some() => "Absent",
        State::Bound(bound) => match bound.pod.state() {
            PodState::Pending(_) => "Pending",
            PodState::Running => "Running",
            PodState::Odd => "Odd",
            PodState::Terminating => "Terminating",
            PodState::Succeeded | PodState::Failed => "Finished",
        },
        State::Gone(gone) => match gone.how {
            GoneEvidence::NotCreated(_) => "NotCreated",
            GoneEvidence::Missing => "Missing",
            _ => "gone",
        },
    }
}

/// Describes what changed, as a cell of the table does.
fn describe(before: &Entry, after: Option<&Entry>) -> String {
    let Some(after) = after else {
        return "–".to_owned();
    };
    let mut text = name_of(&after.state).to_owned();
    for (changed, word) in [
        (before.leaving != after.leaving, "+mark"),
        (before.end != after.end, "+reported"),
        (before.session != after.session, "+session"),
    ] {
        if changed {
            text.push_str(word);
        }
    }
    text
}

fn tell(row: &str, column: &str, entry: &Entry) -> Option<Entry> {
    let why: Arc<str> = Arc::from("because");
    let unbound = matches!(column, "Sent" | "Unknown");
    let held = if unbound { "Pending" } else { column };
    let list = ResourceVersion::from(NEWER);
    let older_list = ResourceVersion::from(HELD);
    let version = |version: u64| ResourceVersion::from(version);
    let (running, as_held, event) = (pod("Running", NEWER), pod(held, HELD), Authority::Event);
    let by_look_up = Authority::LookUp(at(LOOKED_UP));
    let next = |news: EntryNews<'_>| super::next(entry, &news, &here());
    let next_reported = |news: EntryNews<'_>| {
        let reported = Entry {
            end: Some(reason()),
            ..entry.clone()
        };
        super::next(&reported, &news, &here()).map(|after| Entry {
            end: entry.end.clone(),
            ..after
        })
    };
    match row {
        "created answered 201" => next(EntryNews::Created(&running)),
        "create refused" => next(EntryNews::Refused(&why)),
        "create broke" => next(EntryNews::Broke(&why)),
        "create answered 409" => next(EntryNews::NameTaken),
        "about to be sent again" => next(EntryNews::SentAgain),
        "seen, newer" => next(EntryNews::Seen(&running, event)),
        "seen, as held" => next(EntryNews::Seen(&as_held, event)),
        "seen, older" => next(EntryNews::Seen(&pod("Running", OLDER), event)),
        "seen in a full list, as held" => {
            next(EntryNews::Seen(&as_held, Authority::FullList(&list)))
        }
        "seen in an older list, as held" => {
            next(EntryNews::Seen(&as_held, Authority::FullList(&older_list)))
        }
        "seen, labels no longer ours" => next(EntryNews::Seen(&relabelled(held, NEWER), event)),
        "seen, unreadable, newer" => next(EntryNews::SeenUnreadable(Some(&version(NEWER)), event)),
        "seen, unreadable, as held" => next(EntryNews::SeenUnreadable(Some(&version(HELD)), event)),
        "DELETED, deletionTimestamp" => {
            let mut last = Pod::clone(&pod(held, NEWER));
            last.deletion = deletion();
            next(EntryNews::Deleted(&Arc::new(last)))
        }
        "DELETED, none" => next(EntryNews::Deleted(&running)),
        "DELETED, none, but reported" => next_reported(EntryNews::Deleted(&running)),
        "DELETED, none, not newer" => next(EntryNews::Deleted(&pod("Running", HELD))),
        "a full list lacks it" => next(EntryNews::Lacked(Some(&list))),
        "a full list lacks it, but reported" => next_reported(EntryNews::Lacked(Some(&list))),
        "looked up: there, ours" => next(EntryNews::FoundThere(&running, at(LOOKED_UP))),
        "looked up: there, as held" => next(EntryNews::FoundThere(&as_held, at(LOOKED_UP))),
        "looked up before, there, older" => {
            let older = pod("Running", OLDER);
            next(EntryNews::FoundThere(&older, at(LOOKED_UP_EARLY)))
        }
        "looked up: there, not ours" => next(EntryNews::FoundThere(
            &relabelled(held, NEWER),
            at(LOOKED_UP),
        )),
        "looked up before, not ours, older" => {
            let older = relabelled(held, OLDER);
            next(EntryNews::FoundThere(&older, at(LOOKED_UP_EARLY)))
        }
        "looked up: there, unreadable" => {
            next(EntryNews::SeenUnreadable(Some(&version(HELD)), by_look_up))
        }
        "looked up: 404" => next(EntryNews::FoundNothing(at(LOOKED_UP))),
        "looked up too early: 404" => next(EntryNews::FoundNothing(at(LOOKED_UP_EARLY))),
        "look-up unanswered" => next(EntryNews::NoAnswer),
        "delete answered 404" => next(EntryNews::DeleteFoundNothing),
        "inactive label confirmed" => next(EntryNews::Inactive),
        "reported" => next(EntryNews::Reported(&reason())),
        "leaving mark" => {
            let why = LeaveReason::ScaledDown;
            next(EntryNews::Leave(&why, LeaveMethod::Delete))
        }
        "session facts" => next(EntryNews::Session(Session::open(true))),
        other => panic!("no such news: {other}"),
    }
}

fn cells() -> Vec<(&'static str, &'static str, &'static str)> {
    let mut rows = E_10.trim().lines().map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        cells
    });
    let columns = rows.next().unwrap();
    rows.flat_map(|row| {
        assert_eq!(row.len(), columns.len(), "{row:?}");
        let columns = columns.clone();
        (1..row.len()).map(move |n| (row[0], columns[n], row[n]))
    })
    .collect()
}

// spec: E-10
#[test]
fn each_news_does_to_each_entry_what_the_table_says() {
    for (row, column, expected) in cells().into_iter().filter(|cell| cell.2 != ".") {
        let before = entry_in(column);
        let after = tell(row, column, &before);
        let expected = if expected == "as held" {
            "Pending"
        } else {
            expected
        };
        let found = describe(&before, after.as_ref());
        assert_eq!(found, expected, "{row:?} to an entry that is {column}");
    }
}

// spec: E-10, A-43
#[test]
fn a_leaving_mark_is_never_removed_and_hides_no_news() {
    let mark = Leaving {
        why: LeaveReason::ApplicationEnded,
        how: LeaveMethod::Delete,
        since: at(40),
    };
    for (row, column, _) in cells().into_iter().filter(|cell| cell.2 != ".") {
        let plain = entry_in(column);
        let marked = Entry {
            leaving: Some(mark.clone()),
            ..plain.clone()
        };
        let after = tell(row, column, &marked);
        let unmarked = tell(row, column, &plain);
        if let Some(after) = &after {
            assert_eq!(after.leaving, Some(mark.clone()), "{row:?}, {column}");
            assert!(!after.class().is_live(), "{row:?}, {column}");
        }
        // A marked entry is not marked again. Everything else is as without a mark.
        let same =
            |entry: Option<Entry>| entry.map(|entry| (entry.state, entry.end, entry.session));
        if row != "leaving mark" {
            assert_eq!(same(after), same(unmarked), "{row:?}, {column}");
        } else {
            assert_eq!(after, None, "{column}");
        }
    }
}

// spec: E-10, A-13
#[test]
fn only_a_look_up_later_than_the_server_timeout_after_the_last_send_settles_an_unknown_request() {
    let entry = entry_in("Unknown");
    let looked_up = |entry: &Entry, second| {
        next(entry, &EntryNews::FoundNothing(at(second)), &here()).map(|e| name_of(&e.state))
    };
    assert_eq!(looked_up(&entry, 19), None, "sent at 10, timeout 10");
    assert_eq!(looked_up(&entry, 20), Some("NotCreated"));

    let again = At {
        now: at(50),
        ..here()
    };
    let repeated = next(&entry, &EntryNews::SentAgain, &again).unwrap();
    assert_eq!(looked_up(&repeated, 95), None, "a repeat is in flight");
    let broken = next(&repeated, &EntryNews::Broke(&Arc::from("x")), &here()).unwrap();
    assert_eq!(looked_up(&broken, 59), None, "sent again at 50");
    assert_eq!(looked_up(&broken, 60), Some("NotCreated"));
}

// spec: L-14
#[test]
fn a_marked_unknown_request_is_settled_by_a_look_up_whatever_was_in_flight_when_it_was_marked() {
    let leave = EntryNews::Leave(&LeaveReason::ApplicationEnded, LeaveMethod::Delete);
    let marked = next(&entry_in("Unknown"), &leave, &here()).unwrap();
    assert_eq!(marked.class(), Class::Leaving);

    let there = EntryNews::FoundThere(&pod("Running", HELD), at(LOOKED_UP));
    let found = next(&marked, &there, &here()).unwrap();
    assert_eq!(name_of(&found.state), "Running", "to be deleted by uid");
    assert!(found.leaving.is_some());

    // A repeated request that was sent before the mark was seen may still commit, so it counts.
    let crossed = At {
        now: at(90),
        ..here()
    };
    let sent = next(&marked, &EntryNews::SentAgain, &crossed).unwrap();
    let broken = next(&sent, &EntryNews::Broke(&Arc::from("x")), &here()).unwrap();
    assert_eq!(
        next(&broken, &EntryNews::FoundNothing(at(95)), &here()),
        None
    );
    let settled = next(&broken, &EntryNews::FoundNothing(at(100)), &here()).unwrap();
    assert_eq!(name_of(&settled.state), "NotCreated");
}

// spec: E-6
#[test]
fn which_entries_are_live_and_which_may_be_retired() {
    let leaving = Leaving {
        why: LeaveReason::ScaledDown,
        how: LeaveMethod::Delete,
        since: at(40),
    };
    for (column, live, may_be_chosen) in [
        ("Sent", true, false),
        ("Unknown", true, false),
        ("Pending", true, true),
        ("Running", true, true),
        ("Odd", true, false),
        ("Absent", true, false),
        ("Terminating", false, false),
        ("Finished", false, false),
        ("Gone", false, false),
    ] {
        let entry = entry_in(column);
        assert_eq!(entry.class().is_live(), live, "{column}");
        assert_eq!(entry.class().may_be_chosen(), may_be_chosen, "{column}");
        let marked = Entry {
            leaving: Some(leaving.clone()),
            ..entry
        };
        let class = marked.class();
        assert!(
            !class.is_live() && !class.may_be_chosen(),
            "{column}, leaving"
        );
    }
}

// spec: S-15
#[test]
fn a_pod_that_becomes_readable_is_no_longer_odd_even_at_the_same_version() {
    let running = entry_in("Running");
    let odd = next(
        &running,
        &EntryNews::SeenUnreadable(None, Authority::Event),
        &here(),
    )
    .unwrap();
    assert_eq!(name_of(&odd.state), "Odd");
    let again = EntryNews::SeenUnreadable(None, Authority::Event);
    assert_eq!(next(&odd, &again, &here()), None, "no news twice");
    let readable = EntryNews::Seen(&pod("Running", HELD), Authority::Event);
    let healed = next(&odd, &readable, &here()).unwrap();
    assert_eq!(name_of(&healed.state), "Running");
}

// spec: S-10, S-13
#[test]
fn versions_of_an_earlier_epoch_count_as_zero() {
    let entry = entry_in("Absent");
    let restored = At {
        epoch: Epoch(1),
        ..here()
    };
    let older = pod("Pending", OLDER);
    let seen = next(
        &entry,
        &EntryNews::Seen(&older, Authority::Event),
        &restored,
    )
    .unwrap();
    assert_eq!(name_of(&seen.state), "Pending", "and no longer absent");
    // An unreadable sighting keeps the version and its epoch.
    let unreadable = EntryNews::SeenUnreadable(None, Authority::Event);
    let odd = next(&entry_in("Running"), &unreadable, &restored).unwrap();
    let seen = next(&odd, &EntryNews::Seen(&older, Authority::Event), &restored).unwrap();
    assert_eq!(name_of(&seen.state), "Pending");
}

// spec: S-10
#[test]
fn late_news_of_a_pod_does_not_end_its_absence_from_a_newer_list() {
    let entry = entry_in("Pending");
    let list = ResourceVersion::from(20);
    let absent = next(&entry, &EntryNews::Lacked(Some(&list)), &here()).unwrap();
    let late = EntryNews::Seen(&pod("Running", NEWER), Authority::Event);
    let still = next(&absent, &late, &here()).unwrap();
    assert_eq!(name_of(&still.state), "Absent");
    assert_eq!(
        still.pod().unwrap().state(),
        PodState::Running,
        "its content is news"
    );
    let back = EntryNews::Seen(&pod("Running", 21), Authority::Event);
    assert_eq!(
        name_of(&next(&still, &back, &here()).unwrap().state),
        "Running"
    );
}
