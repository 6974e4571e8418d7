use super::messages::{GetHeld, Hold, Reconfigure, Resume, SetTargets};
use super::*;
use crate::actors::snapshot_store::messages::LookNow;
use crate::model::snapshot::plain_targets;
use crate::testing::{Backend, Scenario, backend, store};

/// A driver's backend over an empty store with a target of 3.
fn world() -> (Addr<SnapshotStore>, Backend) {
    tokio::time::pause();
    let clock = Clock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let store = store(Scenario::new(&[("default", 3)]).ledger, clock);
    let backend = backend(&store, clock, &[("default", 3)], None);
    (store, backend)
}

fn of(target: u32) -> BTreeMap<ProfileName, u32> {
    BTreeMap::from([("default".into(), target)])
}

async fn in_the_ledger(store: &Addr<SnapshotStore>) -> BTreeMap<ProfileName, u32> {
    plain_targets(&store.send(LookNow).await.unwrap().0.targets)
}

// spec: B-31
#[actix::test]
async fn a_hold_sets_the_targets_to_zero_and_a_resume_restores_them_with_later_changes() {
    let (store, Backend { commands, .. }) = world();
    let held = commands.send(Hold { by: None }).await.unwrap().unwrap();
    assert_eq!(held.targets, of(3));
    commands.send(SetTargets(of(5))).await.unwrap().unwrap();
    assert_eq!(in_the_ledger(&store).await, of(0));
    let held = commands.send(GetHeld).await.unwrap();
    assert_eq!(held.unwrap().targets, of(5));
    assert_eq!(commands.send(Resume).await.unwrap(), of(5));
    assert_eq!(in_the_ledger(&store).await, of(5));
    assert_eq!(commands.send(GetHeld).await.unwrap(), None);
}

// spec: O-80
#[actix::test]
async fn targets_of_the_configuration_are_set_and_those_above_the_limit_lowered_also_in_a_hold() {
    let (store, Backend { commands, .. }) = world();
    let reconfigured = |most: u32, targets: BTreeMap<ProfileName, u32>| {
        commands.send(Reconfigure {
            kill_grace: Duration::from_secs(5),
            most: of(most),
            targets,
        })
    };
    let is_set = async || {
        let targets = store.send(LookNow).await.unwrap().0.targets;
        targets.get("default").unwrap().is_set
    };
    commands.send(SetTargets(of(5))).await.unwrap().unwrap();
    reconfigured(9, BTreeMap::new()).await.unwrap();
    assert_eq!(
        in_the_ledger(&store).await,
        of(5),
        "as it was set at run time"
    );
    reconfigured(9, of(7)).await.unwrap();
    assert_eq!(in_the_ledger(&store).await, of(7));
    assert!(!is_set().await, "a successor reads it in the configuration");
    reconfigured(6, BTreeMap::new()).await.unwrap();
    assert_eq!(in_the_ledger(&store).await, of(6));
    assert!(commands.send(SetTargets(of(7))).await.unwrap().is_err());
    commands.send(Hold { by: None }).await.unwrap().unwrap();
    reconfigured(9, of(8)).await.unwrap();
    assert_eq!(in_the_ledger(&store).await, of(0));
    let held = commands.send(GetHeld).await.unwrap();
    assert_eq!(held.unwrap().targets, of(8));
    assert_eq!(commands.send(Resume).await.unwrap(), of(8));
}
