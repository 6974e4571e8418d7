use super::*;
use crate::actors::pod_allocator::gang;
use crate::model::executor::Session;
use crate::model::ledger::Inheritance;
use crate::testing::running;

/// A driver with a gang of four of the default profile.
fn driver(targets: &[(&str, u32)], registered: bool) -> Driver {
    seeded(7, targets, registered)
}

fn seeded(seed: u64, targets: &[(&str, u32)], registered: bool) -> Driver {
    let settings = AllocationRules {
        gang: Some(gang::GangRules {
            timeout: Duration::from_secs(60),
            registered,
        }),
        ..settings()
    };
    Driver::seeded(seed, settings, Scenario::new(targets))
}

/// Creates all requested pods and removes deleted ones; at most `most` of "default" run.
fn room_for(driver: &mut Driver, most: u32) {
    driver.answer_all(|_, _| Reply::Created);
    for n in driver.ids_where(Class::is_pending) {
        let fits = driver.scenario.counts("default").running < most;
        if fits || driver.scenario.profile_of(n).as_str() != "default" {
            driver.scenario.runs(n);
        }
    }
    driver.bury();
}

fn missed(driver: &Driver) -> Vec<(u32, u32)> {
    let missed = |notice: &Notice| match notice {
        Notice::GangMissed { least, there, .. } => Some((*least, *there)),
        _ => None,
    };
    driver.said.iter().filter_map(missed).collect()
}

fn registers(driver: &mut Driver, n: u64) {
    driver
        .scenario
        .tell(News::Session(id(n), Session::open(false)));
}

// spec
#[test]
fn while_its_pod_group_is_refused_a_gang_is_not_requested_and_its_profile_is_paused() {
    let mut driver = driver(&[("default", 6), ("other", 2)], false);
    let refused = BTreeMap::from([("default".into(), (RefusalKind::Quota, "full".into()))]);
    let now = driver.scenario.now().tick;
    driver.allocation.groups_refused(refused.clone(), now);
    driver.live(30_000, |driver| room_for(driver, 6));
    assert_eq!(driver.live_of("default"), 0);
    assert_eq!(driver.scenario.counts("other").running, 2);
    let quota = Cause::Refused(RefusalKind::Quota);
    assert_eq!(driver.pauses(), [(quota, 0, None)]);
    let now = driver.scenario.now().tick;
    driver.allocation.groups_refused(BTreeMap::new(), now);
    driver.live(2_000, |driver| room_for(driver, 6));
    assert_eq!(driver.scenario.counts("default").running, 6);
    // An executor that replaces another one names no PodGroup.
    driver.allocation.groups_refused(refused, now);
    driver.scenario.exits(1, 1);
    driver.live(2_000, |driver| room_for(driver, 6));
    assert_eq!(driver.scenario.counts("default").running, 6);
    assert_eq!(driver.pauses(), []);
}

// spec: B-63
#[test]
fn a_missed_gang_releases_its_executors_and_none_of_other_profiles() {
    let mut driver = driver(&[("default", 6), ("other", 2)], false);
    driver.live(60_500, |driver| room_for(driver, 3));
    assert_eq!(missed(&driver), [(4, 3)]);
    assert_eq!(driver.retired.len(), 6);
    assert_eq!(driver.live_of("default"), 0);
    assert_eq!(driver.scenario.counts("other").running, 2);
    let left = driver.left.len();
    driver.live(400, |driver| room_for(driver, 3));
    assert_eq!(driver.left.len(), left, "it backs off");
}

/// How many of "default" run.
fn run(driver: &Driver) -> u32 {
    driver.scenario.counts("default").running
}

/// Two drivers of a gang of four each share room for six, and get it by turns, one executor at a time.
fn two_gangs(seeds: [u64; 2]) -> [Driver; 2] {
    let mut drivers = seeds.map(|seed| seeded(seed, &[("default", 4)], false));
    for step in 0..18_000 {
        let [mine, other] = [step % 2, 1 - step % 2];
        let taken = run(&drivers[other]);
        drivers[mine].live(100, |driver| {
            driver.answer_all(|_, _| Reply::Created);
            let waiting = driver.ids_where(Class::is_pending);
            if let Some(n) = waiting.first()
                && run(driver) + taken < 6
            {
                driver.scenario.runs(*n);
            }
            driver.bury();
        });
        if run(&drivers[mine]) == 4 {
            break;
        }
    }
    drivers
}

// spec: B-63
#[test]
fn of_two_gangs_with_room_for_one_and_a_half_one_becomes_complete() {
    for seed in 0..8 {
        let drivers = two_gangs([seed, seed + 100]);
        let [a, b] = drivers.each_ref().map(run);
        assert!(a == 4 || b == 4, "seed {seed}: {a} and {b} run");
    }
}

