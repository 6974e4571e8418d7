//! How many executors are requested, how fast, and under which ids.

use super::*;
use crate::actors::pod_allocator::ids::MOST_AHEAD;
use crate::model::IdSet;
use crate::model::ledger::Inheritance;
use crate::testing::running;

// spec: A-1
#[test]
fn as_many_executors_are_requested_as_are_missing() {
    let mut driver = Driver::new(&[("default", 7)]);
    driver.fill();
    assert_eq!(driver.left.len(), 7);
    assert_eq!((driver.live_of("default"), driver.round()), (7, vec![]));
    driver.all_stay();
    for n in [2, 5] {
        driver.scenario.exits(n, 1);
    }
    driver.settle(|_, _| Reply::Created);
    assert_eq!(driver.left.len(), 9);
    assert_eq!(driver.live_of("default"), 7);
}

// spec: A-1
#[test]
fn pending_in_flight_failed_and_unknown_requests_do_not_delay_further_ones() {
    let mut driver = Driver::new(&[("default", 4)]);
    driver.settle(|_, _| Reply::Created);
    driver.scenario.runs(1);
    driver.scenario.exits(2, 1);
    driver.scenario.pass(10);
    assert_eq!(driver.round(), [5], "the failed one, while 3 and 4 pend");
    driver.scenario.want("default", 6);
    driver.answer(5, Reply::Broke);
    driver.scenario.pass(250);
    assert_eq!(
        driver.round(),
        [6],
        "while 5 is unknown, trouble allows one at a time"
    );
    driver.answer(6, Reply::Created);
    assert_eq!(driver.round(), [7], "1, 3, 4, 5, 6 and this one make six");
    assert_eq!(driver.live_of("default"), 6);
}

// spec: A-1
#[test]
fn an_executor_that_never_appears_is_replaced_after_a_look_up() {
    let mut driver = Driver::new(&[("default", 1)]);
    assert_eq!(driver.round(), [1]);
    driver.scenario.pass(10_000);
    driver.answer(1, Reply::Broke);
    driver.scenario.pass(60_000);
    assert_eq!(driver.round(), [0u64; 0], "too late to be repeated");
    let (sent, found) = (
        driver.scenario.now().tick,
        crate::model::news::Found::Nothing,
    );
    let epoch = driver.scenario.current().epoch;
    driver.scenario.tell(News::LookedUp {
        id: id(1),
        sent,
        epoch,
        found,
    });
    assert_eq!(driver.round(), [2]);
}

// spec: A-2
#[test]
fn the_first_request_is_sent_in_the_first_round_with_an_id_above_all_reserved_ones() {
    let mut inheritance = Inheritance {
        reserved: Some(id(40)),
        ..Inheritance::default()
    };
    inheritance.ended.insert_interval(id(1), id(3));
    let mut scenario = Scenario::before_adoption(&[("default", 3)], inheritance);
    let found = scenario.pod(7);
    scenario.pass(5_000);
    let mut driver = Driver::with(settings(), scenario);
    driver.scenario.list(vec![running(found)]);
    assert_eq!(driver.round(), [41], "beyond all reserved; 7 is counted");
    driver.settle(|_, _| Reply::Created);
    assert_eq!(driver.left.len(), 2);
}

// spec: O-30, I-1
#[test]
fn ids_found_above_the_reserved_ones_are_reserved_at_once_even_if_nothing_is_wanted() {
    let scenario = Scenario::before_adoption(&[("default", 1)], Inheritance::default());
    let found = scenario.pod(907);
    let rng = StdRng::seed_from_u64(7);
    let allocation = beginning(rng, Some(id(5)));
    let mut driver = Driver::of(allocation, scenario);
    driver.scenario.list(vec![running(found)]);
    assert_eq!(driver.round(), [0u64; 0]);
    assert_eq!(driver.reserves, [1_907]);
    // No further reservation.
    driver.round();
    assert_eq!(driver.reserves, [1_907]);
}

// spec: A-2
#[test]
fn ids_begin_above_all_seen_ids() {
    let mut scenario = Scenario::before_adoption(&[("default", 2)], Inheritance::default());
    let found = scenario.pod(907);
    scenario.list(vec![running(found)]);
    let mut driver = Driver::with(settings(), scenario);
    assert_eq!(driver.round(), [908]);
}

