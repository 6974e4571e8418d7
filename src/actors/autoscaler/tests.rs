use std::time::Duration;

use super::scaler::Demand;
use super::*;
use crate::actors::commands::messages::{Hold, Resume};
use crate::actors::snapshot_store::messages::LookNow;
use crate::testing::{Backend, Scenario, backend, store};

/// A driver's backend over an empty store, with an autoscaling step each second.
fn world(scales: bool) -> (Addr<SnapshotStore>, Backend) {
    tokio::time::pause();
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let store = store(Scenario::new(&[("default", 1)]).ledger, clock);
    let settings = Settings {
        ratio: 1_000,
        backlog_timeout: Duration::from_secs(1),
        sustained_timeout: Duration::from_secs(1),
        idle_timeout: Duration::from_secs(60),
        demand_ttl: Duration::from_secs(60),
    };
    let scaling = scales.then_some(settings);
    let backend = backend(&store, clock, &[("default", 1)], scaling);
    (store, backend)
}

async fn asked(store: &Addr<SnapshotStore>) -> u32 {
    let look = store.send(LookNow).await.unwrap();
    look.0.targets[&ProfileName::from("default")].asked
}

fn demand(pending: u32) -> PostDemand {
    let demand = Demand {
        pending,
        running: 0,
    };
    PostDemand {
        demands: BTreeMap::from([("default".into(), demand)]),
        ..PostDemand::default()
    }
}

// spec: B-40, B-31
#[actix::test]
async fn targets_follow_demand_except_during_a_hold() {
    let (store, backend) = world(true);
    backend
        .commands
        .send(Hold { by: None })
        .await
        .unwrap()
        .unwrap();
    let wanted = backend.autoscaler.send(demand(12)).await.unwrap().unwrap();
    assert_eq!(wanted, BTreeMap::from([("default".into(), 6)]));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(asked(&store).await, 1);
    backend.commands.send(Resume).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(asked(&store).await, 6);
}

// spec: B-40
#[actix::test]
async fn a_demand_is_refused_if_autoscaling_is_off() {
    let refused = world(false).1.autoscaler.send(demand(1)).await.unwrap();
    assert_eq!(refused, Err(RefusedDemand::Off));
}

// spec: B-54
#[actix::test]
async fn nodes_are_refused_where_sets_make_the_pods_and_the_demand_does_not_count() {
    let (store, backend) = world(true);
    let mut post = demand(12);
    let nodes = BTreeMap::from([("node-1".into(), 1)]);
    post.nodes.insert("default".into(), nodes);
    let refused = backend.autoscaler.send(post).await.unwrap();
    assert_eq!(refused, Err(RefusedDemand::OfASet("default".into())));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(asked(&store).await, 1);
}
