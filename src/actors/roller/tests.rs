use super::rolling::Policy;
use super::*;
use crate::actors::commands::messages::SetTargets;
use crate::actors::snapshot_store::messages::LookNow;
use crate::model::news::Outcome;
use crate::testing::{Backend, Scenario, TIMING, backend, store};

/// A driver's backend with two running executors, one of which is replaced each minute.
fn world() -> (Addr<SnapshotStore>, Backend) {
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
    let backend = backend(&store, clock, &[("default", 2)], None);
    Roller::new(Wiring {
        settings: Settings {
            interval: Duration::from_secs(60),
            policy: Policy::Id,
            min_tasks: 0,
        },
        decommission_timeout: Duration::from_secs(60),
        sessions: backend.registry.clone().recipient(),
        store: store.clone(),
        clock,
        timing: TIMING,
    })
    .start();
    (store, backend)
}

async fn target(store: &Addr<SnapshotStore>) -> u32 {
    let look = store.send(LookNow).await.unwrap();
    look.0.target(&"default".into())
}

async fn seconds(n: u64) {
    tokio::time::sleep(Duration::from_secs(n)).await;
}

// spec: B-65
#[actix::test]
async fn during_a_replacement_the_target_is_raised_by_one() {
    let (store, _backend) = world();
    seconds(59).await;
    assert_eq!(target(&store).await, 2);
    seconds(3).await;
    assert_eq!(target(&store).await, 3);
    seconds(61).await;
    assert_eq!(target(&store).await, 2, "no replacement came to run");
}

// spec: B-65, B-25
#[actix::test]
async fn a_target_set_during_a_replacement_stays() {
    let (store, backend) = world();
    seconds(62).await;
    let targets = BTreeMap::from([("default".into(), 5)]);
    backend
        .commands
        .send(SetTargets(targets))
        .await
        .unwrap()
        .unwrap();
    seconds(200).await;
    assert_eq!(target(&store).await, 5);
}
