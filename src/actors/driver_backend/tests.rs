//! Tests of the parts together.

use std::collections::BTreeMap;
use std::time::Duration;

use super::autoscaler::scaler::Demand;
use super::messages::{Command, GetStatus, PostDemand};
use super::*;
use crate::config::{Autoscaling, Config, RollPolicy};
use crate::model::ProfileName;
use crate::model::news::Outcome;
use crate::model::snapshot::{asked, plain_targets};
use crate::testing::{Backend, Scenario, backend, store};

/// A driver's backend with two running executors.
fn world(config: Config) -> (Addr<SnapshotStore>, Backend) {
    tokio::time::pause();
    let mut scenario = Scenario::new(&[("default", 2)]);
    for n in 1..=2 {
        let profile = "default".into();
        scenario.requested(n, Outcome::Sent { profile });
        scenario.created(n);
        scenario.runs(n);
    }
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let store = store(scenario.ledger, clock);
    let backend = backend(&store, clock, &[("default", 2)], config);
    (store, backend)
}

/// One executor is replaced each minute.
fn rolling() -> Config {
    let mut config = Config::default();
    config.roll.interval = Duration::from_secs(60);
    config.roll.policy = RollPolicy::Id;
    config
}

fn of(target: u32) -> BTreeMap<ProfileName, u32> {
    BTreeMap::from([("default".into(), target)])
}

async fn look(store: &Addr<SnapshotStore>) -> Snapshot {
    store.send(LookNow).await.unwrap().0
}

async fn target(store: &Addr<SnapshotStore>) -> u32 {
    look(store).await.target(&"default".into())
}

async fn seconds(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}

// spec: B-31
#[actix::test]
async fn a_command_is_answered_with_the_ledger_and_the_status_shows_it_at_once() {
    let (store, Backend { backend, .. }) = world(Config::default());
    let hold = Command::Hold {
        by: Some("me".into()),
    };
    let outcome = backend.send(hold).await.unwrap().unwrap();
    assert_eq!(asked(&outcome.ledger.targets), of(2));
    assert_eq!(plain_targets(&look(&store).await.targets), of(0));
    let held = backend.send(GetStatus).await.unwrap().held.unwrap();
    assert_eq!(held.by.as_deref(), Some("me"));
    let set = backend.send(Command::SetTargets(of(5))).await.unwrap();
    assert_eq!(asked(&set.unwrap().ledger.targets), of(5));
    backend.send(Command::Resume).await.unwrap().unwrap();
    assert_eq!(target(&store).await, 5);
    assert_eq!(backend.send(GetStatus).await.unwrap().held, None);
}

// spec: B-32
#[actix::test]
async fn during_a_replacement_the_target_is_raised_by_one() {
    let (store, _backend) = world(rolling());
    seconds(59).await;
    assert_eq!(target(&store).await, 2);
    seconds(3).await;
    assert_eq!(target(&store).await, 3);
    seconds(61).await;
    assert_eq!(target(&store).await, 2, "no replacement came to run");
}

// spec: B-32, B-25
#[actix::test]
async fn a_target_set_during_a_replacement_stays() {
    let (store, Backend { backend, .. }) = world(rolling());
    seconds(62).await;
    let set = backend.send(Command::SetTargets(of(5))).await.unwrap();
    set.unwrap();
    seconds(200).await;
    assert_eq!(target(&store).await, 5);
}

// spec: B-32, B-40
#[actix::test]
async fn no_replacement_begins_where_the_same_batch_changes_the_target() {
    let minute = Duration::from_secs(60);
    let mut config = rolling();
    config.autoscaling = Autoscaling {
        enabled: true,
        ratio: 1_000,
        backlog_timeout: minute,
        sustained_timeout: minute,
        idle_timeout: minute,
        demand_ttl: minute * 10,
    };
    let (store, Backend { backend, .. }) = world(config);
    // A first batch, so that the demand is due in the batch in which the replacement is.
    let demand = Demand {
        pending: 100,
        running: 0,
    };
    let demands = BTreeMap::from([("default".into(), demand)]);
    let post = PostDemand {
        demands,
        ..PostDemand::default()
    };
    backend.send(post).await.unwrap().unwrap();
    seconds(62).await;
    assert_eq!(target(&store).await, 3);
    assert_eq!(asked(&look(&store).await.targets), of(3));
}