// spec: A-3
#[test]
fn a_round_requests_at_most_batch_size_and_the_next_follows_at_once() {
    let settings = AllocationRules {
        batch_size: 3,
        ..settings()
    };
    let mut driver = Driver::with(settings, Scenario::new(&[("default", 100)]));
    for _ in 0..4 {
        driver.round();
        driver.answer_all(|_, _| Reply::Created);
    }
    assert_eq!(driver.allocation.in_flight(), 0);
    assert_eq!(driver.round().len(), 3);
    assert!(driver.is_cut_short(), "there is room for more than three");
    assert_eq!(driver.round().len(), 3);
    while driver.is_cut_short() {
        driver.round();
    }
    assert!(
        driver.flights.len() >= 8,
        "the window: {}",
        driver.flights.len()
    );
    let full = driver.flights.len();
    driver.round();
    assert_eq!(driver.flights.len(), full);
    assert!(!driver.is_cut_short(), "what lacks room waits for answers");
}

// spec: A-3
#[test]
fn repeats_count_among_the_requests_of_a_round() {
    let settings = AllocationRules {
        batch_size: 1,
        ..settings()
    };
    let mut driver = Driver::with(settings, Scenario::new(&[("default", 3)]));
    driver.round();
    driver.answer(1, Reply::Broke);
    driver.scenario.pass(5_000);
    assert_eq!(driver.round(), [1]);
    driver.answer(1, Reply::Created);
    assert_eq!(driver.round(), [2]);
}

// spec: A-6
#[test]
fn requests_start_slowly_and_at_most_max_in_flight_are_in_flight() {
    let mut driver = Driver::new(&[("default", 200)]);
    let mut bursts = Vec::new();
    while driver.live_of("default") < 200 {
        bursts.push(driver.round().len());
        driver.scenario.pass(5);
        driver.answer_all(|_, _| Reply::Created);
    }
    assert_eq!(bursts, [1, 2, 4, 8, 16, 32, 32, 32, 32, 32, 9]);
}

// spec: A-6
#[test]
fn executors_without_a_slot_have_no_entry_and_each_answer_frees_a_slot() {
    let mut driver = Driver::new(&[("default", 200)]);
    for _ in 0..6 {
        driver.round();
        driver.answer_all(|_, _| Reply::Created);
    }
    driver.round();
    assert_eq!(driver.flights.len(), 32);
    assert_eq!(driver.scenario.current().entries.len(), 63 + 32);
    let n = driver.flights.keys().next().unwrap().get();
    driver.answer(n, Reply::Created);
    assert_eq!(driver.round().len(), 1);
}

// spec: A-6
#[test]
fn a_refusal_ends_the_ramp() {
    let mut driver = Driver::new(&[("default", 200), ("other", 200)]);
    for _ in 0..5 {
        driver.round();
        driver.answer_all(|_, _| Reply::Created);
    }
    driver.round();
    assert_eq!(driver.flights.len(), 32);
    let last = *driver.flights.keys().last().unwrap();
    driver.answer_all(|n, _| match n == last.get() {
        true => Reply::Refused(RefusalKind::Quota),
        false => Reply::Created,
    });
    assert_eq!(driver.round().len(), 1);
}

// spec: A-10
#[test]
fn a_new_target_takes_effect_in_the_next_round_despite_requests_in_flight() {
    let mut driver = Driver::new(&[("default", 1)]);
    driver.round();
    driver.answer(1, Reply::Created);
    driver.scenario.want("default", 3);
    assert_eq!(driver.round(), [2, 3]);
    driver.scenario.want("default", 4);
    driver.answer(2, Reply::Created);
    assert_eq!(driver.round(), [4], "3 is in flight, 1 and 2 pend");
    driver.scenario.want("default", 1);
    driver.answer_all(|_, _| Reply::Created);
    assert_eq!(driver.round(), [0u64; 0], "lowered before it was met");
}

// spec: A-12
#[test]
fn a_refused_requests_slot_is_free_at_once_and_its_id_is_spent() {
    let mut driver = Driver::new(&[("default", 2)]);
    driver.round();
    driver.answer(1, Reply::Refused(RefusalKind::Quota));
    assert_eq!(driver.live_of("default"), 0);
    driver.scenario.pass(1_000);
    assert_eq!(driver.round(), [2]);
    driver.answer(2, Reply::Created);
    driver.settle(|_, _| Reply::Created);
    driver.bury();
    assert!(driver.scenario.current().ended.contains(id(1)));
    assert_eq!(driver.live_of("default"), 2);
    assert_eq!(driver.left.len(), 3);
}

// spec: A-25
#[test]
fn a_taken_name_costs_its_id_and_nothing_else() {
    let mut driver = Driver::new(&[("default", 3)]);
    driver.settle(|n, _| match n {
        1..=5 => Reply::NameTaken,
        _ => Reply::Created,
    });
    assert_eq!(driver.left.len(), 8);
    assert_eq!(driver.ids_where(Class::is_live), [6, 7, 8]);
    assert!(driver.scenario.millis < 20, "without any backoff");
    assert!(driver.said.is_empty());
}

