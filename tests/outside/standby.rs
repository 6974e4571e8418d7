//! Tests two drivers of which one holds the Lease.

use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::cluster::Cluster;
use super::driver::Driver;
use super::process::until;

const MANY: usize = 50;

const DURATION: Duration = Duration::from_secs(6);

const LEASE: [&str; 5] = [
    "ha.lease=true",
    "ha.lease_duration=6s",
    "ha.renew_deadline=4s",
    "ha.retry_period=1s",
    "cluster.request_timeout=2s",
];

/// Starts the holder of the Lease, and then a standby.
fn two(cluster: &Cluster, more: &[&str]) -> (Driver, Driver) {
    let sets = [&LEASE, more].concat();
    let mut first = Driver::start(cluster, MANY, &sets);
    first.says("lease acquired: this driver is active");
    let mut second = Driver::start(cluster, MANY, &sets);
    second.says("standby: another driver holds the lease");
    (first, second)
}

// spec: O-91, O-94, I-10
#[test]
fn a_holder_that_is_stopped_during_creates_and_wakes_after_its_lease_leaves_no_surplus() {
    let cluster = Cluster::any();
    let (mut first, mut second) = two(&cluster, &["allocation.max_rate=8"]);
    first.until("some run", |log| {
        (log.count("executor running") > 3).then_some(())
    });
    first.signal(Signal::STOP);
    let stopped = Instant::now();
    second.says("lease acquired: this driver is active");
    let took = stopped.elapsed();
    // What is left of the lease, up to its whole duration, and the candidate's last look.
    let bounds = Duration::from_secs(4)..DURATION + Duration::from_secs(4);
    assert!(bounds.contains(&took), "{took:?}");
    sleep((2 * DURATION).saturating_sub(stopped.elapsed()));
    first.signal(Signal::CONT);
    assert_eq!(first.exit(), Some(75));
    first.says("the lease was not renewed in time: this driver ends, executors stay; look at the API server, the network and this machine's load");
    cluster.settles(MANY);
    assert!(second.is_alive());
    let requested = first.log().executors("executor requested");
    let anew = second.log().executors("executor requested");
    assert!(anew.is_disjoint(&requested), "no id is used twice");
}

// spec: O-90, I-9
#[test]
fn after_a_kill_of_the_holder_a_standby_adopts_every_executor_when_the_lease_is_over() {
    let cluster = Cluster::any();
    let (mut first, mut second) = two(&cluster, &[]);
    let before = cluster.converges(MANY);
    first.kill();
    let killed = Instant::now();
    second.says("lease acquired: this driver is active");
    let took = killed.elapsed();
    let bounds = Duration::from_secs(4)..DURATION + Duration::from_secs(4);
    assert!(bounds.contains(&took), "{took:?}");
    let adopted = second.says("executors adopted");
    assert_eq!(adopted["found"], MANY);
    assert_eq!(cluster.settles(MANY), before);
    assert_eq!(second.log().count("executor requested"), 0);
}

// spec: O-10, O-90, O-91
#[test]
fn a_holder_that_gets_a_signal_hands_over_to_the_standby_at_once() {
    let cluster = Cluster::any();
    let (mut first, mut second) = two(&cluster, &[]);
    let before = cluster.converges(MANY);
    first.signal(Signal::TERM);
    assert_eq!(first.exit(), Some(75));
    let over = Instant::now();
    second.says("executors adopted");
    assert!(
        over.elapsed() < Duration::from_secs(2),
        "{:?}",
        over.elapsed()
    );
    assert_eq!(cluster.settles(MANY), before);
    // The next one is no standby any more.
    second.signal(Signal::TERM);
    assert_eq!(second.exit(), Some(75));
    let mut third = Driver::start(&cluster, MANY, &LEASE);
    until("it is active", || {
        (third.log().count("executors adopted") > 0).then_some(())
    });
    assert_eq!(
        third.log().count("standby: another driver holds the lease"),
        0
    );
    assert!(third.is_alive());
}