/// Whether each requested executor is scheduled by itself.
fn alone(driver: &Driver, ids: &[u64]) -> Vec<bool> {
    let gangs = driver.allocation.gangs();
    ids.iter().map(|n| gangs.is_alone(id(*n))).collect()
}

// spec: A-87
#[test]
fn a_gang_that_is_requested_as_a_whole_names_its_pod_group_and_what_replaces_a_member_does_not() {
    let mut driver = driver(&[("default", 4)], false);
    driver.settle(|_, _| Reply::Created);
    assert_eq!(alone(&driver, &[1, 2, 3, 4]), [false; 4]);
    driver.fill();
    driver.all_stay();
    driver.scenario.exits(2, 0);
    driver.settle(|_, _| Reply::Created);
    assert_eq!(alone(&driver, &[5]), [true]);
}

// spec: A-87
#[test]
fn executors_below_the_gangs_size_are_scheduled_one_by_one() {
    let mut driver = driver(&[("default", 2)], false);
    driver.settle(|_, _| Reply::Created);
    assert_eq!(alone(&driver, &[1, 2]), [true; 2]);
}

// spec
#[test]
fn the_probe_of_a_gang_that_ended_early_is_scheduled_by_itself() {
    let mut driver = driver(&[("default", 4)], false);
    let mut asked = Vec::new();
    driver.live(30_000, |driver| {
        let ids: Vec<u64> = driver.flights.keys().map(|id| id.get()).collect();
        asked.extend(alone(driver, &ids));
        driver.answer_all(|_, _| Reply::Created);
        for n in driver.ids_where(Class::is_pending) {
            driver.scenario.exits(n, 1);
        }
        driver.bury();
    });
    assert_eq!(asked.first(), Some(&false));
    assert_eq!(asked.last(), Some(&true), "{asked:?}");
}

// spec: B-63, A-98
#[test]
fn a_missed_gang_is_tried_ever_less_often_until_there_is_room() {
    let mut driver = driver(&[("default", 4)], false);
    driver.live(1_800_000, |driver| room_for(driver, 3));
    let (tries, asked) = (missed(&driver).len(), driver.left.len());
    println!("{tries} tries in half an hour, {asked} requests");
    assert!((8..=17).contains(&tries), "{tries} tries");
    assert!(
        asked <= 4 * (tries + 1),
        "the whole gang each time: {asked}"
    );
    driver.live(360_000, |driver| room_for(driver, 4));
    assert_eq!(driver.scenario.counts("default").running, 4);
    let over = |notice: &&Notice| matches!(notice, Notice::GangOver { .. });
    assert_eq!(driver.said.iter().filter(over).count(), 1);
    let n = driver.ids_where(|class| class == Class::Running)[0];
    driver.scenario.exits(n, 0);
    let tries = missed(&driver).len();
    driver.live(600_000, |driver| room_for(driver, 3));
    assert_eq!(
        missed(&driver).len(),
        tries,
        "from then on one is as good as another"
    );
}

// spec: B-63
#[test]
fn with_registration_unregistered_running_executors_do_not_count_for_a_gang() {
    let mut driver = driver(&[("default", 4)], true);
    driver.live(50_000, |driver| room_for(driver, 4));
    for n in [1, 2, 3] {
        registers(&mut driver, n);
    }
    driver.live(11_000, |driver| room_for(driver, 4));
    assert_eq!(missed(&driver), [(4, 3)]);
    assert!(
        driver.retired.is_empty(),
        "what runs stays, registered or not"
    );
    registers(&mut driver, 4);
    driver.round();
    assert!(matches!(driver.said.last(), Some(Notice::GangOver { .. })));
}

// spec: B-63
#[test]
fn a_profile_that_is_added_is_a_gang_by_its_own_size() {
    let mut driver = driver(&[("default", 0), ("new", 5)], false);
    driver.allocation.add_profile("new".into(), 5, "".into());
    driver.live(60_500, |driver| driver.answer_all(|_, _| Reply::Created));
    assert_eq!(missed(&driver), [(5, 0)]);
}

// spec: B-64, A-44
#[test]
fn adopted_running_executors_count_for_a_gang_before_they_register_again() {
    let settings = AllocationRules {
        gang: Some(gang::GangRules {
            timeout: Duration::from_secs(5),
            registered: true,
        }),
        ..settings()
    };
    let scenario = Scenario::before_adoption(&[("default", 5)], Inheritance::default());
    let mut driver = Driver::with(settings, scenario);
    let found = (1..=4).map(|n| running(driver.scenario.pod(n))).collect();
    driver.scenario.list(found);
    driver.live(30_000, |driver| driver.answer_all(|_, _| Reply::Created));
    assert!(driver.retired.is_empty() && missed(&driver).is_empty());
}