// spec: A-45
#[test]
fn a_profile_is_added_while_running() {
    let mut driver = Driver::new(&[("default", 1)]);
    driver.fill();
    driver.scenario.want("big", 2);
    driver.settle(|_, _| Reply::Created);
    assert_eq!((driver.live_of("default"), driver.live_of("big")), (1, 2));
    assert_eq!(driver.scenario.profile_of(3).as_str(), "big");
}

// spec: K-13
#[test]
fn without_the_record_nothing_is_requested_until_it_is_seen() {
    let mut driver = Driver::new(&[("default", 2)]);
    driver.round();
    driver.answer(1, Reply::Broke);
    driver.scenario.tell(News::RecordLost);
    driver.scenario.pass(5_000);
    assert_eq!(driver.round(), [0u64; 0], "neither anew nor again");
    let epoch = driver.scenario.current().epoch;
    let uid = "another".into();
    driver.scenario.tell(News::RecordSeen { uid, epoch });
    assert_eq!(driver.round(), [1]);
}

// spec: O-30
#[test]
fn reserved_ids_are_never_exceeded_and_more_are_requested_once() {
    let rng = StdRng::seed_from_u64(7);
    let scenario = Scenario::new(&[("default", 9)]);
    let allocation = beginning(rng, Some(id(5)));
    let mut driver = Driver::of(allocation, scenario);
    driver.settle(|_, _| Reply::Created);
    assert_eq!(driver.ids_where(Class::is_live), [1, 2, 3, 4, 5]);
    assert_eq!(driver.reserves, [1_500], "asked for once, in time");
    driver.allocation.reserved(Some(id(1_500)));
    driver.settle(|_, _| Reply::Created);
    assert_eq!(driver.live_of("default"), 9);
    assert_eq!(driver.reserves, [1_500]);
}

// spec: O-30
#[test]
fn a_failed_reservation_is_repeated_but_not_at_once() {
    let rng = StdRng::seed_from_u64(7);
    let scenario = Scenario::new(&[("default", 9)]);
    let allocation = beginning(rng, None);
    let mut driver = Driver::of(allocation, scenario);
    for second in 0..10 {
        for _ in 0..50 {
            let before = driver.reserves.len();
            assert_eq!(driver.round(), [0u64; 0]);
            if driver.reserves.len() > before {
                driver.allocation.reserved(None);
            }
        }
        assert!(driver.reserves.len() <= second + 1, "{:?}", driver.reserves);
        let wake = driver.wake.unwrap().since(driver.scenario.now().tick);
        assert!(wake <= Duration::from_secs(1));
        driver.scenario.pass(1_000);
    }
    assert!(driver.reserves.len() >= 5, "{:?}", driver.reserves);
}

// spec: O-30
#[test]
fn an_absurd_target_costs_neither_memory_nor_ids() {
    let mut driver = Driver::new(&[("a", u32::MAX), ("b", u32::MAX), ("c", u32::MAX)]);
    let before = std::time::Instant::now();
    for _ in 0..100 {
        driver.round();
        driver.answer_all(|_, _| Reply::Refused(RefusalKind::Quota));
        driver.scenario.pass(1_000);
    }
    assert!(before.elapsed() < Duration::from_secs(5));
    assert!(driver.scenario.current().entries.len() < 500);

    let scenario = Scenario::new(&[("default", u32::MAX)]);
    let rng = StdRng::seed_from_u64(7);
    let allocation = beginning(rng, None);
    let mut driver = Driver::of(allocation, scenario);
    driver.round();
    assert_eq!(driver.reserves, [MOST_AHEAD + 1_000]);
}

// spec: I-1
#[test]
fn used_up_ids_never_start_over() {
    let mut inheritance = Inheritance {
        reserved: ExecutorId::new(ExecutorId::MAX.get() - 2),
        ..Inheritance::default()
    };
    inheritance.ended = IdSet::new();
    let mut scenario = Scenario::before_adoption(&[("default", 5)], inheritance);
    scenario.list(Vec::new());
    let rng = StdRng::seed_from_u64(7);
    let reserved = Some(ExecutorId::MAX);
    let allocation = beginning(rng, reserved);
    let mut driver = Driver::of(allocation, scenario);
    driver.settle(|_, _| Reply::Created);
    driver.settle(|_, _| Reply::Created);
    assert_eq!(driver.left.len(), 2);
    assert_eq!(driver.said, [Notice::OutOfIds]);
    assert!(driver.reserves.is_empty(), "there are none to reserve");
}
