//! Tests a driver that ends, and its successor.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::json;

use super::api::Grace;
use super::asking::Asked;
use super::cluster::Cluster;
use super::driver::{Driver, RECORD};
use super::process::until;

const MANY: usize = 50;

/// Waits until the record names the executors: the successor then misses those that end.
fn records_all(cluster: &Cluster) {
    until("the record names the executors", || {
        let record = cluster.api.config_map(RECORD)?;
        (record["data"]["bound"] == "1-50").then_some(())
    });
}

/// Starts a successor and checks that it adopts everything unchanged.
fn takes_over(cluster: &Cluster, incarnation: u64, found: usize) -> Driver {
    let mut driver = Driver::start(cluster, MANY, &[]);
    let taken = driver.says("application taken over");
    assert_eq!(taken["incarnation"], incarnation);
    let adopted = driver.says("executors adopted");
    assert_eq!(adopted["found"], found);
    driver
}

// spec: O-31, E-1, A-2
#[test]
fn the_successor_of_a_killed_driver_adopts_every_executor() {
    let cluster = Cluster::any();
    let mut first = Driver::start(&cluster, MANY, &[]);
    let before = cluster.converges(MANY);
    first.kill();
    let second = takes_over(&cluster, 2, MANY);
    assert_eq!(cluster.settles(MANY), before);
    let log = second.log();
    assert_eq!(
        (log.count("executor requested"), log.count("executor ended")),
        (0, 0)
    );
}

// spec: O-31, A-11, E-1
#[test]
fn the_successor_of_a_driver_killed_during_creates_requests_the_rest() {
    let Some(cluster) = Cluster::logged() else {
        return;
    };
    let mut first = Driver::start(&cluster, MANY, &["allocation.max_rate=50"]);
    first.until("some run", |log| {
        (log.count("executor running") > 5).then_some(())
    });
    first.kill();
    let requested = first.log().executors("executor requested");
    let second = Driver::start(&cluster, MANY, &[]);
    cluster.settles(MANY);
    // A real API server may log no success of a request whose client has gone away.
    let created = cluster.created();
    assert!(created <= MANY + 1, "{created}: the pods, the record");
    let anew = second.log().executors("executor requested");
    assert!(anew.is_disjoint(&requested), "no id is used twice");
}

// spec: L-34, O-31
#[test]
fn ends_while_no_driver_runs_are_reported_by_the_next_one() {
    let cluster = Cluster::any();
    let mut first = Driver::start(&cluster, MANY, &[]);
    cluster.converges(MANY);
    records_all(&cluster);
    first.kill();
    cluster.api.delete_pod("t-exec-7", Grace::Force);
    cluster
        .api
        .label_pod("t-exec-8", &json!({"unrelated": "label"}));
    let mut second = Driver::start(&cluster, MANY, &[]);
    let end = second.end_of(7);
    cluster.converges(MANY);
    assert_eq!(end["reason"], "Lost");
    assert_eq!(second.log().count("executor ended"), 1);
}

// spec: L-33, O-30, B-51
#[test]
fn an_end_reported_just_before_a_kill_is_not_reported_again_and_the_successor_shows_it() {
    let (cluster, victims) = (Cluster::any(), 10..20);
    let mut first = Asked::start(&cluster, MANY);
    cluster.converges(MANY);
    records_all(&cluster);
    for id in victims.clone() {
        cluster
            .api
            .delete_pod(&format!("t-exec-{id}"), Grace::Force);
    }
    first.driver.end_of(12);
    first.driver.kill();
    let before = first.driver.log().executors("executor ended");
    let second = Asked::start(&cluster, MANY);
    cluster.converges(MANY);
    let all = until("the other ends are reported", || {
        let after = second.driver.log().executors("executor ended");
        let doubles = before.intersection(&after).count();
        assert_eq!(doubles, 0, "before {before:?}, after {after:?}");
        let all: BTreeSet<u64> = before.union(&after).copied().collect();
        // What the first driver had recorded and not logged when it was killed, the second one shows.
        let shows = |id: u64| {
            let told = second.ask(&["explain", &id.to_string()]);
            String::from_utf8_lossy(&told.stdout).contains("Deleted")
        };
        (victims.clone())
            .all(|id| all.contains(&id) || shows(id))
            .then_some(all)
    });
    assert!(all.is_subset(&victims.collect()), "{all:?}");
    let explained = second.json(&["explain", "12"]);
    assert_eq!(explained["events"][0]["event"], "ended", "{explained}");
    assert_eq!(explained["events"][0]["reason"], "Deleted", "{explained}");
}

// spec: O-106, O-31
#[test]
fn a_driver_hands_over_and_deletes_nothing() {
    let cluster = Cluster::any();
    let mut first = Driver::start(&cluster, MANY, &["shutdown.on_signal=hand-over"]);
    let before = cluster.converges(MANY);
    first.signal(Signal::TERM);
    assert_eq!(first.exit(), Some(75));
    first.says("handed over: executors stay for the successor");
    assert_eq!(cluster.converges(MANY), before);
    let second = takes_over(&cluster, 2, MANY);
    assert_eq!(cluster.settles(MANY), before);
    assert_eq!(second.log().count("executor requested"), 0);
}

// spec: W-7, O-31, I-1
#[test]
fn a_second_driver_supersedes_the_first() {
    let cluster = Cluster::any();
    let mut first = Driver::start(&cluster, MANY, &[]);
    let before = cluster.converges(MANY);
    let mut second = takes_over(&cluster, 2, MANY);
    assert_eq!(first.exit(), Some(75));
    first.says("another driver has taken over: this one ends, executors stay");
    assert_eq!(cluster.settles(MANY), before);
    assert!(second.is_alive());
    assert_eq!(second.log().count("executor requested"), 0);
}

// spec: W-7, O-31, I-1
#[test]
fn of_two_drivers_started_at_once_one_remains_without_surplus_executors() {
    let cluster = Cluster::any();
    let mut drivers = [0, 1].map(|_| Driver::start(&cluster, MANY, &[]));
    cluster.settles(MANY);
    let alive: Vec<bool> = drivers.iter_mut().map(|driver| driver.is_alive()).collect();
    assert_eq!(alive.iter().filter(|alive| **alive).count(), 1, "one stays");
    let older = usize::from(alive[0]);
    let [first, second] = &mut drivers;
    let (older, younger) = if older == 0 {
        (first, second)
    } else {
        (second, first)
    };
    assert_eq!(older.exit(), Some(75));
    let incarnation =
        |driver: &mut Driver| driver.says("application taken over")["incarnation"].as_u64();
    assert!(incarnation(older) < incarnation(younger));
    let data = cluster.api.config_map(RECORD).unwrap();
    assert_eq!(data["data"]["incarnation"], "2");
}

// spec, L-10, O-31
#[test]
fn a_successor_with_a_lower_target_removes_the_surplus() {
    let cluster = Cluster::any();
    let mut first = Driver::start(&cluster, MANY, &[]);
    let before = cluster.converges(MANY);
    first.kill();
    let second = Driver::start(&cluster, MANY - 10, &["allocation.cancel_delay=1s"]);
    let after = cluster.settles(MANY - 10);
    assert!(after.is_subset(&before));
    let log = second.log();
    let reasons = log
        .lines("executor ended")
        .into_iter()
        .map(|end| &end["reason"]);
    assert_eq!(reasons.collect::<Vec<_>>(), ["ScaledDown"; 10]);
    assert_eq!(
        log.executors("executor ended"),
        (41..=50).collect(),
        "the newest go"
    );
}
